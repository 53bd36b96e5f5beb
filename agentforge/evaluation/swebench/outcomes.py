"""What the official harness said of an instance, read from all it leaves: it ends with 0 whatever failed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Outcome(StrEnum):
    """The last two say nothing of the patch; such an instance is judged again."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY = "empty"
    APPLY_FAILED = "apply_failed"
    TIMEOUT = "timeout"
    IMAGE_MISSING = "image_missing"
    INFRA = "infra"


ERROR_CLASSES = {
    Outcome.RESOLVED: "none",
    Outcome.UNRESOLVED: "wrong_answer",
    Outcome.EMPTY: "empty_output",
}
"""The trial records' own words, where they have one; any other outcome is its own class."""
REPEATED = frozenset({Outcome.IMAGE_MISSING, Outcome.INFRA})

_APPLY_FAILED = ">>>>> Patch Apply Failed"
_TIMED_OUT = re.compile(r"Test timed out after [\d.]+ seconds")
_NO_IMAGE = "Image not found locally"
_NO_CONTAINER = "Error creating container"
_MAX_LOG = 4 * 1024 * 1024


@dataclass(frozen=True)
class Judged:
    """`failed` names the tests that should pass and do not; `detail` is one line for people."""

    outcome: Outcome
    tests_passed: int = 0
    tests_total: int = 0
    detail: str = ""
    failed: tuple[str, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)


def judged_by_report(folder: Path, instance_id: str, patch: str) -> Judged | None:
    """The verdict in an instance's folder, None where there is none or it is about another patch."""
    try:
        report = json.loads((folder / "report.json").read_text("utf-8"))[instance_id]
        about = (folder / "patch.diff").read_bytes()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if about != patch.encode("utf-8", "surrogatepass") or not isinstance(report, dict):
        return None
    passed, failed = _tests(report)
    outcome = Outcome.RESOLVED if report.get("resolved") is True else Outcome.UNRESOLVED
    ran = report.get("patch_successfully_applied")
    detail = "" if ran else "the harness found no results of tests in the output"
    if report.get("infra_failure_reason"):
        detail += f"; it suspects {report['infra_failure_reason']}"
    return Judged(outcome, len(passed), len(passed) + len(failed), detail, tuple(failed), report)


def judged_by_logs(folder: Path, instance_id: str, patch: str, last_words: str) -> Judged:
    """The verdict once the harness has ended; `last_words` of it where it left no log of the instance.

    Its summary is not needed: it may break down over it when everything is judged, as when somebody
    else's container goes away meanwhile.
    """
    if not patch:
        return Judged(Outcome.EMPTY, detail="there is no patch")
    found = judged_by_report(folder, instance_id, patch)
    if found is not None:
        return found
    log = _text(folder / "run_instance.log")
    if _APPLY_FAILED in log:
        return Judged(Outcome.APPLY_FAILED, detail=_after(log, _APPLY_FAILED))
    late = _TIMED_OUT.search(log)
    if late is not None:
        return Judged(Outcome.TIMEOUT, detail=late.group())
    if _NO_CONTAINER in log:
        missing = _NO_IMAGE in log
        detail = _after(log, _NO_CONTAINER).partition(": ")[2]
        return Judged(Outcome.IMAGE_MISSING if missing else Outcome.INFRA, detail=detail[:300])
    return Judged(Outcome.INFRA, detail=_last_line(log) or last_words)


def _tests(report: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(passed, failed) among the tests that must pass."""
    status = report.get("tests_status") or {}
    wanted = [status.get(name) or {} for name in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    passed = [test for part in wanted for test in part.get("success", ())]
    failed = [test for part in wanted for test in part.get("failure", ())]
    return passed, failed


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_LOG).decode("utf-8", "replace")
    except OSError:
        return ""


def _after(log: str, sign: str) -> str:
    rest = [line.strip() for line in log.partition(sign)[2].split("\n") if line.strip(" :")]
    return rest[0][:300] if rest else sign


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.split("\n") if line.strip()]
    return lines[-1][:300] if lines else ""
