"""Coefficients, statements and expressions: facts from observations, without a container."""

from __future__ import annotations

import json

import pytest

from agentforge.core.redact import Redactor
from agentforge.core.retrieval import Symbol
from agentforge.core.tree import Tree, TreeFile
from agentforge.search.batch import Observation, Observed
from agentforge.search.engine import Diagnosis
from agentforge.search.facts import dstar, facts_of, segment, tarantula
from agentforge.search.localize import localize
from agentforge.search.source import Source

CODE = (
    "def f(x):\n    if x:\n        y = (\n            x\n            + né\n        )\n    return y\n".encode()
)
SEEN = {
    "frames": [
        {
            "path": "m.py",
            "line": 3,
            "function": "f",
            "span": [4, 5, 12, 17],
            "values": [["x", "sk-" + "1a" * 15]],
        }
    ],
    "calls": [{"path": "m.py", "line": 1, "function": "f", "arguments": [["x", "1"]], "returned": None}],
}


def diagnosis() -> Diagnosis:
    seen = (
        Observation("t.py::bad", "failed", lines={"m.py": (1, 2, 3)}, exception="NameError", seen=SEEN),
        Observation("t.py::good", "passed", lines={"m.py": (1, 2, 7)}),
        Observation("t.py::fine", "passed", lines={"m.py": (1, 2, 7)}),
    )
    sources = {"m.py": Source("m.py", CODE)}
    lines = tuple(localize(seen, ["t.py::bad"], sources))
    tree = Tree({"m.py": TreeFile(CODE)})
    return Diagnosis(tree, Observed(seen, (), frozenset()), ("t.py::bad",), ("t.py",), lines, sources)


def test_the_coefficients_are_the_published_ones() -> None:
    assert tarantula(1, 0, 1, 4) == 1.0
    assert tarantula(1, 2, 2, 4) == pytest.approx(0.5)
    assert tarantula(0, 3, 1, 4) == tarantula(0, 0, 0, 0) == 0.0
    assert dstar(2, 3, 4) == pytest.approx(4 / 5)
    assert dstar(2, 0, 2) is None, "every failing test and no passing one: unbounded"


def test_one_entry_a_statement_with_expression_values_and_the_rank_in_the_index() -> None:
    symbols = [Symbol(path="m.py", name="f", kind="function", start_line=1, end_line=7, text="")]
    facts = facts_of(diagnosis(), lines=10, clean=Redactor().text, symbols=symbols)
    first = facts.suspects[0]
    assert (first.path, first.line, first.end_line) == ("m.py", 3, 6)
    assert (first.ochiai, first.tarantula, first.dstar) == (1.0, 1.0, None)
    assert first.code == "y = ( x + né )"
    assert first.expression == "x + né"
    assert first.index == 1
    assert len({suspect.line for suspect in facts.suspects}) == len(facts.suspects)
    (failure,) = facts.failures
    assert failure.frames[0].values[0].text == "[redacted]"
    assert failure.calls[0].returned is None
    json.loads(facts.model_dump_json())


def test_no_more_statements_than_were_asked_for() -> None:
    assert len(facts_of(diagnosis(), lines=1, clean=str).suspects) == 1


def test_a_span_that_is_not_in_the_file_shows_nothing() -> None:
    assert segment(CODE, [99, 99, 0, 5]) == segment(CODE, None) == ""
