"""The run directory (design, section 5): manifest, events, calls, reports and the result.

Everything that shows a run reads this one record.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import RecordError
from agentforge.core.events import EVENT_ADAPTER, Event
from agentforge.core.redact import Redactor
from agentforge.core.tree import FileMode, Tree, TreeFile
from agentforge.orchestrator.eventlog import redact

if TYPE_CHECKING:
    from filelock import BaseFileLock

RECORD_SCHEMA = 1


class OwnedByAnother(RecordError):
    """Another process works on the run."""


class RunSummary(Frozen):
    """One line of `runs list`. `outcome` is "unfinished" where the process died."""

    run_id: str
    created: str
    repository: str
    issue: str
    workflow: str
    outcome: str
    exit_code: int | None
    cost_usd: float | None
    calls: int
    directory: str


class RunRecord:
    """One run's directory, for reading. A torn last line of a log is tolerated."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_id = directory.name

    @property
    def manifest(self) -> dict[str, Any]:
        path = self.directory / "run.json"
        try:
            loaded = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise RecordError(
                f"run {self.run_id} has no run.json", hint="remove it with `agentforge runs gc`"
            ) from None
        except (OSError, ValueError) as error:
            raise RecordError(f"run {self.run_id}: run.json cannot be read: {error}") from None
        if not isinstance(loaded, dict):
            raise RecordError(f"run {self.run_id}: run.json is not a manifest")
        schema = loaded.get("schema", 0)
        if not isinstance(schema, int):
            raise RecordError(f"run {self.run_id}: run.json is not a manifest")
        if schema > RECORD_SCHEMA:
            raise RecordError(f"run {self.run_id} was recorded by a newer version", hint="upgrade agentforge")
        return loaded

    def events(self) -> Iterator[Event]:
        """Durable events in order."""
        for line in whole_lines(self.directory / "events.jsonl"):
            try:
                yield EVENT_ADAPTER.validate_json(line)
            except ValidationError as error:
                raise RecordError(
                    f"run {self.run_id}: an event cannot be read: {error.errors()[0]['msg']}"
                ) from None

    def patch(self) -> bytes | None:
        """The result, exactly as verified; None where there is none."""
        path = self.directory / "patch.diff"
        return path.read_bytes() if path.is_file() else None

    def audit(self) -> dict[str, Any]:
        """audit.json. Raises `RecordError` where it is missing (the run never ended) or cannot be read."""
        path = self.directory / "audit.json"
        try:
            loaded = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise RecordError(
                f"run {self.run_id} has no audit.json", hint="it did not come to its end"
            ) from None
        except (OSError, ValueError) as error:
            raise RecordError(f"run {self.run_id}: audit.json cannot be read: {error}") from None
        if not isinstance(loaded, dict):
            raise RecordError(f"run {self.run_id}: audit.json is not a record of responsibility")
        return loaded

    def summary(self) -> RunSummary:
        """Raises `RecordError` where run.json is not what a run writes."""
        manifest = self.manifest
        try:
            spend = manifest.get("spend") or {}
            return RunSummary(
                run_id=self.run_id,
                created=manifest.get("created", ""),
                repository=manifest.get("task", {}).get("repository", {}).get("source", ""),
                issue=manifest.get("issue_title", ""),
                workflow=manifest.get("workflow", {}).get("name", ""),
                outcome=manifest.get("outcome") or "unfinished",
                exit_code=manifest.get("exit_code"),
                cost_usd=spend.get("cost_usd") if not spend.get("unpriced_calls") else None,
                calls=spend.get("calls", 0),
                directory=str(self.directory),
            )
        except (ValidationError, AttributeError) as error:
            raise RecordError(f"run {self.run_id}: run.json is odd: {error!r:.200}") from None


