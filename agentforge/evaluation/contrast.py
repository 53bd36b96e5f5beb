"""What two runs support: paired differences over the problems both have (ExecuGraph, 4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from agentforge.evaluation.statistics import (
    bca_bootstrap,
    holm,
    mcnemar_exact,
    percentile_bootstrap,
    reference_bootstrap,
    wilcoxon_permutation,
    wilcoxon_variants,
)
from agentforge.evaluation.summary import by_category, summarize
from agentforge.evaluation.trials import TrialRow, by_problem, by_run, refuse_unpoolable


def compare(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """Every statistic of `rows`: each run, its categories and repositories, and each pair of runs.

    The differences are of the later run minus the earlier one. Raises `PoolingRefused`.
    """
    refuse_unpoolable(rows)
    runs = by_run(rows)
    overall = {
        f"{first}->{second}": contrast(runs[first], runs[second]) for first, second in combinations(runs, 2)
    }
    _correct(overall)
    return {
        "runs": {run: {**_identity(members), **summarize(members)} for run, members in runs.items()},
        "by_category": _non_empty({run: by_category(members) for run, members in runs.items()}),
        "by_repository": _non_empty(
            {run: by_category(members, lambda row: row.repository) for run, members in runs.items()}
        ),
        "paired": _with_categories(overall, runs),
        "per_problem": {
            run: {problem: float(_rate(trials)) for problem, trials in by_problem(members).items()}
            for run, members in runs.items()
        },
    }


def contrast(first: Sequence[TrialRow], second: Sequence[TrialRow]) -> dict[str, Any]:
    """Second minus first over the problems both attempted; which problems only one has is said."""
    base, treatment = by_problem(first), by_problem(second)
    shared = [problem for problem in base if problem in treatment]
    unpaired = sorted(base.keys() ^ treatment.keys())
    if not shared:
        return {"n": 0, "unpaired_problems": unpaired}
    # Floats as every published table has them; exact fractions where ties and zeros decide.
    differences = [_mean(treatment[problem]) - _mean(base[problem]) for problem in shared]
    exact = [_rate(treatment[problem]) - _rate(base[problem]) for problem in shared]
    gained = sum(_majority(treatment[p]) and not _majority(base[p]) for p in shared)
    lost = sum(_majority(base[p]) and not _majority(treatment[p]) for p in shared)
    return {
        "n": len(shared),
        "mean_diff": sum(differences) / len(differences),
        "n_nonzero": sum(bool(difference) for difference in exact),
        **wilcoxon_variants(differences if any(exact) else []),
        **_exact_wilcoxon(exact),
        "mcnemar_b01": gained,
        "mcnemar_b10": lost,
        "mcnemar_exact_p": mcnemar_exact(gained, lost),
        "mcnemar_majority_ties": sum(_tied(trials[p]) for trials in (base, treatment) for p in shared),
        "boot_np_percentile": list(percentile_bootstrap(differences)),
        "boot_ref_convention": list(reference_bootstrap(differences)),
        "boot_BCa": _listed(bca_bootstrap(differences)),
        "unpaired_problems": unpaired,
    }


def _exact_wilcoxon(exact: Sequence[Fraction]) -> dict[str, Any]:
    method = "exact permutation, zeros dropped, mid-ranks"
    if not any(exact):
        return {"wilcoxon_permutation": {"method": method, "W": None, "p": None, "n_effective": 0}}
    statistic, p_value, effective = wilcoxon_permutation(exact)
    return {
        "wilcoxon_permutation": {"method": method, "W": statistic, "p": p_value, "n_effective": effective}
    }


def _correct(contrasts: Mapping[str, dict[str, Any]]) -> None:
    """Add Holm-adjusted p-values over all contrasts asked for (a single one stays as it is)."""
    told = [result for result in contrasts.values() if result["n"]]
    for result, p in zip(told, holm([r["mcnemar_exact_p"] for r in told]), strict=True):
        result["mcnemar_holm_p"] = p
    tested = [result for result in told if result["wilcoxon_permutation"]["p"] is not None]
    for result, p in zip(tested, holm([r["wilcoxon_permutation"]["p"] for r in tested]), strict=True):
        result["wilcoxon_holm_p"] = p


def _with_categories(
    overall: Mapping[str, dict[str, Any]], runs: Mapping[str, Sequence[TrialRow]]
) -> dict[str, Any]:
    """Each contrast followed by itself within every category; those are not corrected for multiplicity."""
    found: dict[str, Any] = {}
    for first, second in combinations(runs, 2):
        found[f"{first}->{second}"] = overall[f"{first}->{second}"]
        categories = {row.category for row in (*runs[first], *runs[second])} - {""}
        for category in sorted(categories):
            found[f"{first}->{second}|{category}"] = contrast(
                [row for row in runs[first] if row.category == category],
                [row for row in runs[second] if row.category == category],
            )
    return found


def _identity(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """What the run was, as far as its rows say; all rows agree, or they had been refused."""
    row = rows[0]
    fields = ("condition", "recorded_condition", "model", "retry_budget", "config_hash", "harness")
    return {name: getattr(row, name) for name in fields if getattr(row, name) not in ("", None)}


def _majority(trials: Sequence[TrialRow]) -> bool:
    """Passed in more than half of the trials; a tie counts as failed."""
    return _rate(trials) > Fraction(1, 2)


def _tied(trials: Sequence[TrialRow]) -> bool:
    return _rate(trials) == Fraction(1, 2)


def _rate(trials: Sequence[TrialRow]) -> Fraction:
    return Fraction(sum(row.passed for row in trials), len(trials))


def _mean(trials: Sequence[TrialRow]) -> float:
    return sum(row.passed for row in trials) / len(trials)


def _listed(interval: Iterable[float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _non_empty(tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {run: table for run, table in tables.items() if table}
