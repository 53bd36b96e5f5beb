"""Runs: start, list, get, cancel, resume, and what their records hold."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.responses import FileResponse

from agentforge.api.jobs import Job, now
from agentforge.api.problems import ApiError
from agentforge.api.schemas import (
    CallRecord,
    LogFile,
    NewRun,
    Problem,
    RunPage,
    RunReport,
    RunSummary,
    Status,
)
from agentforge.api.services import Services, Serving
from agentforge.api.sources import check_repository
from agentforge.api.tasks import build_issue, build_task, check_workflow
from agentforge.models.factory import build_redactor
from agentforge.orchestrator.past import RESUMABLE
from agentforge.orchestrator.store import new_run_id, understood

PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": what}
    for code, what in (
        (401, "no valid token"),
        (403, "not allowed"),
        (404, "no such thing"),
        (409, "not now"),
        (422, "not usable"),
        (429, "too many requests"),
        (503, "full, or a part is missing"),
    )
}
router = APIRouter(prefix="/v1/runs", tags=["runs"], responses=PROBLEMS)
Text = Annotated[str | None, Query(max_length=300)]
_FROM_RECORD = NewRun(repository="as recorded", issue="as recorded").model_dump(mode="json")
"""The request of a run that the command line had made: its record says everything."""


@router.post("", status_code=201)
async def start_run(request: NewRun, response: Response, services: Serving) -> RunSummary:
    """Queue a run. It belongs to the server: whoever asked may leave."""
    check_workflow(request.workflow)
    source = await asyncio.to_thread(check_repository, request.repository, services.settings.server)
    request = request.model_copy(update={"repository": source})
    title = build_issue(request.issue).title
    build_task(request, services.settings)  # says at once what is wrong with it
    run_id = new_run_id(datetime.now(UTC))
    job = Job(run_id, now(), "queued", request.model_dump(mode="json"), title)
    await services.enqueue(job)
    response.headers["Location"] = f"/v1/runs/{run_id}"
    return await services.summary(run_id)


@router.get("")
async def list_runs(
    services: Serving,
    status: Status | None = None,
    outcome: Text = None,
    q: Text = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Text = None,
) -> RunPage:
    """Newest first: the server's runs and those made on the command line."""
    return await asyncio.to_thread(_page, services, status, outcome, q, limit, cursor)


def _page(
    services: Services,
    status: str | None,
    outcome: str | None,
    q: str | None,
    limit: int,
    cursor: str | None,
) -> RunPage:
    jobs = {job.id: job for job in services.queue.all()}
    found: list[RunSummary] = []
    for run_id in sorted({*jobs, *services.records.run_ids()}, reverse=True):
        if cursor is not None and run_id >= cursor:
            continue
        summary = services.records.summary(run_id, jobs.get(run_id))
        if summary is not None and _wanted(summary, status, outcome, q):
            if len(found) == limit:
                return RunPage(items=found, next=found[-1].id)
            found.append(summary)
    return RunPage(items=found)


def _wanted(summary: RunSummary, status: str | None, outcome: str | None, q: str | None) -> bool:
    if status is not None and summary.status != status:
        return False
    if outcome is not None and summary.outcome != outcome:
        return False
    text = f"{summary.id} {summary.issue_title} {summary.repository} {summary.workflow}".lower()
    return q is None or q.lower() in text


@router.get("/{run_id}")
async def get_run(run_id: str, services: Serving) -> RunSummary:
    return await services.summary(run_id)


@router.post("/{run_id}/cancel")
async def cancel_run(run_id: str, services: Serving) -> RunSummary:
    """End a run. What it has found so far is kept, and it can be resumed."""
    await services.summary(run_id)
    if await services.cancel(run_id) is None:
        raise ApiError(409, "this run was not started here", hint="end it where it was started")
    return await services.summary(run_id)


@router.post("/{run_id}/resume")
async def resume_run(run_id: str, services: Serving) -> RunSummary:
    """Go on with a run that was cancelled, interrupted or stopped; no answered model call is made again."""
    async with services.resuming:
        return await _resume(run_id, services)


async def _resume(run_id: str, services: Services) -> RunSummary:
    summary = await services.summary(run_id)
    job = await asyncio.to_thread(services.queue.get, run_id)
    if job is not None and not job.over:
        raise ApiError(409, f"the run is {job.status}")
    if summary.outcome not in RESUMABLE:
        raise ApiError(409, f"the run came to its end ({summary.outcome}): there is nothing to resume")
    request = job.request if job is not None else _FROM_RECORD
    again = Job(run_id, summary.created or now(), "queued", request, summary.issue_title)
    await services.resume(again)
    return await services.summary(run_id)


@router.get("/{run_id}/patch", response_class=Response)
async def get_patch(run_id: str, services: Serving) -> Response:
    """The patch, byte for byte as it was verified."""
    data = await asyncio.to_thread(services.records.document, run_id, "patch.diff")
    headers = {"Content-Disposition": f'attachment; filename="{run_id}.diff"'}
    return Response(data, media_type="text/x-diff", headers=headers)


@router.get("/{run_id}/report")
async def get_report(run_id: str, services: Serving) -> RunReport:
    """Base against candidate by test id, and the gate's reasons."""
    return await asyncio.to_thread(services.records.report, run_id)


@router.get("/{run_id}/audit")
async def get_audit(run_id: str, services: Serving) -> dict[str, Any]:
    """The record of responsibility: for each hunk who owns it, why, and on which evidence."""
    data = await asyncio.to_thread(services.records.document, run_id, "audit.json")
    with understood(f"audit.json of run {run_id}"):
        found: dict[str, Any] = dict(json.loads(data))
    return found


@router.get("/{run_id}/logs")
async def list_logs(run_id: str, services: Serving) -> list[LogFile]:
    return await asyncio.to_thread(services.records.logs, run_id)


@router.get("/{run_id}/logs/{name}", response_class=Response)
async def get_log(run_id: str, name: str, services: Serving) -> Response:
    """The whole output of one execution, as text."""
    path = await asyncio.to_thread(services.records.log, run_id, name)
    manifest = await asyncio.to_thread(lambda: services.records.record(run_id).manifest)
    if manifest.get("outcome") is not None:
        return FileResponse(path, media_type="text/plain; charset=utf-8")
    # Logs are written as they come, and cleaned of secrets at the end of the run.
    clean = build_redactor(services.settings).bytes
    data = await asyncio.to_thread(lambda: clean(path.read_bytes()))
    return Response(data, media_type="text/plain; charset=utf-8")


@router.get("/{run_id}/calls")
async def list_calls(run_id: str, services: Serving) -> list[CallRecord]:
    """Every model call, as it was recorded."""
    return await asyncio.to_thread(services.records.calls, run_id)
