"""QuixBugs as a batch: one half of the cases shows the bug, the other judges the best candidate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentforge.config.settings import SandboxSettings, Settings
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree
from agentforge.evaluation.bench.attempt import attempt
from agentforge.evaluation.bench.harness import judge_hash
from agentforge.evaluation.bench.preflight import check_engine
from agentforge.evaluation.bench.problems import outcome_of
from agentforge.evaluation.bench.protocol import BenchTask, TrialContext, TrialOutcome
from agentforge.evaluation.judge import ErrorClass, Judgement, judgement_of, judging_settings
from agentforge.evaluation.suites.protocol import SelfCheck
from agentforge.evaluation.suites.quixbugs import (
    QuixBugs,
    cases_path,
    check_quixbugs,
    failing_half,
    program_path,
    run_half,
)
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import run_fix, scratch_folder
from agentforge.orchestrator.store import RunRecord, RunStore
from agentforge.repo.workspace import GitWorkspace
from agentforge.sandbox.docker_sandbox import DockerSandbox

_SELF_CHECK_TEST_S = 3.0
_SELF_CHECK_S = 1200.0


class QuixBugsBench:
    """`path`: a checkout."""

    name = "quixbugs"

    def __init__(self, suite: QuixBugs, settings: Settings) -> None:
        self._suite, self._settings = suite, settings

    @property
    def dataset_hash(self) -> str:
        return self._suite.hash

    @property
    def harness(self) -> str:
        return judge_hash()

    @property
    def conditions(self) -> Mapping[str, Any]:
        return {"given": "half of the test cases"}

    def tasks(self) -> tuple[BenchTask, ...]:
        return tuple(BenchTask(id=name, repository="QuixBugs") for name in self._suite.names)

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        await check_engine()

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        limits = judging_settings(self._settings.sandbox)
        short = {"test_timeout_s": min(_SELF_CHECK_TEST_S, limits.test_timeout_s)}
        patient, hasty = (
            _judge(each, "bench-self-check") for each in (limits, limits.model_copy(update=short))
        )
        names = tuple(task.id for task in tasks)
        return await check_quixbugs(self._suite, patient, hasty, names, _SELF_CHECK_S)

    async def run(self, task: BenchTask, context: TrialContext) -> TrialOutcome:
        name = task.id
        sandbox = _judge(context.settings.sandbox, f"{context.run_id}-judge")
        half = self._begun_with(name, context) if context.resumes else None
        if half is None:
            half = await failing_half(sandbox, self._suite, name)
        tree = self._suite.tree(name, half)
        ran = await attempt(context, partial(_repair, name, tree, context))
        best = ran.run.state.best if ran.run.state is not None else None
        judgement = Judgement(False, 0, 0, ErrorClass.EMPTY_OUTPUT, {}, 0.0)
        if best is not None:
            held_out = self._suite.judged_tree(name, 1 - half, best.candidate.changes)
            judgement = judgement_of(await run_half(sandbox, held_out, name))
        outcome = outcome_of(ran, judgement)
        return outcome.model_copy(update={"extra": {**outcome.extra, "given_half": half}})

    def _begun_with(self, name: str, context: TrialContext) -> int | None:
        """The half that a run which goes on was given; None where its record does not tell."""
        directory = RunStore(context.settings.data_home).runs / context.run_id
        base = RunRecord(directory).manifest.get("base") or {}
        halves = {self._suite.tree(name, half).digest: half for half in (0, 1)}
        return halves.get(base.get("tree", ""))


async def _repair(name: str, tree: Tree, context: TrialContext, listener: Listener) -> RunResult:
    with scratch_folder(context.settings.data_home, "quixbugs") as scratch:
        workspace = await asyncio.to_thread(GitWorkspace, tree, scratch)
        with workspace:
            task = RepairTask(
                repository=RepositoryRef(source=str(workspace.git_dir)),
                issue=Issue(text=f"{name} in {program_path(name)} gives wrong results.", title=name),
                target_tests=(cases_path(name),),
            )
            return await run_fix(task, context.settings, listener=listener, run_id=context.run_id)


def _judge(settings: SandboxSettings, run_id: str) -> DockerSandbox:
    return DockerSandbox(judging_settings(settings), run_id)


def open_quixbugs(options: Mapping[str, Any], settings: Settings) -> QuixBugsBench:
    return QuixBugsBench(QuixBugs(Path(options["path"])), settings)
