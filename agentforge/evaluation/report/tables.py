"""The tables of a comparison as data, and their Markdown, CSV and LaTeX forms."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LATEX_SPECIAL = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
MARKDOWN_SPECIAL = str.maketrans({"|": "\\|", "<": "&lt;", "\n": " ", "\r": " "})


@dataclass(frozen=True)
class Table:
    """A named table; every cell is text already."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables_of(figures: Mapping[str, Any]) -> tuple[Table, ...]:
    """Every table that the figures of `compare` fill; the empty ones are left out."""
    made = (
        _runs(figures["runs"]),
        _pass_at_k(figures["runs"]),
        _contrasts("paired", "Paired comparisons", _overall(figures["paired"])),
        _contrasts("paired_by_category", "Paired comparisons by category", _within(figures["paired"])),
        _grouped("by_category", "By category", "category", figures["by_category"]),
        _grouped("by_repository", "By repository", "repository", figures["by_repository"]),
        _errors(figures["runs"]),
        _cost(figures["runs"]),
        _retries(figures["runs"]),
        _sources(figures["runs"]),
        _agents(figures["runs"]),
        _problems(figures["per_problem"]),
    )
    return tuple(table for table in made if table.rows)


def markdown(table: Table) -> str:
    lines = [
        f"## {table.title}",
        "",
        *(_markdown_row(row) for row in (table.header, ("---",) * len(table.header), *table.rows)),
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else []), ""])


def csv_text(table: Table) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([table.header, *table.rows])
    return out.getvalue()


def latex(table: Table) -> str:
    """A `tabular` fragment (booktabs) to `\\input`."""
    columns = "l" + "r" * (len(table.header) - 1)
    body = [_latex_row(row) for row in table.rows]
    return "\n".join(
        [
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            _latex_row(table.header),
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


def percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"


def p_value(value: float | None) -> str:
    if value is None:
        return "n/a"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _runs(runs: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            run,
            str(data.get("condition", "")),
            str(data["n_problems"]),
            str(data["n_trials"]),
            percent(data["pass_rate"]),
            _interval(data["ci95_boot_problem"], 100),
            str(data["problems_varying"]),
            f"{data['retries_mean']:.2f}",
            percent(data["exec_failure_rate"]),
            str(data["harness_failures"]),
        )
        for run, data in runs.items()
    )
    header = ("run", "condition", "problems", "trials", "pass %", "95% CI", "varying", "retries")
    note = (
        "Intervals: percentile bootstrap over problems (10,000 resamples, seed 0). `varying` counts the "
        "problems whose trials disagree: where it is 0, repeated trials are copies and the number of "
        "problems is the sample size. Harness failures count as not passed."
    )
    return Table("runs", "Runs", (*header, "exec. failures %", "harness failures"), rows, note)


def _pass_at_k(runs: Mapping[str, Any]) -> Table:
    most = max((len(data["pass_at_k"]) for data in runs.values()), default=0)
    ks = [str(k) for k in range(1, most + 1)]
    rows = tuple((run, *(percent(data["pass_at_k"].get(k)) for k in ks)) for run, data in runs.items())
    return Table("pass_at_k", "pass@k (unbiased, macro mean, %)", ("run", *(f"k={k}" for k in ks)), rows)


def _contrasts(name: str, title: str, paired: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            pair,
            str(data["n"]),
            f"{100 * data['mean_diff']:+.1f}",
            _interval(data["boot_np_percentile"], 100),
            f"{data['mcnemar_b01']} / {data['mcnemar_b10']}",
            p_value(data["mcnemar_exact_p"]),
            p_value(data.get("mcnemar_holm_p")),
            p_value(data["wilcoxon_permutation"]["p"]),
            str(data["wilcoxon_permutation"]["n_effective"]),
            p_value(data.get("wilcoxon_holm_p")),
            str(len(data["unpaired_problems"])),
        )
        for pair, data in paired.items()
        if data["n"]
    )
    note = (
        "Difference in percentage points, second minus first, unit: problem. McNemar: exact, on the majority "
        "of trials, a tie counts as failed. Wilcoxon: exact permutation, zeros dropped, mid-ranks. "
        "`Holm` adjusts over the comparisons of the table; `n/a`: not adjusted, or nothing differs."
    )
    header = ("pair", "n", "difference", "95% CI", "gained / lost", "McNemar p", "Holm", "Wilcoxon p")
    return Table(name, title, (*header, "effective n", "Wilcoxon Holm", "unpaired"), rows, note)


