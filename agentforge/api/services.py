"""What the routes work with: one object for the life of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends
from filelock import BaseFileLock, FileLock, Timeout
from starlette.requests import HTTPConnection

from agentforge.api.channels import Hub, Publisher
from agentforge.api.indexes import Indexes
from agentforge.api.jobs import Job, JobQueue
from agentforge.api.problems import ApiError
from agentforge.api.records import Records
from agentforge.api.schemas import RunSummary
from agentforge.api.streams import last_seq
from agentforge.api.tokens import Tickets, Tokens
from agentforge.api.workers import Runner, Workers
from agentforge.config.settings import Settings
from agentforge.core.errors import EnvironmentFault, RecordError
from agentforge.orchestrator.store import OwnedByAnother, owned

QUEUE = Path("server") / "queue.sqlite3"
ConfigRows = Sequence[tuple[str, Any, str]]


@dataclass
class Services:
    """Queue, workers, records, streams, tickets. `hub` and `workers` live between start and end."""

    settings: Settings
    runner: Runner
    config: ConfigRows
    tokens: Tokens
    tickets: Tickets
    records: Records
    queue: JobQueue = field(init=False)
    hub: Hub = field(init=False)
    workers: Workers = field(init=False)
    indexes: Indexes = field(init=False)
    resuming: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Two wishes to resume one run must not make it run twice."""
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Searches wait here, and not in the threads that everything else needs."""
    streams: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        self.indexes = Indexes(self.settings)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take up what an earlier server left, work, and hand over to the next one."""
        server = self.settings.server
        self.queue = await asyncio.to_thread(JobQueue, self.settings.data_home / QUEUE)
        self.hub = Hub(asyncio.get_running_loop(), server.stream_buffer_mb * 1024 * 1024)
        self.workers = Workers(self.queue, self.hub, self.runner, server.workers)
        for run_id in await asyncio.to_thread(self.queue.recover):
            try:
                await self.open_channel(run_id)
            except RecordError as error:
                # One damaged record is no reason to serve nobody.
                await asyncio.to_thread(self.queue.finish, run_id, "failed", None, None, str(error))
        self.workers.start()
        try:
            yield
        finally:
            self.hub.close()
            await self.workers.stop()
            await asyncio.to_thread(self.queue.close)
            await asyncio.to_thread(self.indexes.close)

    async def open_channel(self, run_id: str) -> Publisher:
        """A run that is about to be worked on speaks through a channel behind its record.

        Raises `RecordError` where the record is damaged.
        """
        events = self.records.directory(run_id) / "events.jsonl"
        return self.hub.open(run_id, await asyncio.to_thread(last_seq, events))

    async def summary(self, run_id: str) -> RunSummary:
        """Raises `ApiError` (404)."""
        job = await asyncio.to_thread(self.queue.get, run_id)
        found = await asyncio.to_thread(self.records.summary, run_id, job)
        if found is None:
            raise ApiError(404, f"no run {run_id[:80]!r}", hint="GET /v1/runs lists them")
        return found

    async def enqueue(self, job: Job) -> None:
        """Queue a new run. Raises `ApiError` (503) where too many wait."""
        async with self._queued(job.id):
            if not await asyncio.to_thread(self.queue.add, job, self.settings.server.max_queue):
                raise ApiError(503, "too many runs are waiting", headers={"Retry-After": "30"})
        self.workers.wake()

    async def resume(self, job: Job) -> None:
        """Queue a run that has ended. Raises `ApiError` (409) where another process works on it."""
        await asyncio.to_thread(self._check_free, job.id)
        async with self._queued(job.id):
            await asyncio.to_thread(self.queue.resume, job)
        self.workers.wake()

    def _check_free(self, run_id: str) -> None:
        if not self.records.known(run_id):
            return
        try:
            owned(self.records.directory(run_id)).release()
        except OwnedByAnother as error:
            raise ApiError(409, error.what, hint=error.hint) from None

    @asynccontextmanager
    async def _queued(self, run_id: str) -> AsyncIterator[None]:
        """The run has a channel before it can be worked on; nobody waits at one whose run was not queued."""
        publisher = await self.open_channel(run_id)
        try:
            yield
        except BaseException:
            self.hub.retire(run_id, publisher)
            raise

    async def cancel(self, run_id: str) -> Job | None:
        """End a run that waits or works; its readers are told. None where this queue does not know it."""
        before = await asyncio.to_thread(self.queue.get, run_id)
        job = await asyncio.to_thread(self.queue.cancel, run_id)
        if before is None or job is None or before.over:
            return job
        if job.status == "running":
            self.workers.cancel(run_id)
        elif job.status == "cancelled":
            publisher = self.hub.publisher(run_id)
            if publisher is not None:
                publisher.publish({"type": "run_status", "status": job.status, "run_id": run_id}, None)
                # Behind what was just published, which also goes through the loop.
                asyncio.get_running_loop().call_soon(self.hub.retire, run_id, publisher)
        return job


def only_server(data_home: Path) -> BaseFileLock:
    """To be held while serving: two servers on one queue would work on the same runs.

    A dead server holds nothing. Raises `EnvironmentFault`.
    """
    path = data_home / QUEUE.parent / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(path, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise EnvironmentFault(
            f"another server works on {data_home}", hint="stop it, or set AGENTFORGE_DATA_HOME elsewhere"
        ) from None
    return lock


def services_of(connection: HTTPConnection) -> Services:
    found: Services = connection.app.state.services
    return found


Serving = Annotated[Services, Depends(services_of)]
