"""The report of a test command that is not pytest: its exit code, and what it says about single tests."""

from __future__ import annotations

import posixpath

from agentforge.core.ports import Environment
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.tree import Tree
from agentforge.sandbox.foreign_reports import Found, UnittestOutput, read_junit
from agentforge.sandbox.verdict import Circumstances, command_cause

COMMAND_TEST = "command"
"""The id of the one test that a custom command is."""
_NOT_STARTED = (126, 127)


def unittest_reader(environment: Environment, tree: Tree) -> UnittestOutput | None:
    """A reader of what unittest says with -v; module names become files of the tree."""
    if environment.reads != "unittest":
        return None

    def module_path(module: str) -> str:
        path = posixpath.join(environment.workdir, module.replace(".", "/") + ".py")
        return path if tree.kind(path) == "file" else ""

    return UnittestOutput(module_path)


def command_report(
    seen: Circumstances, reader: UnittestOutput | None, junit: bytes | None, name: str
) -> TestReport:
    """Outcomes and cause. `junit` is the file called `name`: None when it was wanted and is not there.

    A report about single tests counts only when the exit code agrees; a command without one is one test.
    """
    cause, detail = command_cause(seen)
    code = seen.ended.exit_code
    if cause is Cause.OK and code in _NOT_STARTED:
        cause, detail = Cause.INFRA, f"the test command could not be started (exit code {code})"
    if reader is not None:
        return _unittest(cause, detail, code, reader)
    if cause is not Cause.OK:
        return TestReport(cause=cause, cause_detail=detail, collected=1)
    if not name:
        return _single(code, detail)
    try:
        if junit is None:
            raise ValueError("it was not written")
        found = read_junit(junit)
    except ValueError as error:
        why = f"the JUnit report {name} cannot be used: {error}"
        return TestReport(cause=Cause.INFRA, cause_detail=why)
    return _with_junit(code, detail, found)


def _single(code: int | None, detail: str) -> TestReport:
    if code == 0:
        return TestReport(outcomes={COMMAND_TEST: Outcome.PASSED}, collected=1, cause_detail=detail)
    failure = TestFailure(message=detail or f"exit code {code}")
    return TestReport(
        outcomes={COMMAND_TEST: Outcome.FAILED},
        failures={COMMAND_TEST: failure},
        collected=1,
        cause_detail=detail,
    )


def _with_junit(code: int | None, detail: str, found: Found) -> TestReport:
    """The command stays a test of its own: a file that hides a failure does not hide the exit code."""
    if not found.outcomes:
        return TestReport(cause=Cause.NO_TESTS, cause_detail="the JUnit report holds no test")
    whole = _single(code, detail)
    return whole.model_copy(
        update={
            "outcomes": {**found.outcomes, **whole.outcomes},
            "failures": {**found.failures, **whole.failures},
            "collected": len(found.outcomes) + 1,
        }
    )


def _unittest(cause: Cause, detail: str, code: int | None, reader: UnittestOutput) -> TestReport:
    reader.close()
    found = reader.found
    if cause is Cause.OK:
        cause, detail = _unittest_cause(detail, code, reader)
    return TestReport(
        outcomes=found.outcomes,
        failures=found.failures,
        collected=len(found.outcomes),
        cause=cause,
        cause_detail=detail,
    )


def _unittest_cause(detail: str, code: int | None, reader: UnittestOutput) -> tuple[Cause, str]:
    found = reader.found
    good = (Outcome.FAILED, Outcome.ERROR, Outcome.XPASSED)
    bad = [test for test, outcome in found.outcomes.items() if outcome in good]
    if reader.ran is None:
        return Cause.CRASH, f"the test command ended with exit code {code} before it said what it ran"
    if not reader.ran:
        return Cause.NO_TESTS, "no test was run"
    if not found.outcomes:
        return Cause.INFRA, f"{reader.ran} tests ran, but none is named: the command must be verbose (-v)"
    if (code == 0) == bool(bad):
        return Cause.INFRA, f"exit code {code}, although {len(bad)} reported tests failed"
    if reader.ran > len(found.outcomes):
        return Cause.OK, detail or f"{reader.ran} tests ran, {len(found.outcomes)} of them are told apart"
    return Cause.OK, detail
