"""Whatever comes in, the answer is a change set or a refusal."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import contextlib

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
