"""The queue of runs: a SQLite file that outlives the server, so that no accepted run is forgotten."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentforge.core.errors import EnvironmentFault

MAX_ATTEMPTS = 5
"""A run that took the server down so many times is not picked up again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, created TEXT NOT NULL, status TEXT NOT NULL, request TEXT NOT NULL,
  title TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0,
  started TEXT, finished TEXT, outcome TEXT, exit_code INTEGER, error TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS jobs_status ON jobs (status, created);
"""


@dataclass(frozen=True)
class Job:
    """One run as the server keeps it. `request` is the body it was asked with."""

    id: str
    created: str
    status: str
    request: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    attempts: int = 0
    cancel: bool = False
    started: str | None = None
    finished: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    error: str = ""

    @property
    def over(self) -> bool:
        return self.status not in ("queued", "running")


_COLUMNS = tuple(column.name for column in fields(Job))


class JobQueue:
    """Blocking; safe to use from several threads. Raises `EnvironmentFault` where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = _connected(path)
        except sqlite3.DatabaseError as error:
            raise EnvironmentFault(
                f"the queue {path} cannot be opened: {error}",
                hint="move it away: runs that wait are forgotten then, records are kept",
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise EnvironmentFault(
                f"the queue {path} cannot be opened: {error}", hint="set AGENTFORGE_DATA_HOME elsewhere"
            ) from None

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def add(self, job: Job, most: int) -> bool:
        """Queue a run; False where `most` are waiting already."""
        with self._changing() as cursor:
            waiting = cursor.execute("SELECT count(*) FROM jobs WHERE status = 'queued'").fetchone()[0]
            if waiting >= most:
                return False
            cursor.execute(
                "INSERT INTO jobs (id, created, status, request, title) VALUES (?, ?, 'queued', ?, ?)",
                (job.id, job.created, json.dumps(job.request), job.title),
            )
        return True

    def claim(self) -> Job | None:
        """The run that waits longest, now running; None where none waits."""
        with self._changing() as cursor:
            row = cursor.execute(
                "SELECT id FROM jobs WHERE status = 'queued' ORDER BY created, id LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            cursor.execute(
                "UPDATE jobs SET status = 'running', attempts = attempts + 1,"
                " started = coalesce(started, ?) WHERE id = ?",
                (now(), row[0]),
            )
            return _job(cursor, row[0])

    def recover(self) -> list[str]:
        """After a start: what ran when the server died waits again, or is given up; ids that wait."""
        with self._changing() as cursor:
            cursor.execute(
                "UPDATE jobs SET status = 'interrupted', finished = ?,"
                " error = 'it ended the server several times' WHERE status = 'running' AND attempts >= ?",
                (now(), MAX_ATTEMPTS),
            )
            cursor.execute(
                "UPDATE jobs SET status = 'cancelled', finished = ? WHERE status = 'running' AND cancel",
                (now(),),
            )
            cursor.execute("UPDATE jobs SET status = 'queued' WHERE status = 'running'")
            rows = cursor.execute("SELECT id FROM jobs WHERE status = 'queued' ORDER BY created, id")
            return [row[0] for row in rows.fetchall()]

    def finish(
        self, run_id: str, status: str, outcome: str | None = None, code: int | None = None, error: str = ""
    ) -> None:
        with self._changing() as cursor:
            cursor.execute(
                "UPDATE jobs SET status = ?, finished = ?, outcome = ?, exit_code = ?, error = ?"
                " WHERE id = ?",
                (status, now(), outcome, code, error, run_id),
            )

    def requeue(self, run_id: str) -> None:
        """A run that was stopped with the server waits again; the stop is not counted against it."""
        with self._changing() as cursor:
            cursor.execute(
                "UPDATE jobs SET status = 'queued', attempts = max(attempts - 1, 0) WHERE id = ?", (run_id,)
            )

    def resume(self, job: Job) -> None:
        """An ended run waits again, also one that this queue has never seen."""
        with self._changing() as cursor:
            cursor.execute(
                "INSERT INTO jobs (id, created, status, request, title) VALUES (?, ?, 'queued', ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET status = 'queued', cancel = 0, attempts = 0,"
                " finished = NULL, outcome = NULL, exit_code = NULL, error = ''",
                (job.id, job.created, json.dumps(job.request), job.title),
            )

    def cancel(self, run_id: str) -> Job | None:
        """Mark for cancelling; a run that only waits is cancelled with that."""
        with self._changing() as cursor:
            cursor.execute("UPDATE jobs SET cancel = 1 WHERE id = ? AND status = 'running'", (run_id,))
            cursor.execute(
                "UPDATE jobs SET status = 'cancelled', cancel = 1, finished = ?"
                " WHERE id = ? AND status = 'queued'",
                (now(), run_id),
            )
            return _job(cursor, run_id)

    def get(self, run_id: str) -> Job | None:
        with self._changing() as cursor:
            return _job(cursor, run_id)

    def all(self) -> list[Job]:
        with self._changing() as cursor:
            cursor.execute("SELECT * FROM jobs ORDER BY id DESC")
            return _jobs(cursor, cursor.fetchall())

    def counts(self) -> dict[str, int]:
        """How many runs are in each status."""
        with self._changing() as cursor:
            return dict(cursor.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall())

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Cursor]:
        """One transaction; nobody else's statement comes between."""
        with self._lock:
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN IMMEDIATE")
                yield cursor
                cursor.execute("COMMIT")
            except sqlite3.Error as error:
                raise EnvironmentFault(f"the queue {self._path} cannot be used: {error}") from None
            finally:
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")
                cursor.close()


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        path.chmod(0o600)
        # WAL with synchronous=FULL: an accepted run survives a crash of the machine, too.
        connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {_SCHEMA}")
        connection.execute(
            "SELECT id, created, status, request, title, attempts, cancel, started, finished, outcome,"
            " exit_code, error FROM jobs LIMIT 1"
        )
    except BaseException:
        connection.close()
        raise
    return connection


def now() -> str:
    return datetime.now(UTC).isoformat()


def _job(cursor: sqlite3.Cursor, run_id: str) -> Job | None:
    cursor.execute("SELECT * FROM jobs WHERE id = ?", (run_id,))
    found = _jobs(cursor, cursor.fetchall())
    return found[0] if found else None


def _jobs(cursor: sqlite3.Cursor, rows: Sequence[Sequence[Any]]) -> list[Job]:
    names = [column[0] for column in cursor.description]
    return [_from_row(dict(zip(names, row, strict=True))) for row in rows]


def _from_row(row: dict[str, Any]) -> Job:
    known = {name: row[name] for name in _COLUMNS}
    return Job(**known | {"request": _request(row["request"]), "cancel": bool(row["cancel"])})


def _request(text: Any) -> dict[str, Any]:
    """{} for what is no request: the run then fails by itself, and holds no other one up."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
