"""What comes along with the symbols of an answer: helpers, comments, constants, overloads, members."""

from __future__ import annotations

import pytest

from tests.repo.patch.support import Case, check, ids

FILE = '''"""Doc."""
import os

X = 1


# about a
def a(x):
    return x


class D:
    z = 1

    def m(self):
        return 2

    def k(self):
        return 3
'''
TYPED = """from typing import overload


@overload
def f(x: int) -> int: ...
@overload
def f(x: str) -> str: ...
def f(x):
    return x
"""
FIELDS = """from dataclasses import dataclass


@dataclass
class P:
    a: int

    def s(self):
        return self.a
"""


def code(text: str) -> str:
    return f"```python\n{text}```\n"


def case(name: str, answer: str, after: str = "", reason: str = "", before: str = FILE) -> Case:
    return Case(name, {"f.py": before}, code(answer), {"f.py": after}, reason=reason, target="f.py")


CASES = [
    case(
        "a helper goes above the comment of its neighbour, with its own",
        "# helps\ndef helper():\n    return 1\n\n\ndef a(x):\n    return helper()\n",
        FILE.replace("# about a\n", "# helps\ndef helper():\n    return 1\n\n\n# about a\n").replace(
            "return x", "return helper()"
        ),
    ),
    case(
        "a constant goes above the comment of its neighbour",
        "LIMIT = 3\n\n\ndef a(x):\n    return LIMIT\n",
        FILE.replace("# about a\n", "LIMIT = 3\n\n\n# about a\n").replace("return x", "return LIMIT"),
    ),
    case(
        "overloads in order",
        "@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: bytes) -> str: ...\n"
        "def f(x):\n    return x + x\n",
        TYPED.replace("x: str", "x: bytes").replace("return x", "return x + x"),
        before=TYPED,
    ),
    case(
        "a class that leaves out a method beside a changed attribute",
        "class D:\n    z = 5\n\n    def m(self):\n        return 3\n",
        reason="partial",
    ),
    case(
        "a class in full",
        "class D:\n    z = 5\n\n    def m(self):\n        return 4\n\n    def k(self):\n        return 3\n",
        FILE.replace("z = 1", "z = 5").replace("return 2", "return 4"),
    ),
    case(
        "fields without the methods",
        "@dataclass\nclass P:\n    a: int\n    b: int = 0\n",
        reason="partial",
        before=FIELDS,
    ),
    case(
        "a guarded import that would be lost",
        "try:\n    import json\nexcept ImportError:\n    json = None\n\n\n"
        "def a(x):\n    return json.dumps(x)\n",
        reason="partial",
    ),
    case(
        "names that a definition needs and that have no place",
        "P, Q = 1, 2\n\n\ndef a(x):\n    return P\n",
        reason="partial",
    ),
    case(
        "a default that needs such a name",
        "P, Q = 1, 2\n\n\ndef a(x=Q):\n    return x\n",
        reason="partial",
    ),
    case(
        "a constant behind the code that uses it",
        "def a(x):\n    return LIMIT\n\n\nLIMIT = 3\n",
        reason="partial",
    ),
    case(
        "a demonstration whose names only look the same",
        "def a(x):\n    i = x + 1\n    return i\n\n\nfor i in range(3):\n    print(a(i))\n",
        FILE.replace("    return x\n", "    i = x + 1\n    return i\n"),
    ),
    case(
        "an inner function that is sound only in its place",
        "def g():\n    nonlocal n\n    n = 2\n\n\nprint(g())\n",
        "def f():\n    n = 1\n\n    def g():\n        nonlocal n\n        n = 2\n\n    return g\n",
        before="def f():\n    n = 1\n\n    def g():\n        pass\n\n    return g\n",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_company(case: Case) -> None:
    check(case)
