"""run.json: what was asked, with what, on which machine, and how it ended."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from importlib import metadata
from typing import Any

from agentforge import __version__
from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.events import EventBase, StageFinished, StageStarted
from agentforge.core.state import RunState
from agentforge.core.task import RepairTask
from agentforge.orchestrator.result import Cut, Ending
from agentforge.orchestrator.store import RECORD_SCHEMA
from agentforge.orchestrator.workflow import Workflow

_PACKAGES = ("docker", "GitPython", "unidiff", "chromadb", "openai", "watchdog", "pydantic")


def settings_record(settings: Settings) -> tuple[dict[str, Any], str]:
    """The settings as run.json holds them, secrets masked by their own types, and their hash."""
    resolved = settings.model_dump(mode="json")
    digest = hashlib.sha256(json.dumps(resolved, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return resolved, digest


def opening_manifest(
    run_id: str,
    created: datetime,
    task: RepairTask,
    settings: Settings,
    workflow: Workflow,
    base: dict[str, Any],
    models: dict[str, str],
) -> dict[str, Any]:
    """The manifest at the start."""
    resolved, digest = settings_record(settings)
    return {
        "schema": RECORD_SCHEMA,
        "run_id": run_id,
        "created": created.isoformat(),
        "task": task.model_dump(mode="json"),
        "issue_title": task.issue.title,
        "settings": resolved,
        "settings_hash": digest,
        "workflow": {
            "name": workflow.name,
            "hash": workflow.hash,
            "graph": workflow.file.model_dump(mode="json", by_alias=True),
        },
        "base": base,
        "models": models,
        "versions": versions(),
        "outcome": None,
    }


def closing_manifest(
    manifest: dict[str, Any],
    state: RunState,
    ending: Ending,
    spend: Spend,
    finished: datetime,
    clock: dict[str, Any],
    cut: Cut | None = None,
) -> dict[str, Any]:
    return {
        **manifest,
        "outcome": ending.outcome,
        "exit_code": int(ending.exit_code),
        "summary": ending.summary,
        "finished": finished.isoformat(),
        "image": state.environment.image if state.environment else None,
        "rounds": state.round,
        "spend": spend.model_dump(mode="json"),
        "clock": clock,
        "cut": None if cut is None else cut.model_dump(mode="json"),
    }


def stage_shares(events: Iterable[EventBase], spend: Spend) -> list[dict[str, Any]]:
    """What each stage of a cascade solved and used; the one in which the run ended has what is left.

    Cost in US dollars. Empty for a run without stages.
    """
    shares: list[dict[str, Any]] = []
    left = Counter({name: getattr(spend, name) for name in Spend.model_fields})
    for event in events:
        if isinstance(event, StageStarted):
            shares.append({"stage": event.stage, "workflow": event.workflow, "solved": False, "spend": None})
        elif isinstance(event, StageFinished) and shares:
            used = event.spend.model_dump()
            left.subtract(used)
            shares[-1] |= {"solved": event.solved, "spend": used, "reason": event.reason}
    if shares and shares[-1]["spend"] is None:
        shares[-1] |= {"spend": dict(left), "reason": "the run ended in it"}
    return shares


def versions() -> dict[str, str]:
    """Of ourselves, Python, the system and the packages whose behaviour a run rests on."""
    found = {"agentforge": __version__, "python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "missing"
    return found
