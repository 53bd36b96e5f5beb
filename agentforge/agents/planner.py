"""The planner: issue, memory and retrieved code in, a plan out (AgentForge, III-D eq. 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.context import clip, code_views, symbol_places
from agentforge.agents.edit_prompt import FACTS_SHARE
from agentforge.agents.observed import describe_facts
from agentforge.agents.plan_parser import PlanProblem, parse_plan, plan_for
from agentforge.agents.prompts import render
from agentforge.agents.recall import recall
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.errors import ModelError
from agentforge.core.facts import Facts
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Plan
from agentforge.core.ports import TokenSink
from agentforge.core.retrieval import Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.models.errors import EmptyAnswerError

MAX_REASKS = 2
CUT = "the answer was cut off at the output limit; answer shorter: at most three steps, one sentence each"


@dataclass(frozen=True)
class Planner(Agent):
    role: ClassVar[AgentName] = "planner"

    async def plan(
        self,
        issue: Issue,
        retrieved: Retrieved,
        tree: Tree,
        *,
        facts: Facts | None = None,
        sink: TokenSink | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> Plan:
        """A valid plan, always. Errors of the endpoint pass through; broken answers do not.

        A broken answer is asked for again with the schema error alone (the broken text would cost
        tokens and be imitated), at most twice; then the plain fallback plan.
        """
        problem = ""
        for attempt in range(MAX_REASKS + 1):
            try:
                completion = await self.ask(
                    _composer(issue, retrieved, tree, problem, facts), sink=sink, attempt=attempt
                )
                if was_cut(completion):
                    raise PlanProblem(CUT)
                return parse_plan(completion.text, tree, _shown(retrieved))
            except (PlanProblem, EmptyAnswerError) as error:
                problem = "the answer was empty" if isinstance(error, ModelError) else str(error)
                if on_problem:
                    on_problem(problem)
        return fallback_plan(retrieved, tree, f"The model gave no usable plan: {problem}.")


def fallback_plan(retrieved: Retrieved, tree: Tree, why: str) -> Plan:
    """One coder step over the files that retrieval found."""
    return plan_for(why, [symbol.path for symbol in retrieved.symbols], tree)


def _composer(issue: Issue, retrieved: Retrieved, tree: Tree, problem: str, facts: Facts | None) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 700)
        code_share = 0.5 if facts is None else 0.5 - FACTS_SHARE
        return render(
            "planner",
            issue=clip(issue.text, int(room * 0.3)),
            views=code_views(tree, symbol_places(retrieved.symbols), int(room * code_share), small=600),
            facts=describe_facts(facts, int(room * FACTS_SHARE)),
            recalled=recall(retrieved, int(room * 0.15)),
            problem=problem,
            example=example_of(retrieved),
        )

    return compose


def _shown(retrieved: Retrieved) -> list[str]:
    return list(dict.fromkeys(symbol.path for symbol in retrieved.symbols))


def example_of(retrieved: Retrieved) -> tuple[str, str]:
    """(file, symbol) for the prompt's example: real ones, since a weak model copies what it sees."""
    code = [(item.path, item.name) for item in retrieved.symbols if not is_test_path(item.path)]
    return code[0] if code else ("src/module.py", "function_name")
