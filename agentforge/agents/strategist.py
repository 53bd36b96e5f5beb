"""The planner of a programming problem: class, strategy, pseudocode, costs, edge cases (ExecuGraph, 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.base import Frozen
from agentforge.core.chat import Message
from agentforge.core.task import Issue
from agentforge.models.errors import EmptyAnswerError

TEMPERATURE = 0.2
"""The paper's, where the settings name none for the planner."""
MAX_REASKS = 1


class Objection(NamedTuple):
    """What a simulation found wrong with an earlier plan."""

    plan: str = ""
    critique: str = ""


NO_OBJECTION = Objection()


class Strategy(Frozen):
    """What the planner said. Empty where it gave nothing usable."""

    problem_class: str = ""
    strategy: str = ""
    pseudocode: tuple[str, ...] = ()
    time: str = ""
    space: str = ""
    edge_cases: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For the generator and the explainer."""
        lines = [f"{self.problem_class}: {self.strategy}".strip(": ")] if self.strategy else []
        lines += [f"{number}. {step}" for number, step in enumerate(self.pseudocode, 1)]
        lines += [f"Time {self.time or '?'}, space {self.space or '?'}."] if self.time or self.space else []
        lines += [f"Mind: {'; '.join(self.edge_cases)}"] if self.edge_cases else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Strategist(Agent):
    role: ClassVar[AgentName] = "planner"

    async def plan(
        self,
        issue: Issue,
        techniques: Sequence[str] = (),
        *,
        temperature: float | None = None,
        on_problem: Callable[[str], None] | None = None,
        objection: Objection = NO_OBJECTION,
        attempt: int = 0,
    ) -> Strategy:
        """A strategy, empty after two unusable answers. Errors of the endpoint pass through.

        `attempt` shifts the seed where a plan is made anew.
        """
        problem = ""
        for again in range(MAX_REASKS + 1):
            try:
                completion = await self.ask(
                    _composer(issue, techniques, problem, objection),
                    attempt=attempt + again,
                    temperature=temperature,
                )
            except EmptyAnswerError:
                problem = "it was empty"
            else:
                found = parse_strategy(completion.text)
                if found is not None:
                    return found
                problem = "it was cut off" if was_cut(completion) else "it held no object with `strategy`"
            if on_problem:
                on_problem(problem)
        return Strategy()


def parse_strategy(text: str) -> Strategy | None:
    """The first object that names a strategy, or None."""
    for value in json_values(text):
        if isinstance(value, dict) and isinstance(value.get("strategy"), str) and value["strategy"].strip():
            words = {key: _word(value.get(key)) for key in ("problem_class", "strategy", "time", "space")}
            listed = {key: _words(value.get(key)) for key in ("pseudocode", "edge_cases")}
            return Strategy.model_validate({**words, **listed})
    return None


def _word(value: object) -> str:
    return " ".join(value.split())[:400] if isinstance(value, str) else ""


def _words(value: object) -> tuple[str, ...]:
    items = value.split("\n") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(word for item in items[:12] if (word := _word(item)))


def _composer(issue: Issue, techniques: Sequence[str], problem: str, objection: Objection) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 400)
        each = int(room * 0.3) // max(1, len(techniques))
        return render(
            "strategy",
            issue=clip(issue.text, int(room * 0.6)),
            techniques=[clip(technique, each) for technique in techniques],
            problem=problem,
            previous=clip(objection.plan, int(room * 0.15)),
            critique=clip(objection.critique, int(room * 0.1)),
        )

    return compose
