"""Our statistics against independently computed ones, and against brute force."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.evaluation.contrast import compare
from agentforge.evaluation.statistics import holm, mcnemar_exact, pass_at_k, wilcoxon_permutation
from agentforge.evaluation.trials import read_rows

DATA = Path(__file__).parents[3] / "shared" / "data" / "analysis"


def _pairs() -> list[tuple[Path, Path]]:
    return [(f, f.with_name(f.name.replace(".input.", ".expected."))) for f in DATA.glob("*.input.json")]


def _differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Every place where the independent figures differ from ours."""
    if isinstance(theirs, dict):
        return [
            found
            for key, value in theirs.items()
            for found in (
                _differences(ours[key], value, f"{place}/{key}")
                if key in ours
                else [f"{place}/{key} missing"]
            )
        ]
    tolerance = 0.005 if "boot_np" in place or "boot_BCa" in place or "ci95" in place else 1e-9
    if isinstance(theirs, list):
        same = len(ours) == len(theirs) and all(
            math.isclose(a, b, abs_tol=tolerance) for a, b in zip(ours, theirs, strict=True)
        )
    else:
        same = math.isclose(ours, theirs, abs_tol=tolerance)
    return [] if same else [f"{place}: {ours} != {theirs}"]


@pytest.mark.skipif(not _pairs(), reason="the independently computed figures lie beside the checkout")
@pytest.mark.parametrize(("given_rows", "expected"), _pairs(), ids=lambda path: path.stem)
def test_published_rows_give_the_independently_computed_figures(given_rows: Path, expected: Path) -> None:
    theirs = json.loads(expected.read_text())
    theirs.pop("conventions")
    ours = json.loads(json.dumps(compare(read_rows(given_rows))))
    assert _differences(ours, theirs) == []


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9).filter(any))
def test_eg18_the_permutation_test_counts_every_assignment_of_signs(values: list[int]) -> None:
    statistic, p_value, effective = wilcoxon_permutation([Fraction(value, 5) for value in values])
    sizes = sorted(abs(value) for value in values if value)
    ranks = {size: sum(i for i, s in enumerate(sizes, 1) if s == size) / sizes.count(size) for size in sizes}
    sums = [
        sum(ranks[size] for size, sign in zip(sizes, signs, strict=True) if sign)
        for signs in product((False, True), repeat=len(sizes))
    ]
    positive = sum(ranks[value] for value in values if value > 0)
    smaller = min(positive, sum(ranks[size] for size in sizes) - positive)
    assert effective == len(sizes)
    assert statistic == smaller
    assert p_value == min(1.0, 2 * sum(total <= smaller for total in sums) / len(sums))


def test_mcnemar_is_the_two_sided_binomial() -> None:
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(3, 0) == 0.25
    assert mcnemar_exact(0, 10) == 2 / 1024
    assert mcnemar_exact(2, 3) == 1.0


def test_pass_at_k_is_unbiased() -> None:
    assert pass_at_k(5, 0, 3) == 0.0
    assert pass_at_k(5, 5, 1) == 1.0
    assert pass_at_k(4, 2, 2) == 1 - 1 / 6
    with pytest.raises(ValueError, match="at least 6"):
        pass_at_k(5, 1, 6)


def test_holm_steps_down_and_stays_monotone() -> None:
    assert holm([0.01, 0.04, 0.03]) == (0.03, 0.06, 0.06)
    assert holm([]) == ()
