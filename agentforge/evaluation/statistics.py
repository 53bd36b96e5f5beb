"""Statistics of paired trials: intervals, tests and estimators, each by a named method.

The unit is always the problem: trials of one problem are no independent observations.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

ZeroMethod = Literal["wilcox", "pratt", "zsplit"]
Method = Literal["auto", "asymptotic", "exact"]
Interval = tuple[float, float]


def percentile_bootstrap(values: Sequence[float], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """95% percentile bootstrap interval of the mean (NumPy's generator and linear percentiles)."""
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, len(sample), (resamples, len(sample)))
    low, high = np.percentile(sample[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def reference_bootstrap(values: Sequence[float], *, resamples: int = 2_000, seed: int = 0) -> Interval:
    """95% bootstrap interval of the mean by the reference implementation of ExecuGraph (4.7):
    Python's generator, order statistics ⌊0.025 N⌋ and ⌊0.975 N⌋ − 1."""
    generator = random.Random(seed)  # noqa: S311  a resampling, no secret
    count = len(values)
    means = sorted(
        sum(values[generator.randrange(count)] for _ in range(count)) / count for _ in range(resamples)
    )
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def bca_bootstrap(values: Sequence[float], *, resamples: int = 9_999, seed: int = 0) -> Interval | None:
    """95% bias-corrected accelerated interval of the mean; None where it is not defined (no variation)."""
    if len(set(values)) < 2:
        return None
    from scipy.stats import bootstrap  # takes a second to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bootstrap(
            (np.asarray(values, dtype=float),),
            np.mean,
            method="BCa",
            n_resamples=resamples,
            rng=np.random.default_rng(seed),
        )
    low, high = result.confidence_interval
    return None if math.isnan(low) or math.isnan(high) else (float(low), float(high))


def mcnemar_exact(only_second: int, only_first: int) -> float:
    """Two-sided exact McNemar test: p of the discordant pairs under a fair coin."""
    discordant = only_second + only_first
    if discordant == 0:
        return 1.0
    tail = sum(math.comb(discordant, k) for k in range(min(only_second, only_first) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**discordant)))


def pass_at_k(trials: int, passed: int, k: int) -> float:
    """Unbiased estimator of pass@k for one problem (Chen et al. 2021). Raises `ValueError` for k > trials."""
    if not 1 <= k <= trials:
        raise ValueError(f"pass@{k} needs at least {k} trials, there are {trials}")
    return float(1 - Fraction(math.comb(trials - passed, k), math.comb(trials, k)))


def wilcoxon_by_scipy(
    differences: Sequence[float], zeros: ZeroMethod, *, correction: bool, method: Method
) -> tuple[float, float]:
    """(W, p) of the two-sided signed-rank test as SciPy computes it under the named options."""
    from scipy.stats import wilcoxon

    with warnings.catch_warnings():
        # SciPy warns that a sample is small for the normal approximation; the name of the method says so.
        warnings.simplefilter("ignore")
        result = wilcoxon(differences, zero_method=zeros, correction=correction, method=method)
    return float(result.statistic), float(result.pvalue)


def wilcoxon_variants(differences: Sequence[float]) -> dict[str, tuple[float, float]]:
    """(W, p) of every variant of the test, by its full name; empty where every difference is zero."""
    if not any(differences):
        return {}
    return {
        f"wilcoxon[{zeros},corr={correction},{method}]": wilcoxon_by_scipy(
            differences, zeros, correction=correction, method=method
        )
        for zeros in get_args(ZeroMethod)
        for correction in (False, True)
        for method in get_args(Method)
    }


def wilcoxon_permutation(differences: Sequence[Fraction]) -> tuple[float, float, int]:
    """(W, p, effective n) of the two-sided signed-rank test by its exact permutation distribution.

    Zero differences are dropped, ties get mid-ranks, and every assignment of signs is counted, so that
    the p-value is exact for ties, too. W is the smaller of the two rank sums.
    """
    doubled = _doubled_midranks([abs(value) for value in differences if value])
    positive = sum(
        rank for rank, value in zip(doubled, [d for d in differences if d], strict=True) if value > 0
    )
    total = sum(doubled)
    smaller = min(positive, total - positive)
    counts = _sign_distribution(doubled, total)
    tail = sum(counts[: smaller + 1])
    return smaller / 2, min(1.0, float(Fraction(2 * tail, 2 ** len(doubled)))), len(doubled)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)


def population_sd(values: Sequence[float]) -> float:
    """Standard deviation with ddof 0, as the tables of the papers print it."""
    return float(np.std(np.asarray(values, dtype=float))) if values else 0.0


def _doubled_midranks(sizes: Sequence[Fraction]) -> list[int]:
    """Twice the mid-rank of each size: whole numbers, ties included."""
    ordered = sorted(sizes)
    first = {size: index for index, size in reversed(list(enumerate(ordered, 1)))}
    last = {size: index for index, size in enumerate(ordered, 1)}
    return [first[size] + last[size] for size in sizes]


def _sign_distribution(doubled: Sequence[int], total: int) -> list[int]:
    """How many assignments of signs give each (doubled) sum of positive ranks."""
    counts = [1] + [0] * total
    for rank in doubled:
        for value in range(total, rank - 1, -1):
            counts[value] += counts[value - rank]
    return counts
