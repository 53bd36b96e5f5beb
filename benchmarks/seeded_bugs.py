"""Seeded bugs in a real package: localization by line and repair rate, by the operator that a repair needs.

    python benchmarks/seeded_bugs.py --path CHECKOUT --module PATH… --tests PATH… [--each N] [--limit S]

`--path` is a local checkout of a pure package whose tests run in the base image; nothing of it is kept here.
The engine's operators in reverse make mutants of the modules (paths below the checkout), `--each` at most for
every operator, chosen by a hash. Those that a test notices are given to the engine with that one test.
`top1/3/5`: the seeded line is among so many suspicious ones. `repaired`: an edit makes the tests pass;
`restored`: the first-ranked one gives the original code.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quixbugs import Monotonic

from agentforge import __version__
from agentforge.config.settings import SandboxSettings, SearchSettings
from agentforge.core.ports import Environment, EnvironmentSpec
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox.docker_sandbox import DockerSandbox
from agentforge.search.engine import SearchEngine
from agentforge.search.seeding import Mutant, Result, killed, mutants, repaired, table
from agentforge.search.source import Source

RESULTS = Path(__file__).parent / "results" / "seeded_bugs.json"
OBSERVE_S = 3000.0
"""The observation gets a twelfth of it: a whole suite, each test twice."""


@dataclass(frozen=True)
class Bench:
    options: argparse.Namespace
    sandbox: DockerSandbox
    environment: Environment
    tree: Tree

    def seeds(self) -> tuple[dict[str, Source], list[Mutant]]:
        sources = {path: Source(path, self.tree.read(path).data) for path in self.options.module}
        found: list[Mutant] = []
        for source in sources.values():
            lines = range(1, source.data.count(b"\n") + 2)
            found += mutants(source, lines, each=self.options.each, most=self.options.most)
        return sources, found

    async def noticed(self) -> list[tuple[Mutant, str]]:
        settings = SearchSettings(time_limit_s=OBSERVE_S)
        engine = SearchEngine(self.sandbox, settings, lambda progress: None, Monotonic())
        right = await engine.diagnose(self.environment, self.tree, Issue(text=""), self.options.tests)
        sources, made = await asyncio.to_thread(self.seeds)
        print(f"{len(right.observed.observations)} tests, {len(made)} mutants", flush=True)
        return await killed(
            self.sandbox, self.environment, self.tree, sources, made, right.observed, self.options.kill_s
        )

    async def results(self) -> list[Result]:
        settings = SearchSettings(time_limit_s=self.options.limit)
        found = []
        for mutant, test in await self.noticed():
            start = time.monotonic()
            result = await repaired(
                self.sandbox, self.environment, self.tree, mutant, test, settings, Monotonic()
            )
            found.append(result)
            how = "restored" if result.restored else "repaired" if result.plausible else "-"
            place = f"{mutant.seed.path}:{mutant.line}"
            seconds = time.monotonic() - start
            print(f"{mutant.operator:16} {place:40} rank {result.rank} {how} {seconds:.1f} s", flush=True)
        return found


def checkout(path: Path) -> Tree:
    listed = subprocess.run(
        ["git", "-C", str(path), "ls-files", "-z"], capture_output=True, check=True
    ).stdout.decode()
    names = [name for name in listed.split("\0") if name and (path / name).is_file()]
    return Tree({name: TreeFile((path / name).read_bytes()) for name in names})


def manifest(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    def commit(folder: Path) -> str:
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    yield "agentforge", __version__
    yield "commit", commit(Path(__file__).parent)
    yield "package", {"commit": commit(options.path), "modules": options.module, "tests": options.tests}
    yield "each", options.each
    yield "time_limit_s", options.limit
    yield "python", platform.python_version()
    yield "processors", os.cpu_count()
    yield "load_average_at_start", round(os.getloadavg()[0], 1)
    yield "date", datetime.now(UTC).isoformat(timespec="seconds")


async def main() -> None:
    options = parsed()
    begun = dict(manifest(options))
    sandbox, tree = DockerSandbox(SandboxSettings(), "bench-seeded"), checkout(options.path)
    environment = await sandbox.prepare(tree, EnvironmentSpec())
    rows = table(await Bench(options, sandbox, environment, tree).results())
    for name, row in rows.items():
        print(f"{name:16} {row}")
    options.out.write_text(json.dumps({"manifest": begun, "by_operator": rows}, indent=1) + "\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--module", nargs="+", required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--most", type=int, default=600, help="seeds that are looked at, per module")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each repair")
    parser.add_argument("--kill-s", type=float, default=300.0, help="seconds for finding what tests notice")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
