"""The debugger: a failing candidate in, a better one out (AgentForge, III-D eq. 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from agentforge.agents.base import Agent
from agentforge.agents.coder import EditContext
from agentforge.agents.context import Place, step_places, symbol_places
from agentforge.agents.deadlock import NO_DEADLOCK, Decision, Strategy, edit_places
from agentforge.agents.edit_prompt import EditPrompt
from agentforge.agents.failures import describe_failures, failing_places
from agentforge.agents.focus import choose_focus
from agentforge.agents.ladder import (
    RAISED_TEMPERATURE,
    EditResult,
    OnRefused,
    Refusal,
    Sampling,
    descend,
)
from agentforge.agents.symbols import changes_between
from agentforge.config.settings import AgentName, EditFormat
from agentforge.core.errors import RefusalReason
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Step
from agentforge.core.ports import TokenSink
from agentforge.core.report import TestReport
from agentforge.core.tree import Tree


@dataclass(frozen=True)
class Failing:
    """The candidate to be mended: its tree, its diff as text, its report, and the tests that matter
    (targets that fail, tests it broke)."""

    tree: Tree
    diff: str
    report: TestReport
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Debugger(Agent):
    role: ClassVar[AgentName] = "debugger"

    async def repair(
        self,
        step: Step,
        context: EditContext,
        failing: Failing,
        base: Tree,
        start: EditFormat = "auto",
        on_refused: OnRefused | None = None,
        *,
        decision: Decision = NO_DEADLOCK,
        sink: TokenSink | None = None,
        attempt: int = 1,
    ) -> EditResult:
        """Edit the candidate; changes come back relative to `base`.

        `decision` (see `deadlock.next_strategy`) changes what is shown and asked; the temperature is
        raised by HIGHER_TEMPERATURE only. `attempt` (the round, from 1) shifts the seed.
        """
        prompt = debugger_prompt(step, context, failing, base, decision)
        temperature = None
        if decision.strategy is Strategy.HIGHER_TEMPERATURE:
            temperature = max(RAISED_TEMPERATURE, self.temperature or 0.0)
        target = prompt.focus.path if prompt.focus else (step.files[0] if step.files else None)
        result = await descend(
            self,
            failing.tree,
            prompt.compose,
            start=start,
            target=target,
            sampling=Sampling(temperature, attempt),
            sink=sink,
            on_refused=on_refused,
        )
        return _from_base(result, failing.tree, base, on_refused)


def _from_base(
    result: EditResult, candidate: Tree, base: Tree, on_refused: Callable[[Refusal], None] | None
) -> EditResult:
    """`result` relative to the base; an edit that only takes the candidate back is none."""
    if result.changes is None or result.edit_format is None:
        return result
    changes = changes_between(base, candidate.with_changes(result.changes))
    if changes:
        tests = tuple(sorted(path for path in changes if is_test_path(path)))
        return replace(result, changes=changes, test_files=tests)
    refusal = Refusal(
        result.edit_format, RefusalReason.ALREADY_APPLIED, "the edit only brings back the original code"
    )
    if on_refused:
        on_refused(refusal)
    return replace(result, changes=None, refusals=(*result.refusals, refusal), test_files=())


def debugger_prompt(
    step: Step, context: EditContext, failing: Failing, base: Tree, decision: Decision
) -> EditPrompt:
    """What the debugger sees: failing calls first, the candidate's code, what was tried.

    What the candidate edited is the focus at first. A deadlock turns to the frames of the failure and
    widens the context from the first time on, and names the failed places from the second.
    """
    symbols = context.retrieved.symbols
    frames = failing_places(failing.report, failing.wanted)
    edited = tuple(_place(name) for name in edit_places(base, failing.tree))
    elsewhere = symbol_places(item for item in symbols if item.path not in step.files)
    leave = decision.strategy in (Strategy.OTHER_PLACE, Strategy.HIGHER_TEMPERATURE)
    failed = decision.failed_places if leave else ()
    focus = choose_focus(
        failing.tree,
        step,
        symbols,
        context.issue.text,
        first=(*frames, *edited) if decision.deadlock else (*edited, *frames),
        avoid=frozenset(failed),
    )
    tests = tuple(Place(path) for path in _test_files(failing.wanted)) if decision.deadlock else ()
    return EditPrompt(
        issue=context.issue.text,
        description=step.description,
        tree=failing.tree,
        places=(*edited, *step_places(step, symbols), *frames, *elsewhere, *tests),
        focus=focus,
        failures=describe_failures(failing.report, failing.wanted),
        facts=context.facts,
        diff=failing.diff,
        failed_places=failed,
        wide=decision.deadlock,
    )


def _place(name: str) -> Place:
    path, _, symbol = name.partition("::")
    return Place(path.partition(":")[0], symbol)


def _test_files(tests: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(test.split("::")[0] for test in tests if ".py::" in test))
