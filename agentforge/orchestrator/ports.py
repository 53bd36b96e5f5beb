"""The live ports of one run, each wrapped so that what it answers is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.events import Notice
from agentforge.core.ports import Clock, Retriever, Sandbox, Workspace
from agentforge.core.redact import Redactor
from agentforge.core.task import RepairTask
from agentforge.memory.retriever import MemoryRetriever, ReadCommits
from agentforge.models.factory import build_ledger, build_model, model_for
from agentforge.models.ledger import Ledger
from agentforge.models.record import AccountingModel
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.eventlog import EventLog, ModelEvents
from agentforge.orchestrator.metering import MemoryMeter
from agentforge.orchestrator.past import Past
from agentforge.orchestrator.record import (
    RecordingRetriever,
    RecordingSandbox,
    ReplayRetriever,
    ReplaySandbox,
    Tape,
    TapePlayer,
)
from agentforge.orchestrator.resumed_ports import ResumedRetriever, ResumedSandbox
from agentforge.orchestrator.store import RunWriter
from agentforge.orchestrator.workflow import Workflow
from agentforge.sandbox.docker_sandbox import DockerSandbox

AGENTS = ("planner", "coder", "tester", "debugger", "critic")
AGENTS_OF_NODES = {
    "team": "specialist",
    "merge": "manager",
    "fix_infrastructure": "fixer",
    "act": "reacter",
}
"""Agents that only workflows with such a node have."""


@dataclass(frozen=True)
class LivePorts:
    """Model, sandbox and memory of one run."""

    settings: Settings
    workflow: str
    engine: DockerSandbox
    """To be entered for the time of the run: then containers are made ahead, and none is left."""
    sandbox: Sandbox
    retriever: Retriever | None
    model: AccountingModel | None
    ledger: Ledger

    def context(self, workspace: Workspace, clock: Clock, task: RepairTask, log: EventLog) -> RunContext:
        return RunContext(
            settings=self.settings,
            sandbox=self.sandbox,
            workspace=workspace,
            retriever=self.retriever,
            clock=clock,
            on_event=log.emit,
            model=self.model,
            repository=task.repository.source,
            workflow=self.workflow,
            spent=self.spend,
            ledger=self.ledger,
        )

    def spend(self) -> Spend:
        return self.ledger.spend


def live_ports(
    settings: Settings,
    workflow: Workflow,
    writer: RunWriter,
    log: EventLog,
    redactor: Redactor,
    commits: ReadCommits | None = None,
    past: Past | None = None,
) -> LivePorts:
    """Connect everything. `commits` gives what the ranking may know of the past; `past` is that of a
    resumed run, whose record answers first.

    Raises `UsageError` for an unknown price under a cost limit.
    """
    tape = Tape(writer.directory / "reports", redactor)
    ledger = build_ledger(settings)
    model = None
    if asks_model(settings, workflow):
        listener = ModelEvents(log.emit)
        model = build_model(
            settings,
            ledger,
            record=writer.directory / "calls.jsonl",
            listener=listener,
            reopened=past.reopened if past else None,
        )
    logs = writer.directory / "reports"
    sandbox = DockerSandbox(settings.sandbox, writer.run_id, logs, progress=_progress(log))
    retriever = live_retriever(settings, tape, log, redactor, ledger, commits)
    box: Sandbox = RecordingSandbox(sandbox, tape)
    if past is not None:
        player = TapePlayer(logs, redactor)
        box = ResumedSandbox(ReplaySandbox(player), box)
        if retriever is not None:
            told = ReplayRetriever(player, lambda text: log.emit(_warning(text)), ledger.restore)
            retriever = ResumedRetriever(told, retriever)
    return LivePorts(settings, workflow.name, sandbox, box, retriever, model, ledger)


def _progress(log: EventLog) -> Callable[[str], None]:
    """Shows, from any thread, what an image build is doing; not part of the record."""
    loop = asyncio.get_running_loop()

    def show(text: str) -> None:
        loop.call_soon_threadsafe(log.show, Notice(text=text))

    return show


def live_retriever(
    settings: Settings,
    tape: Tape,
    log: EventLog,
    redactor: Redactor,
    ledger: Ledger,
    commits: ReadCommits | None,
) -> Retriever | None:
    if not settings.memory.enabled:
        return None
    warnings, meter = Warnings(log), MemoryMeter(ledger)
    live = MemoryRetriever(
        settings.memory, settings.data_home, warnings.warn, redactor=redactor, commits=commits, meter=meter
    )
    return RecordingRetriever(live, tape, lambda: (warnings.drain(), meter.drain()))


class Warnings:
    """Collects what memory warns of (from threads) until the event loop can report it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._texts: list[str] = []

    def warn(self, text: str) -> None:
        self._texts.append(text)

    def drain(self) -> tuple[str, ...]:
        """What was warned of since the last time; each is an event of the run."""
        texts, self._texts = tuple(self._texts), []
        for text in texts:
            self._log.emit(_warning(text))
        return texts


def _warning(text: str) -> Notice:
    return Notice(level="warning", text=text)


def model_names(settings: Settings, workflow: Workflow) -> dict[str, str]:
    """Which model each agent uses; empty where the workflow needs none."""
    if not asks_model(settings, workflow):
        return {}
    more = (agent for node, agent in AGENTS_OF_NODES.items() if node in workflow.node_names)
    return {agent: model_for(settings, agent) for agent in (*AGENTS, *more)}


def asks_model(settings: Settings, workflow: Workflow) -> bool:
    """Whether a run has a model: where it needs one, or a stage can use the one that is configured."""
    staged = any(stage.workflow.file.needs_model for stage in workflow.stages)
    return workflow.file.needs_model or (staged and settings.model.configured)
