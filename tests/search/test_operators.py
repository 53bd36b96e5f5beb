"""Each operator, by the fix it must be able to propose."""

from __future__ import annotations

import ast

import pytest

from agentforge.search.operators import Facts, edits_of
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
    (
        "option of a builtin",
        "def f(x):\n    return max([i for i in x])\n",
        "def f(x):\n    return max([i for i in x], default=None)\n",
    ),
    (
        "option as elsewhere",
        "def f(x):\n    return g(x, deep=1)\n\n\ndef h(x):\n    return g(x)\n",
        "def f(x):\n    return g(x, deep=1)\n\n\ndef h(x):\n    return g(x, deep=1)\n",
    ),
    ("lookup", "def f(d, k):\n    return d[k]\n", "def f(d, k):\n    return d.get(k)\n"),
    ("getattr", "def f(x):\n    return x.n\n", "def f(x):\n    return getattr(x, 'n', None)\n"),
    (
        "callee of the file",
        "def f(self, x):\n    self.show(x)\n    return str(x)\n",
        "def f(self, x):\n    self.show(x)\n    return self.show(x)\n",
    ),
    (
        "escape",
        "import re\n\n\ndef f(x):\n    return re.compile(x)\n",
        "import re\n\n\ndef f(x):\n    return re.compile(re.escape(x))\n",
    ),
    (
        "one more type",
        "def f(x):\n    return isinstance(x, list)\n",
        "def f(x):\n    return isinstance(x, (list, tuple))\n",
    ),
    (
        "membership",
        "A = 'b'\n\n\ndef f(x):\n    return x == 'a'\n",
        "A = 'b'\n\n\ndef f(x):\n    return x in ('a', 'b')\n",
    ),
    (
        "one more member",
        "A = 'c'\n\n\ndef f(x):\n    return x in ('a', 'b')\n",
        "A = 'c'\n\n\ndef f(x):\n    return x in ('a', 'b', 'c')\n",
    ),
    ("quantifier", "import re\nX = re.compile(r'a+b')\n", "import re\nX = re.compile(r'a*b')\n"),
    ("anchor", "import re\nX = re.compile(r'\\d+')\n", "import re\nX = re.compile(r'\\d+$')\n"),
    ("escaped dot", "import re\nX = re.compile(r'a.b')\n", "import re\nX = re.compile(r'a\\.b')\n"),
    ("character class", "import re\nX = re.compile(r'[a-z]+')\n", "import re\nX = re.compile(r'[a-z_]+')\n"),
    (
        "flags",
        "import re\n\n\ndef f(x):\n    return re.match('a', x)\n",
        "import re\n\n\ndef f(x):\n    return re.match('a', x, re.IGNORECASE)\n",
    ),
    ("conversion", "def f(x):\n    return '%s' % x\n", "def f(x):\n    return '%r' % x\n"),
    ("text", "def f(x):\n    return '%s() (of %s)' % x\n", "def f(x):\n    return '%s (of %s)' % x\n"),
    (
        "filter",
        "def f(x):\n    return [i.n for i in x]\n",
        "def f(x):\n    return [i.n for i in x if i]\n",
    ),
    (
        "no filter",
        "def f(x):\n    return [i.n for i in x if (i.m)]\n",
        "def f(x):\n    return [i.n for i in x]\n",
    ),
    (
        "choice",
        "def f(x):\n    return x.lower()\n",
        "def f(x):\n    return x.lower() if x is not None else None\n",
    ),
    (
        "any of",
        "def f(x):\n    if x:\n        return 1\n    return 2\n",
        "def f(x):\n    if x and any(x):\n        return 1\n    return 2\n",
    ),
    (
        "operand joined",
        "def f(x, n):\n    if not x.e and len(x.c) > n:\n        return x.c\n    return n\n",
        "def f(x, n):\n    if not x.e and x.c and len(x.c) > n:\n        return x.c\n    return n\n",
    ),
    ("regrouped", "def f(a, b, c):\n    return a - b + c\n", "def f(a, b, c):\n    return a - (b + c)\n"),
    (
        "regrouped condition",
        "def f(a, b, c):\n    return a and b or c\n",
        "def f(a, b, c):\n    return a and (b or c)\n",
    ),
    (
        "result returned",
        "def f(self, x):\n    self.x = x\n",
        "def f(self, x):\n    self.x = x\n    return self\n",
    ),
    (
        "guard on an attribute",
        "def f(self, x):\n    y = self.z + x\n    return y\n",
        "def f(self, x):\n    if self.z is None:\n        return self\n    y = self.z + x\n    return y\n",
    ),
    (
        "statement of another function",
        "def g(x):\n    x.check()\n    return 1\n\n\ndef f(x):\n    return 2\n",
        "def g(x):\n    x.check()\n    return 1\n\n\ndef f(x):\n    x.check()\n    return 2\n",
    ),
    (
        "block of another function",
        "def g(x):\n    if not x:\n        raise ValueError(x)\n    return 1\n\n\ndef f(x):\n    return 2\n",
        "def g(x):\n    if not x:\n        raise ValueError(x)\n    return 1\n\n\n"
        "def f(x):\n    if not x:\n        raise ValueError(x)\n    return 2\n",
    ),
    (
        "expression of another function",
        "def g(s):\n    return s.lower().strip()\n\n\ndef f(s):\n    return s.upper()\n",
        "def g(s):\n    return s.lower().strip()\n\n\ndef f(s):\n    return s.lower().strip()\n",
    ),
    (
        "only if",
        "def f(x):\n    x.close()  # at last\n    return 1\n",
        "def f(x):\n    if x is not None:\n        x.close()  # at last\n    return 1\n",
    ),
    (
        "arguments passed on",
        "def f(g, *args, **kwargs):\n    return g()\n",
        "def f(g, *args, **kwargs):\n    return g(*args, **kwargs)\n",
    ),
    ("normalised", "def f(x):\n    return x\n", "def f(x):\n    x = x.strip()\n    return x\n"),
    (
        "called",
        "class A(B):\n    def f(self, x):\n        super.f(x)\n",
        "class A(B):\n    def f(self, x):\n        super().f(x)\n",
    ),
    (
        "left as it is",
        "def f(x):\n    return g(1, h(x))\n",
        "def f(x):\n    return g(1, x if x is None else h(x))\n",
    ),
    (
        "member",
        "def f(g):\n    g.all()\n    for x in g:\n        print(x)\n",
        "def f(g):\n    g.all()\n    for x in g.all():\n        print(x)\n",
    ),
    (
        "member of a module",
        "import codecs\n\n\ndef f():\n    return codecs.BOM32_BE\n",
        "import codecs\n\n\ndef f():\n    return codecs.BOM_UTF32_BE\n",
    ),
    ("converted", "def f(a, b):\n    return a + ':' + b\n", "def f(a, b):\n    return a + ':' + str(b)\n"),
    ("space between", "def f(a):\n    return 'x' + a\n", "def f(a):\n    return 'x' + ' ' + a\n"),
    (
        "guard of a fresh value",
        "def f(a, b, c, d, e, g, h):\n    s = a.b()\n    return g(a, b, c, d, e, h, s)\n",
        "def f(a, b, c, d, e, g, h):\n    s = a.b()\n    if s is None:\n        return None\n"
        "    return g(a, b, c, d, e, h, s)\n",
    ),
    (
        "raised",
        "def f(x):\n    return NotImplementedError(x)\n",
        "def f(x):\n    raise NotImplementedError(x)\n",
    ),
    (
        "base class told",
        "class A(B):\n    def f(self, x, **kw):\n        self.x = x\n",
        "class A(B):\n    def f(self, x, **kw):\n        super().f(x, **kw)\n        self.x = x\n",
    ),
    (
        "one more type of a module",
        "def f(x):\n    return isinstance(x, n.A)\n\n\ndef g(x):\n    return n.B()\n",
        "def f(x):\n    return isinstance(x, (n.A, n.B))\n\n\ndef g(x):\n    return n.B()\n",
    ),
    (
        "one more exception of the file",
        "def f(g):\n    try:\n        g()\n    except KeyError:\n        pass\n    try:\n        g()\n"
        "    except a.Odd:\n        pass\n",
        "def f(g):\n    try:\n        g()\n    except (KeyError, a.Odd):\n        pass\n    try:\n"
        "        g()\n    except a.Odd:\n        pass\n",
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


FACT_CASES = [
    (
        Facts(("KeyError",), ("'k'",), frozenset({("m.py", 3)})),
        "def f(d):\n    # try it\n    x = d['k']  # may be missing\n    return x\n",
        "def f(d):\n    # try it\n    try:\n        x = d['k']  # may be missing\n    except KeyError:\n"
        "        x = None\n    return x\n",
    ),
    (
        Facts(("UnicodeError",)),
        "def f(d):\n    try:\n        return d()\n    except KeyError:\n        return 0\n",
        "def f(d):\n    try:\n        return d()\n    except (KeyError, UnicodeError):\n        return 0\n",
    ),
    (
        Facts(("NameError",), ("name 'OrderedDict' is not defined",)),
        '"""Words."""\n\nimport os\n\n\ndef f():\n    return OrderedDict()\n',
        '"""Words."""\n\nfrom collections import OrderedDict\nimport os\n\n\ndef f():\n'
        "    return OrderedDict()\n",
    ),
    (
        Facts(("NameError",), ("name 'valeu' is not defined",)),
        "def f(value):\n    return valeu\n",
        "def f(value):\n    return value\n",
    ),
]


@pytest.mark.parametrize(("facts", "before", "after"), FACT_CASES)
def test_what_the_failure_tells_makes_edits(facts: Facts, before: str, after: str) -> None:
    source = Source("m.py", before.encode())
    lines = dict.fromkeys(range(1, before.count("\n") + 1), 1.0)
    assert after.encode() in [e.apply(source.data) for e in edits_of(source, lines, facts)]


def test_only_expressions_whose_place_is_certain_are_edited_inside_f_strings() -> None:
    text = 'def f(a, b):\n    return f"{a} and {b + a * 2:>{a}} {b!r}"\n'
    source = Source("m.py", text.encode())
    edits = list(edits_of(source, dict.fromkeys((1, 2), 1.0)))
    kept = [e.apply(source.data) for e in edits if fingerprint(source, e)]
    assert all(b"def f(a, b" in result for result in kept)
    assert all(source.data[e.start : e.end] in (b"+", b"*") for e in edits if e.operator == "arithmetic")


def test_the_likeliest_edits_at_a_place_lose_nothing_by_a_crowd_behind_them() -> None:
    plain = "def f(queue):\n    while queue:\n        queue.pop()\n"
    crowd = "".join(f"    if v{n} > {n}:\n        v{n} = {n}\n" for n in range(12))

    def weights(code: str) -> dict[bytes, float]:
        edits = edits_of(Source("m.py", code.encode()), {2: 1.0})
        return {e.new: e.weight for e in edits if e.operator in ("negate-condition", "condition", "weaken")}

    few, many = weights(plain), weights(plain + crowd)
    assert len(many) > 3 * len(few) > 24
    assert many[b"not queue"] == few[b"not queue"]
    assert min(many.values()) < min(few.values())


def test_only_the_given_lines_are_edited() -> None:
    source = Source("m.py", b"def f(a, b):\n    c = a + b\n    return c * a\n")
    assert {edit.line for edit in edits_of(source, {3: 1.0})} == {3}
