"""Rules 11 and 12: whole files, and answers that were cut or abridged."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import pytest

from tests.repo.patch.support import Case, check, ids
from tests.repo.patch.test_symbols import ADD, ADDED, SCRIPT, F, fence

WHOLE = [
    Case(
        "whole small program",
        {"p.py": SCRIPT},
        fence(SCRIPT.replace("n - 1", "n + 1")),
        {"p.py": SCRIPT.replace("n - 1", "n + 1")},
        target="p.py",
        format="whole_file",
    ),
    Case(
        "whole program without its blank edges",
        {"p.py": "\n" + SCRIPT + "\n"},
        fence(SCRIPT.replace("n - 1", "n + 1")),
        {"p.py": "\n" + SCRIPT.replace("n - 1", "n + 1") + "\n"},
        target="p.py",
    ),
    Case(
        "whole program, nothing new",
        {"p.py": "\n" + SCRIPT},
        fence(SCRIPT + "\n"),
        reason="already_applied",
        target="p.py",
    ),
    Case(
        "function of the small program",
        {"p.py": SCRIPT},
        fence("def f(n):\n    return n + 1\n"),
        {"p.py": SCRIPT.replace("n - 1", "n + 1")},
        target="p.py",
        format="symbol",
    ),
    Case(
        "extras, but a function is missing: symbols",
        F,
        fence('"""Doc."""\n\n' + ADD),
        {"m.py": ADDED},
        target="m.py",
        format="symbol",
    ),
    Case(
        "extras, but a constant is missing: symbols",
        {"p.py": "N = 1\n\n\ndef f():\n    return 1\n"},
        fence('"""New."""\n\n\ndef f():\n    return N\n'),
        {"p.py": "N = 1\n\n\ndef f():\n    return N\n"},
        target="p.py",
    ),
    Case(
        "script without functions",
        {"p.py": "x = 1\nprint(x)\n"},
        fence("x = 2\nprint(x)\n"),
        {"p.py": "x = 2\nprint(x)\n"},
        target="p.py",
        format="whole_file",
    ),
    Case(
        "file that is not Python",
        {"a.toml": "x = 1\r\n"},
        fence("x = 2\ny = 3\n", "toml"),
        {"a.toml": "x = 2\r\ny = 3\r\n"},
        target="a.toml",
    ),
    Case(
        "prose for a file that is not Python",
        {"a.toml": "x = 1\n"},
        "I would change x to 2.\n",
        reason="malformed",
        target="a.toml",
    ),
    Case(
        "new file for the target",
        {"a.py": "x = 1\n"},
        fence("def f():\n    return 1\n"),
        {"pkg/n.py": "def f():\n    return 1\n"},
        target="pkg/n.py",
    ),
    Case(
        "two files",
        {"a.py": "x = 1\n", "b.py": "y = 1\n"},
        "a.py\n" + fence("x = 2\n") + "\nb.py\n" + fence("y = 2\n"),
        {"a.py": "x = 2\n", "b.py": "y = 2\n"},
    ),
    Case(
        "two whole versions: the last",
        {"a.py": "x = 1\n"},
        fence("x = 5\n") + "Rather:\n" + fence("x = 2\n"),
        {"a.py": "x = 2\n"},
        target="a.py",
    ),
    Case("empty file", {"a.py": ""}, fence("x = 2\n"), {"a.py": "x = 2\n"}, target="a.py"),
    Case("no final newline stays", {"a.py": "x = 1"}, fence("x = 2\n"), {"a.py": "x = 2"}, target="a.py"),
    Case(
        "docstring with a fence in it",
        {"p.py": SCRIPT},
        fence('def f(n):\n    """Do.\n\n    ```\n    f(1)\n    ```\n    """\n    return n + 1\n'),
        {
            "p.py": SCRIPT.replace(
                "    return n - 1\n", '    """Do.\n\n    ```\n    f(1)\n    ```\n    """\n    return n + 1\n'
            )
        },
        target="p.py",
    ),
]

CUT = [
    Case(
        "open fence, broken end",
        F,
        "```python\ndef add(a, b):\n    return (a +\n",
        reason="partial",
        target="m.py",
    ),
    Case("open fence, header only", F, "```python\ndef add(a, b):\n", reason="partial", target="m.py"),
    Case("open fence, sound end", F, "```python\n" + ADD, {"m.py": ADDED}, target="m.py"),
    Case("no fence, broken end", F, "def add(a, b):\n    return (a +", reason="partial", target="m.py"),
    Case(
        "closed fence, wrong code",
        F,
        fence("def add(a, b)\n    return a + b\n"),
        reason="malformed",
        target="m.py",
    ),
    Case(
        "second of two is cut",
        F,
        fence(ADD) + "```python\ndef sub(a, b):\n    return (\n",
        reason="partial",
        target="m.py",
    ),
    Case(
        "rest unchanged",
        F,
        fence("def add(a, b):\n    # ... rest unchanged\n    return a + b\n"),
        reason="partial",
        target="m.py",
    ),
    Case(
        "rest of the class",
        F,
        fence(
            "class C:\n    y = 1\n\n    def run(self):\n        return 3\n\n    # rest of the class remains the same\n"
        ),
        reason="partial",
        target="m.py",
    ),
    Case(
        "dots in a class",
        F,
        fence("class C:\n    ...\n\n    def run(self):\n        return 3\n"),
        reason="partial",
        target="m.py",
    ),
    Case(
        "dots as a body",
        {"m.py": "class P:\n    def f(self) -> int:\n        return 1\n"},
        fence('def f(self) -> int:\n    """Doc."""\n    ...\n'),
        {"m.py": 'class P:\n    def f(self) -> int:\n        """Doc."""\n        ...\n'},
        target="m.py",
    ),
    Case(
        "rest of the file",
        {"p.py": SCRIPT},
        fence("def f(n):\n    return n + 1\n\n# ... existing code ...\nx = 1\n"),
        reason="partial",
        target="p.py",
    ),
    Case(
        "diff in an open fence, hunk too short",
        {"f.py": "a\nb\nc\nd\n"},
        "```diff\n--- a/f.py\n+++ b/f.py\n@@ -1,4 +1,4 @@\n a\n-b\n+B",
        reason="partial",
    ),
    Case(
        "diff in an open fence, hunk complete",
        {"f.py": "a\nb\n"},
        "```diff\n--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B",
        {"f.py": "a\nB\n"},
    ),
    Case(
        "rest unchanged in a diff",
        {"f.py": "a\nb\n"},
        "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n a\n-b\n+# rest of the code remains unchanged\n",
        reason="partial",
    ),
    Case(
        "open fence for a file that is not Python",
        {"a.toml": "x = 1\n"},
        "```toml\nx = 2\n",
        reason="partial",
        target="a.toml",
    ),
]


@pytest.mark.parametrize("case", WHOLE, ids=ids(WHOLE))
def test_whole_file(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", CUT, ids=ids(CUT))
def test_cut(case: Case) -> None:
    check(case)
