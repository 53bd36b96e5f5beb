"""What the way a test fails says about the fix: factors on operators, at the lines in the traceback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentforge.search.batch import Observation
from agentforge.search.source import Edit

NONE_WORDS = (b"is None", b"is not None", b"not ", b" or ", b" and ")

HINTS: Mapping[str, Mapping[str, float]] = {
    "none": {
        "weaken": 3.0,
        "strengthen": 3.0,
        "guard": 3.0,
        "default": 4.0,
        "condition": 1.5,
        "attribute": 1.5,
    },
    "index": {
        "off-by-one": 1.6,
        "comparison": 1.3,
        "strengthen": 1.8,
        "guard": 2.0,
        "slice": 1.5,
        "condition": 1.5,
        "weaken": 1.5,
    },
    "key": {"guard": 1.5, "method": 2.0, "argument-swap": 1.5, "strengthen": 1.5, "element-swap": 1.5},
    "recursion": {"comparison": 1.4, "arithmetic": 1.4, "off-by-one": 1.5, "subscript": 1.5, "guard": 2.0},
    "hang": {"comparison": 1.5, "arithmetic": 1.6, "off-by-one": 1.5, "condition": 1.8, "insert": 1.2},
    "zero": {"guard": 3.0, "strengthen": 2.0, "default": 2.0, "clamp": 2.0},
    "type": {
        "wrap": 2.0,
        "unwrap": 1.5,
        "argument-swap": 1.5,
        "argument-add": 2.0,
        "argument-drop": 1.5,
        "default": 2.0,
    },
    "attribute": {"attribute": 2.0, "method": 1.5, "wrap": 1.5, "guard": 1.3},
    "name": {"name": 1.5, "callable": 2.0, "attribute": 1.5},
    "error": {"exception": 2.5, "guard": 1.5},
}


def kinds(seen: Observation) -> set[str]:
    """In which of the ways of `HINTS` the test failed."""
    found: set[str] = set()
    if "NoneType" in seen.message:
        found.add("none")
    table = {
        "IndexError": "index",
        "KeyError": "key",
        "RecursionError": "recursion",
        "ZeroDivisionError": "zero",
        "TypeError": "type",
        "AttributeError": "attribute",
        "NameError": "name",
        "UnboundLocalError": "name",
    }
    if seen.exception in table:
        found.add(table[seen.exception])
    elif seen.exception and seen.exception not in ("AssertionError", "Failed"):
        found.add("error")
    if seen.outcome in ("timeout", "crash"):
        found.add("hang")
    return found


class Hints:
    """Factors by operator: in full on the lines of the failures' tracebacks, by half elsewhere."""

    def __init__(self, failing: Iterable[Observation]) -> None:
        self.kinds: set[str] = set()
        self.places: set[tuple[str, int]] = set()
        for seen in failing:
            self.kinds |= kinds(seen)
            self.places |= {(path, line) for path, line, _ in seen.frames[-2:]}

    def factor(self, edit: Edit) -> float:
        """What to multiply an edit's weight by, at least 1."""
        factors = [HINTS[kind].get(edit.operator, 1.0) for kind in self.kinds]
        best = max(factors, default=1.0)
        if "none" in self.kinds and edit.operator in ("weaken", "strengthen", "guard", "condition"):
            best = best if any(word in edit.new for word in NONE_WORDS[:3]) else 1.0
        here = (edit.path, edit.line) in self.places
        return best if here or not self.places else 1 + (best - 1) / 2
