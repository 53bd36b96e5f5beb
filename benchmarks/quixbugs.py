"""The 40 Python programs of QuixBugs, repaired by the search engine alone.

    python benchmarks/quixbugs.py --path CHECKOUT [--only NAME…] [--out FILE]

`--path` is a local checkout of the public benchmark; nothing of it is kept here. Each program becomes
a small tree with every second of its test cases; the other half judges the first-ranked repair.
"plausible": the given half passes. "correct": the held-out half passes too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentforge import __version__
from agentforge.config.settings import SandboxSettings, SearchSettings
from agentforge.core.events import SearchProgress
from agentforge.core.ports import Environment, EnvironmentSpec, TestRequest
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.evaluation.suites.quixbugs import QuixBugs, cases_path
from agentforge.sandbox.docker_sandbox import DockerSandbox
from agentforge.search.engine import RankedEdit, SearchEngine, SearchOutcome

LIMIT_S = 170.0
RESULTS = Path(__file__).parent / "results" / "quixbugs.json"


class Monotonic:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def build(path: Path, name: str, half: int) -> Tree:
    """The program, its helpers and every second test case: those whose index is `half` modulo 2."""
    return QuixBugs(path).tree(name, half)


class Bench:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.sandbox = DockerSandbox(SandboxSettings(), "bench-quixbugs")

    async def program(self, name: str) -> dict[str, Any]:
        """One program, with the first half of its cases that shows the bug."""
        for half in (0, 1):
            tree = build(self.path, name, half)
            environment = await self.sandbox.prepare(tree, EnvironmentSpec())
            start = time.monotonic()
            outcome = await self.repair(environment, tree, name)
            seconds = time.monotonic() - start
            if outcome.localization:
                break
        judged = [await self.judge(environment, tree, name, half, edit) for edit in outcome.plausible[:1]]
        return record(name, half, outcome, judged, seconds)

    async def repair(self, environment: Environment, tree: Tree, name: str) -> SearchOutcome:
        def say(progress: SearchProgress) -> None:
            print(
                f"    {progress.stage} tried={progress.tried} plausible={progress.plausible}", file=sys.stderr
            )

        engine = SearchEngine(self.sandbox, SearchSettings(time_limit_s=LIMIT_S), say, Monotonic())
        issue = Issue(text=f"{name} gives wrong results", title=name)
        return await engine.repair(environment, tree, issue, [cases_path(name)])

    async def judge(
        self, environment: Environment, tree: Tree, name: str, half: int, edit: RankedEdit
    ) -> bool:
        """Whether the held-out half passes."""
        judge_tree = build(self.path, name, 1 - half).with_changes(edit.changes)
        request = TestRequest(targets=(cases_path(name),), timeout_s=60)
        report = await self.sandbox.run_tests(environment, judge_tree, request)
        return bool(report.passed) and not report.failed and report.exit_code == 0


def record(
    name: str, half: int, outcome: SearchOutcome, judged: list[bool], seconds: float
) -> dict[str, Any]:
    return {
        "program": name,
        "given_half": half,
        "plausible": bool(outcome.plausible),
        "correct": judged[:1] == [True],
        "tried": outcome.tried,
        "seconds": round(seconds, 2),
        "alternatives": len(outcome.plausible),
        "edit": place(outcome.plausible[0]) if outcome.plausible else "",
        "others": [place(edit) for edit in outcome.plausible[1:8]],
        "verdicts": dict(outcome.verdicts),
        "reasons": list(outcome.reasons),
    }


def place(ranked: RankedEdit) -> str:
    """Where and what kind of edit: none of the benchmark's own text goes into the results."""
    return f"{ranked.edit.path}:{ranked.edit.line} {ranked.edit.operator}"


def manifest() -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "benchmark": "QuixBugs, 40 Python programs, half of the test cases given, half held out",
        "agentforge": __version__,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "time_limit_s": LIMIT_S,
        "processors": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    bench, rows, start = Bench(options.path), [], manifest()
    for name in options.only or QuixBugs(options.path).names:
        row = await bench.program(name)
        rows.append(row)
        verdict = "correct" if row["correct"] else "plausible" if row["plausible"] else "none"
        print(f"{name:28} {verdict:10} {row['tried']:6} {row['seconds']:7.1f} s  {row['edit']}", flush=True)
    summary = {
        "programs": len(rows),
        "plausible": sum(row["plausible"] for row in rows),
        "correct": sum(row["correct"] for row in rows),
        "median_seconds": round(statistics.median(row["seconds"] for row in rows), 2),
        "max_seconds": max(row["seconds"] for row in rows),
    }
    print(json.dumps(summary))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"manifest": start, "summary": summary, "rows": rows}, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
