"""A generated test counts only when seen to fail on the base for the issue's reason."""

from __future__ import annotations

import pytest

from agentforge.agents.admission import admit_tests, problem_of
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.task import Issue

PATH = "tests/test_agentforge_1.py"
TEST = f"{PATH}::test_a"
CODE = b"def test_a():\n    assert add(2, 3) == 5\n"
IN_TEST = ((PATH, 2, "test_a"),)
IN_REPO = (*IN_TEST, ("pkg/calc.py", 6, "add"))
ISSUE = Issue(
    title="Box(None) fails", text="Box(None) raises TypeError: 'NoneType' object is not iterable in total()"
)


def run(outcome: Outcome = Outcome.FAILED, **failure: object) -> TestReport:
    failures = {TEST: TestFailure.model_validate(failure)} if failure else {}
    return TestReport(outcomes={TEST: outcome}, failures=failures, collected=1)


def verdict(report: TestReport, rerun: TestReport | None = None, issue: Issue = ISSUE) -> str:
    """ "" where accepted, else why not."""
    admission = admit_tests(report, rerun or report, CODE, issue, PATH)
    assert bool(admission.accepted) is not bool(admission.discarded)
    return admission.discarded[0][1] if admission.discarded else ""


@pytest.mark.parametrize(
    ("exception", "message", "frames"),
    [
        ("AssertionError", "assert -1 == 5", IN_TEST),
        ("AssertionError", "assert -1 == 5", ()),
        ("", "assert -1 == 5", IN_TEST),
        ("Failed", "DID NOT RAISE <class 'ValueError'>", IN_TEST),
        ("KeyError", "'x'", IN_REPO),
        ("AttributeError", "'NoneType' object has no attribute 'x'", IN_REPO),
        ("builtins.TypeError", "'NoneType' object is not iterable", IN_TEST),
        ("ImportError", "TypeError: 'NoneType' object is not iterable", IN_REPO),
    ],
)
def test_the_issues_reasons_are_accepted(exception, message, frames):
    report = run(exception=exception, message=message, frames=frames)
    assert verdict(report) == ""
    reason = admit_tests(report, report, CODE, ISSUE, PATH).reasons[TEST]
    assert message.split("\n")[0] in reason


@pytest.mark.parametrize(
    ("exception", "message", "frames", "why"),
    [
        ("SyntaxError", "invalid syntax", IN_TEST, "broken"),
        ("NameError", "name 'add' is not defined", IN_TEST, "broken"),
        ("ModuleNotFoundError", "No module named 'numpy'", IN_TEST, "broken"),
        ("ModuleNotFoundError", "No module named 'numpy'", IN_REPO, "broken"),
        ("ImportError", "cannot import name 'x' from 'pkg'", IN_TEST, "broken"),
        ("", "fixture 'client' not found", (), "broken"),
        ("TypeError", "add() got an unexpected keyword argument 'c'", IN_TEST, "unrelated"),
        ("TypeError", "add() missing 1 required positional argument: 'b'", IN_TEST, "unrelated"),
        ("AttributeError", "module 'pkg.calc' has no attribute 'plus'", IN_TEST, "unrelated"),
        ("KeyError", "'x'", IN_TEST, "unrelated"),
        ("ZeroDivisionError", "division by zero", (), "unrelated"),
        ("ConnectionError", "refused", IN_REPO, "unrelated"),
        ("PermissionError", "read-only", IN_TEST, "unrelated"),
        ("", "", (), "unrelated"),
    ],
)
def test_other_reasons_are_discarded(exception, message, frames, why):
    assert verdict(run(exception=exception, message=message, frames=frames)).startswith(why)


def test_why_nothing_counted_is_told_to_the_next_attempt():
    green = admit_tests(run(Outcome.PASSED), run(Outcome.PASSED), CODE, ISSUE, PATH)
    assert problem_of(green) == "test_a: always green: it passes on the base"
    good = run(exception="AssertionError", message="assert -1 == 5", frames=IN_TEST)
    assert problem_of(admit_tests(good, good, CODE, ISSUE, PATH)) == ""


def test_always_green_is_discarded():
    assert verdict(run(Outcome.PASSED)).startswith("always green")
    assert verdict(run(Outcome.XPASSED)).startswith("always green")


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.XFAILED])
def test_what_is_skipped_does_not_fail(outcome):
    assert verdict(run(outcome)).startswith("not failing")


