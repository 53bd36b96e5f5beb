"""The batch folder: manifest.json, trials.jsonl, started.jsonl, artifacts/ and the runs' records.

A killed process leaves a folder that the next one goes on with; two processes never write one at a time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agentforge.core.errors import ConfigError, RecordError, UsageError
from agentforge.evaluation.trials import ROWS_FILE, TrialRow
from agentforge.orchestrator.store import (
    cut_torn_line,
    recorded_in,
    understood,
    whole_lines,
    write_atomically,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock

MANIFEST = "manifest.json"
STARTED = "started.jsonl"
SUMMARY = "summary.json"
IDENTITY = "identity"
"""The part of the manifest that must not change between the trials of one folder."""
SCHEMA = 1
Key = tuple[str, int]
"""(task, trial)."""


class BatchFolder:
    """The one process that owns a batch. `open_batch` makes it; use it as a context manager."""

    def __init__(self, path: Path, manifest: dict[str, Any], lock: BaseFileLock) -> None:
        self._writing = threading.Lock()
        self.path, self.manifest, self._lock = path, manifest, lock
        for name in (ROWS_FILE, STARTED):
            cut_torn_line(path / name)
        self._rows = list(read_trials(path))
        self._current = {(row.problem, row.trial): row for row in self._rows}

    def __enter__(self) -> BatchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def run(self) -> str:
        """The name under which this batch's rows are compared."""
        return str(self.manifest["run"])

    @property
    def rows(self) -> tuple[TrialRow, ...]:
        """Every row ever written, superseded ones too: what was paid for is among them."""
        return tuple(self._rows)

    @property
    def current(self) -> dict[Key, TrialRow]:
        """The row of each trial that holds: the newest."""
        return dict(self._current)

    def append(self, row: TrialRow, artifacts: Mapping[str, bytes] | None = None) -> None:
        """Keep `artifacts`, then the row: one write, on the disk before this returns.

        Raises `RecordError` for a trial that has its final row, and where the disk refuses.
        """
        with self._writing:
            self._append(row, artifacts or {})

    def _append(self, row: TrialRow, artifacts: Mapping[str, bytes]) -> None:
        known = self._current.get((row.problem, row.trial))
        if known is not None and known.status == "final":
            raise RecordError(f"trial {row.trial} of {row.problem} already has its final row")
        if artifacts:
            place = self.artifacts(row.problem, row.trial)
            with recorded_in(place):
                place.mkdir(parents=True, exist_ok=True)
            for name, data in artifacts.items():
                with recorded_in(place / name):
                    write_atomically(place / name, data)
        append_line(self.path / ROWS_FILE, row.model_dump(mode="json"))
        self._rows.append(row)
        self._current[row.problem, row.trial] = row

    def begin(self, run_id: str, key: Key, *, away: bool = False, max_cost_usd: float | None = None) -> None:
        """Say, durably, that the run `run_id` works on this trial. `away`: its record is made elsewhere."""
        line = {"run_id": run_id, "problem": key[0], "trial": key[1]}
        append_line(
            self.path / STARTED, line | ({"away": True, "max_cost_usd": max_cost_usd} if away else {})
        )

    def begun(self) -> dict[Key, str]:
        """Runs of trials that were begun and of which no row tells: their process died."""
        told = {run_id for row in self._rows for run_id in [(row.model_extra or {}).get("run_id")]}
        return {
            (line["problem"], line["trial"]): line["run_id"]
            for line in self._started()
            if line["run_id"] not in told
        }

    def granted(self, run_id: str) -> tuple[bool, float | None]:
        """Whether a begun run was elsewhere, and what it might spend there (US dollars; None: no limit)."""
        line = next((line for line in self._started() if line["run_id"] == run_id), {})
        return bool(line.get("away")), line.get("max_cost_usd")

    def _started(self) -> list[dict[str, Any]]:
        with understood(f"{self.path / STARTED}"):
            return [json.loads(line) for line in whole_lines(self.path / STARTED)]

    def artifacts(self, task: str, trial: int) -> Path:
        """Where the files of a trial lie."""
        return artifacts_of(self.path, task, trial)

    def note(self, **entries: Any) -> None:
        """Write `entries` into the manifest, atomically."""
        self.manifest = {**self.manifest, **entries}
        _write_json(self.path / MANIFEST, self.manifest)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        _write_json(self.path / SUMMARY, summary)


