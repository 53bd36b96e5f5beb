"""Rules 11 and 12 for code: symbols, whole files, imports, and answers that were cut."""
# ruff: noqa: E501 - bytes that are compared read best unbroken

from __future__ import annotations

import pytest

from agentforge.core.tree import TreeFile
from tests.repo.patch.support import Case, check, ids

MODULE = '''"""Doc."""

import os

LIMIT = 3


# adds
def add(a, b):
    """Add."""
    return a - b


def sub(a, b):
    return a - b  # fine


class C:
    """A class."""

    def run(self):
        return 1

    @property
    def x(self):
        return self._x

    @x.setter
    def x(self, value):
        self._x = value


class D:
    def run(self):
        return 2
'''
F = {"m.py": MODULE}
ADD = "def add(a, b):\n    return a + b\n"
ADDED = MODULE.replace('    """Add."""\n    return a - b\n', "    return a + b\n", 1)
SCRIPT = 'def f(n):\n    return n - 1\n\n\n"""\nUsage\n    f(1)\n"""\n'


def fence(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}```\n"


SYMBOLS = [
    Case(
        "fenced function",
        F,
        "Fixed:\n" + fence(ADD) + "Done.\n",
        {"m.py": ADDED},
        target="m.py",
        format="symbol",
    ),
    Case("bare function", F, ADD, {"m.py": ADDED}, target="m.py"),
    Case(
        "function between prose",
        F,
        "Here you go:\n\n" + ADD + "\nThis adds.\n",
        {"m.py": ADDED},
        target="m.py",
    ),
    Case("no target: the one file that defines it", {**F, "n.py": "x = 1\n"}, fence(ADD), {"m.py": ADDED}),
    Case(
        "no target: two files define it", {**F, "n.py": "def add(): pass\n"}, fence(ADD), reason="ambiguous"
    ),
    Case("no target: none defines it", F, fence("def nope():\n    pass\n"), reason="no_match"),
    Case("unknown name", F, fence("def nope():\n    pass\n"), reason="no_match", target="m.py"),
    Case(
        "docstring of the answer is kept",
        F,
        fence('def sub(a, b):\n    """Take."""\n    return a - b\n'),
        {
            "m.py": MODULE.replace(
                "def sub(a, b):\n    return a - b  # fine\n",
                'def sub(a, b):\n    """Take."""\n    return a - b\n',
            )
        },
        target="m.py",
    ),
    Case(
        "comments above stay, those of the answer are not added",
        F,
        fence("# fixed\n" + ADD),
        {"m.py": ADDED},
        target="m.py",
    ),
    Case(
        "two functions",
        F,
        fence(ADD + "\n\ndef sub(a, b):\n    return a * b\n"),
        {"m.py": ADDED.replace("return a - b  # fine", "return a * b")},
        target="m.py",
    ),
    Case(
        "two blocks",
        F,
        fence(ADD) + "and\n" + fence("def sub(a, b):\n    return a * b\n"),
        {"m.py": ADDED.replace("return a - b  # fine", "return a * b")},
        target="m.py",
    ),
    Case(
        "same function twice: the last",
        F,
        fence("def add(a, b):\n    return 0\n") + "Better:\n" + fence(ADD),
        {"m.py": ADDED},
        target="m.py",
    ),
    Case(
        "method twice in the file",
        F,
        fence("def run(self):\n    return 3\n"),
        reason="ambiguous",
        target="m.py",
    ),
    Case(
        "bare class is an address",
        F,
        fence("class D:\n    def run(self):\n        return 3\n"),
        {"m.py": MODULE.replace("return 2", "return 3")},
        target="m.py",
    ),
    Case(
        "bare class with the rest left out",
        F,
        fence("class C:\n    def run(self):\n        return 3\n"),
        {"m.py": MODULE.replace("return 1", "return 3")},
        target="m.py",
    ),
    Case(
        "whole class",
        F,
        fence('class D:\n    """New."""\n\n    y = 1\n\n    def run(self):\n        return 3\n'),
        {
            "m.py": MODULE.replace(
                "class D:\n    def run(self):\n        return 2\n",
                'class D:\n    """New."""\n\n    y = 1\n\n    def run(self):\n        return 3\n',
            )
        },
        target="m.py",
    ),
    Case(
        "the only method of a name",
        {"m.py": "class A:\n    def go(self):\n        return 1\n\n    def stop(self):\n        pass\n"},
        fence("def go(self):\n    if self:\n        return 2\n"),
        {
            "m.py": "class A:\n    def go(self):\n        if self:\n            return 2\n\n    def stop(self):\n        pass\n"
        },
        target="m.py",
    ),
    Case(
        "method with its indent",
        {"m.py": "def go():\n    return 0\n\n\nclass A:\n    def go(self):\n        return 1\n"},
        fence("    def go(self):\n        return 2\n"),
        {"m.py": "def go():\n    return 0\n\n\nclass A:\n    def go(self):\n        return 2\n"},
        target="m.py",
    ),
    Case(
        "same depth wins",
        {"m.py": "def go():\n    return 0\n\n\nclass A:\n    def go(self):\n        return 1\n"},
        fence("def go():\n    return 2\n"),
        {"m.py": "def go():\n    return 2\n\n\nclass A:\n    def go(self):\n        return 1\n"},
        target="m.py",
    ),
    Case(
        "setter told by its decorator",
        F,
        fence("class C:\n    @x.setter\n    def x(self, value):\n        self._x = int(value)\n"),
        {"m.py": MODULE.replace("self._x = value", "self._x = int(value)")},
        target="m.py",
    ),
    Case(
        "nested function",
        {"m.py": "def outer():\n    def inner():\n        return 1\n    return inner\n"},
        fence("def inner():\n    return 2\n"),
        {"m.py": "def outer():\n    def inner():\n        return 2\n    return inner\n"},
        target="m.py",
    ),
    Case(
        "nested class address",
        {
            "m.py": "class A:\n    class B:\n        def f(self):\n            return 1\n\n    def f(self):\n        return 0\n"
        },
        fence("class A:\n    class B:\n        def f(self):\n            return 2\n"),
        {
            "m.py": "class A:\n    class B:\n        def f(self):\n            return 2\n\n    def f(self):\n        return 0\n"
        },
        target="m.py",
    ),
    Case(
        "async for sync",
        {"m.py": "def f():\n    return 1\n"},
        fence("async def f():\n    return 2\n"),
        {"m.py": "async def f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "sync for async",
        {"m.py": "async def f():\n    return 1\n"},
        fence("def f():\n    return 2\n"),
        {"m.py": "def f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "missing decorators stay",
        {"m.py": "@cache\n@other(1)\ndef f():\n    return 1\n"},
        fence("def f():\n    return 2\n"),
        {"m.py": "@cache\n@other(1)\ndef f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "decorators of the answer replace",
        {"m.py": "@cache\n@other(1)\ndef f():\n    return 1\n"},
        fence("@lru\ndef f():\n    return 2\n"),
        {"m.py": "@lru\ndef f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "function under an if",
        {"m.py": "if True:\n    def f():\n        return 1\nelse:\n    g = 1\n"},
        fence("def f():\n    return 2\n"),
        {"m.py": "if True:\n    def f():\n        return 2\nelse:\n    g = 1\n"},
        target="m.py",
    ),
    Case(
        "new helper goes along",
        {"m.py": "def f():\n    return 1\n\n\ndef g():\n    return 2\n"},
        fence("def helper():\n    return 3\n\n\ndef g():\n    return helper()\n"),
        {
            "m.py": "def f():\n    return 1\n\n\ndef helper():\n    return 3\n\n\ndef g():\n    return helper()\n"
        },
        target="m.py",
    ),
    Case(
        "new method in a class address",
        {"m.py": "class A:\n    def f(self):\n        return 1\n\n\nx = 1\n"},
        fence("class A:\n    def f(self):\n        return self.g()\n\n    def g(self):\n        return 2\n"),
        {
            "m.py": "class A:\n    def f(self):\n        return self.g()\n\n    def g(self):\n        return 2\n\n\nx = 1\n"
        },
        target="m.py",
    ),
    Case(
        "trailing comment of the body",
        {"m.py": "def f():\n    return 1\n    # end\n\n\nx = 1\n"},
        fence("def f():\n    return 2\n    # end\n"),
        {"m.py": "def f():\n    return 2\n    # end\n\n\nx = 1\n"},
        target="m.py",
    ),
    Case(
        "demonstration is left out",
        {"m.py": "def f():\n    return 1\n"},
        fence("def f():\n    return 2\n\n\n# Example\nprint(f())\n"),
        {"m.py": "def f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "main guard is left out where there is none",
        {"m.py": "def f():\n    return 1\n"},
        fence("def f():\n    return 2\n\n\nif __name__ == '__main__':\n    print(f())\n"),
        {"m.py": "def f():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "class with its docstring and some of its methods",
        F,
        fence('class C:\n    """A class."""\n\n    def run(self):\n        return 3\n'),
        {"m.py": MODULE.replace("return 1", "return 3")},
        target="m.py",
    ),
    Case(
        "constant changes along",
        F,
        fence("LIMIT = 4\n\n\n" + ADD),
        {"m.py": ADDED.replace("LIMIT = 3", "LIMIT = 4")},
        target="m.py",
    ),
    Case(
        "new constant goes along",
        {"m.py": "def f():\n    return 1\n\n\ndef g():\n    return 0\n"},
        fence("N = 2\n\n\ndef g():\n    return N\n"),
        {"m.py": "def f():\n    return 1\n\n\nN = 2\n\n\ndef g():\n    return N\n"},
        target="m.py",
    ),
    Case(
        "guarded imports are joined from below",
        {"m.py": "try:\n    import json\nexcept ImportError:\n    json = None\n\n\ndef f():\n    return 1\n"},
        fence("import re\n\n\ndef f():\n    return 2\n"),
        {
            "m.py": "try:\n    import json\nexcept ImportError:\n    json = None\nimport re\n\n\ndef f():\n    return 2\n"
        },
        target="m.py",
    ),
    # imports
    Case(
        "new import joins the block",
        F,
        fence("import math\n\n\n" + ADD),
        {"m.py": ADDED.replace("import os\n", "import os\nimport math\n")},
        target="m.py",
    ),
    Case("known import is not doubled", F, fence("import os\n\n" + ADD), {"m.py": ADDED}, target="m.py"),
    Case(
        "half known import",
        {"m.py": "from a import b\n\n\ndef f():\n    return 1\n"},
        fence("from a import b, c\n\n\ndef f():\n    return c\n"),
        {"m.py": "from a import b\nfrom a import c\n\n\ndef f():\n    return c\n"},
        target="m.py",
    ),
    Case(
        "import where there is none",
        {"m.py": "def f():\n    return 1\n"},
        fence("import math\n\n\ndef f():\n    return math.pi\n"),
        {"m.py": "import math\n\n\ndef f():\n    return math.pi\n"},
        target="m.py",
    ),
    Case(
        "import behind the docstring",
        {"m.py": '"""Doc."""\n\n\ndef f():\n    return 1\n'},
        fence("import math\n\n\ndef f():\n    return math.pi\n"),
        {"m.py": '"""Doc."""\n\nimport math\n\n\ndef f():\n    return math.pi\n'},
        target="m.py",
    ),
    Case(
        "future import comes first",
        F,
        fence("from __future__ import annotations\n\n" + ADD),
        {"m.py": ADDED.replace("import os\n", "from __future__ import annotations\nimport os\n")},
        target="m.py",
    ),
    Case(
        "import in CRLF",
        {"m.py": "import os\r\n\r\n\r\ndef f():\r\n    return 1\r\n"},
        fence("import re\n\n\ndef f():\n    return 2\n"),
        {"m.py": "import os\r\nimport re\r\n\r\n\r\ndef f():\r\n    return 2\r\n"},
        target="m.py",
    ),
    # style and bytes
    Case(
        "CRLF",
        {"m.py": MODULE.replace("\n", "\r\n")},
        fence(ADD),
        {"m.py": ADDED.replace("\n", "\r\n")},
        target="m.py",
    ),
    Case(
        "BOM",
        {"m.py": b"\xef\xbb\xbf" + MODULE.encode()},
        fence(ADD),
        {"m.py": b"\xef\xbb\xbf" + ADDED.encode()},
        target="m.py",
    ),
    Case(
        "tabs",
        {"m.py": "class A:\n\tdef f(self):\n\t\treturn 1\n"},
        fence("def f(self):\n    if self:\n        return 2\n"),
        {"m.py": "class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 2\n"},
        target="m.py",
    ),
    Case(
        "no final newline",
        {"m.py": "def f():\n    return 1"},
        fence("def f():\n    return 2\n"),
        {"m.py": "def f():\n    return 2"},
        target="m.py",
    ),
    Case(
        "exec bit",
        {"m.py": TreeFile(b"def f():\n    return 1\n", "100755")},
        fence("def f():\n    return 2\n"),
        {"m.py": TreeFile(b"def f():\n    return 2\n", "100755")},
        target="m.py",
    ),
    Case(
        "latin-1",
        {"m.py": "# coding: latin-1\ndef f():\n    return 'é'\n".encode("latin-1")},
        fence("def f():\n    return 'è'\n"),
        {"m.py": "# coding: latin-1\ndef f():\n    return 'è'\n".encode("latin-1")},
        target="m.py",
    ),
    Case(
        "form feed between functions",
        {"m.py": "def f():\n    return 1\n\f\ndef g():\n    return 1\n"},
        fence("def g():\n    return 2\n"),
        {"m.py": "def f():\n    return 1\n\f\ndef g():\n    return 2\n"},
        target="m.py",
    ),
    Case(
        "text in a string does not move",
        {"m.py": 'class A:\n    def f(self):\n        return """\nold\n"""\n'},
        fence('def f(self):\n    """Doc.\n\n    More.\n    """\n    return """\nnew\n"""\n'),
        {
            "m.py": 'class A:\n    def f(self):\n        """Doc.\n\n        More.\n        """\n        return """\nnew\n"""\n'
        },
        target="m.py",
    ),
    Case(
        "a def in a docstring is none",
        {"m.py": '"""\ndef f():\n    return 0\n"""\n\n\ndef f():\n    return 1\n'},
        fence("def f():\n    return 2\n"),
        {"m.py": '"""\ndef f():\n    return 0\n"""\n\n\ndef f():\n    return 2\n'},
        target="m.py",
    ),
    Case(
        "file that does not parse",
        {"m.py": "def f(x):\n    print x\n\n\ndef g(x):\n    return x - 1\n\n\ny = (1\n"},
        fence("def g(x):\n    return x + 1\n"),
        {"m.py": "def f(x):\n    print x\n\n\ndef g(x):\n    return x + 1\n\n\ny = (1\n"},
        target="m.py",
    ),
    Case(
        "the broken function itself",
        {"m.py": "import os\n\n\ndef f(x:\n    return x\n\n\ndef g(x):\n    return x\n"},
        fence("def f(x):\n    return x\n"),
        {"m.py": "import os\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x\n"},
        target="m.py",
    ),
    Case(
        "nothing new",
        F,
        fence("def sub(a, b):\n    return a - b  # fine\n"),
        reason="already_applied",
        target="m.py",
    ),
    Case("fragment without a place", F, fence("return a + b\n"), reason="malformed", target="m.py"),
    Case(
        "shell block beside the code",
        F,
        fence("pip install x\n", "bash") + fence(ADD),
        {"m.py": ADDED},
        target="m.py",
    ),
    Case(
        "path in front of the fence",
        {**F, "n.py": "def add(): pass\n"},
        "`m.py`:\n" + fence(ADD),
        {"m.py": ADDED},
    ),
    Case(
        "path in a first comment",
        {**F, "n.py": "def add(): pass\n"},
        fence("# m.py\n" + ADD),
        {"m.py": ADDED},
    ),
    Case("tilde fence", F, "~~~python\n" + ADD + "~~~\n", {"m.py": ADDED}, target="m.py"),
    Case(
        "indented fence in a list",
        F,
        "1. Do:\n\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n",
        {"m.py": ADDED},
        target="m.py",
    ),
]


@pytest.mark.parametrize("case", SYMBOLS, ids=ids(SYMBOLS))
def test_symbols(case: Case) -> None:
    check(case)
