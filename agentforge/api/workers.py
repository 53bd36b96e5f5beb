"""The runs at work: a thread with its own event loop, so that no run delays a stream.

A run belongs to the server: whoever asked for it may leave. What was running when the server ended is
taken up again by the next one, from the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentforge.api.channels import Hub, Publisher
from agentforge.api.jobs import Job, JobQueue
from agentforge.core.errors import AgentForgeError
from agentforge.core.events import EventBase

log = logging.getLogger("agentforge.api")
Listener = Callable[[EventBase], None]
PAUSE_S = 1.0
"""Between attempts at a queue that fails."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its outcome and exit code."""

    outcome: str
    exit_code: int


class Runner(Protocol):
    """Carries out one job, from its start or from its record. Raises `AgentForgeError` where there is no run.

    Cancelling it ends the run; a run that has begun closes its record first and returns.
    """

    async def __call__(self, job: Job, listener: Listener) -> Ended: ...


class Workers:
    """At most `count` runs at a time, taken from `queue` in order."""

    def __init__(self, queue: JobQueue, hub: Hub, runner: Runner, count: int) -> None:
        self._queue, self._hub, self._runner, self._count = queue, hub, runner, count
        self._server_loop: asyncio.AbstractEventLoop
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._wanted: asyncio.Event
        self._stopping = False
        self._tasks: dict[str, asyncio.Task[Ended]] = {}
        self._ending: set[str] = set()
        """Runs that were told to end: told again, they would leave their containers behind."""
        self._thread = threading.Thread(target=self._main, name="agentforge-runs", daemon=True)

    def start(self) -> None:
        """Called on the server's loop."""
        self._server_loop = asyncio.get_running_loop()
        self._thread.start()
        self._ready.wait()

    async def stop(self, timeout_s: float = 30.0) -> None:
        """End the runs; they wait in the queue for the next server."""
        self._tell(self._stop)
        await asyncio.to_thread(self._thread.join, timeout_s)

    def wake(self) -> None:
        """A run was queued."""
        self._tell(self._wanted.set)

    def cancel(self, run_id: str) -> None:
        """End a run by a person's wish."""
        self._tell(self._cancel, run_id)

    def _tell(self, what: Callable[..., object], *given: str) -> None:
        """On the loop of the runs. Where that has ended there is nobody left to be told."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what, *given)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def busy(self) -> int:
        """How many runs are at work."""
        return len(self._tasks)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wanted = asyncio.Event()
        self._ready.set()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._worker())

    def _stop(self) -> None:
        self._stopping = True
        for run_id in self._tasks:
            self._cancel(run_id)
        self._wanted.set()

    def _cancel(self, run_id: str) -> None:
        task = self._tasks.get(run_id)
        if task is not None and run_id not in self._ending:
            self._ending.add(run_id)
            task.cancel()

    async def _worker(self) -> None:
        while not self._stopping:
            try:
                await self._next()
            except AgentForgeError as error:
                # A full disk passes: one failed look into the queue must not end the runs at work.
                log.error("the queue fails, looked at again in %g s: %s", PAUSE_S, error)
                await asyncio.sleep(PAUSE_S)

    async def _next(self) -> None:
        job = await asyncio.to_thread(self._queue.claim)
        if job is None:
            self._wanted.clear()
            # Looked at once more, so that a run queued just now is not left waiting.
            job = await asyncio.to_thread(self._queue.claim)
        if job is None:
            if not self._stopping:
                await self._wanted.wait()
        elif self._stopping:  # taken while the server was being ended
            await asyncio.to_thread(self._queue.requeue, job.id)
        else:
            await self._work(job)

    async def _work(self, job: Job) -> None:
        publisher = self._hub.publisher(job.id)
        if publisher is None:
            log.error("run %s has no channel", job.id)
            await asyncio.to_thread(self._queue.finish, job.id, "interrupted", None, None, "no channel")
            return
        publisher.publish({"type": "run_status", "status": "running", "run_id": job.id}, None)
        status, ended, error = "failed", None, ""
        task = asyncio.ensure_future(self._runner(job, publisher))
        self._tasks[job.id] = task
        try:
            # A wish to cancel that came before the task was known is in the queue only.
            if await self._cancel_wanted(job.id):
                self._cancel(job.id)
            ended = await task
            status = "finished"
        except AgentForgeError as failure:
            error = str(failure)
        except asyncio.CancelledError:
            status = "cancelled"
        except Exception as defect:
            log.error("run %s ended in a defect", job.id, exc_info=defect)
            error = f"a defect in agentforge: {type(defect).__name__}"
        finally:
            self._tasks.pop(job.id, None)
            self._ending.discard(job.id)
        await self._noted(job, publisher, status, ended, error)

    async def _cancel_wanted(self, run_id: str) -> bool:
        try:
            latest = await asyncio.to_thread(self._queue.get, run_id)
        except AgentForgeError as error:
            log.error("whether run %s is wanted cannot be read: %s", run_id, error)
            return False
        return latest is not None and latest.cancel

    async def _noted(
        self, job: Job, publisher: Publisher, status: str, ended: Ended | None, error: str
    ) -> None:
        """Note the end in the queue, which may have to wait for room on the disk."""
        while True:
            try:
                await asyncio.to_thread(self._close, job, publisher, status, ended, error)
                return
            except AgentForgeError as failure:
                if self._stopping:  # the next server finds it running, and looks at its record
                    raise
                log.error("the end of run %s cannot be noted yet: %s", job.id, failure)
                await asyncio.sleep(PAUSE_S)

    def _close(self, job: Job, publisher: Publisher, status: str, ended: Ended | None, error: str) -> None:
        now = self._queue.get(job.id)
        cancelled = bool(now and now.cancel)
        if self._stopping and not cancelled and (ended is None or ended.outcome == "interrupted"):
            self._queue.requeue(job.id)
            return
        if ended is not None and ended.outcome == "interrupted":
            status = "cancelled" if cancelled else "interrupted"
        outcome, code = (ended.outcome, ended.exit_code) if ended else (None, None)
        self._queue.finish(job.id, status, outcome, code, error)
        said = {"type": "run_status", "status": status, "run_id": job.id, "error": error}
        publisher.publish(said, None)
        with contextlib.suppress(RuntimeError):  # the server's loop has ended, and with it every reader
            self._server_loop.call_soon_threadsafe(self._hub.retire, job.id, publisher)
