"""Answers read from the run directory. Blocking: call through `asyncio.to_thread`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentforge.api.jobs import Job
from agentforge.api.schemas import (
    CallRecord,
    LogFile,
    Reason,
    RunReport,
    RunSummary,
    SpendSummary,
    Status,
    TestRow,
)
from agentforge.core.errors import RecordError
from agentforge.core.events import Event, GateDecided, PatchProposed, TestsFinished
from agentforge.core.gate import GateDecision
from agentforge.core.report import TestReport
from agentforge.orchestrator.store import RunRecord, RunStore, understood, whole_lines

Values = dict[str, Any]
MOST_KEPT = 10_000
"""Runs whose few lines are kept at hand."""
_DAMAGED: Values = {"status": "failed", "outcome": None, "error": "its record is damaged"}
RUN_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
_LOG_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,120}\.log$")


class Records:
    """Runs as people ask for them: what the queue knows and what the run directory says."""

    def __init__(self, data_home: Path) -> None:
        self.store = RunStore(data_home)
        self._cache: dict[str, tuple[tuple[int, int, int], tuple[Values, Values]]] = {}

    def directory(self, run_id: str) -> Path:
        """Raises `RecordError` for what is no run id, so that no path is made of it."""
        if not RUN_ID.match(run_id):
            raise RecordError(f"no run {run_id[:80]!r}")
        return self.store.runs / run_id

    def record(self, run_id: str) -> RunRecord:
        """Raises `RecordError` where the run has no record (yet)."""
        directory = self.directory(run_id)
        if not (directory / "run.json").is_file():
            raise RecordError(f"no run {run_id!r} has a record", hint="GET /v1/runs lists them")
        return RunRecord(directory)

    def known(self, run_id: str) -> bool:
        return bool(RUN_ID.match(run_id)) and (self.store.runs / run_id / "run.json").is_file()

    def run_ids(self) -> list[str]:
        """Newest first."""
        try:
            names = [entry.name for entry in self.store.runs.iterdir() if RUN_ID.match(entry.name)]
        except FileNotFoundError:
            return []
        return sorted(names, reverse=True)

    def summary(self, run_id: str, job: Job | None) -> RunSummary | None:
        """None where neither queue nor disk knows the run. A damaged record is shown as such."""
        values = _from_job(job) if job is not None else {}
        known = self._manifest_values(run_id) if RUN_ID.match(run_id) else None
        if known is None and job is None:
            return None
        if known is not None:
            shared, alone = known
            values |= shared
            if job is None or (job.over and alone.get("outcome") not in (None, job.outcome)):
                # Made on the command line, or gone on there after it had ended here.
                values |= alone
        try:
            return RunSummary(id=run_id, **values)
        except ValidationError:
            return RunSummary(id=run_id, **(_from_job(job) if job is not None else {}) | _DAMAGED)

    def _manifest_values(self, run_id: str) -> tuple[Values, Values] | None:
        """What run.json says, read again only when it has changed; None where there is none."""
        path = self.directory(run_id) / "run.json"
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        cached = self._cache.get(run_id)
        if cached is None or cached[0] != stamp:
            cached = (stamp, _values_of(path.parent))
            self._cache[run_id] = cached
            while len(self._cache) > MOST_KEPT:
                self._cache.pop(next(iter(self._cache)), None)
        return cached[1]

    def logs(self, run_id: str) -> list[LogFile]:
        folder = self.record(run_id).directory / "reports"
        found = (path for path in folder.glob("*.log") if path.is_file() and not path.is_symlink())
        return [LogFile(name=path.name, size=path.stat().st_size) for path in sorted(found)]

    def log(self, run_id: str, name: str) -> Path:
        """Raises `RecordError` for any name that is no log of the run."""
        path = self.record(run_id).directory / "reports" / name
        if not _LOG_NAME.match(name) or not path.is_file() or path.is_symlink():
            raise RecordError(f"run {run_id} has no log {name[:80]!r}", hint=f"GET /v1/runs/{run_id}/logs")
        return path

    def calls(self, run_id: str) -> list[CallRecord]:
        lines = whole_lines(self.record(run_id).directory / "calls.jsonl")
        with understood(f"calls.jsonl of run {run_id}"):
            return [CallRecord(number=n, record=json.loads(line)) for n, line in enumerate(lines, 1)]

    def document(self, run_id: str, name: str) -> bytes:
        """A file of the record by its own name. Raises `RecordError` where the run did not leave it."""
        path = self.record(run_id).directory / name
        try:
            return path.read_bytes()
        except OSError:
            raise RecordError(f"run {run_id} has no {name} (yet)") from None

    def report(self, run_id: str) -> RunReport:
        record = self.record(run_id)
        judged = _Judged.of(record)
        markdown = record.directory / "report.md"
        text = markdown.read_text("utf-8", "replace") if markdown.is_file() else ""
        outcome = record.manifest.get("outcome")
        decision = judged.decision
        return RunReport(
            run_id=run_id,
            outcome=str(outcome) if outcome is not None else None,
            verdict=decision.verdict.value if decision else None,
            candidate=judged.candidate,
            scope=decision.scope if decision else "",
            reasons=_reasons(decision),
            tests=judged.rows(),
            markdown=text,
        )


class _Judged:
    """The latest (or the verified) candidate of a run, with what was seen of it, from the events."""

    def __init__(self) -> None:
        self.base: dict[str, tuple[str, str]] = {}
        self.candidates: dict[str, dict[str, tuple[str, str]]] = {}
        self.candidate: str | None = None
        self.decision: GateDecision | None = None

    @staticmethod
    def of(record: RunRecord) -> _Judged:
        judged = _Judged()
        for event in record.events():
            judged.take(event)
        return judged

    def take(self, event: Event) -> None:
        match event:
            case TestsFinished(subject="base", report=report):
                _merge(self.base, report)
            case TestsFinished(subject=subject, report=report):
                _merge(self.candidates.setdefault(subject, {}), report)
            case PatchProposed(candidate=candidate) if self.decision is None:
                self.candidate = candidate
            case GateDecided(candidate=candidate, decision=decision):
                if self.decision is None or decision.rank >= self.decision.rank:
                    self.candidate, self.decision = candidate, decision

    def rows(self) -> list[TestRow]:
        """Every test that ran, targets first."""
        seen = self.candidates.get(self.candidate or "", {})
        targets = set(self.decision.fail_to_pass) if self.decision else set()
        nothing = (None, "")
        rows = [
            TestRow(
                test_id=test,
                base=self.base.get(test, nothing)[0],
                candidate=seen.get(test, nothing)[0],
                target=test in targets,
                failure=seen.get(test, nothing)[1] or self.base.get(test, nothing)[1],
            )
            for test in self.base.keys() | seen.keys()
        ]
        return sorted(rows, key=lambda row: (not row.target, row.base == row.candidate, row.test_id))


def _merge(into: dict[str, tuple[str, str]], report: TestReport) -> None:
    """Outcomes of one execution over those seen before; a red one is not hidden by a later green one."""
    for test, outcome in report.outcomes.items():
        before = into.get(test)
        if before is not None and before[0] in ("failed", "error") and outcome == "passed":
            continue
        failure = report.failures.get(test)
        said = f"{failure.exception}: {failure.message}".strip(": ") if failure else ""
        into[test] = (outcome.value, said)


def _reasons(decision: GateDecision | None) -> list[Reason]:
    if decision is None:
        return []
    return [Reason(kind=one.kind.value, test_id=one.test_id, text=one.text) for one in decision.reasons]


def _from_job(job: Job) -> dict[str, Any]:
    return {
        "status": job.status,
        "outcome": job.outcome,
        "exit_code": job.exit_code,
        "repository": str(job.request.get("repository", "")),
        "base": job.request.get("base"),
        "issue_title": job.title,
        "workflow": str(job.request.get("workflow") or ""),
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "error": job.error,
    }


def _values_of(directory: Path) -> tuple[Values, Values]:
    """What the record adds to the queue, and what it alone says of a run that was made without it."""
    run_id = directory.name
    try:
        manifest = RunRecord(directory).manifest
        with understood(f"run.json of run {run_id}"):
            return _added(manifest), _said_alone(manifest)
    except RecordError:
        return {}, dict(_DAMAGED)


def _added(manifest: Mapping[str, Any]) -> Values:
    spend = manifest.get("spend") or {}
    return {
        "repository": _below(manifest, "task", "repository", "source") or "",
        "base": _below(manifest, "base", "commit"),
        "issue_title": manifest.get("issue_title") or "",
        "workflow": _below(manifest, "workflow", "name") or "",
        "summary": manifest.get("summary") or "",
        "round": manifest.get("rounds") or 0,
        "spend": SpendSummary(
            calls=spend.get("calls", 0),
            tokens=spend.get("prompt_tokens", 0) + spend.get("completion_tokens", 0),
            cost_usd=None if spend.get("unpriced_calls") else spend.get("cost_usd", 0.0),
        ),
    }


def _said_alone(manifest: Mapping[str, Any]) -> Values:
    outcome = manifest.get("outcome")
    status: Status = "interrupted" if outcome is None or outcome == "interrupted" else "finished"
    return {
        "status": status,
        "outcome": outcome,
        "exit_code": manifest.get("exit_code"),
        "created": manifest.get("created") or "",
        "started": manifest.get("created"),
        "finished": manifest.get("finished"),
        "error": "",
    }


def _below(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
