"""What a run that is to be resumed had come to (design, section 4).

A run is resumed by going through its record again: every answer of model, sandbox, memory and clock is
on disk before it is used, and nodes depend on nothing else. So the same events come again, are compared
with the recorded ones, and where the record ends the run goes on live, be it in the middle of a node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentforge import __version__
from agentforge.config.settings import Settings
from agentforge.core.errors import RecordError
from agentforge.models.record import CallRecord
from agentforge.models.resume import unanswered
from agentforge.orchestrator.clock import JOURNAL, Readings, read_journal
from agentforge.orchestrator.eventlog import Prefix
from agentforge.orchestrator.store import RunRecord, whole_lines

RESUMABLE = frozenset({None, "interrupted", "limit", "model", "environment", "defect"})
"""Outcomes that leave something to do. None: the process died."""
MASK = "**********"


@dataclass(frozen=True)
class Past:
    """`prefix` are the events of the run's own course; `reopened` the model calls to be made anew."""

    manifest: Mapping[str, Any]
    prefix: Prefix
    readings: Readings
    reopened: Mapping[int, CallRecord | None]


def past_of(record: RunRecord) -> Past:
    """Read what is needed to go on. Raises `RecordError` where there is nothing to resume, or no way to."""
    manifest = record.manifest
    _check(record, manifest)
    events = [json.loads(line) for line in whole_lines(record.directory / "events.jsonl")]
    lines = tuple(whole_lines(record.directory / "events.jsonl"))
    jumps = jumps_of(manifest)
    ended_after = manifest.get("ended_after") if manifest.get("outcome") is not None else None
    own = [number for number in _own_course(events, jumps) if ended_after is None or number <= ended_after]
    by_number = {int(event["seq"]): line for event, line in zip(events, lines, strict=True)}
    last = max(by_number, default=0)
    if own:
        jumps = {**jumps, own[-1]: last + 1}
    started = [int(event["call"]) for event in events if event["type"] == "model_call_started"]
    in_call = bool(own) and json.loads(by_number[own[-1]])["type"] == "model_call_started"
    outcome = manifest.get("outcome")
    reopened = unanswered(
        record.directory / "calls.jsonl",
        started,
        ended_by_error=outcome == "model" or (outcome == "limit" and in_call),
    )
    return Past(
        {**manifest, "outcome": None, "resumes": [{"after": a, "at": n} for a, n in sorted(jumps.items())]},
        Prefix(tuple(by_number[number] for number in own), jumps),
        read_journal(record.directory / JOURNAL),
        reopened,
    )


def jumps_of(manifest: Mapping[str, Any]) -> dict[int, int]:
    """Of earlier resumptions: number of an event -> number of the `run_resumed` event after it."""
    return {int(entry["after"]): int(entry["at"]) for entry in manifest.get("resumes", ())}


def own_lines(record: RunRecord, manifest: Mapping[str, Any]) -> Iterator[bytes]:
    """The recorded events without endings that do not hold any more and without `run_resumed`."""
    jumps = jumps_of(manifest)
    lines = {int(json.loads(line)["seq"]): line for line in whole_lines(record.directory / "events.jsonl")}
    kept = set(_own_course([{"seq": number} for number in lines], jumps))
    return (line for number, line in lines.items() if number in kept)


def _own_course(events: list[dict[str, Any]], jumps: Mapping[int, int]) -> Iterator[int]:
    for event in events:
        number = int(event["seq"])
        if not any(after < number <= at for after, at in jumps.items()):
            yield number


def _check(record: RunRecord, manifest: Mapping[str, Any]) -> None:
    outcome = manifest.get("outcome")
    if outcome not in RESUMABLE:
        raise RecordError(
            f"run {record.run_id} came to its end ({outcome}): there is nothing to resume",
            hint=f"`agentforge runs show {record.run_id}` shows it; start a new run to try again",
        )
    version = (manifest.get("versions") or {}).get("agentforge")
    if version != __version__:
        raise RecordError(
            f"run {record.run_id} was made by agentforge {version}, this is {__version__}",
            hint="resume it with that version, or start a new run",
        )
    if not (record.directory / JOURNAL).exists() and (record.directory / "events.jsonl").exists():
        raise RecordError(f"run {record.run_id} has no {JOURNAL}: it cannot be resumed", hint="start it anew")


def settings_of(manifest: Mapping[str, Any], current: Settings) -> Settings:
    """The settings of the run; secrets, which no record holds, from the `current` ones."""
    try:
        filled = _filled(manifest["settings"], current.model_dump(mode="python"))
        restored = Settings.model_validate(filled)
    except (ValidationError, KeyError, TypeError) as error:
        raise RecordError(f"the settings in run.json cannot be read: {error!r:.200}") from None
    return restored.model_copy(update={"data_home": current.data_home})


def _filled(recorded: Any, current: Any) -> Any:
    if isinstance(recorded, dict):
        known = current if isinstance(current, dict) else {}
        return {key: _filled(value, known.get(key)) for key, value in recorded.items()}
    return current if recorded == MASK else recorded


def has_record(directory: Path) -> bool:
    """Whether the run had begun to speak: before that there is nothing to resume, and nothing is lost."""
    return (directory / "run.json").exists()