class RunWriter(RunRecord):
    """The same directory, for the one process that owns the run. No secret goes into what is JSON.

    Raises `RecordError` where another process owns it; a dead one owns nothing.
    """

    def __init__(self, directory: Path, redactor: Redactor | None = None) -> None:
        super().__init__(directory)
        self._redactor = redactor or Redactor()
        with recorded_in(directory):
            (directory / "reports").mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = owned(directory)
            try:
                cut_torn_line(directory / "events.jsonl")
                self._events = (directory / "events.jsonl").open("ab")
            except BaseException:
                self._lock.release()
                raise

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        self.write_json("run.json", manifest)

    def write_json(self, name: str, value: Any) -> None:
        plain = json.loads(json.dumps(value, ensure_ascii=True, default=str))
        text = json.dumps(redact(plain, self._redactor), indent=2, ensure_ascii=True, sort_keys=True)
        self.write_file(name, text.encode())

    def append_event(self, line: bytes, *, last: bool) -> None:
        """One event a line; flushed at once, on the disk when it is the last."""
        with recorded_in(self.directory):
            self._events.write(line + b"\n")
            self._events.flush()
            if last:
                os.fsync(self._events.fileno())

    def write_file(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        with recorded_in(path):
            write_atomically(path, data)
        return path

    def remove_file(self, name: str) -> None:
        """What an earlier ending left and this one does not have."""
        path = self.directory / name
        with recorded_in(path):
            path.unlink(missing_ok=True)

    def clean_logs(self) -> None:
        """Take secrets out of the full logs of the sandbox, which were written as they came."""
        for path in (self.directory / "reports").glob("*.log"):
            with recorded_in(path):
                data = path.read_bytes()
                clean = self._redactor.bytes(data)
                if clean != data:
                    write_atomically(path, clean)

    def close(self) -> None:
        try:
            self._events.close()
        finally:
            self._lock.release()


def owned(directory: Path) -> BaseFileLock:
    """Take the run for this process, until the lock is released. Raises `OwnedByAnother`."""
    from filelock import FileLock, Timeout

    lock = FileLock(directory / ".lock", timeout=0, mode=0o600, thread_local=False)
    with recorded_in(directory):
        try:
            lock.acquire()
        except Timeout:  # an OSError, too
            raise OwnedByAnother(
                f"run {directory.name} is being worked on by another process",
                hint="wait for its end, or stop that process first",
            ) from None
    return lock


def new_run_id(now: datetime) -> str:
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunStore:
    """All runs under one data home, and the base trees they share."""

    def __init__(self, data_home: Path) -> None:
        self.runs = data_home / "runs"
        self.trees = data_home / "trees"

    def create(self, now: datetime, redactor: Redactor | None = None, run_id: str | None = None) -> RunWriter:
        """A new run; `run_id` where it was given out before (`new_run_id`)."""
        directory = self.runs / (run_id or new_run_id(now))
        with recorded_in(directory):
            directory.mkdir(parents=True, mode=0o700)
        return RunWriter(directory, redactor)

    def list(self) -> list[RunSummary]:
        """Newest first; unreadable records are shown as damaged."""
        return [self._summary(directory) for directory in sorted(self._directories(), reverse=True)]

    def open(self, reference: str) -> RunRecord:
        """By id, unique prefix of it, or "last"."""
        names = sorted(path.name for path in self._directories())
        if reference == "last" and names:
            return RunRecord(self.runs / names[-1])
        found = [name for name in names if name == reference] or [n for n in names if n.startswith(reference)]
        if len(found) == 1:
            return RunRecord(self.runs / found[0])
        what = f"no run {reference!r}" if not found else f"{reference!r} names {len(found)} runs"
        raise RecordError(what, hint="`agentforge runs list` shows them")

    def _directories(self) -> tuple[Path, ...]:
        try:
            return tuple(path for path in self.runs.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise RecordError(
                f"the runs in {self.runs} cannot be read: {error.strerror}",
                hint="set AGENTFORGE_DATA_HOME to a folder that you may read",
            ) from None

    def _summary(self, directory: Path) -> RunSummary:
        try:
            return RunRecord(directory).summary()
        except RecordError:
            empty = {"created": "", "repository": "", "issue": "", "workflow": "", "calls": 0}
            return RunSummary(
                run_id=directory.name,
                outcome="damaged",
                exit_code=None,
                cost_usd=None,
                directory=str(directory),
                **empty,
            )

    def keep_tree(self, tree: Tree) -> None:
        """Keep the base for replays, once per content."""
        path = self.trees / f"{tree.digest}.tar.gz"
        with recorded_in(path):
            if not path.exists():
                self.trees.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomically(path, pack_tree(tree))

    def load_tree(self, digest: str) -> Tree:
        path = self.trees / f"{digest}.tar.gz"
        try:
            tree = unpack_tree(path.read_bytes())
        except FileNotFoundError:
            raise RecordError(f"the base tree {digest[:12]} is not kept any more") from None
        except (OSError, tarfile.TarError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"the base tree {digest[:12]} is damaged: {error!r:.100}") from None
        if tree.digest != digest:
            raise RecordError(f"the base tree {digest[:12]} is damaged")
        return tree


def pack_tree(tree: Tree) -> bytes:
    """A compressed archive of `tree`; modes travel in the tar mode, link targets as content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for path in tree.paths():
            entry = tree.read(path)
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(entry.data), int(entry.mode, 8) & 0o777
            info.pax_headers = {"AGENTFORGE.mode": entry.mode}
            archive.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def unpack_tree(data: bytes) -> Tree:
    files: dict[str, TreeFile] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for info in archive:
            content = archive.extractfile(info)
            mode: FileMode = info.pax_headers.get("AGENTFORGE.mode", "100644")  # type: ignore[assignment]
            files[info.name] = TreeFile(content.read() if content else b"", mode)
    return Tree(files)


def cut_torn_line(path: Path) -> None:
    """Take away what a killed process wrote of a last line."""
    if not path.exists():
        return
    with recorded_in(path), path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def private(path: str, flags: int) -> int:
    """Opener of files that are their owner's alone."""
    return os.open(path, flags, 0o600)


def whole_lines(path: Path) -> Iterator[bytes]:
    """Lines of a .jsonl file that end in a newline: a torn last one is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from None
    return (line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line)


@contextmanager
def understood(what: str) -> Iterator[None]:
    """What a damaged or edited file raises while it is taken apart becomes a `RecordError` about `what`."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"{what} cannot be read: {type(error).__name__}: {error!s:.200}",
            hint="the record is damaged, or was changed by hand",
        ) from None


@contextmanager
def recorded_in(place: Path) -> Iterator[None]:
    """What the file system refuses at `place` becomes a `RecordError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot write {place}: {error.strerror or error}",
            hint="set AGENTFORGE_DATA_HOME to a writable folder with room",
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Temporary file in the same folder, then rename: a reader sees the old or the new, never half."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
