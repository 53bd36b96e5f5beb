"""The table of mined weights is read, bounded, and of operators that exist."""

from __future__ import annotations

from agentforge.search.operators import edits_of
from agentforge.search.operators.weights import LEAST, MOST, TAKE_AWAY, learned, mined, table
from agentforge.search.source import Source

CODE = (
    b'def f(a, b=1):\n    """Text."""\n    if a < 1 and b:\n        return a[0] + len(b)\n    return g(a)\n'
)


def test_every_operator_has_a_bounded_factor() -> None:
    operators = {edit.operator for edit in edits_of(Source("m.py", CODE), dict.fromkeys(range(1, 6), 1.0))}
    assert operators & set(table())
    assert all(LEAST <= learned(operator) <= MOST for operator in operators)


def test_an_operator_that_was_never_mined_keeps_its_own_weight() -> None:
    assert learned("no such operator") == 1.0
    assert len({learned(operator) for operator in table()}) > 5


def test_what_takes_away_is_never_trusted_more_than_before() -> None:
    assert all(mined(operator) <= 1 for operator in TAKE_AWAY)
    assert 1 < mined("strengthen") < learned("strengthen")
