"""Two edits as one, one edit everywhere, and which edits are worth a partner."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.search.batch import Verdict
from agentforge.search.operators import edits_of
from agentforge.search.pairs import Pairs, combined, leads, repeated
from agentforge.search.source import Edit, Source, fingerprint
from tests.search.conftest import STATS

SOURCE = Source("stats.py", STATS.encode())
EDITS = list(edits_of(SOURCE, dict.fromkeys(range(9, 20), 1.0)))


def edit(old: str, new: str, nth: int = 0) -> Edit:
    at = -1
    for _ in range(nth + 1):
        at = STATS.index(old, at + 1)
    return Edit("stats.py", at, at + len(old), new.encode(), "test", 0.5, STATS[:at].count("\n") + 1)


def test_two_edits_become_one_span_with_what_lies_between() -> None:
    both = combined(SOURCE, edit("middle + 1", "middle - 1"), edit("== 1:", "== 0:"))
    assert both is not None
    expected = STATS.replace("middle + 1", "middle - 1").replace("== 1:", "== 0:")
    assert both.apply(SOURCE.data).decode() == expected
    assert (both.line, both.operator) == (17, "pair")


def test_edits_that_touch_are_no_pair() -> None:
    assert combined(SOURCE, edit("middle + 1", "middle"), edit("+ 1", "- 1")) is None
    assert combined(SOURCE, edit("+ 1", "+ 2"), edit("+ 1", "- 1")) is None


def test_a_replacement_is_made_at_every_like_place_of_the_function() -> None:
    whole = repeated(SOURCE, edit("ordered[", "self.values["))
    assert whole is not None
    assert whole.apply(SOURCE.data).decode() == STATS.replace("ordered[", "self.values[")
    assert repeated(SOURCE, edit("sorted", "list")) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(EDITS), st.sampled_from(EDITS))
def test_a_pair_leaves_what_is_outside_as_it_was_and_holds_both(left: Edit, right: Edit) -> None:
    both = combined(SOURCE, left, right)
    if both is None:
        return
    first, second = sorted((left, right), key=lambda e: e.start)
    assert both.apply(SOURCE.data) == first.apply(second.apply(SOURCE.data))
    if fingerprint(SOURCE, both) is not None:
        ast.parse(both.apply(SOURCE.data))


def test_leads_are_edits_that_change_how_the_test_fails() -> None:
    usual = [Verdict(e, "failed", 0, "t", "AssertionError: assert 1 == 2") for e in EDITS[:6]]
    other = Verdict(EDITS[6], "failed", 0, "t", "AssertionError: assert 3 == 2")
    further = Verdict(EDITS[7], "failed", 1, "u", "AssertionError")
    broke = Verdict(EDITS[8], "broke", 2, "k", "ValueError")
    gone = Verdict(EDITS[9], "timeout")
    assert leads([*usual, other, further, broke, gone]) == [EDITS[8], EDITS[7], EDITS[6]]


def test_no_pair_is_offered_twice_and_each_is_bounded() -> None:
    verdicts = [Verdict(e, "failed", 0, "t", "usual") for e in EDITS[::9]]
    verdicts += [Verdict(e, "failed", 0, "t", f"other {n}") for n, e in enumerate(EDITS[300:320])]
    pairs = Pairs({"stats.py": SOURCE})
    rounds = [pairs.take(verdicts, 50) for _ in range(4)]
    flat = [e for batch in rounds for e in batch]
    assert [len(batch) for batch in rounds] == [50, 50, 50, 50]
    assert len({fingerprint(SOURCE, e) for e in flat}) == len(flat)
    assert {e.operator for e in flat} == {"pair", "repeated"}
