"""How often real fixes have an operator's shape, counted in histories by `benchmarks/mine_weights.py`."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files

LEAST, MOST = 0.4, 2.5
"""A few hundred fixes say which operators are likely, not that one never is."""


@cache
def table() -> dict[str, float]:
    """Operator -> how much likelier than the mean its edits are a fix; empty where no table is shipped."""
    place = files("agentforge.search.operators").joinpath("weights.json")
    if not place.is_file():
        return {}
    rows = json.loads(place.read_text("utf-8"))["operators"]
    return {operator: float(row["weight"]) for operator, row in rows.items()}


def learned(operator: str) -> float:
    """The factor for an operator's own weights, within [LEAST, MOST]; 1.0 for one that was never offered."""
    return min(MOST, max(LEAST, table().get(operator, 1.0)))


TAKE_AWAY = frozenset({"delete", "drop-condition"})
"""Histories have them in clean-ups that were no repairs, and they make tests pass by chance."""


def mined(operator: str) -> float:
    """The factor by which the order of the search trusts an operator; those that take away gain nothing.

    The square root, since the factors rest on fifty fixes: half of what they say on a log scale.
    For the order only: ranking among plausible edits knows more than how frequent a shape is.
    """
    factor = math.sqrt(learned(operator))
    return min(1.0, factor) if operator in TAKE_AWAY else factor
