"""Same failure, same place: the next strategy, in order, then stop."""

from __future__ import annotations

import time

import pytest

from agentforge.agents.deadlock import (
    Attempt,
    Strategy,
    edit_places,
    failure_signature,
    next_strategy,
    normalise,
)
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.tree import Tree, TreeFile
from tests.agents.scripted import CALC, TREE, tree_of

A = Attempt(signature="x", places=("a.py::f",))
B = Attempt(signature="y", places=("a.py::f",))
C = Attempt(signature="x", places=("b.py::g",))
BOTH = Attempt(signature="x", places=("a.py::f", "b.py::g"))


@pytest.mark.parametrize(
    ("attempts", "strategy"),
    [
        ([], Strategy.NORMAL),
        ([A], Strategy.NORMAL),
        ([A, B], Strategy.NORMAL),
        ([A, C], Strategy.NORMAL),
        ([A, BOTH], Strategy.NORMAL),
        ([BOTH, A], Strategy.WIDER_CONTEXT),
        ([A, A], Strategy.WIDER_CONTEXT),
        ([A, B, A], Strategy.WIDER_CONTEXT),
        ([A, A, A], Strategy.OTHER_PLACE),
        ([A, A, B], Strategy.NORMAL),
        ([A, A, C, C], Strategy.OTHER_PLACE),
        ([A, A, A, A], Strategy.HIGHER_TEMPERATURE),
        ([A, A, A, A, A], Strategy.STOP),
        ([A] * 9, Strategy.STOP),
    ],
)
def test_strategies_follow_each_other(attempts, strategy):
    decision = next_strategy(attempts)
    assert decision.strategy is strategy
    assert decision.deadlock is (strategy is not Strategy.NORMAL)


def test_the_decision_names_what_failed():
    decision = next_strategy([A, C, A])
    assert decision.signature == "x"
    assert decision.failed_places == ("a.py::f", "b.py::g")


def failing(message: str, *, test: str = "t::a", exception: str = "ValueError") -> TestReport:
    return TestReport(
        outcomes={test: Outcome.FAILED, "t::ok": Outcome.PASSED},
        failures={test: TestFailure(exception=exception, message=message)},
    )


def test_signature_ignores_what_varies_between_runs():
    first = failing("<Foo at 0x7f01> in /tmp/x1/run/a.py:31 after 0.31s, line 4")
    second = failing("<Foo at 0x7eee> in /tmp/y2/run/a.py:44 after 0.99s, line 9")
    assert failure_signature(first) == failure_signature(second)


def test_signature_tells_failures_apart():
    signatures = {
        failure_signature(failing("a")),
        failure_signature(failing("b")),
        failure_signature(failing("a", test="t::b")),
        failure_signature(failing("a", exception="KeyError")),
        failure_signature(TestReport(cause=Cause.TIMEOUT)),
        failure_signature(TestReport()),
    }
    assert len(signatures) == 6
    assert failure_signature(failing("a")).startswith("ValueError in 1 tests #")


def test_normalise_keeps_values():
    assert normalise("assert 3 ==  4") == "assert 3 == 4"
    assert normalise("assert -1 == 5") != normalise("assert 0 == 5")


def test_edit_places_of_a_large_file_take_no_time():
    lines = ["\n"] * 30_000 + ["x = 1\n"] + ["\n"] * 30_000
    base = tree_of({"a.py": "".join(lines)})
    lines[30_000] = "x = 2\n"
    started = time.monotonic()
    assert edit_places(base, tree_of({"a.py": "".join(lines)})) == ("a.py:30001",)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("a\nb\n", "a\nb\nc\n", ("f:3",)),
        ("a\nb\n", "b\n", ("f:1",)),
        ("a\n", "a\na\n", ("f:2",)),
        ("", "x\n", ("f:1",)),
    ],
)
def test_edit_places_of_insertions_and_deletions(old, new, places):
    assert edit_places(tree_of({"f": old}), tree_of({"f": new})) == places


def changed(path: str, text: str | None) -> Tree:
    return TREE.with_changes({path: None if text is None else TreeFile(text.encode())})


@pytest.mark.parametrize(
    ("path", "text", "places"),
    [
        ("pkg/calc.py", CALC.replace("a - b", "a + b"), ("pkg/calc.py::add",)),
        ("pkg/calc.py", CALC.replace("result = 0\n", "result = 1\n"), ("pkg/calc.py::Box.total",)),
        ("pkg/calc.py", CALC.replace('"""Arithmetic."""', '"""Sums."""'), ("pkg/calc.py:1",)),
        (
            "pkg/calc.py",
            CALC.replace("a - b", "a + b").replace("add(a, a)", "2 * a"),
            ("pkg/calc.py::add", "pkg/calc.py::double"),
        ),
        ("README.md", "y\n", ("README.md:1",)),
        ("README.md", None, ("README.md",)),
        ("new.py", "x\n", ("new.py",)),
        ("pkg/calc.py", CALC, ()),
    ],
)
def test_edit_places(path, text, places):
    assert edit_places(TREE, changed(path, text)) == places
