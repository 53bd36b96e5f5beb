"""Whatever comes in, the answer is a change set or a refusal."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.core.errors import PatchError
from agentforge.repo.patch import apply_answer
from tests.repo.patch.support import make_tree

TREE = make_tree(
    {
        "f.py": "import os\n\n\ndef f(x):\n    return x\n\n\nclass C:\n    def m(self):\n        return 1\n",
        "g.txt": "a\r\nb\r\nc",
    }
)
PIECES = [
    "--- a/f.py\n", "+++ b/f.py\n", "@@ -4,2 +4,2 @@\n", "@@ @@\n", "@@ -1 +1,9999999999999 @@\n", " def f(x):\n", "-    return x\n",
    "+    return y\n", "\\ No newline at end of file\n", "diff --git a/f.py b/f.py\n", "rename from f.py\n", "rename to h.py\n", "new mode 100755\n",
    "GIT binary patch\n", "--- /dev/null\n", "+++ /dev/null\n", "deleted file mode 100644\n", "```\n", "```python\n", "~~~\n", "f.py\n",
    "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "    return x\n", "def f(x):\n", "    ...\n", "class C:\n", "    def m(self):\n",
    "        return 2\n", "import re\n", "from . import (\n", '{"old": "x", "new": "y"}\n', '{"old": "', "[\n", "\r\n", "\ufeff", "\x00", "\u2028", "@x\n", '"""\n', "# ...\n", "\n",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.sampled_from([None, "f.py", "g.txt", "n.py"]),
)
@settings(max_examples=400, deadline=None)
def test_shuffled_pieces_of_answers(answer: str, target: str | None) -> None:
    with contextlib.suppress(PatchError):
        assert apply_answer(answer, TREE, target=target).changes


@given(st.binary(max_size=200), st.sampled_from([None, "f.py"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes(answer: bytes, target: str | None) -> None:
    with contextlib.suppress(PatchError):
        assert apply_answer(answer, TREE, target=target).changes


SIZE = 9000
LINES = "".join(f"    line {number}\n" for number in range(SIZE))
TWINS = "    a\n    b\n    c\n" * (SIZE // 3)
HEAD = "--- a/f.py\n+++ b/f.py\n"
UNIQUE = [f"@@ -{n + 1},1 +{n + 1},1 @@\n-    line {n}\n+    LINE {n}\n" for n in range(0, SIZE, 3)]
EQUAL = [f"@@ -{n + 1},3 +{n + 1},3 @@\n     a\n-    b\n+    B\n     c\n" for n in range(0, SIZE, 3)]
LARGE = {
    "hunks": (LINES, HEAD + "".join(UNIQUE)),
    "twins": (TWINS, HEAD + "".join(EQUAL)),
    "edits": (
        LINES,
        json.dumps([{"path": "f.py", "old": f"line {n}\n", "new": f"LINE {n}\n"} for n in range(1000, 2000)]),
    ),
    "fences": ("a\n", "```\n" * 50_000),
    "dividers": ("a\n", "f.py\n<<<<<<< SEARCH\na\n" + "=======\n" * 20_000 + ">>>>>>> REPLACE\n"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_answers_take_seconds(kind: str) -> None:
    before, answer = LARGE[kind]
    began = time.process_time()
    with contextlib.suppress(PatchError):
        apply_answer(answer, make_tree({"f.py": before}))
    assert time.process_time() - began < 15
