"""What a `fix` would do: everything is resolved and read, nothing is executed or asked."""

from __future__ import annotations

from collections.abc import Iterator

from agentforge.config.settings import Settings
from agentforge.core.errors import ExitCode
from agentforge.core.events import Notice
from agentforge.core.task import RepairTask
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.ports import model_names
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.workflow import Workflow
from agentforge.repo.intake import IntakeResult
from agentforge.sandbox.test_command import detect_test_command


def rehearse(
    task: RepairTask, settings: Settings, workflow: Workflow, intake: IntakeResult, listener: Listener
) -> RunResult:
    """Tell `listener` what would happen; outcome `dry_run`, exit code 0."""
    for text in _lines(task, settings, workflow, intake):
        listener(Notice(text=text))
    return RunResult(
        run_id="",
        run_dir=settings.data_home,
        outcome="dry_run",
        exit_code=int(ExitCode.VERIFIED),
        summary=f"workflow {workflow.name} would run on {len(intake.tree.files)} files",
        workflow=workflow.name,
        base_commit=intake.base_commit,
        repository_root=intake.root,
    )


def _lines(task: RepairTask, settings: Settings, workflow: Workflow, intake: IntakeResult) -> Iterator[str]:
    command = detect_test_command(intake.tree, task.test_command, task.subdirectory)
    limits = settings.limits.model_dump(exclude_none=True)
    box = settings.sandbox
    yield f"repository: {intake.source} at {intake.base_commit[:12]}, {len(intake.tree.files)} files"
    yield from intake.notices
    yield f"issue: {task.issue.title or task.issue.text.strip().split(chr(10))[0][:80]}"
    yield f"workflow: {workflow.name} ({workflow.file.description})"
    for agent, model in model_names(settings, workflow).items():
        yield f"model of the {agent}: {model}"
    yield f"tests: {' '.join(command.argv)}, scope {settings.tests_scope}"
    yield from command.notes
    for target in task.target_tests:
        yield f"target test: {target}"
    made = "built from the given Dockerfile" if task.dockerfile is not None else task.image
    yield f"image: {made or 'found or built from the base image ' + box.base_image}"
    if task.apt:
        yield f"Debian packages: {', '.join(task.apt)}"
    yield f"container: {box.memory_mb} MB, {box.cpus:g} CPU, {box.pids} pids, no network"
    yield "limits: " + (", ".join(f"{name} {value:g}" for name, value in limits.items()) or "none")
