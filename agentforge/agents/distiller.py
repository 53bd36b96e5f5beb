"""The distiller: several verified fixes in, one general lesson out (ExpeRepair's semantic memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.agents.recall import changed_lines
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.ports import TokenSink
from agentforge.core.retrieval import Episode

MAX_LESSON_CHARS = 400
_EPISODE_TOKENS = 400


@dataclass(frozen=True)
class Distiller(Agent):
    role: ClassVar[AgentName] = "distiller"

    async def distil(self, episodes: Sequence[Episode], *, sink: TokenSink | None = None) -> str:
        """The lesson in one or two sentences, "" where the fixes share none or the answer is unusable.

        Errors of the model pass through.
        """
        answer = await self.ask(_composer(episodes), sink=sink)
        return parse_lesson(answer.text)


def parse_lesson(text: str) -> str:
    """The lesson of a JSON answer; prose around a missing object is no lesson."""
    stated = [value["lesson"] for value in json_values(text) if isinstance(value, dict) and "lesson" in value]
    lesson = " ".join(stated[-1].split()) if stated and isinstance(stated[-1], str) else ""
    return lesson if len(lesson) <= MAX_LESSON_CHARS else ""


def _composer(episodes: Sequence[Episode]) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        each = min(_EPISODE_TOKENS, max(120, budget - 500) // (2 * len(episodes)))
        fixes = [
            (clip(one.issue, each), ", ".join(one.failures), clip(changed_lines(one.patch), each))
            for one in episodes
        ]
        return render("distiller", fixes=fixes)

    return compose
