from __future__ import annotations

from agentforge.search.rank import naturalness
from agentforge.search.source import Edit, Source

SOURCE = Source("m.py", b"def f(a, b):\n    if a > b:\n        return []\n    return a\n")


def edit(old: bytes, new: bytes, operator: str, weight: float = 0.3) -> Edit:
    at = SOURCE.data.index(old)
    return Edit("m.py", at, at + len(old), new, operator, weight, SOURCE.data[:at].count(b"\n") + 1)


def test_smaller_and_more_familiar_changes_come_first() -> None:
    small = edit(b"a > b", b"a < b", "comparison")
    large = edit(b"a > b", b"a > b and a and b", "comparison")
    strange = edit(b"a > b", b"a < qqq", "comparison")
    scores = [naturalness(e, SOURCE, 1.0) for e in (small, large, strange)]
    assert scores[0] > scores[1]
    assert scores[0] > scores[2]


def test_taking_behaviour_away_comes_after_changing_it() -> None:
    deleted = edit(b"return []", b"pass", "delete")
    changed = edit(b"return []", b"return [a]", "element-add")
    decided = edit(b"a > b", b"False", "condition")
    asked = edit(b"a > b", b"a", "condition")
    assert naturalness(deleted, SOURCE, 1.0) < naturalness(changed, SOURCE, 1.0)
    assert naturalness(decided, SOURCE, 1.0) < naturalness(asked, SOURCE, 1.0)


def test_suspicion_and_prior_raise_the_rank() -> None:
    one = edit(b"a > b", b"a < b", "comparison", 0.2)
    other = edit(b"a > b", b"a < b", "comparison", 0.4)
    assert naturalness(one, SOURCE, 1.0) < naturalness(other, SOURCE, 1.0)
    assert naturalness(one, SOURCE, 0.5) < naturalness(one, SOURCE, 1.0)
