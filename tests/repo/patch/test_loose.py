"""Rules 4 to 6: loose matching, Unicode, and what ends a line."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import pytest

from tests.repo.patch.support import Case, block, check, diff, ids, numbered

TEXT = numbered(9)
BODY = "@@ -3,3 +3,3 @@\n line 3\n-line 4\n+FOUR\n line 5\n"
FIXED = numbered(9, n4="FOUR")


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


METHOD = "class C:\n    def m(self):\n        x = 1\n        return x\n"
TABBED = "class C:\n\tdef m(self):\n\t\tx = 1\n\t\treturn x\n"
NFC, NFD = "caf\u00e9", "cafe\u0301"
BOM = b"\xef\xbb\xbf"

CASES = [
    # line endings
    Case("05 CRLF file, LF diff", {"f.py": crlf(TEXT)}, diff("f.py", BODY), {"f.py": crlf(FIXED)}),
    Case("06 LF file, CRLF diff", {"f.py": TEXT}, crlf(diff("f.py", BODY)), {"f.py": FIXED}),
    Case(
        "CRLF file, diff as git makes it",
        {"f.py": crlf(TEXT)},
        "--- a/f.py\n+++ b/f.py\n@@ -3,3 +3,3 @@\n line 3\r\n-line 4\r\n+FOUR\r\n line 5\r\n",
        {"f.py": crlf(FIXED)},
    ),
    Case("CRLF file and CRLF diff", {"f.py": crlf(TEXT)}, crlf(diff("f.py", BODY)), {"f.py": crlf(FIXED)}),
    Case(
        "one line turned to CRLF on purpose",
        {"f.py": TEXT},
        diff("f.py", "@@ -4 +4 @@\n-line 4\n+line 4\r\n"),
        {"f.py": numbered(9, n4="line 4\r")},
    ),
    Case(
        "CRLF twins by number",
        {"f.py": crlf("x\na\ny\na\n")},
        diff("f.py", "@@ -4,1 +4,1 @@\n-a\n+b\n"),
        {"f.py": crlf("x\na\ny\nb\n")},
    ),
    Case(
        "mixed endings keep each line",
        {"f.py": "a\r\nb\nc\r\nd\n"},
        diff("f.py", "@@ -1,4 +1,5 @@\n a\n b\n-c\n+C\n+C2\n d\n"),
        {"f.py": "a\r\nb\nC\r\nC2\r\nd\n"},
    ),
    Case(
        "CRLF SEARCH/REPLACE",
        {"f.py": crlf(TEXT)},
        block("line 4\n", "FOUR\nFOUR b\n", "f.py"),
        {"f.py": crlf(TEXT.replace("line 4", "FOUR\nFOUR b"))},
    ),
    Case(
        "LF file, CRLF SEARCH/REPLACE",
        {"f.py": TEXT},
        crlf(block("line 4\n", "FOUR\n", "f.py")),
        {"f.py": FIXED},
    ),
    Case(
        "CRLF JSON",
        {"f.py": crlf(TEXT)},
        '{"path": "f.py", "old": "line 4\\nline 5", "new": "FOUR\\nline 5"}',
        {"f.py": crlf(FIXED)},
    ),
    Case(
        "insert into a CRLF file by number",
        {"f.py": crlf("a\nb\n")},
        diff("f.py", "@@ -1,0 +2 @@\n+n\n"),
        {"f.py": crlf("a\nn\nb\n")},
    ),
    # trailing blanks
    Case(
        "30 file has trailing blanks",
        {"f.py": "a  \nb\t\nc\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a\n b\n-c\n+C\n"),
        {"f.py": "a  \nb\t\nC\n"},
    ),
    Case(
        "diff has trailing blanks",
        {"f.py": "a\nb\nc\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a  \n b\n-c\n+C\n"),
        {"f.py": "a\nb\nC\n"},
    ),
    Case(
        "removed line lost its trailing blanks",
        {"f.py": "a\nb  \nc\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
        {"f.py": "a\nB\nc\n"},
    ),
    Case(
        "loose twins",
        {"f.py": "a \nb\nx\na \nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
        reason="ambiguous",
    ),
    Case(
        "exact wins over loose",
        {"f.py": "a \nb\nx\na\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
        {"f.py": "a \nb\nx\na\nB\n"},
    ),
    # indent
    Case(
        "uniform shift, diff",
        {"f.py": METHOD},
        diff("f.py", "@@ @@\n def m(self):\n-    x = 1\n+    x = 2\n+    y = 3\n     return x\n"),
        {"f.py": METHOD.replace("x = 1", "x = 2\n        y = 3")},
    ),
    Case(
        "uniform shift, block",
        {"f.py": METHOD},
        block("x = 1\nreturn x\n", "x = 2\nif x:\n    return x\n", "f.py"),
        {"f.py": METHOD.replace("x = 1\n        return x", "x = 2\n        if x:\n            return x")},
    ),
    Case(
        "uniform shift to the left",
        {"f.py": "def f():\n    return 1\n"},
        block("    def f():\n        return 1\n", "    def f():\n        return 2\n", "f.py"),
        {"f.py": "def f():\n    return 2\n"},
    ),
    Case(
        "shift is not uniform",
        {"f.py": METHOD},
        block("x = 1\n    return x\n", "x = 2\n    return x\n", "f.py"),
        reason="no_match",
    ),
    Case(
        "added line cannot be shifted",
        {"f.py": "def f():\n    return 1\n"},
        block("        return 1\n", "  return 2\n", "f.py"),
        reason="no_match",
    ),
    Case(
        "blank lines do not count for a shift",
        {"f.py": "if a:\n    b\n\n    c\n"},
        block("b\n\nc\n", "b\n\nd\n", "f.py"),
        {"f.py": "if a:\n    b\n\n    d\n"},
    ),
    Case(
        "tabs for spaces",
        {"f.py": TABBED},
        block(
            "    def m(self):\n        x = 1\n        return x\n",
            "    def m(self):\n        x = 2\n        if x:\n            return x\n",
            "f.py",
        ),
        {"f.py": "class C:\n\tdef m(self):\n\t\tx = 2\n\t\tif x:\n\t\t\treturn x\n"},
    ),
    Case(
        "spaces for tabs",
        {"f.py": METHOD},
        block("\tdef m(self):\n\t\tx = 1\n", "\tdef m(self):\n\t\tx = 2\n\t\ty = 3\n", "f.py"),
        {"f.py": METHOD.replace("x = 1", "x = 2\n        y = 3")},
    ),
    Case(
        "tabs for spaces and a shift",
        {"f.py": TABBED},
        block("def m(self):\n    x = 1\n", "def m(self):\n    x = 2\n    y = 3\n", "f.py"),
        {"f.py": "class C:\n\tdef m(self):\n\t\tx = 2\n\t\ty = 3\n\t\treturn x\n"},
    ),
    Case(
        "spaces added to a Python file of tabs",
        {"f.py": "def f():\n\tx = 1\n"},
        block("def f():\n", "def f():\n    if y:\n        z = 2\n", "f.py"),
        {"f.py": "def f():\n\tif y:\n\t\tz = 2\n\tx = 1\n"},
    ),
    Case(
        "tabs turned to spaces on purpose",
        {"f.py": "def f():\n\tx = 1\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n def f():\n-\tx = 1\n+    x = 1\n"),
        {"f.py": "def f():\n    x = 1\n"},
    ),
    Case(
        "Makefile keeps its tabs",
        {"Makefile": "all:\n\techo a\n\techo b\n"},
        diff("Makefile", "@@ -1,3 +1,3 @@\n all:\n \techo a\n-\techo b\n+\techo c\n"),
        {"Makefile": "all:\n\techo a\n\techo c\n"},
    ),
    # unicode
    Case(
        "NFD in the context of an NFC file",
        {"f.py": f"# {NFC}\nx = 1\n"},
        diff("f.py", f"@@ -1,2 +1,2 @@\n # {NFD}\n-x = 1\n+x = 2\n"),
        {"f.py": f"# {NFC}\nx = 2\n"},
    ),
    Case(
        "NFC in the context of an NFD file",
        {"f.py": f"# {NFD}\nx = 1\n"},
        block(f"# {NFC}\nx = 1\n", f"# {NFC}\nx = 2\n", "f.py"),
        {"f.py": f"# {NFD}\nx = 2\n"},
    ),
    Case(
        "NFC for NFD in the replaced line",
        {"f.py": f"x = '{NFD}'\ny\n"},
        diff("f.py", f"@@ -1,2 +1,2 @@\n-x = '{NFC}'\n+x = 'tea'\n y\n"),
        reason="no_match",
    ),
    Case(
        "zero width in the file's context",
        {"f.py": "a\u200b b\nx = 1\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n a b\n-x = 1\n+x = 2\n"),
        {"f.py": "a\u200b b\nx = 2\n"},
    ),
    Case(
        "zero width in the answer's context",
        {"f.py": "a b\nx = 1\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n a\u200b b\n-x = 1\n+x = 2\n"),
        {"f.py": "a b\nx = 2\n"},
    ),
    Case(
        "zero width in the replaced line",
        {"f.py": "x = 1\u200b\ny\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y\n"),
        reason="no_match",
    ),
    Case(
        "NFC twins",
        {"f.py": f"{NFC}\nx\n{NFC}\nx\n"},
        diff("f.py", f"@@ -1,2 +1,2 @@\n {NFD}\n-x\n+y\n"),
        reason="ambiguous",
    ),
    # what ends a line
    *[
        Case(
            f"{name} is text",
            {"f.py": f"a\nb{mark}c\nd\n"},
            diff("f.py", f"@@ -1,3 +1,3 @@\n a\n b{mark}c\n-d\n+D\n"),
            {"f.py": f"a\nb{mark}c\nD\n"},
        )
        for name, mark in [
            ("form feed", "\f"),
            ("VT", "\v"),
            ("FS", "\x1c"),
            ("NEL", "\x85"),
            ("U+2028", "\u2028"),
            ("lone CR", "\r"),
        ]
    ],
    Case(
        "12 form feed line in context",
        {"f.py": "a\n\f\nb\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a\n \f\n-b\n+B\n"),
        {"f.py": "a\n\f\nB\n"},
    ),
    Case(
        "13 U+2028 in the added line",
        {"f.py": "a\nb\n"},
        block("b\n", "x\u2028y\n", "f.py"),
        {"f.py": "a\nx\u2028y\n"},
    ),
    # BOM and encodings
    Case(
        "11 BOM, hunk at line 1",
        {"f.py": BOM + b"a\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
        {"f.py": BOM + b"a\nB\n"},
    ),
    Case(
        "BOM, first line replaced",
        {"f.py": BOM + b"a\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n"),
        {"f.py": BOM + b"A\nb\n"},
    ),
    Case(
        "BOM, line put in front",
        {"f.py": BOM + b"a\nb\n"},
        diff("f.py", "@@ -1,2 +1,3 @@\n+n\n a\n b\n"),
        {"f.py": BOM + b"n\na\nb\n"},
    ),
    Case(
        "BOM in file and answer",
        {"f.py": BOM + b"a\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n-\ufeffa\n+\ufeffA\n b\n"),
        {"f.py": BOM + b"A\nb\n"},
    ),
    Case(
        "BOM taken off on purpose",
        {"f.py": BOM + b"a\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n-\ufeffa\n+a\n b\n"),
        {"f.py": b"a\nb\n"},
    ),
    Case(
        "BOM and CRLF",
        {"f.py": BOM + b"a\r\nb\r\n"},
        block("a\n", "A\n", "f.py"),
        {"f.py": BOM + b"A\r\nb\r\n"},
    ),
    Case(
        "10 latin-1 elsewhere",
        {"f.py": b"# caf\xe9\na\nb\n"},
        diff("f.py", "@@ -2,2 +2,2 @@\n a\n-b\n+B\n"),
        {"f.py": b"# caf\xe9\na\nB\n"},
    ),
    Case(
        "latin-1 diff of a latin-1 file",
        {"f.py": b"# caf\xe9\na\n"},
        b"--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n-# caf\xe9\n+# th\xe9\n a\n",
        {"f.py": b"# th\xe9\na\n"},
    ),
    Case(
        "PEP 263: context and added line",
        {"f.py": "# -*- coding: latin-1 -*-\nx = 'café'\ny = 1\n".encode("latin-1")},
        diff("f.py", "@@ -2,2 +2,2 @@\n x = 'café'\n-y = 1\n+y = 'thé'\n"),
        {"f.py": "# -*- coding: latin-1 -*-\nx = 'café'\ny = 'thé'\n".encode("latin-1")},
    ),
    Case(
        "PEP 263: JSON",
        {"f.py": "# coding: cp1252\nx = 'café'\n".encode("cp1252")},
        '{"old": "\'café\'", "new": "\'€\'"}',
        {"f.py": "# coding: cp1252\nx = '€'\n".encode("cp1252")},
    ),
    Case(
        "PEP 263: cannot be said",
        {"f.py": "# coding: latin-1\nx = 1\n"},
        diff("f.py", "@@ -2 +2 @@\n-x = 1\n+x = '→'\n"),
        reason="malformed",
    ),
    Case(
        "PEP 263 in another language's file",
        {"f.py": b"x = 'caf\xc3\xa9'\n"},
        diff("f.py", "@@ -1 +1 @@\n-x = 'café'\n+x = 'thé'\n"),
        {"f.py": "x = 'thé'\n"},
    ),
    # end of file
    Case(
        "07 no final newline, edit elsewhere", {"f.py": TEXT[:-1]}, diff("f.py", BODY), {"f.py": FIXED[:-1]}
    ),
    Case(
        "08 marker omitted at the tail",
        {"f.py": TEXT[:-1]},
        diff("f.py", "@@ -8,2 +8,2 @@\n line 8\n-line 9\n+NINE\n"),
        {"f.py": numbered(9, n9="NINE")[:-1]},
    ),
    Case(
        "09 marker given",
        {"f.py": TEXT[:-1]},
        diff(
            "f.py",
            "@@ -8,2 +8,2 @@\n line 8\n-line 9\n\\ No newline at end of file\n+NINE\n\\ No newline at end of file\n",
        ),
        {"f.py": numbered(9, n9="NINE")[:-1]},
    ),
    Case(
        "final newline added",
        {"f.py": TEXT[:-1]},
        diff("f.py", "@@ -8,2 +8,2 @@\n line 8\n-line 9\n\\ No newline at end of file\n+line 9\n"),
        {"f.py": TEXT},
    ),
    Case(
        "final newline taken",
        {"f.py": TEXT},
        diff("f.py", "@@ -8,2 +8,2 @@\n line 8\n-line 9\n+line 9\n\\ No newline at end of file\n"),
        {"f.py": TEXT[:-1]},
    ),
    Case(
        "line added after an open end",
        {"f.py": "a\nb"},
        diff("f.py", "@@ -1,2 +1,3 @@\n a\n b\n+c\n"),
        {"f.py": "a\nb\nc"},
    ),
    Case(
        "last line of an open end removed",
        {"f.py": "a\nb"},
        diff("f.py", "@@ -1,2 +1 @@\n a\n-b\n"),
        {"f.py": "a\n"},
    ),
    Case(
        "open end in CRLF",
        {"f.py": "a\r\nb"},
        diff("f.py", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n"),
        {"f.py": "a\r\nB\r\nc"},
    ),
    Case("block at an open end", {"f.py": "a\nb"}, block("b\n", "c\n", "f.py"), {"f.py": "a\nc"}),
    Case("26 delete all lines", {"f.py": "a\nb\n"}, diff("f.py", "@@ -1,2 +0,0 @@\n-a\n-b\n"), {"f.py": ""}),
    Case(
        "phantom blank line at the end",
        {"f.py": "a\nb\n"},
        diff("f.py", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n \n"),
        {"f.py": "a\nB\n"},
    ),
    Case(
        "phantom blank lines in SEARCH",
        {"f.py": "a\nb\n"},
        block("a\nb\n\n\n", "a\nB\n\n\n", "f.py"),
        {"f.py": "a\nB\n"},
    ),
    Case(
        "blank line that is no phantom",
        {"f.py": "a\nb\nc\n"},
        block("a\n\n", "A\n\n", "f.py"),
        reason="no_match",
    ),
    # dots
    Case(
        "dots in a block",
        {"f.py": "def f():\n    a\n    b\n    c\n    return 1\n"},
        block("def f():\n    a\n...\n    return 1\n", "def f():\n    A\n...\n    return 2\n", "f.py"),
        {"f.py": "def f():\n    A\n    b\n    c\n    return 2\n"},
    ),
    Case(
        "dots in a diff",
        {"f.py": "def f():\n    a\n    b\n    return 1\n"},
        diff("f.py", "@@ @@\n def f():\n-    a\n+    A\n ...\n-    return 1\n+    return 2\n"),
        {"f.py": "def f():\n    A\n    b\n    return 2\n"},
    ),
    Case(
        "dots with a part that is not unique",
        {"f.py": "a\nx\nb\nx\n"},
        block("a\n...\nx\n", "A\n...\nX\n", "f.py"),
        reason="ambiguous",
    ),
    Case(
        "dots that are code",
        {"f.py": "def f():\n    ...\n"},
        block("def f():\n    ...\n", "def f() -> None:\n    ...\n", "f.py"),
        {"f.py": "def f() -> None:\n    ...\n"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_loose(case: Case) -> None:
    check(case)
