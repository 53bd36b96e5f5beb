"""A recorded run once more, from its record alone: no model, no sandbox, no repository."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, RecordError
from agentforge.core.events import EventBase, Notice, Token
from agentforge.core.state import RunState
from agentforge.core.task import RepairTask
from agentforge.core.tree import Tree
from agentforge.models.factory import build_ledger, build_model, build_redactor
from agentforge.orchestrator.clock import ReplayClock
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.eventlog import EventLog, Listener, ModelEvents, Prefix
from agentforge.orchestrator.past import jumps_of, own_lines
from agentforge.orchestrator.record import ReplayRetriever, ReplaySandbox, TapePlayer
from agentforge.orchestrator.result import (
    Cut,
    Ending,
    RunResult,
    ending_of_state,
    error_of_cut,
    interrupted,
)
from agentforge.orchestrator.service import (
    announce,
    announced_ending,
    finished_event,
    opening_state,
    result_patch,
    scratch_folder,
)
from agentforge.orchestrator.store import RunRecord, RunStore, understood
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow, WorkflowFile
from agentforge.orchestrator.workflow_load import build_workflow
from agentforge.repo.workspace import GitWorkspace

_MASK = "**********"


async def replay_run(reference: str, settings: Settings, listener: Listener) -> RunResult:
    """Replay a finished run. `replay_matches` says whether the events are the same, byte for byte.

    Raises `RecordError` where the record is missing, damaged, unfinished or of another version.
    """
    store = RunStore(settings.data_home)
    record = store.open(reference)
    manifest = record.manifest
    if manifest.get("outcome") is None or manifest.get("outcome") == "defect":
        what = "never ended" if manifest.get("outcome") is None else "was ended by a defect of agentforge"
        raise RecordError(
            f"run {record.run_id} {what} and cannot be replayed",
            hint=f"`agentforge runs show {record.run_id}` tells what it did",
        )
    tree = await asyncio.to_thread(_base_tree, store, manifest)
    with scratch_folder(settings.data_home) as scratch:
        workspace = await GitWorkspace.create(tree, scratch)
        with workspace:
            return await Replay(record, manifest, listener).carry_out(workspace, scratch)


class Replay:
    """One replay; its events go to the listener and are compared with the recorded ones."""

    def __init__(self, record: RunRecord, manifest: dict[str, Any], listener: Listener) -> None:
        self.record, self.manifest = record, manifest
        with understood(f"run.json of run {record.run_id}"):
            self.task = RepairTask.model_validate(manifest["task"])
            self.settings = Settings.model_validate(_without_masks(manifest["settings"]))
            graph = WorkflowFile.model_validate(manifest["workflow"]["graph"])
            clock = manifest["clock"]
            self.cut = Cut.model_validate(manifest["cut"]) if manifest.get("cut") else None
            self.recorded_spend = Spend.model_validate(manifest["spend"])
            self.clock = ReplayClock(
                [datetime.fromisoformat(moment) for moment in clock["now"]],
                [float(moment) for moment in clock["monotonic"]],
            )
            self.base_commit = str(manifest["base"]["commit"])
            self.models = dict(manifest["models"])
            jumps = Prefix(jumps=jumps_of(manifest))
        self.workflow: Workflow = build_workflow(graph, NODES, PREDICATES)
        self.lines: list[bytes] = []
        self.log = EventLog(self.clock, build_redactor(self.settings), self._keep_line, listener, jumps)
        self.state = opening_state(self.task, self.settings, self.workflow, self.base_commit)

    async def carry_out(self, workspace: GitWorkspace, scratch: Path) -> RunResult:
        started = time.monotonic()
        difference = ""
        ending: Ending | None = None
        try:
            announce(self.log, self.manifest)
            context = self._context(workspace, scratch)
            ending = await self._ending(context)
            # What a call that was cut off had cost is known to the record alone.
            spend = self.ledger.spend if self.cut is None else self.recorded_spend
            self.log.emit(finished_event(ending, spend))
        except RecordError as error:
            difference = str(error)
        return self._result(ending, difference or self._first_difference(), time.monotonic() - started)

    async def _ending(self, context: RunContext) -> Ending:
        """Raises `RecordError` where the replay leaves the recorded way."""
        context.start_deadline()
        try:
            await execute(self.workflow, self.state, NODES, PREDICATES, context, self._keep_state)
        except RecordError:
            if self.cut is None or not self._at_cut():
                raise
            return self._recorded_ending(self.cut)
        except AgentForgeError as error:
            return announced_ending(self.log, self.state, error, self.settings)
        return ending_of_state(self.state, self.settings.critic)

    def _recorded_ending(self, cut: Cut) -> Ending:
        """The run was cut off here, from outside: what it had done so far decides what that meant."""
        if cut.kind == "interrupted":
            return interrupted(self.state, self.settings.critic)
        error = error_of_cut(cut)
        return announced_ending(self.log, self.state, error, self.settings)

    def _context(self, workspace: GitWorkspace, scratch: Path) -> RunContext:
        player = TapePlayer(self.record.directory / "reports", build_redactor(self.settings))
        self.ledger = build_ledger(self.settings.model_copy(update={"limits": type(self.settings.limits)()}))
        model = None
        if self.models:
            calls = self.record.directory / "calls.jsonl"
            calls = calls if calls.exists() else scratch / "no-calls.jsonl"
            calls.touch()
            model = build_model(
                self.settings,
                self.ledger,
                record=scratch / "calls.jsonl",
                listener=ModelEvents(self._emit),
                replay=calls,
            )
        memory = self.settings.memory.enabled
        return RunContext(
            settings=self.settings,
            sandbox=ReplaySandbox(player),
            workspace=workspace,
            retriever=ReplayRetriever(player, self._warn, self.ledger.restore) if memory else None,
            clock=self.clock,
            on_event=self._emit,
            model=model,
            repository=self.task.repository.source,
            workflow=self.workflow.name,
            spent=lambda: self.ledger.spend,
            ledger=self.ledger,
        )

    def _first_difference(self) -> str:
        recorded = own_lines(self.record, self.manifest)
        for number, (was, now) in enumerate(zip_longest(recorded, self.lines), 1):
            if was != now:
                at = max(0, _common_length(was or b"", now or b"") - 20)
                return f"event {number} was {_shown(was, at)}, now {_shown(now, at)}"
        return ""

    def _result(self, ending: Ending | None, difference: str, duration_s: float) -> RunResult:
        best = self.state.best
        return RunResult(
            run_id=self.record.run_id,
            run_dir=self.record.directory,
            outcome=ending.outcome if ending else "environment",
            exit_code=int(ending.exit_code) if ending else 3,
            summary=ending.summary if ending else difference,
            workflow=self.workflow.name,
            base_commit=self.base_commit,
            patch=result_patch(self.state, ending) if ending else None,
            decision=best.decision if best else None,
            baseline=best.baseline if best else None,
            report=best.report if best else None,
            duration_s=duration_s,
            replay_matches=not difference,
            difference=difference,
        )

    def _at_cut(self) -> bool:
        return self.cut is not None and self.log.last == self.cut.after

    def _emit(self, event: EventBase) -> None:
        """Events of nodes and ports: none comes after the one at which the recorded run was cut off."""
        if self._at_cut() and not isinstance(event, Token):
            raise RecordError("the recorded run was cut off here")
        self.log.emit(event)

    def _keep_line(self, line: bytes, last: bool) -> None:
        self.lines.append(line)

    def _keep_state(self, state: RunState) -> None:
        self.state = state

    def _warn(self, text: str) -> None:
        self._emit(Notice(level="warning", text=text))


def _base_tree(store: RunStore, manifest: dict[str, Any]) -> Tree:
    with understood("the base in run.json"):
        base = manifest["base"]
        tree = store.load_tree(str(base["tree"]))
        return Tree(tree.files, frozenset(base.get("submodules", ())))


def _without_masks(value: Any) -> Any:
    """The settings of a manifest with masked secrets as absent ones."""
    if isinstance(value, dict):
        return {key: None if entry == _MASK else _without_masks(entry) for key, entry in value.items()}
    return value


def _common_length(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(line: bytes | None, at: int) -> str:
    return "missing" if line is None else "…" + line[at : at + 120].decode("utf-8", "replace")
