"""Failing tests in words, from what pytest really says."""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest

from agentforge.agents.context import Place
from agentforge.agents.failures import comparison, describe_failure, describe_failures, failing_places
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport

CASES = """
import unittest
import calc


def test_call():
    assert calc.add(2, 3) == 5


def test_reversed():
    assert [5] == calc.pair(2, 3)


def test_name():
    result = calc.add(1, 1)
    assert result == 2


def test_raises():
    calc.boom()


class TestOld(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(calc.add(1, 2), 3)
"""
CALC = """
def add(a, b):
    return a - b


def pair(a, b):
    return [add(a, b)]


def boom():
    raise ValueError("no such thing == here")
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestFailure]:
    """Failures as a real pytest reports them, by test name."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "calc.py").write_text(CALC)
    (folder / "test_calc.py").write_text(CASES)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=out.xml",
        "test_calc.py",
    ]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    found = {}
    for case in ElementTree.parse(folder / "out.xml").iter("testcase"):
        (failure,) = case.findall("failure")
        found[case.attrib["name"]] = TestFailure(
            message=failure.attrib["message"], traceback=failure.text or ""
        )
    return found


def test_eg19_the_call_expected_and_got(messages):
    assert comparison(messages["test_call"]) == ("calc.add(2, 3)", "5", "-1")
    assert comparison(messages["test_reversed"]) == ("calc.pair(2, 3)", "[5]", "[-1]")
    assert comparison(messages["test_name"]) == ("", "2", "0")
    assert comparison(messages["test_equal"]) == ("", "3", "-1")
    assert comparison(messages["test_raises"]) is None


def test_eg19_without_source_lines_pytests_where_line_names_the_call(messages):
    bare = messages["test_call"].model_copy(update={"traceback": ""})
    assert comparison(bare) == ("add(2, 3)", "5", "-1")


def test_eg19_words_of_each_failure(messages):
    text = describe_failure("test_calc.py::test_call", messages["test_call"])
    assert text == "FAILED test_calc.py::test_call\n  call:     calc.add(2, 3)\n  expected: 5\n  got:      -1"
    assert "ValueError: no such thing" in describe_failure("t", messages["test_raises"])


def report(**values: object) -> TestReport:
    return TestReport.model_validate({"outcomes": {}, "collected": 1, **values})


def test_eg19_a_passing_last_test_hides_nothing():
    failing = report(
        outcomes={"a": Outcome.FAILED, "b": Outcome.PASSED},
        failures={"a": TestFailure(exception="ValueError", message="first crashed")},
        output="noise " * 5000,
    )
    text = describe_failures(failing)
    assert "FAILED a\n  ValueError: first crashed" in text
    assert "noise" not in text


def test_wanted_failures_come_first_and_the_rest_is_counted():
    outcomes = {f"t{number}": Outcome.FAILED for number in range(9)}
    failures = {test: TestFailure(exception="E", message=test) for test in outcomes}
    text = describe_failures(report(outcomes=outcomes, failures=failures), ["t8", "gone"], most=3)
    assert text.index("FAILED t8") < text.index("FAILED t0")
    assert "and 6 more failing tests" in text


def test_output_is_clipped_and_used_only_without_failures():
    crashed = report(cause=Cause.CRASH, cause_detail="signal 11", output="start " + "x" * 10**6 + " end")
    text = describe_failures(crashed, tokens=300)
    assert "ended with crash: signal 11" in text
    assert "start" in text
    assert " end" in text
    assert len(text) < 3000


def test_af21_a_report_without_any_detail_is_still_words():
    assert describe_failures(TestReport()) == ""
    text = describe_failures(report(outcomes={"a": Outcome.ERROR}, cause=Cause.TIMEOUT))
    assert "FAILED a" in text
    assert "timeout" in text


def test_one_huge_message_leaves_room_for_the_others():
    failures = {
        "a": TestFailure(exception="E", message="m" * 10**6),
        "b": TestFailure(exception="F", message="small"),
    }
    both = report(outcomes=dict.fromkeys(failures, Outcome.FAILED), failures=failures)
    text = describe_failures(both, tokens=600)
    assert "F: small" in text
    assert len(text) < 3000


def test_hostile_messages_take_no_time_and_no_stack():
    for message in (
        "assert " + "[" * 150 + "]" * 150 + " == 1",
        "assert " + " = a(" * 10**5,
        "<function " * 10**5,
    ):
        failure = TestFailure(
            exception="AssertionError", message=message, traceback="> assert " + "(" * 10**5
        )
        started = time.monotonic()
        describe_failure("t", failure)
        assert time.monotonic() - started < 2


def test_places_are_the_repositorys_frames_innermost_first():
    frames = (("tests/test_a.py", 3, "test"), ("pkg/a.py", 10, "f"), ("pkg/b.py", 20, "g"))
    failing = report(outcomes={"t": Outcome.FAILED}, failures={"t": TestFailure(frames=frames)})
    assert failing_places(failing) == (Place("pkg/b.py", "", 20), Place("pkg/a.py", "", 10))
