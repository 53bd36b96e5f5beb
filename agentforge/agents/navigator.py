"""The navigator of a pair: proposes plans, chooses one, says after an execution where to go (PairCoder).

Its method as MARS ran it as a baseline (MARS, 4.2 and appendix F).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip, code_views, symbol_places
from agentforge.agents.edit_prompt import FACTS_SHARE
from agentforge.agents.extract import json_values
from agentforge.agents.observed import describe_facts
from agentforge.agents.planner import example_of
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.base import Frozen
from agentforge.core.chat import Message
from agentforge.core.facts import Facts
from agentforge.core.retrieval import Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.models.errors import EmptyAnswerError

TEMPERATURE = 0.8
"""Of the proposals (MARS, appendix F), where the settings name none for the planner."""
_MOST_PLANS, _MOST_STEPS, _MOST_NAMES = 5, 12, 5


class Proposed(Frozen):
    """One plan as the navigator words it."""

    plan: str
    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join([self.plan, *(f"{number}. {step}" for number, step in enumerate(self.steps, 1))])


class Course(NamedTuple):
    """What the navigator makes of an execution."""

    action: Literal["repair", "turn"]
    strategy: str = ""


class Executed(NamedTuple):
    """What it is shown of one: the plan, the change made for it, how that failed; how many plans are left."""

    plan: str
    diff: str
    failures: str
    left: int


@dataclass(frozen=True)
class Navigator(Agent):
    role: ClassVar[AgentName] = "planner"

    async def propose(
        self,
        issue: Issue,
        retrieved: Retrieved,
        tree: Tree,
        *,
        facts: Facts | None = None,
        temperature: float | None = None,
        attempt: int = 0,
    ) -> tuple[Proposed, ...]:
        """The plans of one answer; none where it is unusable."""
        compose = _proposing(issue, retrieved, tree, facts)
        return parse_plans(await self._answer(compose, attempt, temperature))

    async def choose(self, issue: Issue, plans: Sequence[str], *, attempt: int = 0) -> int | None:
        """The index of the plan to carry out; None where the answer names none."""
        return parse_choice(await self._answer(_choosing(issue, plans), attempt), len(plans))

    async def steer(self, issue: Issue, executed: Executed, *, attempt: int = 0) -> Course | None:
        """Repair or turn; None where the answer says neither. With no plan left, no turn is taken."""
        course = parse_course(await self._answer(_steering(issue, executed), attempt))
        if course is not None and not executed.left:
            return Course("repair", course.strategy)
        return course

    async def _answer(self, compose: Compose, attempt: int, temperature: float | None = None) -> str:
        try:
            return (await self.ask(compose, attempt=attempt, temperature=temperature)).text
        except EmptyAnswerError:
            return ""


def parse_plans(text: str) -> tuple[Proposed, ...]:
    """The first list of `plans`; a single plan counts, too."""
    for value in json_values(text):
        listed = value.get("plans", [value]) if isinstance(value, dict) else value
        found = tuple(_plans(listed if isinstance(listed, list) else [listed]))
        if found:
            return found[:_MOST_PLANS]
    return ()


def _plans(values: Sequence[object]) -> Iterator[Proposed]:
    for value in values:
        if isinstance(value, dict) and (plan := _word(value.get("plan"))):
            yield Proposed(
                plan=plan,
                steps=_words(value.get("steps"), _MOST_STEPS),
                files=_words(value.get("files"), _MOST_NAMES),
                symbols=_words(value.get("symbols"), _MOST_NAMES),
            )


def parse_choice(text: str, plans: int) -> int | None:
    """The number that the first object with a `choice` names, counted from 0."""
    for value in json_values(text):
        said = value.get("choice") if isinstance(value, dict) else None
        if isinstance(said, int | str) and str(said).strip().isdecimal() and len(str(said)) < 9:
            number = int(said) - 1
            return number if 0 <= number < plans else None
    return None


def parse_course(text: str) -> Course | None:
    """The first object with an action. A strategy without one is a repair."""
    for value in json_values(text):
        if not isinstance(value, dict):
            continue
        action, strategy = str(value.get("action", "")).strip().lower(), _word(value.get("strategy"), 1200)
        if action == "turn":
            return Course("turn")
        if action == "repair" or strategy:
            return Course("repair", strategy)
    return None


def _word(value: object, most: int = 600) -> str:
    return " ".join(value.split())[:most] if isinstance(value, str) else ""


def _words(value: object, most: int) -> tuple[str, ...]:
    items = value.split("\n") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(word for item in items[:most] if (word := _word(item)))


def _proposing(issue: Issue, retrieved: Retrieved, tree: Tree, facts: Facts | None) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 600)
        return render(
            "navigate",
            issue=clip(issue.text, int(room * 0.4)),
            views=code_views(tree, symbol_places(retrieved.symbols), int(room * 0.4), small=600),
            facts=describe_facts(facts, int(room * FACTS_SHARE)),
            example=example_of(retrieved),
        )

    return compose


def _choosing(issue: Issue, plans: Sequence[str]) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 400)
        each = int(room * 0.45) // max(1, len(plans))
        return render(
            "navigate_choice",
            issue=clip(issue.text, int(room * 0.5)),
            plans=[clip(plan, each) for plan in plans],
        )

    return compose


def _steering(issue: Issue, executed: Executed) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 500)
        return render(
            "navigate_repair",
            issue=clip(issue.text, int(room * 0.3)),
            plan=clip(executed.plan, int(room * 0.15)),
            diff=clip(executed.diff, int(room * 0.3)),
            failures=clip(executed.failures, int(room * 0.2)),
            left=executed.left,
        )

    return compose
