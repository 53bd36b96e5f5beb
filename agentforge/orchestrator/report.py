"""What is left of a run for people (report.md) and for auditors (audit.json)."""

from __future__ import annotations

import hashlib
from typing import Any

from agentforge.core.report import TestReport
from agentforge.core.state import Judged, RunState


def markdown_report(state: RunState, outcome: str, summary: str) -> str:
    """The story of a run on one page."""
    lines = [f"# {state.task.issue.title or 'Repair'}", "", f"**{outcome}**: {summary}", ""]
    if state.explanation:
        lines += [state.explanation, ""]
    if state.best is not None:
        lines += _judged_section(state.best)
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


def audit_record(state: RunState) -> dict[str, Any]:
    """Who changed what and on which evidence: steps, candidates and the decision (AuditCoder, 3.1)."""
    best = state.best
    return {
        "schema": 1,
        "base": state.base_commit,
        "steps": [step.model_dump(mode="json") for step in state.plan.steps] if state.plan else [],
        "attempts": [attempt.model_dump(mode="json") for attempt in state.attempts],
        "tests_written": [
            {"path": made.path, "ids": list(made.test_ids), "reason": made.reason} for made in state.generated
        ],
        "result": None
        if best is None
        else {
            "candidate": best.candidate.id,
            "origin": best.candidate.origin,
            "patch_sha256": hashlib.sha256(best.candidate.patch.diff).hexdigest(),
            "files": [
                {"path": path, "steps": _owners(state, path), "origin": best.candidate.origin}
                for path in best.candidate.patch.files
            ],
            "decision": best.decision.model_dump(mode="json"),
        },
        "critic": state.critic.model_dump(mode="json") if state.critic else None,
    }


def _owners(state: RunState, path: str) -> list[str]:
    return [step.id for step in state.plan.steps if path in step.files] if state.plan else []
