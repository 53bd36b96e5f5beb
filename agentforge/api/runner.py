"""Carries out a job with the engine: a new run, or one taken up again from its record."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from pydantic import ValidationError

from agentforge.api.jobs import Job
from agentforge.api.schemas import NewRun
from agentforge.api.sources import checked_repository
from agentforge.api.tasks import bounded_settings, build_task
from agentforge.api.workers import Ended, Listener
from agentforge.config.settings import Settings
from agentforge.core.errors import UsageError
from agentforge.orchestrator import service
from agentforge.orchestrator.past import RESUMABLE
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.resume import resume_run
from agentforge.orchestrator.store import RunRecord, RunStore


class EngineRunner:
    """The live form of `agentforge.api.workers.Runner`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(self, job: Job, listener: Listener) -> Ended:
        ended = _already_ended(RunStore(self._settings.data_home).runs / job.id)
        if ended is not None:
            return ended
        result = await self._run(job, listener)
        return Ended(result.outcome, int(result.exit_code))

    async def _run(self, job: Job, listener: Listener) -> RunResult:
        directory = RunStore(self._settings.data_home).runs / job.id
        request = _request_of(job)
        settings = bounded_settings(request, self._settings)
        if (directory / "run.json").is_file():
            return await resume_run(job.id, settings, listener=listener, limits=settings.limits)
        _remove_empty(directory)
        # Once more: the wait may have been long, folders move, and names get other addresses.
        where = await asyncio.to_thread(checked_repository, request.repository, settings.server)
        task = build_task(request, settings, where.addresses)
        return await service.run_fix(task, settings, listener=listener, run_id=job.id)


def _request_of(job: Job) -> NewRun:
    try:
        return NewRun.model_validate(job.request)
    except ValidationError as error:
        raise UsageError(
            f"what the queue holds of run {job.id} is no request: {error.error_count()} errors",
            hint="start it anew",
        ) from None


def _already_ended(directory: Path) -> Ended | None:
    """How the run ended, where the server died between its end and the note of it in the queue."""
    if not (directory / "run.json").is_file():
        return None
    manifest = RunRecord(directory).manifest
    outcome = manifest.get("outcome")
    return None if outcome in RESUMABLE else Ended(str(outcome), int(manifest.get("exit_code") or 0))


def _remove_empty(directory: Path) -> None:
    """What a server left that died before the run had a record: nothing was done or paid yet."""
    shutil.rmtree(directory, ignore_errors=True)
