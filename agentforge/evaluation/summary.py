"""What one run shows: rates, intervals, cost, errors (ExecuGraph, 4.6 and 4.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from agentforge.evaluation.statistics import pass_at_k, percentile_bootstrap, population_sd
from agentforge.evaluation.trials import HARNESS_FAILURES, TrialRow, by_problem

NOT_EXECUTION_FAILURES = frozenset({"none", "wrong_answer"})


def summarize(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """Aggregates of the trials of one run (or one category of it); shares are of 1, times in seconds."""
    problems = by_problem(rows)
    rates = [_share(row.passed for row in trials) for trials in problems.values()]
    tests_total = sum(row.tests_total for row in rows)
    return {
        "n_trials": len(rows),
        "n_problems": len(problems),
        "pass_rate": _share(row.passed for row in rows),
        "pass_rate_macro": sum(rates) / len(rates),
        "retries_mean": _mean(rows, lambda row: row.retries),
        "exec_failure_rate": _share(row.error_class not in NOT_EXECUTION_FAILURES for row in rows),
        **_errors(rows),
        **_spread("wallclock", rows, lambda row: row.wallclock),
        **_spread("calls", rows, lambda row: row.calls),
        **_spread("tokens", rows, lambda row: row.tokens),
        "tests_passed_rate": sum(row.tests_passed for row in rows) / tests_total if tests_total else None,
        "pass_at_k": _pass_at_k(list(problems.values())),
        "ci95_boot_problem": list(percentile_bootstrap(rates)),
        "cost_usd_total": _cost(rows),
        "harness_failures": sum(row.error_class in HARNESS_FAILURES for row in rows),
        "problems_varying": sum(0 < rate < 1 for rate in rates),
        "cumulative_pass_by_retries": cumulative_pass(rows),
        "test_sources": _sources(rows),
        "cumulative_pass_sd": cumulative_pass_sd(rows),
        **_agents(rows),
        **_specialists(rows),
    }


def by_category(
    rows: Sequence[TrialRow], field: Callable[[TrialRow], str] = lambda row: row.category
) -> dict[str, dict[str, Any]]:
    """A summary for each category (or whatever `field` names), sorted; empty where there is none."""
    names = sorted({field(row) for row in rows} - {""})
    return {name: summarize([row for row in rows if field(row) == name]) for name in names}


def cumulative_pass(rows: Sequence[TrialRow]) -> dict[str, float]:
    """Share of all trials that had passed after at most r retries, for r from 0 to the most ever used."""
    most = max((row.retries for row in rows), default=0)
    return {str(r): _passed_within(r, rows) for r in range(most + 1)}


def cumulative_pass_sd(rows: Sequence[TrialRow]) -> dict[str, float]:
    """Standard deviation (ddof 0) of `cumulative_pass` over the repetitions (trial numbers) of the run."""
    most = max((row.retries for row in rows), default=0)
    repetitions = [
        [row for row in rows if row.trial == trial] for trial in sorted({row.trial for row in rows})
    ]
    return {
        str(r): population_sd(
            [_share(row.passed and row.retries <= r for row in part) for part in repetitions]
        )
        for r in range(most + 1)
    }


def _passed_within(retries: int, rows: Sequence[TrialRow]) -> float:
    return _share(row.passed and row.retries <= retries for row in rows)


def _specialists(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """Share of trials whose team each specialist joined (MARS, Figure 2)."""
    told = [row for row in rows if row.specialists]
    if not told:
        return {}
    names = sorted({name for row in told for name in row.specialists})
    return {"specialist_frequency": {name: _share(name in row.specialists for row in told) for name in names}}


def _errors(rows: Sequence[TrialRow]) -> dict[str, Any]:
    counts = Counter(row.error_class for row in rows)
    failed = Counter(row.error_class for row in rows if not row.passed)
    everything = sum(failed.values())
    return {
        "error_class_counts": dict(sorted(counts.items())),
        "error_class_share_of_failed": {name: n / everything for name, n in sorted(failed.items())},
    }


def _spread(name: str, rows: Sequence[TrialRow], of: Callable[[TrialRow], float]) -> dict[str, float]:
    return {f"{name}_mean": _mean(rows, of), f"{name}_pstdev": population_sd([of(row) for row in rows])}


def _pass_at_k(problems: Sequence[Sequence[TrialRow]]) -> dict[str, float]:
    """Macro mean over problems, for every k that each problem has trials enough for."""
    least = min(len(trials) for trials in problems)
    return {
        str(k): sum(pass_at_k(len(trials), sum(row.passed for row in trials), k) for trials in problems)
        / len(problems)
        for k in range(1, least + 1)
    }


def _cost(rows: Sequence[TrialRow]) -> float | None:
    """Sum of the known costs; None when a price was unknown, for unknown is not zero."""
    costs = [row.cost_usd for row in rows]
    return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)


def _sources(rows: Sequence[TrialRow]) -> dict[str, dict[str, float]]:
    """For each source of tests, how many trials were judged by it and what share passed."""
    sources = sorted({row.test_source for row in rows} - {""})
    judged = {source: [row.passed for row in rows if row.test_source == source] for source in sources}
    return {source: {"n": len(passed), "pass_rate": _share(passed)} for source, passed in judged.items()}


def _agents(rows: Sequence[TrialRow]) -> dict[str, Any]:
    """Failure rate of each agent, and what independence of their failures would predict for the whole
    (AgentForge, V: the product of the agents' success rates)."""
    told = [row for row in rows if row.agents]
    if not told:
        return {}
    names = sorted({name for row in told for name in row.agents})
    rates: dict[str, float] = {}
    product = 1.0
    for name in names:
        outcomes = [row.agents[name] for row in told if name in row.agents]
        rates[name] = 1 - _share(outcomes)
        product *= _share(outcomes)
    observed = _share(all(row.agents.values()) for row in told)
    return {
        "agent_failure_rates": rates,
        "all_agents_succeed": {"observed": observed, "if_independent": product, "n": len(told)},
    }


def _share(values: Any) -> float:
    flags = [bool(value) for value in values]
    return sum(flags) / len(flags) if flags else 0.0


def _mean(rows: Sequence[TrialRow], of: Callable[[TrialRow], float]) -> float:
    return sum(of(row) for row in rows) / len(rows)
