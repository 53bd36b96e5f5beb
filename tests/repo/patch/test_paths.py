"""Rules 2 and 7: the path jail, and kinds of files."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import pytest

from agentforge.core.tree import TreeFile
from tests.repo.patch.support import Case, block, check, diff, ids

FILE = {"f.py": "a\nb\nc\n"}
HUNK = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
DONE = "a\nB\nc\n"


def new(path: str, mode: str = "100644") -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


ESCAPES = [
    "../evil.py",
    "x/../f.py",
    "x/../../evil.py",
    "..",
    "/etc/passwd",
    "C:/x.py",
    "c:x.py",
    "\\x.py",
    "..\\evil.py",
    "x\\..\\evil.py",
    "//host/x.py",
    "\\\\host\\x",
]
INTERNALS = [
    ".git/config",
    ".GIT/hooks/x",
    "x/.git/config",
    ".git /x",
    ".git./x",
    "git~1/config",
    "GIT~1/x",
    ".g\u200cit/x",
    ".git::$INDEX_ALLOCATION/x",
    "x\\.git\\config",
    ".git",
]

JAIL = [
    *[
        Case(f"diff {path}", FILE, f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n", reason="path_escape")
        for path in ESCAPES
    ],
    *[
        Case(
            f"diff without prefix {path}",
            FILE,
            f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+x\n",
            reason="path_escape",
        )
        for path in ESCAPES
    ],
    *[
        Case(f"block {path}", FILE, block("a\n", "b\n", path), reason="path_escape")
        for path in ESCAPES
        if path != ".."
    ],
    *[
        Case(
            f"JSON {path}",
            FILE,
            f'{{"path": "{path}", "old": "a", "new": "b"}}'.replace("\\", "\\\\"),
            reason="path_escape",
        )
        for path in ESCAPES
    ],
    *[
        Case(f"target {path}", FILE, block("a\n", "b\n"), target=path, reason="path_escape")
        for path in ESCAPES
    ],
    *[
        Case(f"diff {path}", FILE, f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n", reason="git_internal")
        for path in INTERNALS
    ],
    *[
        Case(
            f"JSON {path}",
            FILE,
            f'{{"path": "{path}", "old": "a", "new": "b"}}'.replace("\\", "\\\\"),
            reason="git_internal",
        )
        for path in INTERNALS
    ],
    Case("block in .git", FILE, block("", "x\n", ".git/hooks/pre-commit"), reason="git_internal"),
    Case(
        "rename out",
        FILE,
        "diff --git a/f.py b/../f.py\nsimilarity index 100%\nrename from f.py\nrename to ../f.py\n",
        reason="path_escape",
    ),
    Case(
        "copy into .git",
        FILE,
        "diff --git a/f.py b/.git/f.py\nsimilarity index 100%\ncopy from f.py\ncopy to .git/f.py\n",
        reason="git_internal",
    ),
    Case("delete outside", FILE, "--- a/../f.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", reason="path_escape"),
    Case(
        "quoted escape",
        FILE,
        '--- /dev/null\n+++ "b/\\056\\056/evil.py"\n@@ -0,0 +1 @@\n+x\n',
        reason="path_escape",
    ),
    Case(
        "the bad path is second",
        {**FILE, "g.py": "x\n"},
        diff("f.py", HUNK) + diff("../g.py", "@@ -1 +1 @@\n-x\n+y\n"),
        reason="path_escape",
    ),
    Case(
        "the bad path beside a hunk that does not fit",
        FILE,
        diff("f.py", "@@ -1 +1 @@\n-nope\n+y\n") + diff(".git/x", "@@ -1 +1 @@\n-x\n+y\n"),
        reason="git_internal",
    ),
    Case(
        "escape under a prefix that is stripped",
        FILE,
        "--- a//etc/passwd\n+++ b//etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
        reason="path_escape",
    ),
    Case("whole file outside", FILE, "```python ../evil.py\nx = 1\n```\n", reason="path_escape"),
    Case(
        ".gitignore is a file like others",
        {".gitignore": "a\n"},
        diff(".gitignore", "@@ -1 +1 @@\n-a\n+b\n"),
        {".gitignore": "b\n"},
    ),
    Case(
        ".github is a folder like others",
        {".github/w.yml": "a\n"},
        diff(".github/w.yml", "@@ -1 +1 @@\n-a\n+b\n"),
        {".github/w.yml": "b\n"},
    ),
    Case("three dots are a name", {".../f": "a\n"}, diff(".../f", "@@ -1 +1 @@\n-a\n+b\n"), {".../f": "b\n"}),
]

NAMES = [
    Case(
        "one prefix is stripped, once",
        {"a/f.py": "a\nb\nc\n", "f.py": "a\nb\nc\n"},
        "--- a/a/f.py\n+++ b/a/f.py\n" + HUNK,
        {"a/f.py": DONE},
    ),
    Case(
        "prefix b in front of a folder b",
        {"b/f.py": "a\nb\nc\n", "f.py": "a\nb\nc\n"},
        diff("b/f.py", HUNK),
        {"b/f.py": DONE},
    ),
    Case(
        "a real folder a without prefixes",
        {"a/f.py": "a\nb\nc\n"},
        "--- a/f.py\n+++ a/f.py\n" + HUNK,
        {"a/f.py": DONE},
    ),
    Case("leading ./", {"d/f.py": "a\nb\nc\n"}, "--- ./d/f.py\n+++ ./d/f.py\n" + HUNK, {"d/f.py": DONE}),
    Case(
        "28 path with a space",
        {"my dir/f g.py": "a\nb\nc\n"},
        diff("my dir/f g.py", HUNK),
        {"my dir/f g.py": DONE},
    ),
    Case(
        "path with a space and git's tab",
        {"my dir/f.py": "a\nb\nc\n"},
        "diff --git a/my dir/f.py b/my dir/f.py\n--- a/my dir/f.py\t\n+++ b/my dir/f.py\t\n" + HUNK,
        {"my dir/f.py": DONE},
    ),
    Case(
        "quoted path with octal escapes",
        {"café.py": "a\nb\nc\n"},
        'diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\n--- "a/caf\\303\\251.py"\n+++ "b/caf\\303\\251.py"\n'
        + HUNK,
        {"café.py": DONE},
    ),
    Case(
        "quoted path with a quote and a tab",
        {'x"\t.py': "a\nb\nc\n"},
        '--- "a/x\\"\\t.py"\n+++ "b/x\\"\\t.py"\n' + HUNK,
        {'x"\t.py': DONE},
    ),
    Case(
        "path with bytes that are no UTF-8",
        {"caf\udce9.py": "a\nb\nc\n"},
        '--- "a/caf\\351.py"\n+++ "b/caf\\351.py"\n' + HUNK,
        {"caf\udce9.py": DONE},
    ),
    Case("block names ./", FILE, block("b\n", "B\n", "./f.py"), {"f.py": DONE}),
    Case("block names a/", FILE, block("b\n", "B\n", "a/f.py"), {"f.py": DONE}),
    Case(
        "target with the folder the diff left out",
        {"src/f.py": "a\nb\nc\n", "g": "x\n"},
        diff("f.py", HUNK),
        {"src/f.py": DONE},
        target="src/f.py",
    ),
]

KINDS = [
    Case("14 new file in a new folder", FILE, new("pkg/sub/n.py"), {"pkg/sub/n.py": "x\n"}),
    Case("new file with exec bit", FILE, new("run.sh", "100755"), {"run.sh": TreeFile(b"x\n", "100755")}),
    Case(
        "new empty file",
        FILE,
        "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n",
        {"e": ""},
    ),
    Case(
        "new file without a final newline",
        FILE,
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
        {"n": "x"},
    ),
    Case("new file is there already", {**FILE, "n.py": "x\n"}, new("n.py"), reason="already_applied"),
    Case("new file is there with other content", {**FILE, "n.py": "y\n"}, new("n.py"), reason="no_match"),
    Case(
        "15 delete",
        {**FILE, "k": "k\n"},
        "diff --git a/f.py b/f.py\ndeleted file mode 100644\n--- a/f.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n-c\n",
        {"f.py": None},
    ),
    Case(
        "delete an empty file",
        {**FILE, "e": ""},
        "diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n",
        {"e": None},
    ),
    Case(
        "delete what is not all there",
        FILE,
        "--- a/f.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
        reason="no_match",
    ),
    Case(
        "delete what is gone",
        {"k": "k\n"},
        "--- a/f.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
        reason="already_applied",
    ),
    Case(
        "16 rename and edit",
        FILE,
        "diff --git a/f.py b/d/g.py\nsimilarity index 80%\nrename from f.py\nrename to d/g.py\n--- a/f.py\n+++ b/d/g.py\n"
        + HUNK,
        {"f.py": None, "d/g.py": DONE},
    ),
    Case(
        "rename alone keeps the mode",
        {"f.sh": TreeFile(b"x\n", "100755")},
        "diff --git a/f.sh b/g.sh\nsimilarity index 100%\nrename from f.sh\nrename to g.sh\n",
        {"f.sh": None, "g.sh": TreeFile(b"x\n", "100755")},
    ),
    Case(
        "rename of a path with a space",
        {"a b": "x\n"},
        "diff --git a/a b b/c d\nsimilarity index 100%\nrename from a b\nrename to c d\n",
        {"a b": None, "c d": "x\n"},
    ),
    Case(
        "rename beside an edit of another file",
        {**FILE, "g.py": "x\n"},
        "diff --git a/g.py b/h.py\nsimilarity index 100%\nrename from g.py\nrename to h.py\n"
        + "diff --git a/f.py b/f.py\n"
        + diff("f.py", HUNK),
        {"g.py": None, "h.py": "x\n", "f.py": DONE},
    ),
    Case(
        "rename already done",
        {"g.py": "x\n"},
        "diff --git a/f.py b/g.py\nsimilarity index 100%\nrename from f.py\nrename to g.py\n",
        reason="already_applied",
    ),
    Case(
        "rename onto another file",
        {**FILE, "g.py": "x\n"},
        "diff --git a/f.py b/g.py\nsimilarity index 100%\nrename from f.py\nrename to g.py\n",
        reason="no_match",
    ),
    Case(
        "two files swap names",
        {"a": "1\n", "b": "2\n"},
        "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\ndiff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n",
        {"a": "2\n", "b": "1\n"},
    ),
    Case(
        "copy and edit",
        FILE,
        "diff --git a/f.py b/g.py\nsimilarity index 80%\ncopy from f.py\ncopy to g.py\n--- a/f.py\n+++ b/g.py\n"
        + HUNK,
        {"g.py": DONE},
    ),
    Case(
        "mode alone",
        FILE,
        "diff --git a/f.py b/f.py\nold mode 100644\nnew mode 100755\n",
        {"f.py": TreeFile(b"a\nb\nc\n", "100755")},
    ),
    Case(
        "mode and edit",
        FILE,
        "diff --git a/f.py b/f.py\nold mode 100644\nnew mode 100755\n" + diff("f.py", HUNK),
        {"f.py": TreeFile(DONE.encode(), "100755")},
    ),
    Case(
        "mode is so already",
        {"f.py": TreeFile(b"a\n", "100755")},
        "diff --git a/f.py b/f.py\nold mode 100644\nnew mode 100755\n",
        reason="already_applied",
    ),
    Case(
        "29 exec bit kept",
        {"f.py": TreeFile(b"a\nb\nc\n", "100755")},
        diff("f.py", HUNK),
        {"f.py": TreeFile(DONE.encode(), "100755")},
    ),
    Case(
        "new symbolic link",
        FILE,
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n",
        reason="type_change",
    ),
    Case(
        "file becomes a link",
        FILE,
        "diff --git a/f.py b/f.py\nold mode 100644\nnew mode 120000\n" + diff("f.py", HUNK),
        reason="type_change",
    ),
    Case(
        "link in the index line",
        FILE,
        "diff --git a/l b/l\nindex 1234567..89abcde 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n+y\n",
        reason="type_change",
    ),
    Case(
        "submodule moved on",
        FILE,
        "diff --git a/s b/s\nindex 1234567..89abcde 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 1234567\n+Subproject commit 89abcde\n",
        reason="type_change",
    ),
    Case(
        "20 through a linked folder",
        {**FILE, "d": TreeFile(b"/tmp", "120000")},
        new("d/x.py"),
        reason="type_change",
    ),
    Case(
        "a link itself",
        {"l": TreeFile(b"f.py", "120000")},
        block("f.py\n", "g.py\n", "l"),
        reason="type_change",
    ),
    Case("inside a submodule", FILE, new("sub/x.py"), reason="type_change", submodules=frozenset({"sub"})),
    Case("a folder", {"d/f.py": "a\n"}, diff("d", "@@ -1 +1 @@\n-a\n+b\n"), reason="type_change"),
    Case("below a file", FILE, new("f.py/x"), reason="type_change"),
    Case(
        "GIT binary patch",
        {"f.bin": b"\0"},
        "diff --git a/f.bin b/f.bin\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo\n\n",
        reason="binary",
    ),
    Case(
        "binary files differ",
        {"f.bin": b"\0"},
        "diff --git a/f.bin b/f.bin\nindex 1..2 100644\nBinary files a/f.bin and b/f.bin differ\n",
        reason="binary",
    ),
    Case("file with a NUL", {"f.py": b"a\nb\0\nc\n"}, diff("f.py", "@@ -1 +1 @@\n-a\n+A\n"), reason="binary"),
    Case(
        "NUL behind the first 8000 bytes is text",
        {"f.py": b"a\n" + b"x" * 8000 + b"\0\n"},
        diff("f.py", "@@ -1 +1 @@\n-a\n+A\n"),
        {"f.py": b"A\n" + b"x" * 8000 + b"\0\n"},
    ),
    Case("UTF-16", {"f.txt": "a\n".encode("utf-16")}, block("a\n", "b\n", "f.txt"), reason="binary"),
    Case(
        "words about binary files in a hunk",
        {"f.py": "Binary files differ\nb\n"},
        diff("f.py", "@@ -1,2 +1,2 @@\n Binary files differ\n-b\n+B\n"),
        {"f.py": "Binary files differ\nB\n"},
    ),
]


@pytest.mark.parametrize("case", JAIL, ids=ids(JAIL))
def test_jail(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", NAMES, ids=ids(NAMES))
def test_names(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", KINDS, ids=ids(KINDS))
def test_kinds(case: Case) -> None:
    check(case)