@pytest.mark.parametrize(
    "second",
    [
        run(Outcome.PASSED),
        run(exception="AssertionError", message="assert 7 == 5", frames=IN_TEST),
        run(exception="KeyError", message="assert -1 == 5", frames=IN_TEST),
        TestReport(cause=Cause.TIMEOUT),
    ],
)
def test_two_runs_that_differ_are_flaky(second):
    first = run(exception="AssertionError", message="assert -1 == 5", frames=IN_TEST)
    assert verdict(first, second).startswith("flaky")


def test_addresses_do_not_make_a_test_flaky():
    first = run(exception="AssertionError", message="assert <A at 0x7f1> == 5", frames=IN_TEST)
    second = run(exception="AssertionError", message="assert <A at 0x7f9> == 5", frames=IN_TEST)
    assert verdict(first, second) == ""


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (
            TestReport(cause=Cause.COLLECTION_ERROR, cause_detail="SyntaxError"),
            "broken: the file could not be run (SyntaxError)",
        ),
        (TestReport(cause=Cause.NO_TESTS), "broken: no test"),
        (TestReport(outcomes={"other.py::test": Outcome.FAILED}), "broken: no test"),
    ],
)
def test_a_file_that_does_not_run_is_broken(report, why):
    admission = admit_tests(report, report, CODE, ISSUE, PATH)
    assert admission.accepted == ()
    ((name, reason),) = admission.discarded
    assert name == PATH
    assert reason.startswith(why)


def test_each_test_of_a_file_is_judged_alone():
    good, green, lost = TEST, f"{PATH}::test_b[1]", f"{PATH}::test_c"
    code = CODE + b"def test_b(x): ...\ndef test_c(): ...\n"
    report = TestReport(
        outcomes={good: Outcome.FAILED, green: Outcome.PASSED},
        failures={good: TestFailure(exception="AssertionError", message="assert -1 == 5", frames=IN_TEST)},
    )
    admission = admit_tests(report, report, code, ISSUE, PATH)
    assert admission.accepted == (good,)
    assert dict(admission.discarded)[green].startswith("always green")
    assert dict(admission.discarded)[lost].startswith("broken")


def ended(cause: Cause) -> TestReport:
    report = run(Outcome.ERROR, message="the test did not finish")
    return report.model_copy(update={"cause": cause})


@pytest.mark.parametrize(
    "text", ["bitcount(127) never returns", "it loops forever", "it hangs", "it times out"]
)
def test_a_hang_counts_where_the_issue_speaks_of_one(text):
    assert verdict(ended(Cause.TIMEOUT), issue=Issue(text=text)) == ""
    assert verdict(ended(Cause.OOM), issue=Issue(text=text)).startswith("unrelated")
    assert verdict(ended(Cause.TIMEOUT)).startswith("unrelated: it did not finish")


def test_memory_counts_where_the_issue_speaks_of_it():
    assert verdict(ended(Cause.OOM), issue=Issue(text="it eats all memory")) == ""


@pytest.mark.parametrize("exception", ["ModuleNotFoundError", "SyntaxError", "AssertionError", ""])
def test_a_collection_error_is_an_id_and_broken(exception):
    failure = TestFailure(exception=exception, message="assert -1 == 5")
    report = TestReport(
        outcomes={PATH: Outcome.ERROR}, failures={PATH: failure}, cause=Cause.COLLECTION_ERROR
    )
    admission = admit_tests(report, report, CODE, ISSUE, PATH)
    assert admission.accepted == ()
    assert dict(admission.discarded)[PATH].startswith("broken: the file cannot be collected")


def test_what_the_issue_states_is_told_from_what_was_made_up():
    code = b"""
import pytest


def test_value():
    assert sieve(10) == [2,3, 5, 7]


def test_made_up():
    assert sieve(6) == [2, 3, 5, 7, 11]


def test_error():
    with pytest.raises(ValueError):
        sieve(-1)


def test_other_error():
    with pytest.raises(KeyError):
        sieve(-2)


def test_nothing():
    assert sieve(3)


class TestText:
    def test_text(self):
        assert name() == "two words"
"""
    issue = Issue(text="sieve(10) should be [2, 3, 5, 7], -1 a ValueError, name() 'two words'")
    names = ["value", "made_up", "error", "other_error", "nothing"]
    ids = [*(f"{PATH}::test_{name}" for name in names), f"{PATH}::TestText::test_text"]
    failure = TestFailure(exception="AssertionError", message="assert", frames=IN_TEST)
    report = TestReport(outcomes=dict.fromkeys(ids, Outcome.FAILED), failures=dict.fromkeys(ids, failure))
    admission = admit_tests(report, report, code, issue, PATH)
    assert set(admission.accepted) == set(ids)
    assert set(admission.stated) == {ids[0], ids[2], ids[5]}
