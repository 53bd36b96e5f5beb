"""What a relay of specialists knows: team, contract, self-check, turns (MARS, 3)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen

MAX_TEAM = 3
"""Unique specialists of one relay (MARS, 3)."""

DraftAction = Literal["write_code", "no_change", "unusable"]
CheckAction = Literal["keep_code", "repair_code", "no_change", "unusable"]
RepairOutcome = Literal["none", "accepted", "rejected", "not_applied"]
StopReason = Literal["accepted", "stop", "no_progress", "nobody_left"]


class Seat(Frozen):
    """A specialist who is, or may become, part of the team, with what it is ranked by (MARS, appendix C).

    `overlap` counts the specialist's tags that the task's words cover; `coverage` is the share of the
    corpus' best notes that lie in its slice; `quality` is its best note's score over the corpus' best.
    All but `confidence` are computed; `confidence` (0..1) is its own and counts here and nowhere else.
    """

    specialist: str
    overlap: int = 0
    coverage: float = 0.0
    confidence: float = 0.0
    quality: float = 0.0
    eligible: bool = False
    reasoning: str = ""

    @property
    def rank(self) -> tuple[int, float, float, float]:
        return (self.overlap, self.coverage, self.confidence, self.quality)


class Contract(Frozen):
    """What the starter promised before any code was written; every later step sees it (MARS, F.5)."""

    specialist: str
    can_start: bool = False
    start_confidence: float = 0.0
    owned_subproblem: str = ""
    first_action: str = ""
    reasoning: str = ""
    out_of_scope: tuple[str, ...] = ()


class Team(Frozen):
    """At most `MAX_TEAM` specialists, best first, and who starts under which contract.

    `pool_hash` identifies the specialists and notes they were chosen from.
    """

    pool: str
    pool_hash: str
    seats: tuple[Seat, ...] = Field(min_length=1, max_length=MAX_TEAM)
    contract: Contract
    asked: int = 0
    volunteered: bool = True
    """False: nobody called the task its own, so the best match by retrieval works alone."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(seat.specialist for seat in self.seats)


class SelfCheck(Frozen):
    """The second call of a turn (MARS, F.7): what becomes of the draft, and what the next one must know."""

    specialist: str
    action: CheckAction
    stop: bool = False
    next_agent: str | None = None
    summary: str = ""
    interpretation: str = ""
    completed_scope: str = ""
    remaining_scope: str = ""
    resolved: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    instruction: str = ""
    risks: str = ""
    problems: tuple[str, ...] = ()
    """Which rules of the answer's form were broken, and what was assumed instead."""


class Handoff(Frozen):
    """The structured packet of a turn. It carries no test output (MARS, 4.4)."""

    sender: str
    receiver: str
    completed_scope: str = ""
    remaining_scope: str = ""
    resolved: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    instruction: str = ""
    risks: str = ""


class Turn(Frozen):
    """One step of the relay, settled. `step` counts from 1."""

    step: int
    specialist: str
    draft: DraftAction
    check: CheckAction | None = None
    """None where the workflow makes no second call."""
    repair: RepairOutcome = "none"
    lost: tuple[str, ...] = ()
    """Tests that the draft passed and a rejected repair did not."""
    restored: bool = False
    """The turn's code passed less than the best so far, which was taken up again."""
    progress: bool = False
    passing: tuple[str, ...] = ()
    """Target tests that the shared code passes after this turn."""
    stopped: StopReason | None = None
    rerouted: bool = False
    handoff: Handoff | None = None
    problems: tuple[str, ...] = ()
