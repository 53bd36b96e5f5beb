"""Workflows, configuration, tickets, health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agentforge.api.problems import ApiError
from agentforge.api.routes.runs import PROBLEMS
from agentforge.api.schemas import ConfigEntry, Health, Ticket, WorkflowGraph, WorkflowSummary
from agentforge.api.services import Services, Serving
from agentforge.api.tokens import TICKET_S
from agentforge.orchestrator import drawing
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow
from agentforge.orchestrator.workflow_load import load_workflow, shipped_workflows

router = APIRouter(tags=["about"], responses=PROBLEMS)
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/v1/workflows")
async def list_workflows() -> list[WorkflowSummary]:
    return await asyncio.to_thread(lambda: [_summary(_loaded(name)) for name in shipped_workflows()])


@router.get("/v1/workflows/{name}")
async def get_workflow(name: str) -> WorkflowGraph:
    """The graph as the engine walks it."""
    if name not in shipped_workflows():
        raise ApiError(404, f"no workflow {name[:80]!r}", hint="GET /v1/workflows lists them")
    workflow = await asyncio.to_thread(_loaded, name)
    graph = workflow.file.model_dump(mode="json", by_alias=True)
    return WorkflowGraph(**_summary(workflow).model_dump(), graph=graph, mermaid=drawing.mermaid(workflow))


def _loaded(name: str) -> Workflow:
    return load_workflow(name, NODES, PREDICATES)


def _summary(workflow: Workflow) -> WorkflowSummary:
    file = workflow.file
    return WorkflowSummary(
        name=file.name, description=file.description, needs_model=file.needs_model, hash=workflow.hash
    )


@router.get("/v1/config")
async def get_config(services: Serving) -> list[ConfigEntry]:
    """Every setting, secrets masked, and where it was set."""
    return [ConfigEntry(key=key, value=value, origin=origin) for key, value, origin in services.config]


@router.post("/v1/tickets", status_code=201)
async def make_ticket(request: Request, services: Serving) -> Ticket:
    """Opens streams for a minute where no header can be sent (EventSource, WebSocket in browsers)."""
    holder = str(request.scope.get("state", {}).get("holder") or "local")
    return Ticket(ticket=services.tickets.issue(holder), expires_in=TICKET_S)


@router.get("/healthz")
async def healthz() -> Health:
    return Health(status="ok")


@router.get("/readyz", responses={503: {"model": Health}})
async def readyz(response: Response, services: Serving) -> Health:
    """Whether runs are being worked on."""
    checks = {"workers": "ok" if services.workers.alive else "dead"}
    ready = all(check == "ok" for check in checks.values())
    response.status_code = 200 if ready else 503
    return Health(status="ok" if ready else "unavailable", checks=checks)


@router.get("/metrics", response_class=Response)
async def metrics(services: Serving) -> Response:
    """For Prometheus."""
    counts = await asyncio.to_thread(services.queue.counts)
    registry = CollectorRegistry()
    registry.register(_Gauges(services, counts))
    return Response(generate_latest(registry), media_type=METRICS_TYPE)


class _Gauges(Collector):
    """What the server is doing, read at the moment it is asked."""

    def __init__(self, services: Services, counts: dict[str, int]) -> None:
        self._services, self._counts = services, counts

    def collect(self) -> Iterable[Metric]:
        yield from self._runs()
        channels = self._services.hub.channels()
        for name, what, value in (
            ("workers_busy", "Runs at work", self._services.workers.busy),
            ("streams_open", "Event streams that are open", self._services.streams),
            ("streams_dropped_total", "Readers that were too slow", self._services.dropped),
            ("stream_buffer_bytes", "Events held for readers", sum(c.held_bytes for c in channels)),
        ):
            yield GaugeMetricFamily(f"agentforge_{name}", what, value=value)

    def _runs(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("agentforge_runs", "Runs by status", labels=["status"])
        for status, count in sorted(self._counts.items()):
            family.add_metric([status], count)
        yield family
