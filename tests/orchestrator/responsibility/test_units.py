"""Every line belongs to one unit, and every changed line of a patch to one run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.core.tree import TreeFile
from agentforge.orchestrator.responsibility.hunks import changed_lines, changed_runs
from agentforge.orchestrator.responsibility.units import changed_units, unit_at, unit_code, units_of_lines
from agentforge.repo.patch import apply_answer
from agentforge.repo.workspace import GitWorkspace
from tests.orchestrator.responsibility.helpers import tree

SOURCE = b'''"""Doc."""

import os

LIMIT = 3


# About f.
@cache
def f(x):
    def inner():
        return x

    return inner


class A:
    """Doc of A."""

    size = 1

    def g(self):
        return 2

    class B:
        def h(self):
            return 3
'''


def test_each_line_has_one_unit() -> None:
    units = units_of_lines("m.py", SOURCE)
    assert len(units) == SOURCE.count(b"\n")
    assert set(units) == {"m.py", "m.py::f", "m.py::A", "m.py::A.g", "m.py::A.B", "m.py::A.B.h"}
    line = {text: number for number, text in enumerate(SOURCE.decode().split("\n"), 1)}
    assert unit_at("m.py", SOURCE, line["# About f."]) == "m.py::f"
    assert unit_at("m.py", SOURCE, line["        return x"]) == "m.py::f"
    assert unit_at("m.py", SOURCE, line["    size = 1"]) == "m.py::A"
    assert unit_at("m.py", SOURCE, line["LIMIT = 3"]) == "m.py"
    assert unit_at("m.py", SOURCE, 999) is None


def test_other_files_are_one_unit() -> None:
    assert units_of_lines("a.txt", b"one\ntwo") == ("a.txt", "a.txt")
    assert unit_code("a.txt", b"one\ntwo\n") == {"a.txt": b"one\ntwo"}


def test_blank_lines_around_code_are_nobodys() -> None:
    one = unit_code("m.py", b"def f():\n    return 1\n")
    other = unit_code("m.py", b"def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    assert changed_units(one, other) == ("m.py::g",)


pieces = st.lists(
    st.sampled_from(
        ["def f():\n    return 1\n", "x = 1\n", "\n", "class A:\n    def g(self):\n        pass\n"]
    ),
    max_size=6,
).map("".join)


@given(pieces)
@settings(max_examples=100, deadline=None)
def test_every_line_that_is_not_blank_is_in_the_code_of_its_unit(text: str) -> None:
    code = unit_code("m.py", text.encode())
    kept = sorted(line for data in code.values() for line in data.split(b"\n") if line.strip())
    assert kept == sorted(line for line in text.encode().split(b"\n") if line.strip())


@pytest.mark.parametrize(
    ("after", "units"),
    [
        (SOURCE.replace(b"return x", b"return x + 1"), ["m.py::f"]),
        (SOURCE.replace(b"return 2", b"return 4").replace(b"LIMIT = 3", b"LIMIT = 4"), ["m.py", "m.py::A.g"]),
        (
            SOURCE.replace(
                b"        return 2\n\n    class B:\n        def h",
                b"        return 5\n\n    class C:\n        def k",
            ),
            ["m.py::A.g", "m.py::A.B", "m.py::A.B.h", "m.py::A.C", "m.py::A.C.k"],
        ),
        (SOURCE + b"\n\ndef new():\n    return 1\n", ["m.py::new"]),
    ],
)
def test_the_changed_lines_of_a_patch_lie_in_one_run_each(
    tmp_path: Path, after: bytes, units: list[str]
) -> None:
    base = tree(m=SOURCE.decode())
    changes = {"m.py": TreeFile(after)}
    with GitWorkspace(base, tmp_path) as workspace:
        patch = workspace.diff(changes)
    runs = changed_runs(patch.diff, base, base.with_changes(changes))
    assert sorted({run.unit for run in runs}) == sorted(units)
    lines = [line for run in runs for line in run.lines]
    assert lines == list(changed_lines(patch.diff))
    assert (sum(1 for line in lines if line.new), sum(1 for line in lines if line.old)) == (
        patch.added,
        patch.removed,
    )
    rows = after.split(b"\n")
    assert all(rows[line.new - 1] == line.text for line in lines if line.new)


@given(
    st.lists(st.sampled_from([b"a", b"b", b"--- c", b"+++ d", b"@@ -1 +1 @@", b""]), max_size=12),
    st.lists(st.sampled_from([b"a", b"b", b"--- c", b"+++ d", b"@@ -1 +1 @@", b""]), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_lines_that_look_like_headers_are_lines(one: list[bytes], other: list[bytes]) -> None:
    import tempfile

    before, after = b"\n".join(one) + b"\n", b"\n".join(other) + b"\n"
    if before == after:
        return
    base = tree(m=before.decode())
    with tempfile.TemporaryDirectory() as scratch, GitWorkspace(base, Path(scratch)) as workspace:
        patch = workspace.diff({"m.py": TreeFile(after)})
    found = list(changed_lines(patch.diff))
    assert (sum(1 for line in found if line.new), sum(1 for line in found if line.old)) == (
        patch.added,
        patch.removed,
    )
    assert apply_answer(patch.diff, base).changes["m.py"].data == after
