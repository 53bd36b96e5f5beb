"""What a batch comes to so far: outcomes, spend, what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentforge.evaluation.bench.batch import Key
from agentforge.evaluation.trials import TrialRow


def verdict(row: TrialRow) -> str:
    """How a trial ended, in a word: passed, the class of its error, its limit, or why it does not count.

    A suite whose judge has words of its own says them in the field `verdict`.
    """
    extra = row.model_extra or {}
    if extra.get("verdict"):
        return str(extra["verdict"])
    if row.status != "final":
        return row.status
    if row.passed:
        return "passed"
    if extra.get("outcome") == "limit":
        return f"limit: {extra.get('fault') or 'unknown'}"
    return row.error_class


def outcomes(rows: Iterable[TrialRow]) -> dict[str, int]:
    """Trials by `verdict`: passed first, then the most frequent."""
    counts = Counter(verdict(row) for row in rows)
    return dict(sorted(counts.items(), key=lambda item: (item[0] != "passed", -item[1], item[0])))


def paid_rows(rows: Iterable[TrialRow]) -> list[TrialRow]:
    """One row a run: a judge in batch writes a second row of the same run, which cost nothing more."""
    found: dict[str, TrialRow] = {}
    for number, row in enumerate(rows):
        found[str((row.model_extra or {}).get("run_id") or number)] = row
    return list(found.values())


def batch_summary(
    run: str, planned: Sequence[Key], current: Mapping[Key, TrialRow], every: Sequence[TrialRow]
) -> dict[str, Any]:
    """`every`: all rows ever written; spoiled trials were paid for, too. Cost in US dollars, times in s."""
    every = paid_rows(every)
    rows = [current[key] for key in planned if key in current]
    final = [row for row in rows if row.status == "final"]
    passed = sum(row.passed for row in final)
    return {
        "run": run,
        "planned": len(planned),
        "final": len(final),
        "passed": passed,
        "pass_rate": passed / len(final) if final else None,
        "outcomes": outcomes(rows),
        "not_run": len(planned) - len(rows),
        "cost_usd": round(sum(row.cost_usd or 0.0 for row in every), 6),
        "unpriced_trials": sum(row.cost_usd is None for row in every),
        "calls": sum(row.calls for row in every),
        "tokens_in": sum(row.tokens_in for row in every),
        "tokens_out": sum(row.tokens_out for row in every),
        "wallclock": round(sum(row.wallclock for row in every), 1),
        "trials": [
            {"problem": row.problem, "trial": row.trial, "verdict": verdict(row)}
            for row in sorted(rows, key=lambda row: (row.problem, row.trial))
        ],
    }
