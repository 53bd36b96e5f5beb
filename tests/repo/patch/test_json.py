"""JSON edits: several to a line, several to an answer, and lists that are not what they should be."""

from __future__ import annotations

import json

import pytest

from tests.repo.patch.support import Case, block, check, diff, ids, numbered

TEXT = numbered(60)
ONE = json.dumps({"path": "f.py", "old": "line 30\n", "new": "X\n"})
TWO = json.dumps({"path": "f.py", "old": "line 40\n", "new": "Y\n"})
BOTH = numbered(60, n30="X", n40="Y")
PATCH = diff("f.py", "@@ -30 +30 @@\n-line 30\n+X\n")
CODE = "def f():\n    return 1\n"
SR = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"


def edits(*pairs: tuple[str, str]) -> str:
    return json.dumps([{"path": "f.py", "old": old, "new": new} for old, new in pairs])


CASES = [
    Case(
        "two edits of one line", {"f.py": "a b c d\n"}, edits(("a", "A"), ("c", "C")), {"f.py": "A b C d\n"}
    ),
    Case(
        "three edits of one line, in any order",
        {"f.py": "f(a, b, c)\n"},
        edits(("c)", "z)"), ("a,", "x,"), ("b,", "y,")),
        {"f.py": "f(x, y, z)\n"},
    ),
    Case(
        "an edit over a line break beside another",
        {"f.py": "a b\nc d\n"},
        edits(("b\nc", "B\nC"), ("d", "D")),
        {"f.py": "a B\nC D\n"},
    ),
    Case(
        "two edits of the last line, without its newline",
        {"f.py": "q\na b"},
        edits(("b", "B"), ("a", "A")),
        {"f.py": "q\nA B"},
    ),
    Case(
        "the same text twice, the last", {"f.py": "a b\n"}, edits(("a", "X"), ("a", "Y")), {"f.py": "Y b\n"}
    ),
    Case("a later edit that covers", {"f.py": "a b c\n"}, edits(("b", "X"), ("a b", "Y")), {"f.py": "Y c\n"}),
    Case("edits that overlap", {"f.py": "a b c d\n"}, edits(("a b", "A"), ("b c", "C")), reason="partial"),
    Case("two fences", {"f.py": TEXT}, f"a\n```json\n{ONE}\n```\nb\n```json\n{TWO}\n```\n", {"f.py": BOTH}),
    Case("one edit a line", {"f.py": TEXT}, f"{ONE}\n{TWO}\n", {"f.py": BOTH}),
    Case(
        "an entry without old", {"f.py": TEXT}, f'[{ONE}, {{"path": "f.py", "new": "z"}}]', reason="malformed"
    ),
    Case("an entry of text", {"f.py": TEXT}, f'[{ONE}, "and so on"]', reason="malformed"),
    Case(
        "a diff and JSON for different places",
        {"f.py": TEXT},
        f"```diff\n{PATCH}```\n```json\n{TWO}\n```\n",
        reason="malformed",
    ),
    Case(
        "a diff and JSON that say the same",
        {"f.py": TEXT},
        f"```diff\n{PATCH}```\n```json\n{ONE}\n```\n",
        {"f.py": numbered(60, n30="X")},
    ),
    Case(
        "SEARCH/REPLACE and a diff for different places",
        {"f.py": TEXT},
        f"```diff\n{PATCH}```\n" + block("line 40\n", "Y\n", "f.py"),
        reason="malformed",
    ),
    Case(
        "SEARCH/REPLACE and a diff of a state that is not there",
        {"f.py": TEXT},
        f"```diff\n{PATCH.replace('-line 30', '-other')}```\n" + block("line 40\n", "Y\n", "f.py"),
        {"f.py": numbered(60, n40="Y")},
    ),
    Case("a list cut after a comma", {"f.py": TEXT}, f"```json\n[{ONE},\n", reason="partial"),
    Case(
        "a path that is no string",
        {"f.py": TEXT},
        '{"path": 3, "old": "line 30", "new": "X"}',
        reason="malformed",
    ),
    Case("a byte order mark", {"f.py": "q\n"}, "\ufeff" + edits(("q", SR)), {"f.py": SR + "\n"}),
    Case(
        "a dictionary in code is no edit",
        {"f.py": CODE},
        '```python\ndef f():\n    return {"old": "return", "new": "b"}\n```\n',
        {"f.py": 'def f():\n    return {"old": "return", "new": "b"}\n'},
        target="f.py",
    ),
    Case(
        "a dictionary in bare code is no edit",
        {"f.py": CODE},
        'def f():\n    return {"old": "return", "new": "b"}\n',
        {"f.py": 'def f():\n    return {"old": "return", "new": "b"}\n'},
        target="f.py",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_json(case: Case) -> None:
    check(case)
