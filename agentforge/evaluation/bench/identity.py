"""What the trials of one folder have in common, as hashes and in words, and the machine they ran on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentforge import __version__
from agentforge.config.settings import Settings
from agentforge.evaluation.bench.protocol import Bench, BenchTask
from agentforge.orchestrator.manifest import versions
from agentforge.orchestrator.workflow import Workflow

_NOT_THE_EXPERIMENT = ("data_home", "server", "github_api", "github_token")
_LASTING = ("id", "digest", "root", "max_model_len", "meta")
"""Digest and size as Ollama, vLLM and llama.cpp name them."""
_NOT_THE_MODEL = ("base_url", "api_key", "seed", "prices")


def identity_of(bench: Bench, workflow: Workflow, settings: Settings) -> dict[str, Any]:
    """What must not change: suite, data, judge, workflow, model and every setting that a trial depends on.

    Where the endpoint is, the seed (each trial has its own) and prices are no part of it.
    """
    relevant = _relevant(settings)
    conditions = dict(bench.conditions)
    return {
        "suite": bench.name,
        "dataset_hash": bench.dataset_hash,
        "harness": bench.harness,
        "workflow": workflow.name,
        "workflow_hash": workflow.hash,
        "model": settings.model.name if settings.model.configured else "",
        "agentforge": __version__,
        "conditions": conditions,
        "settings": relevant,
        "config_hash": _hash({"settings": relevant, "conditions": conditions, "workflow": workflow.hash}),
    }


def about_batch(tasks: Sequence[BenchTask]) -> dict[str, Any]:
    """What a new manifest says beside its identity."""
    return {
        "created": _now(),
        "versions": versions(),
        "tasks": [task.id for task in tasks],
        "sessions": [],
        "self_check": None,
        "model_card": None,
    }


def session(
    workers: int, tasks: int, trials: int, seed: int, limits: dict[str, float | None]
) -> dict[str, Any]:
    """One process that worked on the batch: when, on what machine, under which load."""
    return {
        "started": _now(),
        "host": platform.node(),
        "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "workers": workers,
        "tasks": tasks,
        "trials": trials,
        "seeds": [seed + trial for trial in range(trials)],
        "limits": limits,
    }


def lasting(card: Mapping[str, Any]) -> dict[str, Any]:
    """Of an endpoint's description of a model what stays the same as long as it is the same model."""
    return {key: card[key] for key in _LASTING if card.get(key)}


def _relevant(settings: Settings) -> dict[str, Any]:
    whole = settings.model_dump(mode="json")
    kept = {key: value for key, value in whole.items() if key not in _NOT_THE_EXPERIMENT}
    kept["model"] = {key: value for key, value in whole["model"].items() if key not in _NOT_THE_MODEL}
    kept["memory"] = {
        key: value for key, value in whole["memory"].items() if not key.endswith(("_url", "_key"))
    }
    return kept


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
