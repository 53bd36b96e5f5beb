"""Counts that are too large must not swallow the header of the next file."""

from __future__ import annotations

import pytest

from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.patch import apply_answer

TREE = Tree({"a.py": TreeFile(b"one\ntwo\nthree\n"), "b.py": TreeFile(b"four\nfive\n")})


@pytest.mark.parametrize("counts", ["-1,3 +1,3", "-1,2 +1,2", "-1,4 +1,4", "-1,9 +1,9", "-1,1 +1,1"])
@pytest.mark.parametrize("names", [("a/b.py", "b/b.py"), ("b.py", "b.py")])
def test_a_second_file_is_seen_whatever_the_counts_say(counts: str, names: tuple[str, str]) -> None:
    diff = (
        f"--- a/a.py\n+++ b/a.py\n@@ {counts} @@\n one\n-two\n+TWO\n"
        f"--- {names[0]}\n+++ {names[1]}\n@@ -1,2 +1,2 @@\n four\n-five\n+FIVE\n"
    )
    changes = apply_answer(diff, TREE).changes
    assert {path: entry.data for path, entry in changes.items() if entry} == {
        "a.py": b"one\nTWO\nthree\n",
        "b.py": b"four\nFIVE\n",
    }


def test_lines_that_begin_with_two_dashes_are_still_removed() -> None:
    tree = Tree({"q.sql": TreeFile(b"-- old\nselect 1\n")})
    diff = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n select 1\n"
    entry = apply_answer(diff, tree).changes["q.sql"]
    assert entry is not None
    assert entry.data == b"++ new\nselect 1\n"
