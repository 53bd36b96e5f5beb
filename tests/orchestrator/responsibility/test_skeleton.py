"""Stubs of promised functions: where they stand, and that none is left that nobody needs."""

from __future__ import annotations

import pytest

from agentforge.orchestrator.responsibility.skeleton import with_stubs, without_idle_stubs
from tests.orchestrator.responsibility.helpers import graph, inner, leaf, signature, tree

GRAPH = graph(
    inner("S0"),
    leaf("S1", "S0", "new", contract=signature("new", "a: int", "b=3")),
    leaf("S2", "S0", "old", "Shape", "Known.method"),
)
STUBS = (
    "def new(a, b):\n    raise NotImplementedError\n",
    "class Shape:\n    pass\n",
)


@pytest.mark.parametrize(
    ("before", "where"),
    [
        ('"""Doc."""\nimport os\n\n# About old.\ndef old():\n    return new()\n', "# About old."),
        ("raise NotImplementedError\n", "raise NotImplementedError\n"),
        ("def old():\n    pass\n\n\nif __name__ == '__main__':\n    old()\n", "def old"),
        ("import os\n", ""),
        ("", ""),
    ],
)
def test_a_stub_stands_before_all_that_runs(before: str, where: str) -> None:
    after = with_stubs(GRAPH, tree(m=before)).read("m.py").data.decode()
    assert all(stub in after for stub in STUBS)
    assert after.count("def old(") == 1
    places = [after.index(stub) for stub in STUBS]
    assert not where or max(places) < after.rindex(where)
    compile(after, "m.py", "exec")


def test_what_does_not_parse_is_left_alone() -> None:
    broken = tree(m="def old(:\n")
    assert with_stubs(GRAPH, broken).digest == broken.digest


def test_a_stub_that_nobody_calls_does_not_stay() -> None:
    base = tree(m="def old():\n    return new()\n\n\ndef kept():\n    raise NotImplementedError\n")
    cleaned = without_idle_stubs(with_stubs(GRAPH, base), base, ["m.py"]).read("m.py").data.decode()
    assert "def new(a, b)" in cleaned, "old calls it"
    assert "class Shape" not in cleaned
    assert "def kept" in cleaned, "it was there before"
