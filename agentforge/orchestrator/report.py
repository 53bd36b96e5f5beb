"""What is left of a run for people (report.md)."""

from __future__ import annotations

from agentforge.core.report import TestReport
from agentforge.core.state import Judged, RunState


def markdown_report(state: RunState, outcome: str, summary: str) -> str:
    """The story of a run on one page."""
    lines = [f"# {state.task.issue.title or 'Repair'}", "", f"**{outcome}**: {summary}", ""]
    if state.explanation:
        lines += [state.explanation, ""]
    if state.best is not None:
        lines += _judged_section(state.best)
    if state.learned:
        lines += ["## What was learned", "", *(f"- {line}" for line in state.learned), ""]
    if state.plan is not None and not state.plan.fallback:
        lines += ["## Plan", "", state.plan.explanation, ""]
        lines += [f"{number}. {step.description}" for number, step in enumerate(state.plan.steps, 1)] + [""]
    for made in state.generated:
        lines += [f"## Test written for this run: `{made.path}`", "", made.reason, ""]
        lines += [fenced(made.code.decode("utf-8", "replace"), "python"), ""]
    return "\n".join(lines)


def _judged_section(judged: Judged) -> list[str]:
    lines = ["## Evidence", "", f"Tests that ran: {judged.decision.scope}.", ""]
    lines += ["| test | base | candidate |", "|---|---|---|"]
    lines += [f"| `{test}` | {before} | {after} |" for test, before, after in changed_tests(judged)]
    kept = len(judged.decision.pass_to_pass)
    lines += ["", f"{kept} tests that passed before still pass.", ""]
    lines += [
        f"- {reason.text} {f'`{reason.test_id}`' if reason.test_id else ''}"
        for reason in judged.decision.reasons
    ]
    return [*lines, "", fenced(judged.candidate.patch.text, "diff"), ""]


def fenced(text: str, language: str) -> str:
    """A fence longer than any run of backticks inside, so that hostile text cannot close it."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}{language}\n{text.rstrip()}\n{mark}"


def changed_tests(judged: Judged) -> list[tuple[str, str, str]]:
    """(test id, outcome on the base, outcome on the candidate) where the two differ."""
    ids = judged.baseline.outcomes.keys() | judged.report.outcomes.keys()
    rows = [(test, _outcome(judged.baseline, test), _outcome(judged.report, test)) for test in sorted(ids)]
    return [row for row in rows if row[1] != row[2]]


def _outcome(report: TestReport, test: str) -> str:
    outcome = report.outcomes.get(test)
    return outcome.value if outcome is not None else "-"
