"""The rules of the relay as pure functions, and random relays over them (MARS, 3)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.core.patch import Candidate, Patch
from agentforge.core.relay import MAX_TEAM, Contract, Seat, SelfCheck, Team, Turn
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.state import Judged
from agentforge.orchestrator import relay
from agentforge.orchestrator.gate import decide

TARGETS = tuple(f"tests/t.py::t{number}" for number in range(4))
OTHERS = tuple(f"tests/o.py::o{number}" for number in range(2))
BASE = TestReport(
    outcomes={**dict.fromkeys(TARGETS, Outcome.FAILED), **dict.fromkeys(OTHERS, Outcome.PASSED)}, collected=6
)


def judged(name: str, passing: frozenset[str], cause: Cause = Cause.OK, lines: int = 3) -> Judged:
    outcomes = {test: Outcome.PASSED if test in passing else Outcome.FAILED for test in BASE.outcomes}
    report = TestReport(outcomes=outcomes, collected=len(outcomes), cause=cause)
    patch = Patch(diff=b"x", files=("a.py",), added=lines)
    candidate = Candidate(id=name, patch=patch, changes={}, origin="specialist")
    return Judged(
        candidate=candidate, baseline=BASE, report=report, decision=decide(BASE, report, TARGETS, patch)
    )


def good(*numbers: int) -> frozenset[str]:
    return frozenset(TARGETS[number] for number in numbers) | frozenset(OTHERS)


def seat(name: str, **values: object) -> Seat:
    return Seat(specialist=name, eligible=True, **values)


def team(*names: str) -> Team:
    return Team(
        pool="p",
        pool_hash="h",
        seats=tuple(seat(name) for name in names),
        contract=Contract(specialist=names[0]),
    )


def test_ma_r6_the_gate_compares_sets_not_counts():
    draft, other = judged("d", good(0, 1)), judged("r", good(2, 3))
    assert len(draft.report.passed) == len(other.report.passed)
    assert not relay.repair_accepted(draft, other, TARGETS)
    assert relay.lost_tests(draft, other, TARGETS) == TARGETS[:2]
    assert relay.repair_accepted(draft, judged("r", good(0, 1, 2)), TARGETS)
    assert relay.repair_accepted(draft, judged("r", good(0, 1)), TARGETS)


def test_ma_r6_a_repair_that_does_not_run_is_rejected_whatever_it_passed():
    draft = judged("d", frozenset())
    assert not relay.repair_accepted(draft, judged("r", good(0, 1, 2, 3), Cause.TIMEOUT), TARGETS)
    assert relay.repair_accepted(None, judged("r", good(0)), TARGETS)


def test_ma_r6_a_broken_test_outside_the_targets_is_a_loss_too():
    draft = judged("d", good(0))
    assert not relay.repair_accepted(draft, judged("r", good(0, 1) - {OTHERS[0]}), TARGETS)


def test_no_later_specialist_can_lose_the_best():
    best, worse = judged("b", good(0, 1)), judged("w", good(0))
    assert relay.shared_after(worse, best, TARGETS) == (best, True)
    assert relay.shared_after(None, best, TARGETS) == (best, True)
    wider = judged("x", good(0, 1, 2))
    assert relay.shared_after(wider, wider, TARGETS) == (wider, False)


def test_ma_r3_the_team_is_the_best_three_in_a_fixed_order():
    seats = [
        seat("e", overlap=1),
        seat("d", overlap=2),
        seat("c", overlap=2, coverage=0.5),
        seat("b"),
        seat("a"),
    ]
    chosen, volunteered = relay.choose_team(seats)
    assert [item.specialist for item in chosen] == ["c", "d", "e"]
    assert volunteered
    assert relay.choose_team(list(reversed(seats))) == (chosen, True)
    assert relay.choose_team([item.model_copy(update={"eligible": False}) for item in seats])[0] == (
        seats[2].model_copy(update={"eligible": False}),
    )


def test_ma_r4_the_surest_who_can_start_starts():
    seats = (seat("a"), seat("b"))
    able = Contract(specialist="b", can_start=True, start_confidence=0.4)
    proud = Contract(specialist="a", can_start=False, start_confidence=1.0)
    assert relay.choose_starter(seats, [proud, able]).specialist == "b"
    assert relay.choose_starter(seats, [proud]).specialist == "a"
    assert relay.choose_starter(seats, []).specialist == "a"


def turn(name: str, progress: bool) -> Turn:
    return Turn(step=1, specialist=name, draft="write_code", progress=progress)


def step(members: Team, turns: tuple[Turn, ...], now: str, progress: bool, **given: object) -> relay.NextStep:
    wish = given.pop("wish", None)
    check = SelfCheck(
        specialist=now, action="keep_code", next_agent=wish, stop=bool(given.pop("stop", False))
    )
    return relay.next_step(members, turns, now, progress=progress, accepted=False, check=check, **given)


def test_ma_r7_stop_rules():
    three = team("a", "b", "c")
    assert step(three, (), "a", True, stop=True).stopped == "stop"
    assert step(team("a"), (), "a", True).stopped == "nobody_left"
    assert (
        step(three, (turn("b", False), turn("c", False)), "a", False, revisit=True).stopped == "no_progress"
    )
    accepted = relay.next_step(three, (), "a", progress=True, accepted=True, check=None)
    assert accepted.stopped == "accepted"


def test_ma_r7_a_wish_counts_and_falls_back_to_the_best_unused():
    three = team("a", "b", "c")
    assert step(three, (), "a", True, wish="c").receiver == "c"
    assert step(three, (), "a", True).receiver == "b"
    assert step(three, (turn("b", True),), "a", True, wish="b").receiver == "c"


def test_ma_r7_reroute_at_two():
    four_turns = team("a", "b", "c")
    after = step(four_turns, (turn("b", False),), "a", False, wish="c", revisit=False)
    assert after.receiver == "c"
    assert not after.rerouted
    wide = step(four_turns, (turn("a", False),), "a", False, wish="c")
    assert (wide.receiver, wide.rerouted) == ("b", True)
    assert step(four_turns, (turn("a", True),), "a", False, wish="c").receiver == "c"


def test_the_streak_begins_anew_with_progress():
    assert relay.streak((turn("a", False), turn("b", True), turn("c", False))) == 1
    assert relay.streak(()) == 0


def test_ma_r9_the_packet_carries_no_test_output():
    check = SelfCheck(specialist="a", action="keep_code", interpretation="FAILED tests/t.py secret output")
    packet = relay.packet("a", "b", check)
    assert "secret" not in packet.model_dump_json()
    lines = relay.gate_feedback((turn("a", False),))
    assert lines == ("step 1, a: 0 target tests pass; no progress",)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_ma_r7_every_relay_ends_within_its_bounds_and_never_loses_the_best(data: st.DataObject):
    members = team(*data.draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")])))
    revisit = data.draw(st.booleans())
    tests = st.frozensets(st.sampled_from((*TARGETS, *OTHERS)))
    turns: tuple[Turn, ...] = ()
    shared: Judged | None = None
    best: Judged | None = None
    for number in range(8):
        now = relay.active(members, turns)
        made = data.draw(st.one_of(st.none(), tests))
        candidate = None if made is None else judged(f"t{number}", made)
        if candidate is not None and (best is None or candidate.decision.rank > best.decision.rank):
            best = candidate
        before = best
        after, _ = relay.shared_after(candidate or shared, best, TARGETS)
        progress = relay.made_progress(shared, after, TARGETS)
        accepted = best is not None and not best.decision.reasons
        wish = data.draw(st.sampled_from((*members.names, None)))
        check = SelfCheck(
            specialist=now,
            action="keep_code",
            next_agent=wish,
            stop=data.draw(st.booleans()) and data.draw(st.booleans()),
        )
        following = relay.next_step(
            members, turns, now, progress=progress, accepted=accepted, check=check, revisit=revisit
        )
        assert (following.receiver is None) == (following.stopped is not None)
        packet = relay.packet(now, following.receiver, check) if following.receiver else None
        settled = Turn(step=number + 1, specialist=now, draft="write_code", progress=progress, handoff=packet)
        if before is not None and after is not None:
            assert not relay.lost_tests(before, after, TARGETS)
        if shared is not None:
            assert after is not None
            assert after.decision.rank[:4] >= shared.decision.rank[:4]
        shared, turns = after, (*turns, settled)
        if following.stopped is not None:
            break
    assert len(relay.used(turns)) <= min(MAX_TEAM, len(members.names))
    assert relay.streak(turns) <= relay.STOP_AT
    if not revisit:
        assert len(turns) <= len(members.names)
        assert len(set(relay.used(turns))) == len(turns)
