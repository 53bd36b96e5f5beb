"""Tests that differ from run to run on one and the same tree: they prove nothing about a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentforge.core.ports import Environment, Sandbox, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.tree import Tree


async def flaky_ids(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    ids: Iterable[str],
    *,
    times: int = 3,
    timeout_s: float = 30.0,
    known: Mapping[str, Outcome] | None = None,
) -> dict[str, str]:
    """Which of `ids` are flaky on `tree`, each with a note in words.

    They are run together up to `times` times and compared with each other and with `known` outcomes of
    the same tree. A run that did not come to its end says nothing. An id that never ran is not flaky.
    """
    wanted = tuple(dict.fromkeys(ids))
    seen: dict[str, set[str]] = {test: set() for test in wanted}
    for test, outcome in (known or {}).items():
        if test in seen:
            seen[test].add(outcome.value)
    steady = wanted
    for _ in range(times):
        if not steady:
            break
        report = await sandbox.run_tests(
            environment, tree, TestRequest(targets=steady, timeout_s=timeout_s, scope="flaky")
        )
        if report.cause is Cause.OK:
            _note(report, steady, seen)
        steady = tuple(test for test in steady if len(seen[test]) < 2)
    return {
        test: f"flaky: without a change it was {' and '.join(sorted(found))}"
        for test, found in seen.items()
        if len(found) > 1
    }


def _note(report: TestReport, ids: Iterable[str], seen: dict[str, set[str]]) -> None:
    for test in ids:
        if test in report.outcomes:
            seen[test].add(report.outcomes[test].value)
