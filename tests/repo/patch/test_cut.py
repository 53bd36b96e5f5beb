"""Answers that end early or leave something out, and blocks that meet: nothing is lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.core.errors import PatchError
from agentforge.core.tree import TreeFile
from agentforge.repo.patch import DirectoryTree, apply_answer
from tests.repo.patch.support import Case, block, check, diff, ids, numbered

TEXT = numbered(30)
CODE = "def f(x):\n    y = 1\n    z = 2\n    return y\n\n\ndef g():\n    return 2\n"
HEAD = "@@ -1,4 +1,4 @@\n def f(x):\n-    y = 1\n"
PATCH = "*** Begin Patch\n*** Update File: f.py\n@@\n-    y = 1\n+    y = 2\n     z = 2\n"

STANDS_FOR_CODE = [
    "pass  # existing code",
    "...  # rest of the code",
    "# rest of implementation here",
    "# remaining code",
    "# keep the rest as is",
    "# (as before)",
    "# <snip>",
    "# existing implementation",
    "# The rest of your code",
    '""" ... existing code ... """',
]
PLAIN = [
    "# keep the rest of the tokens",
    "# same as before, but sorted",
    "# the original value wins",
    "# TODO: other code paths",
    "# existing files are kept",
]


def body(line: str) -> str:
    return f"```python\ndef g():\n    {line}\n    return 4\n```\n"


CASES = [
    Case(
        "bare diff cut in an added line",
        {"f.py": CODE},
        diff("f.py", HEAD + "+    y = foo(1,"),
        reason="partial",
    ),
    Case(
        "counts too large, no cut",
        {"f.py": CODE},
        diff("f.py", HEAD + "+    y = foo(1)"),
        {"f.py": CODE.replace("y = 1", "y = foo(1)")},
    ),
    Case(
        "a line without its prefix, outside a fence",
        {"f.py": CODE},
        diff("f.py", HEAD + "+    y = 2\nz = 2\n-    return y\n+    return z\n"),
        reason="malformed",
    ),
    Case(
        "counts too large, then a list in prose",
        {"f.py": CODE},
        diff("f.py", HEAD + "+    y = 2\n     z = 2\n") + "\nNotes:\n- a\n- b\n",
        {"f.py": CODE.replace("y = 1", "y = 2")},
    ),
    Case(
        "new file that is abridged",
        {"g": "a"},
        "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+a = 1\n+# ... rest of the code unchanged\n",
        reason="partial",
    ),
    Case("a dialect of patches that is not spoken", {"f.py": CODE}, PATCH, reason="malformed"),
    Case(
        "a dialect of patches with a file it would lose",
        {"f.py": CODE},
        PATCH + "*** Add File: n.py\n+a = 1\n*** End Patch\n",
        reason="malformed",
    ),
    Case(
        "a later block for part of an earlier one",
        {"f.py": TEXT},
        block("line 10\nline 11\nline 12\n", "A\nline 11\nB\n", "f.py")
        + block("line 12\nline 13\n", "C\nline 13\n", "f.py"),
        reason="partial",
    ),
    Case(
        "a later block for more than an earlier one",
        {"f.py": TEXT},
        block("line 11\n", "A\n", "f.py")
        + block("line 10\nline 11\nline 12\n", "line 10\nC\nline 12\n", "f.py"),
        {"f.py": numbered(30, n11="C")},
    ),
    Case(
        "a file with a byte order mark is deleted",
        {"f.py": TreeFile(b"\xef\xbb\xbfa\nb\n"), "g": ""},
        "--- a/f.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
        {"f.py": None},
    ),
    Case(
        "the last line, without an ending, of a file that ends its lines with CR LF",
        {"f.txt": "a\r\nb"},
        block("b\n", "c\nd\n", "f.txt"),
        {"f.txt": "a\r\nc\r\nd"},
    ),
    *(Case(line, {"f.py": CODE}, body(line), reason="partial", target="f.py") for line in STANDS_FOR_CODE),
    *(
        Case(
            line,
            {"f.py": CODE},
            body(line),
            {"f.py": CODE.replace("    return 2", f"    {line}\n    return 4")},
            target="f.py",
        )
        for line in PLAIN
    ),
]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_cut(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("path", ["x" * 300, "/".join(["x" * 200] * 30)])
def test_a_path_no_file_system_can_hold_is_malformed(path: str) -> None:
    answer = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+a\n"
    check(Case("long", {"g": ""}, answer, reason="malformed"))


@pytest.mark.parametrize(
    "named",
    [
        "1. **f.py**:\n```\n",
        "<file>f.py</file>\n```\n",
        '<file path="f.py">\n',
        "C:\\x.py\n",
        "```python f.py\n",
    ],
)
def test_names_beside_a_block(named: str) -> None:
    before = {"f.py": TEXT, "g.py": TEXT}
    if named.startswith("C:"):
        check(Case("name", {"f.py": TEXT}, named + block("", "X\n"), reason="path_escape"))
    else:
        check(Case("name", before, named + block("line 30\n", "X\n"), {"f.py": numbered(30, n30="X")}))


def test_a_declared_submodule_that_is_not_checked_out(tmp_path: Path) -> None:
    (tmp_path / ".gitmodules").write_text('[submodule "s"]\n\tpath = s\n')
    answer = "--- /dev/null\n+++ b/s/x.py\n@@ -0,0 +1 @@\n+a\n"
    with pytest.raises(PatchError) as caught:
        apply_answer(answer, DirectoryTree(tmp_path))
    assert caught.value.reason.value == "type_change"
