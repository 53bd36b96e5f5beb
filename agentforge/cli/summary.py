"""The end of a repair: for a person on stderr, for a program as one JSON document."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentforge.cli.sanitize import neutralise, one_line
from agentforge.cli.words import counts, plural, reason_text, seconds, spent
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.report import TestReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from agentforge.orchestrator.result import RunResult

DIFF_LINES = 400
"""How much of a diff is shown on a terminal; the whole is in the run directory."""
TABLE_ROWS = 20
REASONS = 10

# What is not here (usage, environment, model, limit) ended with an error and is told as one.
_HEADLINES: Mapping[str, tuple[str, str]] = {
    "verified": ("VERIFIED", "bold green"),
    "unverified": ("UNVERIFIED", "bold yellow"),
    "no_patch": ("NO VERIFIED PATCH", "bold red"),
    "interrupted": ("INTERRUPTED", "bold red"),
    "localized": ("LOCALIZED", "bold"),
    "dry_run": ("DRY RUN", "bold cyan"),
}


def result_document(
    result: RunResult, *, models: Mapping[str, str], applied_to: str | None = None
) -> dict[str, Any]:
    """The document of `fix --json`. `cost_usd` is null where no price is known."""
    patch, decision, spend = result.patch, result.decision, result.spend
    return {
        "outcome": result.outcome,
        "exit_code": int(result.exit_code),
        "summary": result.summary,
        "hint": result.hint,
        "run_id": result.run_id,
        "run_dir": str(result.run_dir),
        "verdict": decision.verdict.value if decision else None,
        "reasons": [reason_text(reason) for reason in decision.reasons] if decision else [],
        "patch": patch.text if patch else None,
        "files": list(patch.files) if patch else [],
        "fail_to_pass": list(decision.fail_to_pass) if decision else [],
        "tests": {
            "scope": decision.scope if decision else None,
            "before": _tally(result.baseline),
            "after": _tally(result.report),
        },
        "cost_usd": None if spend.unpriced_calls else spend.cost_usd,
        "unpriced_calls": spend.unpriced_calls,
        "tokens": {"prompt": spend.prompt_tokens, "completion": spend.completion_tokens},
        "calls": spend.calls,
        "workflow": result.workflow,
        "models": dict(models),
        "base_commit": result.base_commit,
        "duration_s": round(result.duration_s, 3),
        "applied_to": applied_to,
    }


def show_result(
    console: Console, result: RunResult, *, applied_to: str | None = None, show_diff: bool
) -> None:
    """Verdict, diff, tests before and after, reasons, cost, record and next command."""
    from rich.text import Text

    _print_headline(console, result)
    if show_diff and result.patch is not None:
        console.print()
        console.print(diff_text(result.patch.text), soft_wrap=True)
    if result.baseline is not None or result.report is not None:
        console.print()
        console.print(_test_table(result))
    _print_reasons(console, result.decision)
    console.print()
    for name, value in _facts(result, applied_to):
        console.print(Text.assemble((f"{name:<8} ", "bold"), one_line(value, 500)), soft_wrap=True)


def _print_headline(console: Console, result: RunResult) -> None:
    from rich.text import Text

    label, style = _HEADLINES.get(result.outcome, ("error:", "bold red"))
    if label != "error:":
        console.print()
    console.print(Text.assemble((label, style), f" {one_line(result.summary, 600)}"), soft_wrap=True)
    if result.hint:
        console.print(Text(f"hint: {one_line(result.hint, 600)}"), soft_wrap=True)


def diff_text(diff: str, limit: int = DIFF_LINES) -> Text:
    """A coloured diff, every control character made visible."""
    from rich.text import Text

    lines = diff.rstrip("\n").split("\n")
    text = Text()
    for line in lines[:limit]:
        text.append(neutralise(line) + "\n", _diff_style(line))
    if len(lines) > limit:
        text.append(f"… {plural(len(lines) - limit, 'more line')}\n", "dim")
    text.rstrip()
    return text


def changed_outcomes(before: TestReport | None, after: TestReport | None) -> list[tuple[str, str, str]]:
    """(test id, outcome before, outcome after) where the two differ, new and gone tests included."""
    old = before.outcomes if before else {}
    new = after.outcomes if after else {}
    rows = ((test, _word(old, test), _word(new, test)) for test in sorted({*old, *new}))
    return [row for row in rows if row[1] != row[2]]


def _diff_style(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _test_table(result: RunResult) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("test", "before", "after"):
        table.add_column(heading, overflow="fold")
    rows = changed_outcomes(result.baseline, result.report)
    for test, before, after in rows[:TABLE_ROWS]:
        table.add_row(Text(one_line(test)), _outcome_cell(before), _outcome_cell(after))
    if len(rows) > TABLE_ROWS:
        table.add_row(f"… {plural(len(rows) - TABLE_ROWS, 'more change')}", "", "")
    totals = [
        Text(one_line(counts(report)) if report else "-") for report in (result.baseline, result.report)
    ]
    scope = f" ({one_line(result.decision.scope)})" if result.decision else ""
    table.add_row(Text(f"all that ran{scope}", "bold"), *totals)
    return table


def _print_reasons(console: Console, decision: GateDecision | None) -> None:
    from rich.text import Text

    if decision is None or not decision.reasons:
        return
    console.print()
    heading = "Why it is not verified" if decision.verdict is not Verdict.VERIFIED else "Notes of the gate"
    console.print(Text(heading, "bold"))
    for reason in decision.reasons[:REASONS]:
        console.print(Text(f"  - {one_line(reason_text(reason), 300)}"))
    if len(decision.reasons) > REASONS:
        console.print(Text(f"  and {plural(len(decision.reasons) - REASONS, 'more reason')}"))


def _facts(result: RunResult, applied_to: str | None) -> Iterator[tuple[str, str]]:
    yield "cost", f"{spent(result.spend)} · {seconds(result.duration_s)} · workflow {result.workflow}"
    if applied_to:
        yield "given to", applied_to
    if result.outcome != "dry_run":
        yield "record", str(result.run_dir)
        yield "next", _next_command(result, applied_to)


def _next_command(result: RunResult, applied_to: str | None) -> str:
    deliverable = result.patch is not None and result.outcome in ("verified", "unverified", "interrupted")
    if deliverable and result.repository_root and not applied_to:
        where, answer = shlex.quote(str(result.repository_root)), shlex.quote(f"{result.run_dir}/patch.diff")
        return f"agentforge patch apply --repo {where} --answer {answer}"
    return f"agentforge runs show {result.run_id}"


def _tally(report: TestReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    tally = Counter(outcome.value for outcome in report.outcomes.values())
    return {"cause": report.cause.value, "collected": report.collected, **dict(sorted(tally.items()))}


def _word(outcomes: Mapping[str, Any], test: str) -> str:
    return outcomes[test].value if test in outcomes else "-"


def _outcome_cell(outcome: str) -> Text:
    from rich.text import Text

    return Text(outcome, {"passed": "green", "failed": "red", "error": "red"}.get(outcome, "yellow"))
