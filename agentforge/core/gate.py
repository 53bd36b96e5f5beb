"""The judge's verdict (the judging itself: `agentforge.orchestrator.gate`)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from agentforge.core.base import Frozen


class Verdict(StrEnum):
    """VERIFIED: targets flipped and nothing broke. UNVERIFIED: nothing broke but no target to prove it."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    REFUSED = "refused"


class Rank(NamedTuple):
    """Order of candidates, better is greater (design, section 3)."""

    verified: bool
    targets_passed: int
    base_passing_kept: int
    clean_exit: bool
    negative_changed_lines: int


class ReasonKind(StrEnum):
    TARGET_NOT_PASSING = "target_not_passing"
    BROKEN = "broken"
    DISAPPEARED = "disappeared"
    TAMPERED = "tampered"
    NO_REPORT = "no_report"
    NO_TARGET = "no_target"
    NOT_SEEN_FAILING = "not_seen_failing"
    VETO = "veto"


class GateReason(Frozen):
    """One reason, by test id where there is one."""

    kind: ReasonKind
    test_id: str = ""
    text: str = ""


class GateDecision(Frozen):
    """Accepted or not, the rank, and the reasons by test id. `scope` says which tests ran."""

    verdict: Verdict
    rank: Rank
    reasons: tuple[GateReason, ...] = ()
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    scope: str = "all"

    @property
    def verified(self) -> bool:
        return self.verdict is Verdict.VERIFIED
