"""What a candidate seems to break is run again on the base; what fails there too now and then is left out."""

from __future__ import annotations

import asyncio

import pytest

from agentforge.core.gate import Verdict
from agentforge.core.ports import TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.state import Trial
from agentforge.orchestrator.flaky import MOST_BROKEN, RERUNS, without_flaky
from agentforge.orchestrator.gate import decide_trials

TARGET, STEADY, LUCKY = "t.py::test_target", "t.py::test_steady", "u.py::test_lucky"


def report(cause: Cause = Cause.OK, **outcomes: str) -> TestReport:
    ids = {"target": TARGET, "steady": STEADY, "lucky": LUCKY}
    found = {ids[name]: Outcome(word) for name, word in outcomes.items()}
    return TestReport(outcomes=found, collected=len(found), cause=cause)


BASE = report(target="failed", steady="passed", lucky="passed")


def judge(candidate: TestReport, *reruns: TestReport) -> tuple[Trial, list[str], list[TestRequest]]:
    notices: list[str] = []
    asked: list[TestRequest] = []
    answers = iter(reruns)

    async def run_base(request: TestRequest) -> TestReport:
        asked.append(request)
        return next(answers)

    trial = Trial(base=BASE, candidate=candidate)
    return asyncio.run(without_flaky(trial, run_base, notices.append, 5.0)), notices, asked


def test_a_flaky_test_refuses_no_candidate() -> None:
    candidate = report(target="passed", steady="passed", lucky="failed")
    assert decide_trials([Trial(base=BASE, candidate=candidate)], [TARGET]).verdict is Verdict.REFUSED
    trial, notices, asked = judge(candidate, report(lucky="passed"), report(lucky="failed"))
    assert decide_trials([trial], [TARGET]).verdict is Verdict.VERIFIED
    assert LUCKY in notices[0]
    assert "flaky" in notices[0]
    assert [request.targets for request in asked] == [("u.py",)] * RERUNS
    assert len(set(asked)) == RERUNS, "a cached report would be no second look"


def test_a_test_that_is_really_broken_still_refuses() -> None:
    candidate = report(target="passed", steady="failed", lucky="failed")
    trial, notices, _ = judge(candidate, report(steady="passed", lucky="failed"), report(steady="passed"))
    decision = decide_trials([trial], [TARGET])
    assert decision.verdict is Verdict.REFUSED
    assert [reason.test_id for reason in decision.reasons] == [STEADY]
    assert len(notices) == 1


@pytest.mark.parametrize(
    "candidate",
    [
        report(target="passed", steady="passed", lucky="passed"),
        report(Cause.TIMEOUT, target="passed", steady="failed"),
        report(target="passed", steady="passed"),  # one that is gone is not flaky
    ],
)
def test_nothing_is_asked_where_nothing_is_broken_or_nothing_ended(candidate: TestReport) -> None:
    trial, notices, asked = judge(candidate)
    assert trial == Trial(base=BASE, candidate=candidate)
    assert (notices, asked) == ([], [])


def test_a_rerun_that_did_not_end_says_nothing() -> None:
    candidate = report(target="passed", steady="passed", lucky="failed")
    crashed = report(Cause.CRASH, lucky="failed")
    trial, notices, _ = judge(candidate, crashed, crashed)
    assert trial.candidate == candidate
    assert notices == []


def test_many_broken_tests_are_no_bad_luck() -> None:
    ids = {f"t.py::test_{number}": Outcome.PASSED for number in range(MOST_BROKEN + 1)}
    base = TestReport(outcomes=ids, collected=len(ids))
    candidate = TestReport(outcomes=dict.fromkeys(ids, Outcome.FAILED), collected=len(ids))

    async def run_base(request: TestRequest) -> TestReport:
        pytest.fail("it was asked")

    trial = Trial(base=base, candidate=candidate)
    assert asyncio.run(without_flaky(trial, run_base, pytest.fail, 5.0)) == trial
