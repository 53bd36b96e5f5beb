"""Routing predicates: pure functions of the state (ExecuGraph, 3.2 eq. 1 and 2)."""

from __future__ import annotations

from agentforge.core.gate import Verdict
from agentforge.core.state import RunState
from agentforge.orchestrator.workflow import Predicate


def verified(state: RunState) -> bool:
    return state.verified


def settled(state: RunState) -> bool:
    """Nothing is left to repair: the gate accepted, or no test exists that could show more."""
    return state.decision is not None and state.decision.verdict is not Verdict.REFUSED


def has_candidate(state: RunState) -> bool:
    return state.candidate is not None


def nothing_executed_yet(state: RunState) -> bool:
    return state.report is None


def not_stuck(state: RunState) -> bool:
    return not state.stuck


def more_found(state: RunState) -> bool:
    return state.round + 1 < len(state.found)


def worth_searching_again(state: RunState) -> bool:
    """The plausible edits broke tests that the search had not watched: now it can watch them."""
    return not set(state.broken) <= set(state.watched)


def legacy_pass(state: RunState) -> bool:
    """AgentForge's own pass predicate (III-E eq. 11), for comparison only: nothing that ships routes by it.

    It looks for the words FAILED and ERROR in the output, so that a warning may fail a candidate and a
    crash may pass one (AF-R8).
    """
    output = "" if state.report is None else state.report.output
    return state.report is not None and "FAILED" not in output and "ERROR" not in output


PREDICATES: tuple[Predicate, ...] = (
    verified,
    settled,
    has_candidate,
    nothing_executed_yet,
    not_stuck,
    more_found,
    worth_searching_again,
    legacy_pass,
)
