"""What a run that is to be resumed had come to (design, section 4).

A run is resumed by going through its record again: every answer of model, sandbox, memory and clock is
on disk before it is used, and nodes depend on nothing else. So the same events come again, are compared
with the recorded ones, and where the record ends the run goes on live, be it in the middle of a node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from agentforge.orchestrator.store import RunRecord, understood, whole_lines

RESUMABLE = frozenset({None, "interrupted", "limit", "model", "environment", "defect"})
"""Outcomes that leave something to do. None: the process died."""
MASK = "**********"
_OF_AN_ENDING = frozenset({"exit_code", "summary", "finished", "cut", "ended_after"})
"""What run.json says of an ending that does not hold any more once the run goes on."""
_ASIDE = frozenset({"stream_reset", "notice"})


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
    with understood(f"the record of run {record.run_id}"):
        _check(record, manifest)
        return _past(record, manifest)


def _past(record: RunRecord, manifest: Mapping[str, Any]) -> Past:
    lines = event_lines(record)
    jumps = jumps_of(manifest)
    ended_after = manifest.get("ended_after") if manifest.get("outcome") is not None else None
    own = [number for number in _own_course(lines, jumps) if ended_after is None or number <= ended_after]
    events = {number: json.loads(lines[number]) for number in own}
    if own and events[own[-1]]["type"] == "run_finished":
        # The process died between its last word and the note of it in run.json: an ending is no course.
        own.pop()
    if own:
        jumps = {**jumps, own[-1]: max(lines) + 1}
    reopened = unanswered(
        record.directory / "calls.jsonl",
        [int(event["call"]) for event in events.values() if event["type"] == "model_call_started"],
        ended_by_error=_ended_by_call(manifest, [events[number] for number in own]),
    )
    fresh = {key: value for key, value in manifest.items() if key not in _OF_AN_ENDING}
    return Past(
        {**fresh, "outcome": None, "resumes": [{"after": a, "at": n} for a, n in sorted(jumps.items())]},
        Prefix(tuple(lines[number] for number in own), jumps),
        read_journal(record.directory / JOURNAL),
        reopened,
    )


def _ended_by_call(manifest: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a failed model call ended the run: a limit may have been reached elsewhere, too."""
    if manifest.get("outcome") != "limit":
        return manifest.get("outcome") == "model"
    last = next((event for event in reversed(own) if event["type"] not in _ASIDE), None)
    return last is not None and last["type"] == "model_call_started"


def event_lines(record: RunRecord) -> dict[int, bytes]:
    """The recorded events by number. Raises `RecordError` where a line is no event or numbers do not rise."""
    lines: dict[int, bytes] = {}
    last = 0
    with understood(f"events.jsonl of run {record.run_id}"):
        for line in whole_lines(record.directory / "events.jsonl"):
            number = int(json.loads(line)["seq"])
            if number <= last:
                raise ValueError(f"event {number} comes after event {last}")
            lines[number], last = line, number
    return lines


def jumps_of(manifest: Mapping[str, Any]) -> dict[int, int]:
    """Of earlier resumptions: number of an event -> number of the `run_resumed` event after it."""
    return {int(entry["after"]): int(entry["at"]) for entry in manifest.get("resumes", ())}


def own_lines(record: RunRecord, manifest: Mapping[str, Any]) -> Iterator[bytes]:
    """The recorded events without endings that do not hold any more and without `run_resumed`."""
    lines = event_lines(record)
    return (lines[number] for number in _own_course(lines, jumps_of(manifest)))


def _own_course(numbers: Iterable[int], jumps: Mapping[int, int]) -> Iterator[int]:
    for number in numbers:
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
