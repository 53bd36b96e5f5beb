"""Each operator, by the fix it must be able to propose."""

from __future__ import annotations

import ast

import pytest

from agentforge.search.operators import edits_of
from agentforge.search.source import Source, fingerprint

CASES = [
    ("comparison", "def f(a, b):\n    return a < b\n", "def f(a, b):\n    return a <= b\n"),
    ("not in", "def f(a, b):\n    return a not in b\n", "def f(a, b):\n    return a in b\n"),
    ("arithmetic", "def f(a, b):\n    return a / b\n", "def f(a, b):\n    return a // b\n"),
    ("augmented", "def f(n):\n    n ^= n - 1\n    return n\n", "def f(n):\n    n &= n - 1\n    return n\n"),
    ("boolean", "def f(a, b):\n    return a and b\n", "def f(a, b):\n    return a or b\n"),
    (
        "negation",
        "def f(a):\n    if a:\n        return 1\n    return 0\n",
        "def f(a):\n    if not a:\n        return 1\n    return 0\n",
    ),
    ("off by one", "def f(n):\n    return list(range(n))\n", "def f(n):\n    return list(range(n + 1))\n"),
    ("index", "def f(x, i):\n    return x[i]\n", "def f(x, i):\n    return x[i - 1]\n"),
    (
        "boundary",
        "def f(x):\n    if len(x) == 0:\n        return x\n    return x[1]\n",
        "def f(x):\n    if len(x) <= 1:\n        return x\n    return x[1]\n",
    ),
    ("name", "def f(a, b):\n    return a * a\n", "def f(a, b):\n    return a * b\n"),
    (
        "attribute",
        "def f(n):\n    n.right = n.left\n    return n.left\n",
        "def f(n):\n    n.right = n.left\n    return n.right\n",
    ),
    ("method family", "def f(s):\n    return s.lstrip()\n", "def f(s):\n    return s.rstrip()\n"),
    (
        "callable family",
        "def f(x):\n    return any(i > 0 for i in x)\n",
        "def f(x):\n    return all(i > 0 for i in x)\n",
    ),
    ("argument swap", "def f(a, b):\n    return divmod(a, b)\n", "def f(a, b):\n    return divmod(b, a)\n"),
    (
        "argument passed on",
        "def g(x, deep=False):\n    return x\n\n\ndef f(x, deep=False):\n    return g(x)\n",
        "def g(x, deep=False):\n    return x\n\n\ndef f(x, deep=False):\n    return g(x, deep=deep)\n",
    ),
    (
        "constant of the file",
        "A = 'utf-8'\n\n\ndef f(b):\n    return b.decode('ascii')\n",
        "A = 'utf-8'\n\n\ndef f(b):\n    return b.decode('utf-8')\n",
    ),
    ("wrap", "def f(x):\n    return x\n", "def f(x):\n    return sorted(x)\n"),
    ("unwrap", "def f(x):\n    yield f(x)\n", "def f(x):\n    yield x\n"),
    ("parentheses", "def f(a, b):\n    return 2 * a\n", "def f(a, b):\n    return 2 * (a - b)\n"),
    (
        "guard",
        "def f(x):\n    return x[0]\n",
        "def f(x):\n    if not x:\n        return None\n    return x[0]\n",
    ),
    (
        "default",
        "def f(x):\n    return len(x)\n",
        "def f(x):\n    if x is None:\n        x = []\n    return len(x)\n",
    ),
    (
        "strengthen",
        "def f(x):\n    if x.n > 0:\n        return 1\n    return 0\n",
        "def f(x):\n    if x is not None and x.n > 0:\n        return 1\n    return 0\n",
    ),
    (
        "weaken",
        "def f(x):\n    while x.n:\n        x = x.n\n    return x\n",
        "def f(x):\n    while not x or x.n:\n        x = x.n\n    return x\n",
    ),
    (
        "insert",
        "def f(x):\n    y = []\n    for i in x:\n        if i:\n            y.append(i)\n        print(i)\n"
        "    return y\n",
        "def f(x):\n    y = []\n    for i in x:\n        if i:\n            y.append(i)\n        print(i)\n"
        "        y.append(i)\n    return y\n",
    ),
    (
        "update",
        "def f(x):\n    n = 0\n    while n < x:\n        print(n)\n",
        "def f(x):\n    n = 0\n    while n < x:\n        print(n)\n        n += 1\n",
    ),
    ("delete", "def f(x):\n    x = x + 1\n    return x\n", "def f(x):\n    return x\n"),
    (
        "move out",
        "def f(x):\n    for i in x:\n        i += 1\n        return i\n",
        "def f(x):\n    for i in x:\n        i += 1\n    return i\n",
    ),
    (
        "swap statements",
        "def f(x):\n    a = x\n    x = 1\n    return a\n",
        "def f(x):\n    x = 1\n    a = x\n    return a\n",
    ),
    ("slice", "def f(a, b):\n    return a[1:] + b\n", "def f(a, b):\n    return a[1:] + b[1:]\n"),
    ("slice bound", "def f(a):\n    return a[1:-1]\n", "def f(a):\n    return a[1:]\n"),
    (
        "exception",
        "def f(x):\n    try:\n        return x[0]\n    except KeyError:\n        return 0\n",
        "def f(x):\n    try:\n        return x[0]\n    except (KeyError, IndexError):\n        return 0\n",
    ),
    (
        "forgotten parameter",
        "def f(x, sep=' '):\n    return ' '.join(x)\n",
        "def f(x, sep=' '):\n    return sep.join(x)\n",
    ),
    (
        "clamp",
        "def f(x):\n    t = 0\n    for i in x:\n        t = t + i\n    return t\n",
        "def f(x):\n    t = 0\n    for i in x:\n        t = max(0, t + i)\n    return t\n",
    ),
    ("result", "def f(x):\n    return []\n", "def f(x):\n    return [x]\n"),
    (
        "closure",
        "def f(x):\n    seen = set()\n\n    def g(y):\n        return y in seen\n    return g(x)\n",
        "def f(x):\n    seen = set()\n\n    def g(y):\n        seen.add(y)\n"
        "        return y in seen\n    return g(x)\n",
    ),
    (
        "elif",
        "def f(x):\n    if x > 1:\n        y = 1\n    if x > 2:\n        y = 2\n    return y\n",
        "def f(x):\n    if x > 1:\n        y = 1\n    elif x > 2:\n        y = 2\n    return y\n",
    ),
    ("default value", "def f(x, n=0):\n    return x + n\n", "def f(x, n=1):\n    return x + n\n"),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_fix_is_among_the_edits(before: str, after: str) -> None:
    source = Source("m.py", before.encode())
    lines = dict.fromkeys(range(1, before.count("\n") + 1), 1.0)
    wanted = ast.dump(ast.parse(after))
    results = [e.apply(source.data) for e in edits_of(source, lines) if fingerprint(source, e)]
    assert any(ast.dump(ast.parse(result)) == wanted for result in results)


def test_only_the_given_lines_are_edited() -> None:
    source = Source("m.py", b"def f(a, b):\n    c = a + b\n    return c * a\n")
    assert {edit.line for edit in edits_of(source, {3: 1.0})} == {3}