def open_batch(
    path: Path, identity: Mapping[str, Any], about: Mapping[str, Any], *, run: str = "", resume: bool = False
) -> BatchFolder:
    """Make the folder of a batch, or go on with one. `about` is what a new manifest says beside `identity`.

    Raises `UsageError` where the folder holds a batch and `resume` is not wanted, or holds something else;
    `ConfigError` naming what differs where the batch was made with another identity; `RecordError` where
    another process owns it.
    """
    with recorded_in(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = _owned(path)
    try:
        return BatchFolder(path, _manifest(path, identity, about, run, resume), lock)
    except BaseException:
        lock.release()
        raise


def _manifest(
    path: Path, identity: Mapping[str, Any], about: Mapping[str, Any], run: str, resume: bool
) -> dict[str, Any]:
    place = path / MANIFEST
    if not place.exists():
        strange = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
        if strange:
            raise UsageError(
                f"{path} is not a batch folder: it holds {', '.join(strange[:3])}", hint="give a new --out"
            )
        new = {"schema": SCHEMA, "run": run or path.absolute().name, IDENTITY: dict(identity), **about}
        _write_json(place, new)
        return new
    known = read_manifest(path)
    if not resume:
        raise UsageError(
            f"{path} holds a batch already", hint="go on with it by --resume, or give a new --out"
        )
    refuse_other_identity(path, known.get(IDENTITY), json.loads(json.dumps(dict(identity), default=str)))
    if run and run != known["run"]:
        raise UsageError(f"{path}: this batch is named {known['run']}", hint="leave out --name")
    return known


def refuse_other_identity(path: Path, recorded: Any, wanted: Mapping[str, Any]) -> None:
    """Raise `ConfigError` that names every difference."""
    known = dict(_leaves(recorded if isinstance(recorded, dict) else {}))
    new = dict(_leaves(wanted))
    changed = [name for name in {**known, **new} if known.get(name) != new.get(name)]
    if changed:
        # A hash only repeats what the names below it say.
        named = [name for name in changed if not name.endswith("_hash")] or changed
        told = "; ".join(f"{name} was {_shown(known, name)}, now {_shown(new, name)}" for name in named[:6])
        more = f"; and {len(named) - 6} more" if len(named) > 6 else ""
        raise ConfigError(
            f"{path}: this batch was made differently: {told}{more}",
            hint="trials of one folder are one experiment: give a new --out",
        )


def _shown(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]}"[:80] if name in values else "absent"


def _leaves(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, f"{above}{key}.")
        else:
            yield f"{above}{key}", inner


def artifacts_of(folder: Path, task: str, trial: int) -> Path:
    """Where the files of a trial lie in a batch folder."""
    return folder / "artifacts" / slug(task) / f"trial-{trial}"


def read_manifest(path: Path) -> dict[str, Any]:
    """Raises `RecordError` where it cannot be read or was written by a newer version."""
    place = path / MANIFEST
    try:
        manifest = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{place} cannot be read: {error}", hint="give another --out") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("run"), str):
        raise RecordError(f"{place} is not a batch manifest", hint="give another --out")
    if manifest.get("schema", 0) > SCHEMA:
        raise RecordError(f"{path} was made by a newer version", hint="upgrade agentforge")
    return manifest


def read_trials(path: Path) -> Sequence[TrialRow]:
    """Every whole row of the folder. A torn last line is left out; another odd one raises `RecordError`."""
    rows = []
    for number, line in enumerate(whole_lines(path / ROWS_FILE), 1):
        try:
            rows.append(TrialRow.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]["msg"]
            raise RecordError(f"{path / ROWS_FILE}, line {number}: is no trial row: {first}") from None
    return rows


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """One line of JSON at the end of `path`: one write, then on the disk."""
    line = json.dumps(value, ensure_ascii=True, sort_keys=True, default=str).encode() + b"\n"
    with recorded_in(path):
        new = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write_whole(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            _sync_folder(path.parent)


def _write_whole(handle: int, line: bytes) -> None:
    """All of `line` or nothing: a disk that is full must not leave a piece that the next line joins."""
    before = os.fstat(handle).st_size
    try:
        if os.write(handle, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(handle, before)
        raise


def slug(text: str) -> str:
    """`text` as the name of a file or folder; other texts have other names."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._")
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=True, default=str) + "\n"
    with recorded_in(path):
        write_atomically(path, text.encode())


def _owned(path: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout

    lock = FileLock(path / ".lock", timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise RecordError(
            f"{path}: another process works on this batch", hint="wait for its end, or stop it first"
        ) from None
    return lock
