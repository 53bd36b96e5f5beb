"""The logical reviewer: a change in, a structured opinion out; advisory, never gating (ExecuGraph, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.errors import LimitReached, ModelError
from agentforge.core.patch import Patch
from agentforge.core.state import Review
from agentforge.core.task import Issue

_SEVERITIES = frozenset({"none", "low", "medium", "high"})


@dataclass(frozen=True)
class Reviewer(Agent):
    role: ClassVar[AgentName] = "reviewer"

    async def review(self, issue: Issue, patch: Patch) -> Review:
        """One opinion. A model that fails here costs no more than its advice."""
        try:
            completion = await self.ask(_composer(issue, patch))
        except (ModelError, LimitReached) as error:
            return Review(potential_failures=(f"no review: {error.what}",))
        return parse_review(completion.text)


def parse_review(text: str) -> Review:
    """By the schema; what does not keep to it is "unparsed", which is no severity at all (EG-27)."""
    for value in json_values(text):
        if isinstance(value, dict) and str(value.get("severity", "")).lower() in _SEVERITIES:
            return Review(
                invariants=_texts(value.get("invariants")),
                potential_failures=_texts(value.get("potential_failures")),
                severity=str(value["severity"]).lower(),
            )
    return Review()


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(item.strip()[:300] for item in items if isinstance(item, str) and item.strip())[:8]


def _composer(issue: Issue, patch: Patch) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 400)
        return render(
            "reviewer", issue=clip(issue.text, int(room * 0.4)), diff=clip(patch.text, int(room * 0.5))
        )

    return compose
