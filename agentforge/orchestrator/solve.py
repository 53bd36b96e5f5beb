"""`solve`: a problem becomes a small repository and runs through any workflow (design, section 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agentforge.config.settings import Settings
from agentforge.core.problem import Problem
from agentforge.core.state import RunState
from agentforge.core.task import RepairTask, RepositoryRef
from agentforge.core.tree import Tree
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import run_fix, scratch_folder
from agentforge.repo.problem.files import CHECK, EXAMPLES, check_module, problem_issue, problem_tree
from agentforge.repo.workspace import GitWorkspace

TestSource = Literal["given", "model", "smoke"]
HARNESS_MB = 96
"""What Python and pytest themselves take of a container's memory."""


@dataclass(frozen=True)
class Solution:
    """`program` is the best candidate's, even where nothing accepted it (then `run.outcome` says so).

    `tests` are those it was judged by, path to text. `test_source`: the problem's own examples, tests that
    a model wrote, or nothing but that it loads ("smoke": the evidence is poor).
    """

    run: RunResult
    program: str | None
    tests: Mapping[str, str]
    explanation: str
    test_source: TestSource

    @property
    def test_poor(self) -> bool:
        return self.test_source == "smoke"


async def solve_problem(
    problem: Problem,
    settings: Settings,
    *,
    listener: Listener,
    dry_run: bool = False,
    run_id: str | None = None,
) -> Solution:
    """Write the program that `problem` asks for. `run_id` and what is raised: as for `run_fix`."""
    settings = settings_for(problem, settings)
    tree = problem_tree(problem)
    with scratch_folder(settings.data_home, "problem") as scratch:
        workspace = await asyncio.to_thread(GitWorkspace, tree, scratch)
        with workspace:
            task = problem_task(problem, str(workspace.git_dir))
            run = await run_fix(task, settings, listener=listener, dry_run=dry_run, run_id=run_id)
    return solution_of(problem, tree, run)


def problem_task(problem: Problem, source: str) -> RepairTask:
    """The task of `fix` that solves `problem`; its examples are the target tests."""
    targets = (EXAMPLES,) if problem.examples else ()
    return RepairTask(
        repository=RepositoryRef(source=source),
        issue=problem_issue(problem),
        target_tests=targets,
        apt=problem.packages,
        problem=problem,
    )


def settings_for(problem: Problem, settings: Settings) -> Settings:
    """The problem's own limits on time and memory, where they are tighter than the sandbox's."""
    sandbox, limits = settings.sandbox, problem.limits
    changes: dict[str, float | int] = {}
    if limits.time_s is not None and problem.kind != "stdio":
        changes["test_timeout_s"] = min(sandbox.test_timeout_s, limits.time_s)
    if limits.memory_mb is not None:
        changes["memory_mb"] = min(sandbox.memory_mb, limits.memory_mb + HARNESS_MB)
    return settings.model_copy(update={"sandbox": sandbox.model_copy(update=changes)})


def solution_of(problem: Problem, tree: Tree, run: RunResult) -> Solution:
    state = run.state
    tests = {path: tree.read(path).data.decode() for path in tree.paths() if path.startswith("tests/test_")}
    source: TestSource = "given" if problem.examples else "smoke"
    program, explanation = None, ""
    if state is not None:
        made = {item.path: item.code.decode("utf-8", "replace") for item in state.generated if item.test_ids}
        source = "model" if made and source == "smoke" else source
        tests |= made
        program, explanation = _program(problem, tree, state), state.explanation
    return Solution(run, program, tests, explanation, source)


def _program(problem: Problem, tree: Tree, state: RunState) -> str | None:
    if state.best is None:
        return None
    entry = tree.with_changes(state.best.candidate.changes).files.get(problem.program_path)
    return entry.data.decode("utf-8", "replace") if entry is not None else None


def result_files(solution: Solution) -> dict[str, str]:
    """What is handed over, path to text: program, its tests with what they need, and the explanation."""
    files = dict(solution.tests) | {CHECK: check_module()}
    if solution.program is not None and solution.run.state is not None:
        problem = solution.run.state.task.problem
        files[problem.program_path if problem is not None else "solution.py"] = solution.program
    run = solution.run
    files["EXPLANATION.md"] = f"**{run.outcome}**: {run.summary}\n\n{solution.explanation}".rstrip() + "\n"
    return files
