"""Workflows with a model, on HumanEval problems and QuixBugs programs, judged by tests they never saw.

    python benchmarks/local_model.py --base-url URL --humaneval FILE --quixbugs CHECKOUT
        [--workflows NAME…] [--tasks ID…] [--model NAME] [--time-limit S] [--out FOLDER]

One run at a time. Each trial is one line of `trials.jsonl`; one that is there is not run again, so that an
interrupted benchmark goes on where it stood; another configuration needs another folder. `summary.json` is
made of the trials alone. Trials that our own machinery spoiled are repeated by the next call, never counted.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quixbugs import build

from agentforge import __version__
from agentforge.config.load import load_settings
from agentforge.config.settings import Settings
from agentforge.core.errors import AgentForgeError
from agentforge.core.ports import EnvironmentSpec, TestRequest
from agentforge.core.problem import ProblemRecord
from agentforge.core.report import TestReport
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree
from agentforge.evaluation.judge import ErrorClass, judge_program, judgement_of
from agentforge.evaluation.suites.quixbugs import QuixBugs
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import choose_workflow, run_fix
from agentforge.orchestrator.solve import solve_problem
from agentforge.repo.problem.read import read_records
from agentforge.repo.workspace import GitWorkspace
from agentforge.sandbox.docker_sandbox import DockerSandbox

WORKFLOWS = ("oneshot", "retry", "agentforge", "execugraph", "cascade")
HUMANEVAL = ("HumanEval/0", "HumanEval/12", "HumanEval/31", "HumanEval/44", "HumanEval/85", "HumanEval/117")
QUIXBUGS = ("bitcount", "flatten", "gcd", "is_valid_parenthesization", "sqrt", "to_base")
RESULTS = Path(__file__).parent / "results" / "local_model"


@dataclass(frozen=True)
class Judged:
    solved: bool
    error_class: str
    run: RunResult


class Bench:
    def __init__(self, options: argparse.Namespace, data_home: Path) -> None:
        self.options, self.data_home = options, data_home
        self.records: dict[str, ProblemRecord] = {}
        if options.humaneval is not None:
            self.records = {record.problem.id: record for record in read_records(options.humaneval)}

    def tasks(self) -> list[str]:
        if self.options.tasks:
            return list(self.options.tasks)
        given = [*HUMANEVAL] if self.options.humaneval is not None else []
        return given + (
            [f"quixbugs/{name}" for name in QUIXBUGS] if self.options.quixbugs is not None else []
        )

    def settings(self, workflow: str) -> Settings:
        flags: dict[str, object] = {
            "workflow": workflow,
            "model.base_url": self.options.base_url,
            "model.name": self.options.model,
            "model.max_output_tokens": self.options.output_tokens,
            "model.context_tokens": self.options.context_tokens,
            "limits.time_limit_s": self.options.time_limit,
            # Nothing is learned from one trial for the next.
            "memory.enabled": False,
        }
        environment = {"AGENTFORGE_DATA_HOME": str(self.data_home)}
        empty = self.data_home / "empty.yaml"
        empty.write_text("")
        return load_settings(empty, flags, environment).settings

    async def trial(self, workflow: str, task: str) -> dict[str, Any]:
        settings, start = self.settings(workflow), time.monotonic()
        try:
            if task.startswith("quixbugs/"):
                judged = await self.repair(settings, task.removeprefix("quixbugs/"))
            else:
                judged = await self.solve(settings, self.records[task])
        except AgentForgeError as error:
            spoiled = {"solved": False, "error_class": ErrorClass.INFRA.value, "outcome": error.what}
            return key_of(workflow, task) | spoiled
        run = judged.run
        infra = run.outcome in ("environment", "defect", "usage", "model")
        return key_of(workflow, task) | {
            "solved": judged.solved,
            "error_class": ErrorClass.INFRA.value if infra else judged.error_class,
            "outcome": run.outcome,
            "calls": run.spend.calls,
            "prompt_tokens": run.spend.prompt_tokens,
            "completion_tokens": run.spend.completion_tokens,
            "rounds": run.state.round if run.state is not None else 0,
            "run_s": round(run.duration_s, 1),
            "seconds": round(time.monotonic() - start, 1),
        }

    async def solve(self, settings: Settings, record: ProblemRecord) -> Judged:
        solution = await solve_problem(record.problem, settings, listener=lambda event: None)
        sandbox = DockerSandbox(settings.sandbox, "bench-judge")
        judgement = await judge_program(sandbox, record, solution.program)
        return Judged(judgement.passed, judgement.error_class.value, solution.run)

    async def repair(self, settings: Settings, name: str) -> Judged:
        """The first half of the cases that shows the bug is given, the other judges the best candidate."""
        sandbox = DockerSandbox(settings.sandbox, "bench-judge")
        half, tree, _ = await self.failing_half(sandbox, name)
        test = f"python_testcases/test_{name}.py"
        with tempfile.TemporaryDirectory() as scratch, GitWorkspace(tree, Path(scratch)) as workspace:
            task = RepairTask(
                repository=RepositoryRef(source=str(workspace.git_dir)),
                issue=Issue(text=f"{name} in python_programs/{name}.py gives wrong results.", title=name),
                target_tests=(test,),
            )
            run = await run_fix(task, settings, listener=lambda event: None)
        if run.state is None or run.state.best is None:
            return Judged(False, ErrorClass.EMPTY_OUTPUT.value, run)
        changes = run.state.best.candidate.changes
        changed = QuixBugs(self.options.quixbugs).judged_tree(name, 1 - half, changes)
        environment = await sandbox.prepare(changed, EnvironmentSpec())
        report = await sandbox.run_tests(environment, changed, TestRequest(targets=(test,), timeout_s=60))
        judgement = judgement_of(report)
        return Judged(judgement.passed, judgement.error_class.value, run)

    async def failing_half(self, sandbox: DockerSandbox, name: str) -> tuple[int, Tree, TestReport]:
        for half in (0, 1):
            tree = build(self.options.quixbugs, name, half)
            environment = await sandbox.prepare(tree, EnvironmentSpec())
            request = TestRequest(targets=(f"python_testcases/test_{name}.py",), timeout_s=60)
            report = await sandbox.run_tests(environment, tree, request)
            if report.failed:
                break
        return half, tree, report


def key_of(workflow: str, task: str) -> dict[str, str]:
    return {"workflow": workflow, "task": task}


def manifest(bench: Bench, workflows: list[str]) -> dict[str, Any]:
    """What the trials rest on. `hash` covers all that must not change between the trials of a folder."""
    fixed = {
        "model": bench.options.model,
        "time_limit_s": bench.options.time_limit,
        "output_tokens": bench.options.output_tokens,
        "context_tokens": bench.options.context_tokens,
        "workflows": {name: choose_workflow(bench.settings(name)).hash for name in workflows},
        "agentforge": __version__,
    }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "hash": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:16],
        **fixed,
        "tasks": bench.tasks(),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def finished(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Trials that count, by workflow and task; a torn last line and spoiled trials do not."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["error_class"] != ErrorClass.INFRA.value:
            found[row["workflow"], row["task"]] = row
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    table = {}
    for workflow in dict.fromkeys(row["workflow"] for row in rows):
        own = [row for row in rows if row["workflow"] == workflow]
        table[workflow] = {
            "trials": len(own),
            "solved": sum(row["solved"] for row in own),
            "solved_humaneval": sum(row["solved"] for row in own if row["task"].startswith("HumanEval")),
            "solved_quixbugs": sum(row["solved"] for row in own if row["task"].startswith("quixbugs")),
            "calls": sum(row["calls"] for row in own),
            "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in own),
            "run_s": round(sum(row["run_s"] for row in own), 1),
        }
    return table


async def main() -> None:
    options = parsed()
    rows = await measure(options)
    table = summary(rows)
    (options.out / "summary.json").write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table, indent=1))


async def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the trials that the folder `options.out` does not hold yet; all that count."""
    options.out.mkdir(parents=True, exist_ok=True)
    trials = options.out / "trials.jsonl"
    with tempfile.TemporaryDirectory(prefix="agentforge-bench-") as home:
        bench = Bench(options, Path(home))
        begun = manifest(bench, options.workflows)
        kept = options.out / "manifest.json"
        if kept.exists() and json.loads(kept.read_text())["hash"] != begun["hash"]:
            sys.exit(f"{kept}: these trials were made with another configuration; choose another --out")
        if not kept.exists():
            kept.write_text(json.dumps(begun, indent=1) + "\n")
        for task in bench.tasks():
            for workflow in options.workflows:
                if (workflow, task) in finished(trials):
                    continue
                row = await bench.trial(workflow, task)
                with trials.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    return list(finished(trials).values())


def parsed() -> argparse.Namespace:
    parser = shared_parser(__doc__, RESULTS)
    parser.add_argument("--humaneval", type=Path)
    parser.add_argument("--quixbugs", type=Path)
    parser.add_argument("--workflows", nargs="*", default=list(WORKFLOWS))
    parser.add_argument("--tasks", nargs="*", default=[], help="HumanEval/N or quixbugs/NAME")
    return parser.parse_args()


def shared_parser(description: str | None, out: Path) -> argparse.ArgumentParser:
    """The options of every benchmark that asks a model."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", default="local")
    parser.add_argument("--time-limit", type=float, default=180.0)
    parser.add_argument("--output-tokens", type=int, default=700)
    parser.add_argument("--context-tokens", type=int, default=4096)
    parser.add_argument("--out", type=Path, default=out)
    return parser


if __name__ == "__main__":
    asyncio.run(main())