def _grouped(name: str, title: str, unit: str, groups: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            run,
            group,
            str(data["n_problems"]),
            percent(data["pass_rate"]),
            _interval(data["ci95_boot_problem"], 100),
        )
        for run, table in groups.items()
        for group, data in table.items()
    )
    return Table(name, title, ("run", unit, "problems", "pass %", "95% CI"), rows)


def _errors(runs: Mapping[str, Any]) -> Table:
    classes = sorted({name for data in runs.values() for name in data["error_class_counts"]})
    rows = tuple(
        (run, *(str(data["error_class_counts"].get(name, 0)) for name in classes))
        for run, data in runs.items()
    )
    return Table("errors", "Error classes (trials)", ("run", *classes), rows)


def _cost(runs: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            run,
            *(
                f"{data[f'{what}_mean']:.1f} ± {data[f'{what}_pstdev']:.1f}"
                for what in ("wallclock", "calls", "tokens")
            ),
            "unknown" if data["cost_usd_total"] is None else f"{data['cost_usd_total']:.4f}",
        )
        for run, data in runs.items()
    )
    header = ("run", "seconds", "calls", "tokens", "USD in all")
    return Table("cost", "Cost of a trial (mean ± sd)", header, rows)


def _retries(runs: Mapping[str, Any]) -> Table:
    most = max((len(data["cumulative_pass_by_retries"]) for data in runs.values()), default=0)
    steps = [str(r) for r in range(most)]
    rows = tuple(
        (run, *(percent(_last_known(data["cumulative_pass_by_retries"], r)) for r in range(most)))
        for run, data in runs.items()
    )
    return Table("retries", "Cumulative pass % by retries used", ("run", *steps), rows)


def _sources(runs: Mapping[str, Any]) -> Table:
    rows = tuple(
        (run, source, str(data["n"]), percent(data["pass_rate"]))
        for run, summary in runs.items()
        for source, data in summary["test_sources"].items()
    )
    return Table("test_sources", "What judged the trials", ("run", "test source", "trials", "pass %"), rows)


def _agents(runs: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            run,
            ", ".join(f"{name} {percent(rate)}" for name, rate in data["agent_failure_rates"].items()),
            percent(data["all_agents_succeed"]["observed"]),
            percent(data["all_agents_succeed"]["if_independent"]),
        )
        for run, data in runs.items()
        if "agent_failure_rates" in data
    )
    header = ("run", "failure rate of each agent, %", "all succeed, %", "if independent, %")
    return Table("agents", "Agents", header, rows)


def _problems(per_problem: Mapping[str, Mapping[str, float]]) -> Table:
    names = sorted({problem for rates in per_problem.values() for problem in rates})
    rows = tuple((name, *(percent(rates.get(name)) for rates in per_problem.values())) for name in names)
    return Table("problems", "Pass % by problem", ("problem", *per_problem), rows)


def _overall(paired: Mapping[str, Any]) -> dict[str, Any]:
    return {pair: data for pair, data in paired.items() if "|" not in pair}


def _within(paired: Mapping[str, Any]) -> dict[str, Any]:
    return {pair: data for pair, data in paired.items() if "|" in pair}


def _last_known(curve: Mapping[str, float], step: int) -> float:
    return curve[str(min(step, len(curve) - 1))]


def _interval(bounds: Sequence[float] | None, scale: float = 1.0) -> str:
    return "n/a" if bounds is None else f"[{scale * bounds[0]:.1f}, {scale * bounds[1]:.1f}]"


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.translate(MARKDOWN_SPECIAL) for cell in cells) + " |"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join("".join(LATEX_SPECIAL.get(c, c) for c in cell) for cell in cells) + r" \\"
