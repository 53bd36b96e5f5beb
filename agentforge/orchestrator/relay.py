"""The rules of the relay, pure: who is in the team, which code goes on, who is next, when it ends (MARS, 3).

No counter lives here: the step is the engine's loop counter, and the streak is read off the turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentforge.core.gate import Verdict
from agentforge.core.paths import file_of_test
from agentforge.core.relay import MAX_TEAM, Contract, Handoff, Seat, SelfCheck, StopReason, Team, Turn
from agentforge.core.report import Cause, TestReport
from agentforge.core.state import Judged
from agentforge.orchestrator.gate import matching

REROUTE_AT = 2
STOP_AT = 3
"""Steps without progress in a row after which the relay takes another way, and after which it ends."""


def ranked(seats: Iterable[Seat]) -> tuple[Seat, ...]:
    """Best first; ties by name, so that the same assessments give the same team."""
    return tuple(sorted(seats, key=lambda seat: (*(-part for part in seat.rank), seat.specialist)))


def choose_team(seats: Sequence[Seat], size: int = MAX_TEAM) -> tuple[tuple[Seat, ...], bool]:
    """The best eligible seats, and whether anyone volunteered; else the best match by retrieval alone."""
    eligible = ranked(seat for seat in seats if seat.eligible)[: min(size, MAX_TEAM)]
    return (eligible, True) if eligible else (ranked(seats)[:1], False)


def choose_starter(seats: Sequence[Seat], contracts: Sequence[Contract]) -> Contract:
    """Who can start, the surest first, ties by rank; the best of the team where nobody can."""
    order = {seat.specialist: place for place, seat in enumerate(seats)}
    able = [contract for contract in contracts if contract.can_start]
    if not able:
        known = {contract.specialist: contract for contract in contracts}
        return known.get(seats[0].specialist, Contract(specialist=seats[0].specialist))
    return min(able, key=lambda item: (-item.start_confidence, order[item.specialist]))


def lost_tests(before: Judged, after: Judged, targets: Sequence[str]) -> tuple[str, ...]:
    """Tests that `before` passed and `after`, which ran them, did not: MARS' gate over sets, not counts.

    A file of tests that only `before` ran says nothing; a target does, wherever it is.
    """
    run = {file_of_test(test) for test in after.report.outcomes}
    aimed = passing_targets(before.report, targets)
    gone = before.report.passed - after.report.passed
    return tuple(sorted(test for test in gone if test in aimed or file_of_test(test) in run))


def repair_accepted(draft: Judged | None, repair: Judged, targets: Sequence[str]) -> bool:
    """`C <- C_repair` when it runs to a clean report and loses no test that the draft passed (MA-R6)."""
    if repair.report.cause is not Cause.OK or repair.report.collected < 1:
        return False
    return draft is None or not lost_tests(draft, repair, targets)


def shared_after(
    turn: Judged | None, best: Judged | None, targets: Sequence[str]
) -> tuple[Judged | None, bool]:
    """The code that goes on, and whether the best so far was restored for it.

    No later specialist can lose what an earlier one reached: the turn's code goes on where it passes all
    that the best passes, else the best does.
    """
    if turn is None or best is None:
        return (turn or best), turn is None and best is not None
    keeps = turn.report.cause is Cause.OK and not lost_tests(best, turn, targets)
    return (turn, False) if keeps or turn.candidate.id == best.candidate.id else (best, True)


def made_progress(before: Judged | None, after: Judged | None, targets: Sequence[str]) -> bool:
    """Whether the shared code passes more than it did: a greater rank, the size of the change aside."""
    if after is None:
        return False
    if before is not None:
        return after.decision.rank[:4] > before.decision.rank[:4]
    return bool(passing_targets(after.report, targets)) or after.decision.verdict is not Verdict.REFUSED


def passing_targets(report: TestReport, targets: Sequence[str]) -> frozenset[str]:
    return frozenset().union(*(matching(target, report.passed) for target in targets))


def streak(turns: Sequence[Turn]) -> int:
    """How many of the last turns in a row brought no progress."""
    count = 0
    for turn in reversed(turns):
        if turn.progress:
            break
        count += 1
    return count


def used(turns: Sequence[Turn]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(turn.specialist for turn in turns))


def active(team: Team, turns: Sequence[Turn]) -> str:
    """Who works now: the receiver of the last packet, at first the starter."""
    last = turns[-1].handoff if turns else None
    return last.receiver if last is not None else team.contract.specialist


def unused(team: Team, turns: Sequence[Turn], now: str = "") -> tuple[str, ...]:
    """Selected specialists who had no turn yet, best first; `now` is having one."""
    gone = {*used(turns), now}
    return tuple(name for name in team.names if name not in gone)


@dataclass(frozen=True)
class NextStep:
    """Who is next, or why nobody is."""

    receiver: str | None = None
    stopped: StopReason | None = None
    rerouted: bool = False


def next_step(
    team: Team,
    turns: Sequence[Turn],
    now: str,
    *,
    progress: bool,
    accepted: bool,
    check: SelfCheck | None,
    stop: bool = False,
    revisit: bool = False,
) -> NextStep:
    """The decision after the turn of `now`, which `turns` does not hold yet (MARS, 3 and algorithm 1).

    In this order: the gate accepted; an explicit stop; three steps without progress; nobody left. At two
    steps without progress the wish of the specialist does not count, and another than it asked for goes on
    where there is one. `revisit` lets the team go round again while steps are left.
    """
    without = 0 if progress else streak(turns) + 1
    if accepted:
        return NextStep(stopped="accepted")
    if stop or (check is not None and check.stop):
        return NextStep(stopped="stop")
    if without >= STOP_AT:
        return NextStep(stopped="no_progress")
    left = unused(team, turns, now) or (_others(team, turns, now) if revisit else ())
    if not left:
        return NextStep(stopped="nobody_left")
    wish = check.next_agent if check is not None and check.next_agent in left else None
    if without >= REROUTE_AT:
        elsewhere = next((name for name in left if name != wish), None)
        return NextStep(receiver=elsewhere or left[0], rerouted=elsewhere is not None and wish is not None)
    return NextStep(receiver=wish or left[0])


def _others(team: Team, turns: Sequence[Turn], now: str) -> tuple[str, ...]:
    """The team for another round: who has waited longest first, `now` last."""
    last = {turn.specialist: place for place, turn in enumerate(turns)}
    others = [name for name in team.names if name != now]
    return (*sorted(others, key=lambda name: last.get(name, -1)), now)


def packet(sender: str, receiver: str, check: SelfCheck | None) -> Handoff:
    """The structured hand-off; without a second call it says who sends it and nothing else."""
    if check is None:
        return Handoff(sender=sender, receiver=receiver)
    return Handoff(
        sender=sender,
        receiver=receiver,
        completed_scope=check.completed_scope,
        remaining_scope=check.remaining_scope,
        resolved=check.resolved,
        unresolved=check.unresolved,
        instruction=check.instruction,
        risks=check.risks,
    )


def subtasks(turns: Sequence[Turn]) -> dict[str, bool]:
    """Every subtask that was named, and whether the last word on it was "resolved"."""
    known: dict[str, bool] = {}
    for turn in turns:
        if turn.handoff is not None:
            known |= dict.fromkeys(turn.handoff.unresolved, False) | dict.fromkeys(
                turn.handoff.resolved, True
            )
    return known


def gate_feedback(turns: Sequence[Turn], last: int = 3) -> tuple[str, ...]:
    """What the gate said of recent steps, in words; no test output (MARS, 4.4)."""
    lines = []
    for turn in turns[-last:]:
        parts = [f"step {turn.step}, {turn.specialist}: {len(turn.passing)} target tests pass"]
        if turn.draft != "write_code":
            parts.append(f"draft: {turn.draft}")
        if turn.repair != "none":
            parts.append(f"repair {turn.repair.replace('_', ' ')}")
        if turn.lost:
            parts.append(f"it would have lost {', '.join(turn.lost[:5])}")
        if turn.restored:
            parts.append("it passed less than the best so far, which was taken up again")
        if not turn.progress:
            parts.append("no progress")
        lines.append("; ".join(parts))
    return tuple(lines)
