"""One `fix` from the task to the record: intake, ports, engine, ending (design, sections 4 and 5)."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, ConfigError, EnvironmentFault, ExitCode, RecordError
from agentforge.core.events import Notice, RunFinished, RunStarted
from agentforge.core.patch import Patch
from agentforge.core.state import RunState
from agentforge.core.task import RepairTask
from agentforge.memory.history import read_commits
from agentforge.memory.retriever import ReadCommits
from agentforge.models.factory import build_redactor
from agentforge.orchestrator.clock import JOURNAL, LiveClock, Readings, RecordingClock
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.dryrun import rehearse
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.eventlog import EventLog, Listener, Prefix
from agentforge.orchestrator.manifest import closing_manifest, opening_manifest, stage_shares
from agentforge.orchestrator.past import Past
from agentforge.orchestrator.ports import LivePorts, live_ports, model_names
from agentforge.orchestrator.report import markdown_report
from agentforge.orchestrator.responsibility.record import audit_record
from agentforge.orchestrator.result import (
    Cut,
    Ending,
    RunResult,
    ending_after,
    ending_of_state,
    error_of_cut,
    interrupted,
)
from agentforge.orchestrator.store import RunStore, RunWriter, recorded_in, understood
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow
from agentforge.orchestrator.workflow_load import load_workflow
from agentforge.repo.intake import IntakeResult, open_repository
from agentforge.repo.workspace import GitWorkspace


def choose_workflow(settings: Settings) -> Workflow:
    """`auto` is `agentforge` with a model and `search` without. Raises `ConfigError`."""
    name = settings.workflow
    if name == "auto":
        name = "agentforge" if settings.model.configured else "search"
    workflow = load_workflow(name, NODES, PREDICATES)
    if workflow.file.needs_model and not settings.model.configured:
        raise ConfigError(
            f"workflow {name} needs a model and none is configured",
            hint="set OPENAI_API_KEY or --base-url, or use --workflow search",
        )
    if settings.critic == "gate" and "critic" not in workflow.node_names:
        raise ConfigError(
            f"workflow {name} asks no critic, which --critic gate wants to decide",
            hint="use --critic off, or --workflow agentforge with a model",
        )
    return workflow


async def run_fix(
    task: RepairTask,
    settings: Settings,
    *,
    listener: Listener,
    dry_run: bool = False,
    run_id: str | None = None,
) -> RunResult:
    """Repair, record, and say how it ended. `run_id` names the record where it was promised before.

    Raises `AgentForgeError` only for what is wrong before a run exists (repository, configuration);
    later failures are outcomes of the run.
    """
    workflow = choose_workflow(settings)
    store = RunStore(settings.data_home)
    with scratch_folder(settings.data_home) as scratch:
        intake = await asyncio.to_thread(open_repository, task.repository, scratch)
        task = _settled_task(task, settings, intake)
        if dry_run:
            return rehearse(task, settings, workflow, intake, listener)
        writer = store.create(LiveClock().now(), build_redactor(settings), run_id)
        run = LiveRun(task, settings, workflow, intake, writer, listener)
        try:
            store.keep_tree(intake.tree)
            workspace = await GitWorkspace.create(intake.tree, scratch)
            with workspace:
                return await run.carry_out(workspace)
        finally:
            writer.close()


def _settled_task(task: RepairTask, settings: Settings, intake: IntakeResult) -> RepairTask:
    """The task as it is worked on and recorded: no secret that the issue may quote goes further."""
    clean = build_redactor(settings).text
    issue = task.issue.model_copy(update={"text": clean(task.issue.text), "title": clean(task.issue.title)})
    return task.model_copy(
        update={
            "issue": issue,
            # The source without the credentials that a URL may carry.
            "repository": task.repository.model_copy(update={"source": source_of(intake)}),
            "subdirectory": intake.subdirectory,
            "tests_scope": settings.tests_scope,
        }
    )


class LiveRun:
    """One run that really happens, and its record."""

    def __init__(
        self,
        task: RepairTask,
        settings: Settings,
        workflow: Workflow,
        intake: IntakeResult,
        writer: RunWriter,
        listener: Listener,
        past: Past | None = None,
    ) -> None:
        self.past = past
        self.task, self.settings, self.workflow = task, settings, workflow
        self.intake, self.writer = intake, writer
        self.started = time.monotonic()
        journal = writer.directory / JOURNAL
        self.clock = RecordingClock(journal, past.readings if past else Readings())
        self.cut: Cut | None = None
        self.ended_after: int | None = None
        self.redactor = build_redactor(settings)
        prefix = past.prefix if past else Prefix()
        self.log = EventLog(self.clock, self.redactor, self._write, listener, prefix, self._begin)
        self.time_limit_s = settings.limits.time_limit_s
        """Cuts the run off from outside, whatever a node is waiting for."""
        self._time_limit: asyncio.Timeout | None = None
        self.state = opening_state(task, settings, workflow, intake.base_commit)
        self.manifest = dict(past.manifest) if past else self._opening_manifest()

    def _opening_manifest(self) -> dict[str, Any]:
        return opening_manifest(
            self.writer.run_id,
            LiveClock().now(),
            self.task,
            self.settings,
            self.workflow,
            base_record(self.intake),
            model_names(self.settings, self.workflow),
        )

    async def carry_out(self, workspace: GitWorkspace) -> RunResult:
        """Raises what goes wrong before a resumed run is where its record ends, which then stays as it is."""
        try:
            if not self.log.repeating:
                self._begin()
            announce(self.log, self.manifest)
            return await self._carried_out(workspace)
        finally:
            self.clock.close()

    def _begin(self) -> None:
        """From here on something new happens: an earlier ending does not hold any more."""
        self.writer.write_manifest(self.manifest)
        self._start_time_limit()

    async def _carried_out(self, workspace: GitWorkspace) -> RunResult:
        ports: LivePorts | None = None
        ending = Ending("defect", ExitCode.DEFECT, "a defect in agentforge ended the run")
        result: RunResult | None = None
        try:
            commits = past_commits(self.intake, self.settings)
            ports = live_ports(
                self.settings, self.workflow, self.writer, self.log, self.redactor, commits, self.past
            )
            async with ports.engine:
                await self._run_engine(ports.context(workspace, self.clock, self.task, self.log))
            self._check_repeated()
            ending = ending_of_state(self.state, self.settings.critic)
        except AgentForgeError as error:
            if self.log.repeating:
                raise
            ending = self._ending_after(error)
        except asyncio.CancelledError:
            if self.log.repeating:
                raise
            self.ended_after = self.log.last
            self.cut = Cut(after=self.log.last, kind="interrupted")
            ending = interrupted(self.state, self.settings.critic)
        finally:
            # In `finally`, so that a defect closes the record, too, before it is raised further.
            if not self.log.repeating:
                result = self._finish(ending, ports.spend() if ports is not None else Spend())
        assert result is not None
        return result

    def _check_repeated(self) -> None:
        if self.log.repeating:
            raise RecordError(
                f"the run cannot be resumed: it ends after event {self.log.last}, its record goes on",
                hint="its code, configuration or input changed; start it anew",
            )

    async def _run_engine(self, context: RunContext) -> None:
        context.start_deadline()
        try:
            async with asyncio.timeout(None) as self._time_limit:
                if not self.log.repeating:
                    self._start_time_limit()
                await execute(self.workflow, self.state, NODES, PREDICATES, context, self._keep)
        except TimeoutError:
            if self._time_limit is None or not self._time_limit.expired():
                raise
            what = f"the time limit of {self.time_limit_s:g} s was reached"
            self.cut = Cut(after=self.log.last, kind="time", what=what)
            raise error_of_cut(self.cut) from None

    def _start_time_limit(self) -> None:
        """Going through the past costs no time of the run, and is not cut off by its limit."""
        if self.time_limit_s is not None and self._time_limit is not None:
            left = max(0.0, self.time_limit_s - self.clock.used_s)
            self._time_limit.reschedule(asyncio.get_running_loop().time() + left)

    def _keep(self, state: RunState) -> None:
        self.state = state
        if not self.log.repeating:
            checkpoint = {"after": self.log.last, "state": state.model_dump(mode="json")}
            self.writer.write_json("checkpoint.json", checkpoint)

    def _ending_after(self, error: AgentForgeError) -> Ending:
        self.ended_after = self.log.last
        if isinstance(error, EnvironmentFault):
            self.cut = Cut(after=self.log.last, kind="fault", what=error.what, hint=error.hint)
        return announced_ending(self.log, self.state, error, self.settings)

    def _finish(self, ending: Ending, spend: Spend) -> RunResult:
        patch = result_patch(self.state, ending)
        if patch is not None:
            self.writer.write_file("patch.diff", patch.diff)
        else:
            self.writer.remove_file("patch.diff")
        report = markdown_report(self.state, ending.outcome, ending.summary)
        self.writer.write_file("report.md", self.redactor.text(report).encode("utf-8", "replace"))
        audit = audit_record(self.state, self.writer.events(), self.intake.tree)
        self.writer.write_json("audit.json", audit)
        self.writer.clean_logs()
        self.log.emit(finished_event(ending, spend))
        clock = {"now": self.clock.nows, "monotonic": self.clock.monotonics}
        now = datetime.now(UTC)
        closed = closing_manifest(self.manifest, self.state, ending, spend, now, clock, self.cut)
        stages = stage_shares(self.writer.events(), spend)
        self.writer.write_manifest({**closed, "ended_after": self.ended_after, "stages": stages})
        best = self.state.best
        return RunResult(
            run_id=self.writer.run_id,
            run_dir=self.writer.directory,
            outcome=ending.outcome,
            exit_code=int(ending.exit_code),
            summary=ending.summary,
            hint=ending.hint,
            workflow=self.workflow.name,
            base_commit=self.intake.base_commit,
            patch=patch,
            decision=best.decision if best else None,
            baseline=best.baseline if best else self.state.baseline,
            report=best.report if best else None,
            spend=spend,
            repository_root=self.intake.root,
            duration_s=time.monotonic() - self.started,
            state=self.state,
            fault=ending.fault,
        )

    def _write(self, line: bytes, last: bool) -> None:
        self.writer.append_event(line, last=last)


def past_commits(intake: IntakeResult, settings: Settings) -> ReadCommits | None:
    """Reads ancestors of the base, when memory asks for them; in a thread."""
    git = intake.git
    return None if git is None else lambda: read_commits(git.run, intake.base_commit, settings.memory.history)


def opening_state(task: RepairTask, settings: Settings, workflow: Workflow, base_commit: str) -> RunState:
    rounds = workflow.file.rounds
    return RunState(
        task=task,
        base_commit=base_commit,
        budget=settings.retries if rounds is None else rounds,
        retries=settings.retries,
    )


def result_patch(state: RunState, ending: Ending) -> Patch | None:
    """What is handed over: the verified patch, or the unverified one, and nothing else."""
    return state.best.candidate.patch if state.best is not None and ending.with_patch else None


def announced_ending(log: EventLog, state: RunState, error: AgentForgeError, settings: Settings) -> Ending:
    """The end after `error`; where a patch was verified before it, the error is told as an event."""
    if state.verified:
        log.emit(notice_of(error))
    return ending_after(state, error, settings.critic)


def source_of(intake: IntakeResult) -> str:
    """The repository as others can find it: its local folder, or its URL without credentials."""
    return str(intake.root) if intake.root is not None else intake.source


def base_record(intake: IntakeResult) -> dict[str, Any]:
    """What a replay needs to know of the base."""
    return {
        "commit": intake.base_commit,
        "source": source_of(intake),
        "tree": intake.tree.digest,
        "submodules": sorted(intake.tree.submodules),
        "notices": list(intake.notices),
        "dirty": len(intake.dirty_paths),
    }


def announce(log: EventLog, manifest: dict[str, Any]) -> None:
    """The first events of a run, from its manifest, so that a replay begins alike."""
    with understood("what run.json says of the run's beginning"):
        workflow, base = manifest["workflow"], manifest["base"]
        first = RunStarted(
            run_id=manifest["run_id"],
            workflow=workflow["name"],
            workflow_hash=workflow["hash"],
            repository=base["source"],
            base=base["commit"],
            issue_title=manifest["issue_title"],
            models=manifest["models"],
        )
        notices = [Notice(text=text) for text in base["notices"]]
    for event in (first, *notices):
        log.emit(event)


def finished_event(ending: Ending, spend: Spend) -> RunFinished:
    return RunFinished(
        outcome=ending.outcome, exit_code=int(ending.exit_code), summary=ending.summary, spend=spend
    )


def notice_of(error: AgentForgeError) -> Notice:
    return Notice(level="warning", text=error.what, hint=error.hint)


@contextmanager
def scratch_folder(data_home: Path, name: str = "run") -> Iterator[Path]:
    """A private folder of this process, removed on the way out; what dead processes left is removed, too."""
    home = data_home / "scratch"
    folder = home / f"{name}-{time.monotonic_ns()}-{os.getpid()}"
    with recorded_in(home):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in home.iterdir():
            owner = left.name.rpartition("-")[2]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(left, ignore_errors=True)
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
