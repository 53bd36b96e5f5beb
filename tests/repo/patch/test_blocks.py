"""Rules 9, 10 and 12 for SEARCH/REPLACE and JSON: which block counts, dividers, empties, cuts."""

from __future__ import annotations

import json

import pytest

from tests.repo.patch.support import Case, block, check, diff, ids

FILE = {"f.py": "a\nb\nc\n"}
DONE = {"f.py": "a\nB\nc\n"}
TWO = {"f.py": "a\nb\nc\n", "g.py": "x\ny\n"}
EDIT = block("b\n", "B\n")

FENCES = [
    Case(
        "tildes with backticks inside",
        {"f.md": "a\nb\n"},
        "~~~diff\n" + diff("f.md", "@@ -1,2 +1,4 @@\n a\n-b\n+B\n+```\n+```\n") + "~~~\n",
        {"f.md": "a\nB\n```\n```\n"},
    ),
    Case(
        "four backticks with three inside",
        FILE,
        "````markdown\nSee\n```diff\n" + diff("f.py", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n") + "```\n````\n",
        DONE,
    ),
    Case(
        "fence in the context of an unfenced diff",
        {"f.md": "a\n```\nb\n```\n"},
        diff("f.md", "@@ -1,4 +1,4 @@\n a\n ```\n-b\n+B\n ```\n"),
        {"f.md": "a\n```\nB\n```\n"},
    ),
    Case(
        "fence in the context of a fenced diff",
        {"f.md": "a\n```\nb\n```\n"},
        "```diff\n" + diff("f.md", "@@ -1,4 +1,4 @@\n a\n ```\n-b\n+B\n ```\n") + "```\n",
        {"f.md": "a\n```\nB\n```\n"},
    ),
    Case(
        "diff fences for two files",
        TWO,
        "```diff\n"
        + diff("f.py", "@@ -2 +2 @@\n-b\n+B\n")
        + "```\nand\n```diff\n"
        + diff("g.py", "@@ -1 +1 @@\n-x\n+X\n")
        + "```\n",
        {**DONE, "g.py": "X\ny\n"},
    ),
    Case(
        "diff fences for two places",
        FILE,
        "```diff\n"
        + diff("f.py", "@@ -2 +2 @@\n-b\n+B\n")
        + "```\nand\n```diff\n"
        + diff("f.py", "@@ -1 +1 @@\n-a\n+A\n")
        + "```\n",
        {"f.py": "A\nB\nc\n"},
    ),
    Case(
        "diff fences for the same lines: the last",
        FILE,
        "First try:\n```diff\n"
        + diff("f.py", "@@ -2 +2 @@\n-b\n+WRONG\n")
        + "```\nBetter:\n```diff\n"
        + diff("f.py", "@@ -2 +2 @@\n-b\n+B\n")
        + "```\n",
        DONE,
    ),
    Case(
        "blocks for the same lines: the last",
        FILE,
        block("a\nb\n", "A\nb\n", "f.py") + "No, rather\n" + block("a\nb\n", "a\nB\n", "f.py"),
        DONE,
    ),
    Case(
        "blocks for different lines",
        FILE,
        block("a\n", "A\n", "f.py") + block("b\n", "B\n"),
        {"f.py": "A\nB\nc\n"},
    ),
    Case(
        "blocks that share context",
        {"f.py": "a\nb\nc\nd\ne\n"},
        block("a\nb\nc\n", "A\nb\nc\n", "f.py") + block("c\nd\n", "c\nD\n"),
        {"f.py": "A\nb\nc\nD\ne\n"},
    ),
    Case(
        "blocks that build on one another",
        FILE,
        block("b\n", "x\ny\n", "f.py") + block("y\n", "z\n"),
        {"f.py": "a\nx\nz\nc\n"},
    ),
    Case(
        "blocks for two files",
        TWO,
        block("b\n", "B\n", "f.py") + "\n" + block("x\n", "X\n", "g.py"),
        {**DONE, "g.py": "X\ny\n"},
    ),
    Case("fenced block, path in front of the fence", TWO, "f.py\n```python\n" + EDIT + "```\n", DONE),
    Case("fenced block, path in the fence", TWO, "```python\nf.py\n" + EDIT + "```\n", DONE),
    Case("fenced block, path as title", TWO, "### `f.py`\n\n```python\n" + EDIT + "```\n", DONE),
    Case("fenced block, labelled path", TWO, "**File: f.py**\n```\n" + EDIT + "```\n", DONE),
    Case("fenced block, path in the info", TWO, "```python f.py\n" + EDIT + "```\n", DONE),
    Case("path behind the marker", TWO, EDIT.replace("SEARCH", "SEARCH f.py"), DONE),
    Case(
        "path of the block before goes on",
        TWO,
        block("b\n", "B\n", "f.py") + "Then:\n" + block("c\n", "C\n"),
        {"f.py": "a\nB\nC\n"},
    ),
    Case("no path, a target", TWO, "I change it.\n" + EDIT, DONE, target="f.py"),
    Case("no path, no target, one file", FILE, EDIT, DONE),
    Case("no path, no target, two files", TWO, EDIT, reason="malformed"),
    Case("aider's other labels", TWO, "f.py\n<<<<<<< ORIGINAL\nb\n=======\nB\n>>>>>>> UPDATED\n", DONE),
    Case("shorter and longer marks", TWO, "f.py\n<<<<<< SEARCH\nb\n======\nB\n>>>>>> REPLACE\n", DONE),
]

FENCES += [
    Case(
        "two attempts without fences: the last",
        FILE,
        diff("f.py", "@@ -2 +2 @@\n-b\n+X\n") + "\nBetter:\n\n" + diff("f.py", "@@ -2 +2 @@\n-b\n+B\n"),
        DONE,
    ),
    Case("the same diff twice", FILE, diff("f.py", "@@ -2 +2 @@\n-b\n+B\n") * 2, DONE),
    Case(
        "second fence without a header",
        FILE,
        "```diff\n"
        + diff("f.py", "@@ -1 +1 @@\n-a\n+A\n")
        + "```\nthen\n```diff\n@@ -3 +3 @@\n-c\n+C\n```\n",
        {"f.py": "A\nb\nC\n"},
    ),
    Case(
        "diff fence inside a list",
        FILE,
        "1. x\n   ```diff\n   --- a/f.py\n   +++ b/f.py\n"
        "   @@ -1,3 +1,3 @@\n    a\n   -b\n   +B\n    c\n   ```\n",
        DONE,
    ),
]

BLOCKS = [
    Case("clean", FILE, EDIT, DONE, format="search_replace"),
    Case("empty SEARCH makes a file", FILE, block("", "x = 1\n", "pkg/n.py"), {"pkg/n.py": "x = 1\n"}),
    Case("empty SEARCH appends", FILE, block("", "d\ne\n", "f.py"), {"f.py": "a\nb\nc\nd\ne\n"}),
    Case(
        "empty SEARCH appends to CRLF",
        {"f.py": "a\r\n"},
        block("", "d\ne\n", "f.py"),
        {"f.py": "a\r\nd\r\ne\r\n"},
    ),
    Case("empty SEARCH appends once", {"f.py": "a\nd\n"}, block("", "d\n", "f.py"), reason="already_applied"),
    Case("empty SEARCH, empty file", {"f.py": ""}, block("", "d\n", "f.py"), {"f.py": "d\n"}),
    Case("empty REPLACE deletes the lines", FILE, block("b\n", "", "f.py"), {"f.py": "a\nc\n"}),
    Case("both empty", FILE, block("", "", "f.py"), reason="malformed"),
    Case("no divider", FILE, "f.py\n<<<<<<< SEARCH\nb\n>>>>>>> REPLACE\n", reason="malformed"),
    Case("no divider, no end", FILE, "f.py\n<<<<<<< SEARCH\nb\n", reason="malformed"),
    Case("no end", FILE, "f.py\n<<<<<<< SEARCH\nb\n=======\nB\n", reason="partial"),
    Case(
        "next block before the end",
        FILE,
        "f.py\n<<<<<<< SEARCH\nb\n=======\nB\n<<<<<<< SEARCH\na\n=======\nA\n>>>>>>> REPLACE\n",
        reason="malformed",
    ),
    Case("twins", {"f.py": "a\nb\na\n"}, block("a\n", "A\n", "f.py"), reason="ambiguous"),
    Case("a line, not a part of one", {"f.py": "ab\nb\n"}, block("b\n", "B\n", "f.py"), {"f.py": "ab\nB\n"}),
    Case("missing file", FILE, block("a\n", "A\n", "g.py"), reason="no_match"),
    Case(
        "heading underlined like a divider",
        {"f.rst": "Old\n=======\ntext\n"},
        block("Old\n=======\n", "New\n=======\n", "f.rst"),
        {"f.rst": "New\n=======\ntext\n"},
    ),
    Case(
        "underline of another length",
        {"f.rst": "Old\n===\ntext\n"},
        block("Old\n===\n", "Newer\n=====\n", "f.rst"),
        {"f.rst": "Newer\n=====\ntext\n"},
    ),
    Case(
        "underline only in SEARCH",
        {"f.rst": "Old\n=======\ntext\n"},
        block("Old\n=======\n", "New\n", "f.rst"),
        {"f.rst": "New\ntext\n"},
    ),
    Case(
        "line above and below",
        {"f.rst": "=======\nOld\n=======\n"},
        block("=======\nOld\n=======\n", "=======\nNew\n=======\n", "f.rst"),
        {"f.rst": "=======\nNew\n=======\n"},
    ),
    Case(
        "underline only in REPLACE",
        {"f.rst": "Old\ntext\n"},
        block("Old\n", "New\n=======\n", "f.rst"),
        {"f.rst": "New\n=======\ntext\n"},
    ),
    Case(
        "conflict markers resolved",
        {"f.py": "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\nc\n"},
        block("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n", "a\n", "f.py"),
        {"f.py": "a\nc\n"},
    ),
    Case(
        "rest unchanged in REPLACE",
        FILE,
        block("a\n", "A\n# ... rest of the code unchanged ...\n", "f.py"),
        reason="partial",
    ),
    Case(
        "a comment about the rest is no sign",
        FILE,
        block("a\n", "# the rest of the list is sorted below\nA\n", "f.py"),
        {"f.py": "# the rest of the list is sorted below\nA\nb\nc\n"},
    ),
    Case(
        "a comment the file has is no sign",
        {"f.py": "# rest unchanged\nb\n"},
        block("# rest unchanged\nb\n", "B\n# rest unchanged\n", "f.py"),
        {"f.py": "B\n# rest unchanged\n"},
    ),
    Case("dots only in REPLACE", FILE, block("a\nb\nc\n", "A\n...\nc\n", "f.py"), reason="partial"),
    Case(
        "dots as a body are code",
        FILE,
        block("a\n", "def a():\n    ...\n", "f.py"),
        {"f.py": "def a():\n    ...\nb\nc\n"},
    ),
    Case("open fence, closed block", FILE, "f.py\n```python\n" + EDIT, DONE),
]


def edit(old: str, new: str, **more: str) -> str:
    return json.dumps({"old": old, "new": new, **more})


JSON = [
    Case("bare", FILE, edit("b", "B"), DONE, format="json"),
    Case("with a path", TWO, edit("b", "B", path="f.py"), DONE),
    Case("with a file", TWO, edit("b", "B", file="f.py"), DONE),
    Case("target", TWO, edit("b", "B"), DONE, target="f.py"),
    Case("fenced, prose around", FILE, "Sure:\n```json\n" + edit("b", "B") + "\n```\nDone.\n", DONE),
    Case("in prose", FILE, "I suggest " + edit("b", "B") + " as the fix.", DONE),
    Case(
        "a list",
        TWO,
        json.dumps([{"path": "f.py", "old": "b", "new": "B"}, {"path": "g.py", "old": "x", "new": "X"}]),
        {**DONE, "g.py": "X\ny\n"},
    ),
    Case(
        "under edits",
        TWO,
        json.dumps({"path": "f.py", "edits": [{"old": "a", "new": "A"}, {"old": "b", "new": "B"}]}),
        {"f.py": "A\nB\nc\n"},
    ),
    Case("several in prose", FILE, f"First {edit('a', 'A')} then {edit('b', 'B')}.", {"f.py": "A\nB\nc\n"}),
    Case("trailing comma", FILE, '{"old": "b", "new": "B",}', DONE),
    Case("raw newline in a string", FILE, '{"old": "a\nb", "new": "a\nB"}', DONE),
    Case("inside a line", {"f.py": "x = foo(1)\n"}, edit("foo(1)", "bar(2)"), {"f.py": "x = bar(2)\n"}),
    Case(
        "over lines, from inside one to inside another",
        {"f.py": "x = foo(\n    1)\ny\n"},
        edit("foo(\n    1", "bar(\n    2"),
        {"f.py": "x = bar(\n    2)\ny\n"},
    ),
    Case(
        "one line to many",
        {"f.py": "def f():\n    pass\n"},
        edit("def f():", "def f():\n    x = 1"),
        {"f.py": "def f():\n    x = 1\n    pass\n"},
    ),
    Case("with final newlines", FILE, edit("b\n", "B\n"), DONE),
    Case("old with a final newline, new without", FILE, edit("b\n", "B"), DONE),
    Case("deletes a line", FILE, edit("b\n", ""), {"f.py": "a\nc\n"}),
    Case("deletes a line without its newline", FILE, edit("b", ""), {"f.py": "a\nc\n"}),
    Case("deletes a part of a line", {"f.py": "x = 1  # no\n"}, edit("  # no", ""), {"f.py": "x = 1\n"}),
    Case("old is empty: new file", FILE, edit("", "x = 1\n", path="n.py"), {"n.py": "x = 1\n"}),
    Case("old is empty: append", FILE, edit("", "d\n", path="f.py"), {"f.py": "a\nb\nc\nd\n"}),
    Case("several places", {"f.py": "a\nb\na\n"}, edit("a", "A"), reason="ambiguous"),
    Case("nowhere", FILE, edit("zzz", "A"), reason="no_match"),
    Case(
        "uniform shift",
        {"f.py": "if x:\n    a = 1\n    b = 2\n"},
        edit("a = 1\nb = 2", "a = 1\nb = 3"),
        {"f.py": "if x:\n    a = 1\n    b = 3\n"},
    ),
    Case("not strings", FILE, '{"old": 1, "new": 2}', reason="malformed"),
    Case("new is missing", FILE, '{"old": "a"}', reason="malformed"),
    Case("cut", FILE, '{"old": "b", "new": "B', reason="partial"),
    Case("cut list", FILE, '[{"old": "b", "new": "B"}, {"old": "c", "new": "C', reason="partial"),
    Case("broken", FILE, '{"old": "b" "new": "B"}', reason="malformed"),
    Case(
        "same lines twice: the last",
        FILE,
        json.dumps([{"old": "b", "new": "WRONG"}, {"old": "b", "new": "B"}]),
        DONE,
    ),
    Case(
        "one of two fits",
        FILE,
        json.dumps([{"old": "b", "new": "B"}, {"old": "zz", "new": "B"}]),
        reason="partial",
    ),
    Case("placeholder", FILE, edit("b", "B\n# ... existing code ..."), reason="partial"),
    Case("last line without newline", {"f.py": "a\nb"}, edit("b", "B"), {"f.py": "a\nB"}),
    Case(
        "code that contains SEARCH markers",
        {"f.py": "m = '<<<<<<< SEARCH'\n"},
        edit("m = '<<<<<<< SEARCH'", "m = '<<<<<<<'"),
        {"f.py": "m = '<<<<<<<'\n"},
    ),
]


@pytest.mark.parametrize("case", FENCES, ids=ids(FENCES))
def test_fences(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", BLOCKS, ids=ids(BLOCKS))
def test_search_replace(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", JSON, ids=ids(JSON))
def test_json(case: Case) -> None:
    check(case)
