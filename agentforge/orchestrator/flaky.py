"""Tests that a candidate seems to break, but that differ from run to run without it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentforge.core.paths import file_of_test
from agentforge.core.ports import TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.state import Trial

RERUNS = 2
MOST_BROKEN = 20
"""A candidate that breaks more than this many tests is not unlucky."""
RunBase = Callable[[TestRequest], Awaitable[TestReport]]


async def without_flaky(
    trial: Trial, run_base: RunBase, notice: Callable[[str], None], timeout_s: float
) -> Trial:
    """The trial without flaky tests, each of which is named in a notice.

    Asked only where the candidate broke something: the files of those tests run again on the base, and a
    test that passed there before and does not now, proves nothing about the candidate.
    """
    if trial.candidate.cause is not Cause.OK:
        return trial
    broken = trial.base.passed & (trial.candidate.outcomes.keys() - trial.candidate.passed)
    if not broken or len(broken) > MOST_BROKEN:
        return trial
    files = tuple(sorted({file_of_test(test) for test in broken}))
    flaky: set[str] = set()
    for number in range(1, RERUNS + 1):
        report = await run_base(TestRequest(targets=files, timeout_s=timeout_s, scope=f"flaky {number}"))
        if report.cause is Cause.OK:
            flaky |= broken & (report.outcomes.keys() - report.passed)
    for test in sorted(flaky):
        notice(f"{test} is left out of the comparison: it is flaky, it fails now and then without the patch")
    return Trial(base=_without(trial.base, flaky), candidate=_without(trial.candidate, flaky))


def _without(report: TestReport, tests: set[str]) -> TestReport:
    kept = {test: outcome for test, outcome in report.outcomes.items() if test not in tests}
    return report.model_copy(update={"outcomes": kept, "collected": len(kept)})
