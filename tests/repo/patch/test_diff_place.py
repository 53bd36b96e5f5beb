"""Rule 3 (place) and the lenient reading of diffs."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import pytest

from tests.repo.patch.support import Case, check, diff, ids, numbered

TEXT = numbered(60)
FIXED = numbered(60, n30="LINE thirty")
BODY = " line 27\n line 28\n line 29\n-line 30\n+LINE thirty\n line 31\n line 32\n line 33\n"
GIT = "diff --git a/f.py b/f.py\nindex 83db48f..bf269f4 100644\n"


def twins(count: int, changed: int = -1) -> str:
    blocks = [f"def a():\n    x = {2 if n == changed else 1}\n    return x\n\n" for n in range(count)]
    return "".join(blocks)


def twin_diff(line: int | str) -> str:
    where = f"-{line},3 +{line},3" if line else ""
    return diff("f.py", f"@@ {where} @@\n def a():\n-    x = 1\n+    x = 2\n     return x\n")


CASES = [
    Case(
        "01 clean",
        {"f.py": TEXT},
        GIT + diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY),
        {"f.py": FIXED},
        format="diff",
    ),
    Case("02 lines off by 20", {"f.py": TEXT}, diff("f.py", "@@ -47,7 +47,7 @@\n" + BODY), {"f.py": FIXED}),
    Case(
        "03 wrong counts too small",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,3 +27,3 @@\n" + BODY),
        {"f.py": FIXED},
    ),
    Case(
        "03 wrong counts too big",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,17 +27,19 @@\n" + BODY),
        {"f.py": FIXED},
    ),
    Case(
        "03 wrong counts and prose behind",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,3 +27,3 @@\n" + BODY) + "\nThis works because:\n\n- it does\n+ and so on\n",
        {"f.py": FIXED},
    ),
    Case("04 bare header", {"f.py": TEXT}, diff("f.py", "@@ @@\n" + BODY), {"f.py": FIXED}),
    Case("04 header of two signs", {"f.py": TEXT}, diff("f.py", "@@\n" + BODY), {"f.py": FIXED}),
    Case("04 header with dots", {"f.py": TEXT}, diff("f.py", "@@ ... @@\n" + BODY), {"f.py": FIXED}),
    Case(
        "04 header with a function",
        {"f.py": TEXT},
        diff("f.py", "@@ def foo(): @@\n" + BODY),
        {"f.py": FIXED},
    ),
    Case("no header at all", {"f.py": TEXT}, diff("f.py", BODY), {"f.py": FIXED}),
    Case(
        "section text", {"f.py": TEXT}, diff("f.py", "@@ -27,7 +27,7 @@ def f():\n" + BODY), {"f.py": FIXED}
    ),
    Case("17 no prefixes", {"f.py": TEXT}, "--- f.py\n+++ f.py\n@@ -27,7 +27,7 @@\n" + BODY, {"f.py": FIXED}),
    Case(
        "18 fenced, prose around",
        {"f.py": TEXT},
        "Here:\n\n```diff\n" + diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY) + "```\nThis works.\n- yes\n",
        {"f.py": FIXED},
    ),
    Case(
        "27 no final newline",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY)[:-1],
        {"f.py": FIXED},
    ),
    Case(
        "27 no final newline and wrong counts",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,9 +27,9 @@\n" + BODY)[:-1],
        {"f.py": FIXED},
    ),
    Case(
        "hunk without a file goes to the target",
        {"f.py": TEXT, "g": "x\n"},
        "@@ -27,7 +27,7 @@\n" + BODY,
        {"f.py": FIXED},
        target="f.py",
    ),
    Case(
        "hunk without a file, two files",
        {"f.py": TEXT, "g": "x\n"},
        "@@ -27,7 +27,7 @@\n" + BODY,
        reason="malformed",
    ),
    Case("21 twins, right line", {"f.py": twins(6)}, twin_diff(13), {"f.py": twins(6, 3)}),
    Case("22 twins, off by one", {"f.py": twins(6)}, twin_diff(14), {"f.py": twins(6, 3)}),
    Case("twins, a tie", {"f.py": twins(6)}, twin_diff(15), reason="ambiguous"),
    Case("twins, no number", {"f.py": twins(6)}, twin_diff(""), reason="ambiguous"),
    Case(
        "twins, offset shown by an earlier hunk",
        {"f.py": "head\n" * 1 + "unique\n" + "pad\n" * 5 + twins(6)},
        diff(
            "f.py",
            "@@ -1,1 +1,1 @@\n-unique\n+UNIQUE\n",
            "@@ -19,3 +19,3 @@\n def a():\n-    x = 1\n+    x = 2\n     return x\n",
        ),
        {"f.py": "head\nUNIQUE\n" + "pad\n" * 5 + twins(6, 3)},
    ),
    Case(
        "twins, exact number beats the shown offset",
        {"f.py": "head\nunique\n" + "pad\n" * 5 + twins(6)},
        diff(
            "f.py",
            "@@ -6,1 +6,1 @@\n-unique\n+UNIQUE\n",
            "@@ -20,3 +20,3 @@\n def a():\n-    x = 1\n+    x = 2\n     return x\n",
        ),
        {"f.py": "head\nUNIQUE\n" + "pad\n" * 5 + twins(6, 3)},
    ),
    Case(
        "hunks in reverse order",
        {"f.py": TEXT},
        diff(
            "f.py",
            "@@ -50,2 +49,2 @@\n line 50\n-line 51\n+FIFTY\n",
            "@@ -10,2 +10,1 @@\n line 10\n-line 11\n",
        ),
        {"f.py": numbered(60, n51="FIFTY").replace("line 11\n", "")},
    ),
    Case(
        "hunks share context",
        {"f.py": numbered(9)},
        diff(
            "f.py",
            "@@ -1,4 +1,4 @@\n line 1\n-line 2\n+TWO\n line 3\n line 4\n",
            "@@ -3,4 +3,4 @@\n line 3\n line 4\n-line 5\n+FIVE\n line 6\n",
        ),
        {"f.py": numbered(9, n2="TWO", n5="FIVE")},
    ),
    Case(
        "hunks change the same line",
        {"f.py": numbered(9)},
        diff(
            "f.py", "@@ -1,2 +1,2 @@\n line 1\n-line 2\n+TWO\n", "@@ -2,2 +2,2 @@\n-line 2\n+ZWEI\n line 3\n"
        ),
        reason="partial",
    ),
    Case(
        "numbers refer to the original though the first hunk grows",
        {"f.py": twins(8)},
        diff(
            "f.py",
            "@@ -1,3 +1,6 @@\n def a():\n+    # one\n+    # two\n+    # three\n     x = 1\n     return x\n",
            "@@ -25,3 +28,3 @@\n def a():\n-    x = 1\n+    x = 2\n     return x\n",
        ),
        {"f.py": twins(8, 6).replace("def a():\n", "def a():\n    # one\n    # two\n    # three\n", 1)},
    ),
    Case(
        "23 blank context lost its space",
        {"f.py": "a\n\nb\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n"),
        {"f.py": "a\n\nB\n"},
    ),
    Case(
        "31 insert with one context line",
        {"f.py": TEXT},
        diff("f.py", "@@ -30,1 +30,2 @@\n line 30\n+new\n"),
        {"f.py": TEXT.replace("line 30\n", "line 30\nnew\n")},
    ),
    Case(
        "insert without context by number",
        {"f.py": numbered(5)},
        diff("f.py", "@@ -3,0 +4,1 @@\n+new\n"),
        {"f.py": "line 1\nline 2\nline 3\nnew\nline 4\nline 5\n"},
    ),
    Case(
        "insert without context or number",
        {"f.py": numbered(5)},
        diff("f.py", "@@ @@\n+new\n"),
        reason="ambiguous",
    ),
    Case(
        "insert after the end",
        {"f.py": numbered(5)},
        diff("f.py", "@@ -30,0 +31,1 @@\n+new\n"),
        reason="no_match",
    ),
    Case(
        "insert into an empty file", {"f.py": ""}, diff("f.py", "@@ -0,0 +1,1 @@\n+new\n"), {"f.py": "new\n"}
    ),
    Case(
        "removed line that looks like a header",
        {"f.sql": "a\n-- old\nb\n"},
        diff("f.sql", "@@ -1,3 +1,3 @@\n a\n--- old\n+++ new\n b\n"),
        {"f.sql": "a\n++ new\nb\n"},
    ),
    Case(
        "signature of a mailed patch",
        {"f.py": TEXT},
        "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n f.py | 2 +-\n 1 file changed\n\n"
        + GIT
        + diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY)
        + "-- \n2.39.2\n\n",
        {"f.py": FIXED},
    ),
    Case(
        "signature behind wrong counts",
        {"f.py": TEXT},
        GIT + diff("f.py", "@@ -27,8 +27,8 @@\n" + BODY) + "-- \n2.39.2\n\n",
        {"f.py": FIXED},
    ),
    Case(
        "line without a prefix inside a fence",
        {"f.py": TEXT},
        "```diff\n"
        + diff("f.py", "@@ -27,9 +27,9 @@\n line 29\n-line 30\n+LINE thirty\nline 31\n-line 32\n+TWO\n")
        + "```\n",
        reason="malformed",
    ),
    Case(
        "context differs",
        {"f.py": TEXT},
        diff("f.py", "@@ -29,3 +29,3 @@\n COMPLETELY\n-line 30\n+X\n DIFFERENT\n"),
        reason="no_match",
    ),
    Case(
        "context is a prefix of the line",
        {"f.py": TEXT},
        diff("f.py", "@@ -29,3 +29,3 @@\n line 2\n-line 30\n+X\n line 31\n"),
        reason="no_match",
    ),
    Case("file is missing", {"f.py": TEXT}, diff("g.py", "@@ -27,7 +27,7 @@\n" + BODY), reason="no_match"),
    Case(
        "combined diff",
        {"f.py": TEXT},
        "diff --cc f.py\nindex 1,2..3\n--- a/f.py\n+++ b/f.py\n@@@ -1,1 -1,1 +1,1 @@@\n--line 1\n++x\n",
        reason="malformed",
    ),
    Case("header without a hunk", {"f.py": TEXT}, "--- a/f.py\n+++ b/f.py\n", reason="truncated"),
    Case("git header without a hunk", {"f.py": TEXT}, GIT, reason="truncated"),
    Case(
        "git header without a hunk beside a good one",
        {"f.py": TEXT, "g.py": "x\n"},
        diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY) + "diff --git a/g.py b/g.py\n--- a/g.py\n+++ b/g.py\n",
        reason="partial",
    ),
    Case(
        "hunk header at the very end", {"f.py": TEXT}, diff("f.py", "@@ -27,7 +27,7 @@\n"), reason="truncated"
    ),
    Case(
        "backup suffix on one side",
        {"f.py": TEXT},
        "--- f.py.orig\n+++ f.py\n@@ -27,7 +27,7 @@\n" + BODY,
        {"f.py": FIXED},
    ),
    Case(
        "timestamps behind tabs",
        {"f.py": TEXT},
        "--- a/f.py\t2024-01-01 10:00:00.000000000 +0000\n+++ b/f.py\t2024-01-02 10:00:00.000000000 +0000\n@@ -27,7 +27,7 @@\n"
        + BODY,
        {"f.py": FIXED},
    ),
    Case(
        "timestamps behind blanks",
        {"f.py": TEXT},
        "--- f.py 2024-01-01 10:00:00.000000000 +0000\n+++ f.py 2024-01-02 10:00:00.000000000 +0000\n@@ -27,7 +27,7 @@\n"
        + BODY,
        {"f.py": FIXED},
    ),
    Case(
        "only one of the headers", {"f.py": TEXT}, "+++ b/f.py\n@@ -27,7 +27,7 @@\n" + BODY, {"f.py": FIXED}
    ),
    Case(
        "body alone in a diff fence",
        {"f.py": "a\n    x = 1\nb\n"},
        "```diff\n-    x = 1\n+    x = 2\n```\n",
        {"f.py": "a\n    x = 2\nb\n"},
    ),
    Case(
        "two sections of one file",
        {"f.py": TEXT},
        diff("f.py", "@@ -27,7 +27,7 @@\n" + BODY)
        + diff("f.py", "@@ -3,2 +3,2 @@\n line 3\n-line 4\n+FOUR\n"),
        {"f.py": numbered(60, n30="LINE thirty", n4="FOUR")},
    ),
    Case("answer with nothing in it", {"f.py": TEXT}, "   \n", reason="malformed"),
    Case("prose alone", {"f.py": TEXT}, "I cannot see a bug here.\n", reason="malformed", target="f.py"),
]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_place(case: Case) -> None:
    check(case)
