"""Values compare by type as well, and what came has no say in it (pitfalls B1, B2: EG-22 and others)."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from agentforge.repo.problem.inside import agentforge_check
from agentforge.repo.problem.inside.agentforge_check import entry, exactly, names, printed, same

NAN, INF = float("nan"), float("inf")
Pair = namedtuple("Pair", "a b")

SAME = [
    (1, 1), (True, True), (1.0, 1), (1.0, 1.0 + 1e-12), (NAN, NAN), (INF, INF), ([1, 2], [1, 2]),
    ((1, 2), (1, 2)), ((1, 2), Pair(1, 2)), ({1, 2}, {2, 1}), ({1: "a"}, {1: "a"}), ("é", "é"), (None, None),
    ({"k": [1.0]}, {"k": [1]}), ([{1}, {2}], [{1}, {2}]), (b"x", b"x"),
]  # fmt: skip
OTHER = [
    (1, True), (True, 1), (0, False), (1, 1.0), (1.0, True), (1.0, "1.0"), ([1, 2], (1, 2)), ((1, 2), [1, 2]),
    ([1, 2], [2, 1]), ({1}, [1]), ({1: "a"}, {"1": "a"}), ({1: "a"}, {True: "a"}), ({1}, {1.0}),
    (1.0, NAN), (NAN, 1.0), (1.0, 1.001), ([1], [1, 1]), (None, False), ("1", 1), ("", None),
    ({1, 2}, "{1, 2}"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "got"), SAME, ids=repr)
def test_eg22_equal_by_value_and_type(expected: Any, got: Any) -> None:
    assert same(expected, got)


@pytest.mark.parametrize(("expected", "got"), OTHER, ids=repr)
def test_eg22_different_by_value_or_type(expected: Any, got: Any) -> None:
    assert not same(expected, got)


def test_order_counts_unless_the_problem_says_otherwise() -> None:
    assert same([1, 2, 2], [2, 1, 2], unordered=True)
    assert not same([1, 2, 2], [1, 1, 2], unordered=True)
    assert not same([1, True], [1, 1], unordered=True)
    assert same([[1], [2]], [[2], [1]], unordered=True)
    assert not same([1], (1,), unordered=True)


def test_what_json_could_not_say_is_forgiven_where_it_is_marked() -> None:
    assert same([1, [2]], (1, (2,)), loose=True)
    assert not same([1], (True,), loose=True)


def test_a_result_cannot_declare_itself_equal() -> None:
    class Agreeable:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    assert exactly(1) != Agreeable()
    assert exactly([1]) != [Agreeable()]
    assert printed("1") != Agreeable()


def test_af12_printed_lines_are_compared_and_not_searched_for() -> None:
    assert printed("1\n2\n") == "1 \n2"
    assert printed("1") != "11"
    assert printed("no") != "there is no way"
    assert printed("1\n2") != "2\n1"
    assert printed("0.5 x", tolerance=1e-6) == "0.50000001 x"
    assert printed("0.5") != "0.50"


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """Where a test file of the solution would be."""
    (tmp_path / "tests").mkdir()
    return tmp_path / "tests/test_x.py"


def solution(beside: Path, text: str) -> str:
    (beside.parent.parent / "solution.py").write_text(text)
    agentforge_check._loaded.clear()
    return str(beside)


def test_eg23_other_names_are_found_where_they_are_without_doubt(beside: Path) -> None:
    file = solution(beside, "import os\n\ndef findOrder(n):\n    return n\n\ndef _help():\n    pass\n")
    assert entry(file, "find_order")(3) == 3
    assert entry(file, "topological")(3) == 3
    file = solution(beside, "class LRUCache:\n    pass\n")
    assert entry(file, "LruCache").__name__ == "LRUCache"
    file = solution(beside, "def one():\n    pass\n\ndef two():\n    pass\n")
    with pytest.raises(AttributeError, match="defines no three"):
        entry(file, "three")


def test_what_a_solution_calls_a_test_is_none(beside: Path) -> None:
    file = solution(beside, "def test_hidden_1():\n    pass\n\ndef help(): pass\n\nexactly = None\n")
    assert "test_hidden_1" not in names(file)
    assert "help" in names(file)
