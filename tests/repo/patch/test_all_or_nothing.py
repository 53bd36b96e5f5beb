"""Rules 1 and 8: all or nothing, and no edit is no success."""

from __future__ import annotations

import pytest

from tests.repo.patch.support import Case, block, check, diff, ids

FILE = {"f.py": "a\nb\nc\n"}
HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
DONE = "a\nB\nc\n"

WHOLE = [
    Case(
        "24 second file does not fit",
        {**FILE, "h.py": "zzz\n"},
        diff("f.py", HUNK) + diff("h.py", "@@ -1 +1 @@\n-nope\n+yep\n"),
        reason="partial",
    ),
    Case(
        "second hunk does not fit",
        FILE,
        diff("f.py", "@@ -1 +1 @@\n-a\n+A\n", "@@ -3 +3 @@\n-nope\n+C\n"),
        reason="partial",
    ),
    Case(
        "second file is missing",
        FILE,
        diff("f.py", HUNK) + diff("h.py", "@@ -1 +1 @@\n-nope\n+yep\n"),
        reason="partial",
    ),
    Case(
        "second block does not fit",
        FILE,
        block("a\n", "A\n", "f.py") + block("nope\n", "C\n"),
        reason="partial",
    ),
    Case(
        "one part applied already",
        FILE,
        diff("f.py", "@@ -1 +1 @@\n-a\n+A\n", "@@ -3 +3 @@\n-old\n+c\n"),
        reason="partial",
    ),
    Case(
        "no part fits",
        FILE,
        diff("f.py", "@@ -1 +1 @@\n-x\n+A\n", "@@ -3 +3 @@\n-y\n+C\n"),
        reason="no_match",
    ),
    Case("25 already applied", {"f.py": DONE}, diff("f.py", HUNK), reason="already_applied"),
    Case(
        "already applied insertion with context on one side",
        {"f.py": "a\nn\nb\n"},
        diff("f.py", "@@ -1 +1,2 @@\n a\n+n\n"),
        reason="already_applied",
    ),
    Case(
        "already applied insertion at the top",
        {"f.py": "n\na\nb\n"},
        diff("f.py", "@@ -1,2 +1,3 @@\n+n\n a\n b\n"),
        reason="already_applied",
    ),
    Case(
        "already applied insertion in the middle",
        {"f.py": "a\nn\nb\n"},
        diff("f.py", "@@ -1,2 +1,3 @@\n a\n+n\n b\n"),
        reason="already_applied",
    ),
    Case(
        "already applied deletion",
        {"f.py": "a\nc\n"},
        diff("f.py", "@@ -1,3 +1,2 @@\n a\n-b\n c\n"),
        reason="already_applied",
    ),
    Case(
        "already applied block",
        {"f.py": DONE},
        block("a\nb\nc\n", "a\nB\nc\n", "f.py"),
        reason="already_applied",
    ),
    Case(
        "already applied insertion block",
        {"f.py": "a\nn\nb\n"},
        block("a\n", "a\nn\n", "f.py"),
        reason="already_applied",
    ),
    Case(
        "already applied JSON",
        {"f.py": "foobar\n"},
        '{"old": "foo", "new": "foobar"}',
        reason="already_applied",
    ),
    Case("no-op diff", FILE, diff("f.py", "@@ -1,3 +1,3 @@\n a\n-b\n+b\n c\n"), reason="already_applied"),
    Case(
        "no-op diff with foreign context",
        FILE,
        diff("f.py", "@@ -1,3 +1,3 @@\n x\n-b\n+b\n c\n"),
        reason="no_match",
    ),
    Case("no-op block", FILE, block("b\n", "b\n", "f.py"), reason="already_applied"),
    Case("no-op JSON", FILE, '{"old": "b", "new": "b"}', reason="already_applied"),
    Case("no-op beside an edit", FILE, block("a\n", "a\n", "f.py") + block("b\n", "B\n"), {"f.py": DONE}),
]


@pytest.mark.parametrize("case", WHOLE, ids=ids(WHOLE))
def test_whole_or_not(case: Case) -> None:
    check(case)
