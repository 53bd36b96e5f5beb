"""Predictions: what the harness applies. Bytes as the gate verified them, never stripped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError
from agentforge.core.paths import is_test_path
from agentforge.orchestrator.store import recorded_in, write_atomically

PREDICTIONS = "preds.json"
_SECTION = re.compile(rb"^diff --git ", re.M)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


class Prediction(Frozen):
    """The three keys that the harness reads; a missing `model_patch` would end its whole run."""

    instance_id: str
    model_name_or_path: str
    model_patch: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.model_patch.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Submission:
    """A patch as it is submitted: `dropped` are the tests it also edited, `unfit` why it cannot be given."""

    text: str
    dropped: tuple[str, ...] = ()
    unfit: str = ""


def submission(diff: bytes | None, *, keep_test_edits: bool = False) -> Submission:
    """The text of a canonical git diff, without what it does to tests, unless that is wanted.

    The harness brings its own tests, and an edit of ours to the same file would collide with them.
    """
    if not diff:
        return Submission("")
    kept, dropped = [], []
    for section in _sections(diff):
        path = _path(section)
        if not keep_test_edits and is_test_path(path):
            dropped.append(path)
        else:
            kept.append(section)
    try:
        text = b"".join(kept).decode("utf-8")
    except UnicodeDecodeError:
        return Submission("", tuple(dropped), "the patch is not UTF-8, which a file of predictions must be")
    return Submission(text, tuple(dropped))


def model_label(workflow: str, model: str) -> str:
    """`model_name_or_path` of our predictions; it becomes the name of a folder."""
    parts = ["agentforge", workflow, *([model] if model else [])]
    return _NOT_IN_A_NAME.sub("_", "+".join(parts))[:100]


def read_predictions(path: Path) -> dict[str, Prediction]:
    """A list, an object by id, or JSON lines, as they are. Raises `ConfigError` naming what is wrong."""
    try:
        text = path.read_text("utf-8")
        found = (
            [json.loads(line) for line in text.split("\n") if line.strip()]
            if _by_line(path)
            else json.loads(text)
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no predictions can be read: {error}") from None
    records = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(records, list):
        raise ConfigError(f"{path}: holds no predictions")
    given = [_given(path, number, record) for number, record in enumerate(records, 1)]
    by_id = {each.instance_id: each for each in given}
    if len(by_id) < len(given):
        raise ConfigError(f"{path}: has two predictions for one instance")
    if len({each.model_name_or_path for each in given}) > 1:
        raise ConfigError(f"{path}: holds predictions of several models", hint="judge one model at a time")
    return by_id


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """All of them by id, whole or not at all."""
    by_id = {each.instance_id: each.model_dump() for each in predictions}
    with recorded_in(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(by_id, indent=1, sort_keys=True).encode() + b"\n")


def _by_line(path: Path) -> bool:
    return path.suffix == ".jsonl"


def _given(path: Path, number: int, record: Any) -> Prediction:
    if not isinstance(record, Mapping) or not isinstance(record.get("instance_id"), str):
        raise ConfigError(f"{path}: prediction {number} has no instance_id")
    if "model_patch" not in record:
        raise ConfigError(f"{path}: {record['instance_id']} has no model_patch", hint='an empty one is ""')
    patch = record["model_patch"] or ""
    if not isinstance(patch, str):
        raise ConfigError(f"{path}: the model_patch of {record['instance_id']} is not text")
    label = _NOT_IN_A_NAME.sub("_", str(record.get("model_name_or_path") or "")).lstrip(".")[:100]
    return Prediction(
        instance_id=record["instance_id"], model_name_or_path=label or "unnamed", model_patch=patch
    )


def _sections(diff: bytes) -> list[bytes]:
    starts = [match.start() for match in _SECTION.finditer(diff)] or [0]
    return [diff[start:end] for start, end in zip(starts, [*starts[1:], len(diff)], strict=True)]


def _path(section: bytes) -> str:
    """The path of `diff --git a/P b/P`: without renames both halves name the same file."""
    header = section.partition(b"\n")[0].removeprefix(b"diff --git ").decode("utf-8", "replace")
    half = header[: (len(header) - 1) // 2]
    return half.strip('"').removeprefix("a/")
