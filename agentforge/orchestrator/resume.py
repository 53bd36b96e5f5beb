"""Go on with a run that did not come to its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentforge.config.settings import Settings
from agentforge.core.errors import RecordError
from agentforge.core.task import Limits, RepairTask
from agentforge.core.tree import Tree
from agentforge.models.factory import build_redactor
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.manifest import settings_record
from agentforge.orchestrator.past import Past, past_of, settings_of
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import LiveRun, scratch_folder
from agentforge.orchestrator.store import RunRecord, RunStore, RunWriter, understood
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow, WorkflowFile
from agentforge.orchestrator.workflow_load import build_workflow
from agentforge.repo.intake import IntakeResult
from agentforge.repo.workspace import GitWorkspace

FOREVER_S = 1e9
"""A time limit that no run reaches."""


async def resume_run(
    reference: str, settings: Settings, *, listener: Listener, limits: Limits | None = None
) -> RunResult:
    """Go on with a run whose process died, or that was interrupted or stopped by a limit or a fault.

    `settings` give the secrets and the data home, the record everything else; `limits` may replace those
    of the run. No answered model call is made again, and `listener` hears only of new events. Raises
    `RecordError` where there is nothing to resume, another process works on the run, or the way has changed.
    """
    store = RunStore(settings.data_home)
    record = store.open(reference)
    writer = RunWriter(record.directory, build_redactor(settings))
    try:
        past = past_of(record)
        restored = settings_of(past.manifest, settings)
        if limits is not None:
            restored, past = _limited(restored, past, limits)
        task, workflow, intake = _restored(store, record, past)
        with scratch_folder(settings.data_home) as scratch:
            run = LiveRun(task, restored, workflow, intake, writer, listener, past)
            if limits is not None:
                run.time_limit_s = limits.time_limit_s
            workspace = await GitWorkspace.create(intake.tree, scratch)
            with workspace:
                return await run.carry_out(workspace)
    finally:
        writer.close()


def _limited(settings: Settings, past: Past, limits: Limits) -> tuple[Settings, Past]:
    """The run under other `limits`, which its record holds from then on, so that it can be replayed.

    Whether there is a time limit decides how often nodes ask the clock, whose answers are given again: a
    run that had none is cut off from outside, and one that had one keeps one that is never reached.
    """
    recorded, wanted = settings.limits.time_limit_s, limits.time_limit_s
    kept = None if recorded is None else FOREVER_S if wanted is None else wanted
    settings = settings.model_copy(update={"limits": limits.model_copy(update={"time_limit_s": kept})})
    resolved, digest = settings_record(settings)
    manifest = {**past.manifest, "settings": resolved, "settings_hash": digest}
    return settings, replace(past, manifest=manifest)


def _restored(store: RunStore, record: RunRecord, past: Past) -> tuple[RepairTask, Workflow, IntakeResult]:
    """Task, workflow and base as they were recorded."""
    manifest = past.manifest
    with understood(f"run.json of run {record.run_id}"):
        task = RepairTask.model_validate(manifest["task"])
        graph = WorkflowFile.model_validate(manifest["workflow"]["graph"])
        base = manifest["base"]
        tree = store.load_tree(base["tree"])
        source = Path(base["source"])
        intake = IntakeResult(
            tree=Tree(tree.files, frozenset(base["submodules"])),
            base_commit=base["commit"],
            source=base["source"],
            root=source if source.is_dir() else None,
            subdirectory=task.subdirectory,
        )
        meant = str(manifest["workflow"]["hash"])
    workflow = build_workflow(graph, NODES, PREDICATES)
    if workflow.hash != meant:
        raise RecordError(
            f"run {record.run_id}: its workflow means something else in this version", hint="start it anew"
        )
    return task, workflow, intake
