from __future__ import annotations

import math

import pytest

from agentforge.core.paths import is_test_path
from agentforge.search.batch import Observation
from agentforge.search.hints import Hints
from agentforge.search.localize import localize, ochiai
from agentforge.search.source import Edit, Source

CODE = b"""def f(x):
    if x:
        y = (
            x
            + 1
        )
    else:
        y = 0
    return y
"""


def test_ochiai_is_the_published_coefficient() -> None:
    assert ochiai(2, 0, 2) == 1.0
    assert ochiai(1, 3, 2) == pytest.approx(1 / math.sqrt(2 * 4))
    assert ochiai(0, 5, 2) == 0.0
    assert ochiai(0, 0, 0) == 0.0


def observations() -> list[Observation]:
    return [
        Observation(
            "t::bad", "failed", lines={"m.py": (2, 3, 9)}, exception="TypeError", frames=(("m.py", 3, "f"),)
        ),
        Observation("t::good", "passed", lines={"m.py": (2, 8, 9)}),
    ]


def test_lines_only_the_failing_test_runs_come_first() -> None:
    lines = localize(observations(), ["t::bad"], {"m.py": Source("m.py", CODE)})
    assert lines[0].line == 3
    assert "traceback" in " ".join(lines[0].why)
    scores = {line.line: line.score for line in lines}
    assert scores[3] > scores[2] == scores[9]
    assert 8 not in scores


def test_a_statement_over_several_lines_is_suspected_on_each() -> None:
    scores = {
        line.line: line.score for line in localize(observations(), ["t::bad"], {"m.py": Source("m.py", CODE)})
    }
    assert {3, 4, 5, 6} <= set(scores)
    assert scores[4] == scores[5] == 1.0


def test_names_in_the_issue_and_definitions_count() -> None:
    source = {"m.py": Source("m.py", CODE)}
    plain = {line.line: line.score for line in localize(observations(), ["t::bad"], source)}
    renamed = {"m.py": Source("m.py", CODE.replace(b"def f(", b"def compute("))}
    named = {
        line.line: line.score for line in localize(observations(), ["t::bad"], renamed, "compute is wrong")
    }
    assert named[9] > plain[9]
    assert 0 < plain[1] < plain[3]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("pkg/test_a.py", True),
        ("pkg/a_test.py", True),
        ("conftest.py", True),
        ("pkg/a.py", False),
        ("latest/a.py", False),
    ],
)
def test_test_files_are_told_from_sources(path: str, expected: bool) -> None:
    assert is_test_path(path) is expected


def test_a_none_failure_favours_none_guards_where_it_was_raised() -> None:
    message = "'NoneType' object has no attribute 'n'"
    seen = Observation("t", "failed", exception="AttributeError", message=message, frames=(("m.py", 2, "f"),))
    hints = Hints([seen])
    guard = Edit("m.py", 0, 0, b"x is None or y", "weaken", 0.3, 2)
    elsewhere = Edit("m.py", 0, 0, b"x is None or y", "weaken", 0.3, 7)
    assert hints.factor(guard) > hints.factor(elsewhere) > 1.0
    assert hints.factor(Edit("m.py", 0, 0, b"a", "clamp", 0.3, 2)) == 1.0
