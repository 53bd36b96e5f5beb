"""Real bug fixes of pure-Python projects, repaired by the workflow `search` with no model.

    python benchmarks/real_bugs.py --set dev|heldout --mirrors DIR [--only ID…] [--time-limit 300]
        [--out FOLDER] [--check]

`--mirrors` holds local git directories `owner+name/…`. Each trial is one line of `trials.jsonl`, and one that
is there is not run again; `summary.json` and `table.md` are made of the trials alone. "plausible": the given
tests pass and the gate saw nothing break. "correct": the whole test files of the fix pass too, of which the
engine saw a part at most. "overfitted": plausible and not correct. `--check` runs no engine: it shows that
the given tests fail on the base and that given and judge pass with the fix.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mirrors import Mirror, find_mirror
from real_bugs_data import SETS, Bug, BugSet, environment_of, given_tree, read_set, test_files

from agentforge import __version__
from agentforge.config.load import load_settings
from agentforge.config.settings import Settings
from agentforge.core.errors import AgentForgeError
from agentforge.core.events import Event, SearchProgress
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import choose_workflow, run_fix
from agentforge.repo.workspace import GitWorkspace
from agentforge.sandbox.docker_sandbox import DockerSandbox

RESULTS = Path(__file__).parent / "results"
JUDGE_S = 170.0
SEARCH_SHARE = 0.7
"""Of the time limit; the rest is for the baseline before and the gate after."""


class Bench:
    def __init__(self, options: argparse.Namespace, bugs: BugSet, data_home: Path) -> None:
        self.options, self.bugs, self.data_home = options, bugs, data_home
        self.sandbox = DockerSandbox(self.settings().sandbox, "bench-real-bugs")

    def settings(self) -> Settings:
        flags: dict[str, object] = {
            "workflow": "search",
            "limits.time_limit_s": self.options.time_limit,
            "search.time_limit_s": SEARCH_SHARE * self.options.time_limit,
            "memory.enabled": False,  # nothing is learned from one trial for the next
        }
        empty = self.data_home / "empty.yaml"
        empty.write_text("")
        return load_settings(empty, flags, {"AGENTFORGE_DATA_HOME": str(self.data_home)}).settings

    def mirror(self, bug: Bug) -> Mirror:
        found = find_mirror(self.options.mirrors, bug.repository)
        if found is None:
            sys.exit(f"{bug.repository} is not under {self.options.mirrors}")
        return found

    async def trial(self, environment: Environment, bug: Bug) -> dict[str, Any]:
        mirror, start, tried = self.mirror(bug), time.monotonic(), 0

        def listen(event: Event) -> None:
            nonlocal tried
            if isinstance(event, SearchProgress):
                tried = max(tried, event.tried)

        tree = given_tree(mirror, bug)
        try:
            run = await self.repair(environment, bug, tree, listen)
        except AgentForgeError as error:
            return {"id": bug.id, "spoiled": error.what}
        seconds = time.monotonic() - start
        if run.outcome in ("environment", "defect", "usage", "model"):
            return {"id": bug.id, "spoiled": run.summary}
        return await self.row(environment, bug, tree, run) | {"tried": tried, "seconds": round(seconds, 1)}

    async def repair(self, environment: Environment, bug: Bug, tree: Tree, listen: Any) -> RunResult:
        with tempfile.TemporaryDirectory() as scratch, GitWorkspace(tree, Path(scratch)) as workspace:
            task = RepairTask(
                repository=RepositoryRef(source=str(workspace.git_dir)),
                issue=Issue(text=bug.issue, title=bug.issue.partition(". ")[0]),
                target_tests=bug.given,
                image=environment.image,
            )
            return await run_fix(task, self.settings(), listener=listen)

    async def row(self, environment: Environment, bug: Bug, tree: Tree, run: RunResult) -> dict[str, Any]:
        best = run.state.best.candidate if run.state is not None and run.state.best is not None else None
        plausible = run.outcome == "verified" and best is not None
        correct, missed = False, []
        if plausible and best is not None:
            missed = await self.missed(environment, bug, tree.with_changes(best.changes))
            correct = not missed
        exact = best is not None and same_source(self.mirror(bug), bug, tree.with_changes(best.changes))
        operators = [edit.edit_format for edit in run.state.found[:8]] if run.state is not None else []
        return {
            "id": bug.id,
            "size": bug.size,
            "split": bug.split,
            "outcome": run.outcome,
            "plausible": plausible,
            "correct": correct,
            "overfitted": plausible and not correct,
            "same_as_fix": exact,
            "operators": operators,
            "missed": missed[:5],
            "why": run.summary[:300],
        }

    async def missed(self, environment: Environment, bug: Bug, tree: Tree) -> list[str]:
        """Judge tests that do not pass with the candidate under the whole test files of the fix."""
        judged = tree.with_changes(test_files(self.mirror(bug), bug, whole=True))
        passed = await self.passed(environment, judged, bug.tests)
        return sorted(set(bug.judge) - passed)

    async def passed(self, environment: Environment, tree: Tree, targets: tuple[str, ...]) -> frozenset[str]:
        own = environment.model_copy(update={"workdir": ""})
        report = await self.sandbox.run_tests(own, tree, TestRequest(targets=targets, timeout_s=JUDGE_S))
        return report.passed

    async def check(self, environment: Environment, bug: Bug) -> dict[str, Any]:
        """Whether the data say the truth: fails before, passes after, nothing else assumed."""
        mirror, tree = self.mirror(bug), given_tree(self.mirror(bug), bug)
        fixed = {bug.source: TreeFile(mirror.git("cat-file", "blob", f"{bug.fix}:{bug.source}"))}
        files = tuple(path for path in bug.tests if not path.endswith(("conftest.py", "__init__.py")))
        before = await self.passed(environment, tree, files)
        after = await self.passed(environment, tree.with_changes(fixed), files)
        whole = tree.with_changes({**fixed, **test_files(mirror, bug, whole=True)})
        judged = await self.passed(environment, whole, files)
        given, judge = set(bug.given), set(bug.judge)
        good = bool(given) and not given & before and given <= after and judge <= judged
        return {"id": bug.id, "holds": good, "missing": sorted((given - after) | (judge - judged))[:5]}


def same_source(mirror: Mirror, bug: Bug, tree: Tree) -> bool:
    """Whether the candidate's file has the syntax tree of the developers' own."""
    theirs = mirror.git("cat-file", "blob", f"{bug.fix}:{bug.source}")
    return ast.dump(ast.parse(theirs)) == ast.dump(ast.parse(tree.read(bug.source).data))


def manifest(bench: Bench) -> dict[str, Any]:
    """What the trials rest on. `hash` covers all that must not change between the trials of a folder."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    fixed = {
        "set": bench.bugs.name,
        "time_limit_s": bench.options.time_limit,
        "workflow": choose_workflow(bench.settings()).hash,
        "agentforge": __version__,
        "commit": commit.stdout.strip(),
        "packages": list(bench.bugs.packages),
    }
    return {
        "hash": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:16],
        **fixed,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def finished(path: Path) -> dict[str, dict[str, Any]]:
    """Trials by bug. A torn last line does not count, nor a trial that our own machinery spoiled."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "spoiled" not in row:
            found[row["id"]] = row
    return found


def summary(bugs: BugSet, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Counts by size of the fix, and what the unsolved ones would have needed."""
    kinds = {"one line": (1, 1), "two to six lines": (2, 6), "all": (1, 6)}
    table = {
        name: counts([r for r in rows.values() if a <= r["size"] <= b]) for name, (a, b) in kinds.items()
    }
    unsolved = {bug.id: bug.needed for bug in bugs.bugs if bug.id in rows and not rows[bug.id]["correct"]}
    return {"set": bugs.name, "table": table, "needed": unsolved}


def counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    flags = ("plausible", "correct", "overfitted", "same_as_fix")
    seconds = [row["seconds"] for row in rows]
    return {
        "bugs": len(rows),
        **{flag: sum(row[flag] for row in rows) for flag in flags},
        "correct, judged by unseen parts of the fix's tests": sum(r["correct"] and r["split"] for r in rows),
        "median_seconds": round(statistics.median(seconds), 1) if seconds else None,
        "candidates": sum(row["tried"] for row in rows),
    }


def markdown(result: dict[str, Any]) -> Iterator[str]:
    columns = ("bugs", "plausible", "correct", "overfitted", "same_as_fix", "median_seconds")
    yield f"| {result['set']} | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in result["table"].items():
        yield f"| {name} | " + " | ".join(str(row[column]) for column in columns) + " |"


async def main() -> None:
    options = parsed()
    bugs = read_set(options.set)
    chosen = [bug for bug in bugs.bugs if not options.only or bug.id in options.only]
    with tempfile.TemporaryDirectory(prefix="agentforge-bench-") as home:
        bench = Bench(options, bugs, Path(home))
        environment = await environment_of(bench.sandbox, bugs)
        if options.check:
            for bug in chosen:
                print(json.dumps(await bench.check(environment, bug)), flush=True)
            return
        await measure(bench, environment, chosen)


async def measure(bench: Bench, environment: Environment, chosen: list[Bug]) -> None:
    out = bench.options.out
    out.mkdir(parents=True, exist_ok=True)
    begun, kept = manifest(bench), out / "manifest.json"
    if kept.exists() and json.loads(kept.read_text())["hash"] != begun["hash"]:
        sys.exit(f"{kept}: these trials were made with another configuration or commit; choose another --out")
    if not kept.exists():
        kept.write_text(json.dumps(begun, indent=1) + "\n")
    trials = out / "trials.jsonl"
    for bug in chosen:
        if bug.id in finished(trials):
            continue
        row = await bench.trial(environment, bug)
        with trials.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    result = summary(bench.bugs, finished(trials))
    (out / "summary.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "table.md").write_text("\n".join(markdown(result)) + "\n")
    print("\n".join(markdown(result)))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.out = options.out or RESULTS / f"real_bugs_{options.set}"
    return options


if __name__ == "__main__":
    asyncio.run(main())
