"""The tester: issue, plan and code in, a pytest file out (AgentForge, III-D eq. 8).

What it writes counts only after `admission.admit_tests` has seen it fail for the issue's reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.coder import EditContext
from agentforge.agents.context import CodeView, Place, clip, code_views, step_places, symbol_places
from agentforge.agents.extract import python_module
from agentforge.agents.generated import choose_path, module_problems
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.base import Frozen
from agentforge.core.chat import Completion, Message
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Plan
from agentforge.core.ports import TokenSink
from agentforge.core.tree import Tree
from agentforge.models.errors import EmptyAnswerError


class WrittenTests(Frozen):
    """A test module that has not run yet. `code` is None where the model gave none that can run;
    `problems` says what was wrong with each answer that was not taken."""

    path: str = ""
    code: bytes | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tester(Agent):
    __test__: ClassVar[bool] = False
    role: ClassVar[AgentName] = "tester"

    async def write(
        self,
        context: EditContext,
        plan: Plan,
        tree: Tree,
        *,
        sink: TokenSink | None = None,
        on_problem: Callable[[str], None] | None = None,
        problem: str = "",
        attempt: int = 0,
    ) -> WrittenTests:
        """One pytest module; asked once more with the problem where the first cannot run.

        `problem` says why tests of an earlier call did not count (see `admission`).
        """
        problems: list[str] = []
        touched = list(dict.fromkeys(path for step in plan.coder_steps() for path in step.files))
        for again in range(2):
            compose = _composer(context, plan, tree, problems[-1] if problems else problem)
            code, wrong = await self._module(compose, tree, sink, attempt + again)
            if not wrong:
                return WrittenTests(
                    path=choose_path(tree, code, touched), code=code.encode(), problems=tuple(problems)
                )
            problems.append(wrong)
            if on_problem:
                on_problem(wrong)
        return WrittenTests(problems=tuple(problems))

    async def _module(
        self, compose: Compose, tree: Tree, sink: TokenSink | None, attempt: int
    ) -> tuple[str, str]:
        """(code, problem); the problem is empty where the code may run."""
        try:
            completion = await self.ask(compose, sink=sink, attempt=attempt)
        except EmptyAnswerError:
            return "", "the answer was empty"
        code = python_module(completion.text)
        if code is None:
            return "", _no_module(completion)
        return code, "; ".join(module_problems(code, tree)[:5])


def _no_module(completion: Completion) -> str:
    if was_cut(completion):
        return "the answer was cut off at the output limit; write fewer and shorter tests"
    return "the answer holds no Python module that parses"


def _composer(context: EditContext, plan: Plan, tree: Tree, problem: str) -> Compose:
    symbols = context.retrieved.symbols
    places = [place for step in plan.coder_steps() for place in step_places(step, symbols)]
    places += symbol_places(item for item in symbols if not is_test_path(item.path))

    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 500)
        return render(
            "tester",
            issue=clip(context.issue.text, int(room * 0.3)),
            plan=clip(_plan_text(plan), int(room * 0.1)),
            views=code_views(tree, places, int(room * 0.4), small=1000),
            example=_example(tree, plan, int(room * 0.1)),
            problem=problem,
        )

    return compose


def _plan_text(plan: Plan) -> str:
    return "\n".join([plan.explanation, *(f"- {step.description}" for step in plan.coder_steps())])


def _example(tree: Tree, plan: Plan, tokens: int) -> CodeView | None:
    """An existing test, to show how this repository imports and tests its code."""
    stems = {
        path.rsplit("/", 1)[-1].removesuffix(".py") for step in plan.coder_steps() for path in step.files
    }
    tests = [
        path for path in tree.paths() if is_test_path(path) and path.rsplit("/", 1)[-1].startswith("test_")
    ]
    related = [path for path in tests if any(stem and stem in path for stem in stems)]
    views = code_views(tree, [Place(path) for path in (related or tests)[:1]], tokens, small=tokens)
    return views[0] if views and views[0].start else None
