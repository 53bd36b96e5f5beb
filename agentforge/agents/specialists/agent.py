"""The specialist as an agent, and the two who serve the relay: manager and fixer (MARS, appendix A).

Each method is exactly one call, answered as it may be: a relay's price is known before it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import CodeView, Place, clip, code_views
from agentforge.agents.ladder import Rung
from agentforge.agents.prompts import render
from agentforge.agents.specialists.answers import (
    Assessment,
    Checked,
    Draft,
    parse_assessment,
    parse_check,
    parse_draft,
    parse_probe,
)
from agentforge.agents.specialists.pool import Note
from agentforge.agents.specialists.pool import Specialist as Profile
from agentforge.config.settings import AgentName
from agentforge.core.chat import Completion, Message
from agentforge.core.relay import Contract, Handoff
from agentforge.core.tree import Tree
from agentforge.models.errors import EmptyAnswerError

OVERHEAD_TOKENS = 900


@dataclass(frozen=True)
class Work:
    """What both calls of a turn show. Empty parts are left out of the prompt.

    `tree` holds the shared code; `subtasks` pairs each subtask with whether it is resolved; `program` is
    the one file that holds the whole solution, "" for a repository.
    """

    issue: str
    tree: Tree
    places: tuple[Place, ...]
    contract: Contract
    reasoning: str = ""
    handoff: Handoff | None = None
    subtasks: tuple[tuple[str, bool], ...] = ()
    feedback: tuple[str, ...] = ()
    streak: int = 0
    notes: tuple[Note, ...] = ()
    program: str = ""
    language: str = "python"
    rung: Rung = "symbol"

    def shown(self, room: int) -> dict[str, object]:
        """The values of the prompt's shared part, within about `room` tokens."""
        return {
            "issue": clip(self.issue, int(room * 0.3)),
            "views": self.views(int(room * 0.35)),
            "contract": self.contract if self.contract.owned_subproblem else None,
            "reasoning": clip(self.reasoning, int(room * 0.05)),
            "handoff": self.handoff,
            "subtasks": self.subtasks,
            "feedback": self.feedback,
            "streak": self.streak,
            "program": self.program,
            "language": self.language,
            "rung": self.rung,
        }

    def views(self, tokens: int) -> tuple[CodeView, ...]:
        return code_views(self.tree, self.places, max(60, tokens))


@dataclass(frozen=True)
class Specialist(Agent):
    """One topic's voice; which topic, each call says."""

    role: ClassVar[AgentName] = "specialist"

    async def assess(self, profile: Profile, issue: str, notes: Sequence[Note]) -> Assessment:
        """Whether the task is its own (MARS, figure 4). An empty answer is "no"."""

        def compose(budget: int) -> tuple[Message, ...]:
            room = _room(budget)
            return render(
                "specialist_assess",
                profile=profile,
                issue=clip(issue, int(room * 0.6)),
                notes=_within(notes, room),
            )

        return parse_assessment(await self._text(compose))

    async def probe(self, profile: Profile, issue: str) -> Contract:
        """What it would start with, before any code (MARS, figure 5)."""

        def compose(budget: int) -> tuple[Message, ...]:
            return render("specialist_probe", profile=profile, issue=clip(issue, int(_room(budget) * 0.8)))

        return parse_probe(await self._text(compose), profile.name)

    async def draft(self, profile: Profile, work: Work, *, attempt: int = 0) -> Draft:
        """Call 1 of a turn: code or no change (MARS, figure 6)."""

        def compose(budget: int) -> tuple[Message, ...]:
            room = _room(budget)
            return render(
                "specialist_draft", profile=profile, notes=_within(work.notes, room), **work.shown(room)
            )

        return parse_draft(await self._text(compose, attempt))

    async def check(
        self, profile: Profile, work: Work, report: str, available: Sequence[str], *, attempt: int = 0
    ) -> Checked:
        """Call 2 of a turn, which sees what the draft's execution said (MARS, figure 7)."""

        def compose(budget: int) -> tuple[Message, ...]:
            room = _room(budget)
            return render(
                "specialist_check",
                profile=profile,
                report=clip(report, int(room * 0.2)),
                available=tuple(available),
                **work.shown(room),
            )

        return parse_check(await self._text(compose, attempt), profile.name, available)

    async def _text(self, compose: Compose, attempt: int = 0) -> str:
        return await _answer(self, compose, attempt)


@dataclass(frozen=True)
class Manager(Agent):
    """Merges what an ensemble's specialists wrote apart from one another (MARS, algorithm 4)."""

    role: ClassVar[AgentName] = "manager"

    async def merge(self, work: Work, candidates: Sequence[tuple[str, str]]) -> Draft:
        """One program from (specialist, answer) pairs."""

        def compose(budget: int) -> tuple[Message, ...]:
            room = _room(budget)
            each = int(room * 0.4) // max(1, len(candidates))
            shown = [(name, clip(text, each)) for name, text in candidates]
            return render("manager_merge", candidates=shown, **work.shown(room))

        return parse_draft(await _answer(self, compose, 0))


@dataclass(frozen=True)
class Fixer(Agent):
    """Mends what surrounds a solution: imports, input, output, widths; not its logic (MARS, app. E)."""

    role: ClassVar[AgentName] = "fixer"

    async def fix(self, work: Work, report: str) -> Draft:
        def compose(budget: int) -> tuple[Message, ...]:
            room = _room(budget)
            return render("infrastructure_fixer", report=clip(report, int(room * 0.2)), **work.shown(room))

        return parse_draft(await _answer(self, compose, 0))


async def _answer(agent: Agent, compose: Compose, attempt: int) -> str:
    """The text of one call; an empty answer is "", which every parser calls unusable."""
    try:
        completion: Completion = await agent.ask(compose, attempt=attempt)
    except EmptyAnswerError:
        return ""
    return completion.text


def _room(budget: int) -> int:
    return max(160, budget - OVERHEAD_TOKENS)


def _within(notes: Sequence[Note], room: int) -> list[tuple[str, str]]:
    """(title, text) of the notes, together at most a fifth of the room."""
    each = int(room * 0.2) // max(1, len(notes))
    return [(note.title, clip(note.text, each)) for note in notes]
