"""How fast the index is on a large real tree, beside aider's repository map on the same tree.

    python benchmarks/index.py --mirror GIT_DIR --commit REV [--aider PYTHON]

`--mirror` is a local bare repository (a Django one is meant), exported into a temporary folder. `--aider`
is the Python of an environment of its own that holds aider-chat, which is needed for the comparison and
nowhere else. Each figure is measured in a fresh process. The last line of output is one JSON object; the
whole goes to `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentforge import __version__

HERE = Path(__file__).parent
GOALS = {"cold_s": 60, "cold_mb": 1500, "reopen_s": 2, "save_ms": 300, "query_ms": 60}

_AIDER = """
import json, resource, sys, time
from pathlib import Path
from aider.io import InputOutput
from aider.repomap import RepoMap, find_src_files

class Model:
    def token_count(self, text):
        return len(text) / 4

root = sys.argv[1]
started = time.perf_counter()
cpu = time.process_time()
shown = RepoMap(map_tokens=1024, root=root, main_model=Model(), io=InputOutput(yes=True)).get_repo_map(
    [], [name for name in find_src_files(root) if name.endswith(".py")]
)
print(json.dumps({
    "s": time.perf_counter() - started,
    "cpu_s": time.process_time() - cpu,
    "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "characters": len(shown or ""),
}))
"""


def export(mirror: Path, commit: str, into: Path) -> None:
    """The tree of `commit`, without its history."""
    archive = subprocess.run(
        ["git", f"--git-dir={mirror}", "archive", commit], capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(into)], input=archive, check=True)


def measure_open(tree: Path, home: Path) -> dict[str, Any]:
    """Read the directory, index it, answer once: what a process pays that starts on it."""
    from agentforge.memory.open import open_index
    from agentforge.memory.scan import scan_directory

    started, cpu = time.perf_counter(), time.process_time()
    found = scan_directory(tree).tree
    index = open_index(home)
    search = index.open(found)
    search.rank_files("the queryset is empty", 5)
    return {
        "s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "files": len(search.index.files),
        "symbols": search.index.symbol_count,
        "split": index.computed,
    }


def measure_queries(tree: Path, home: Path, issues: list[str]) -> dict[str, Any]:
    """Whole answers (files, symbols, vectors) to real issues, the index being open."""
    from agentforge.memory.open import open_index
    from agentforge.memory.scan import scan_directory

    index = open_index(home)
    found = scan_directory(tree).tree
    index.search(issues[0], found)
    times, cpu = [], time.process_time()
    for issue in issues:
        started = time.perf_counter()
        index.search(issue, found)
        times.append(1000 * (time.perf_counter() - started))
    return {
        "p50_ms": statistics.median(times),
        "p95_ms": sorted(times)[int(0.95 * len(times))],
        "cpu_ms": 1000 * (time.process_time() - cpu) / len(issues),
        "n": len(times),
    }


def measure_saves(tree: Path, home: Path) -> dict[str, Any]:
    """From the write of a file to the first query that finds the new text, through the watcher."""
    from agentforge.memory.open import open_index
    from agentforge.memory.watch import LiveTree

    index = open_index(home)
    settled = threading.Event()
    found: dict[str, Any] = {}
    with LiveTree(tree, lambda paths: settled.set(), print) as live:
        index.open(live.tree)
        sizes = sorted(
            (len(entry.data), path) for path, entry in live.tree.files.items() if path.endswith(".py")
        )
        for label, share in (("median_file", 0.5), ("large_file", 0.95), ("largest_file", 1.0)):
            size, path = sizes[int(share * (len(sizes) - 1))]
            times = [_save(tree / path, f"entirely_new_{label}_{n}", live, index, settled) for n in range(7)]
            found[label] = {
                "bytes": size,
                "p50_ms": round(statistics.median(times)),
                "max_ms": round(max(times)),
            }
    return found


def _save(target: Path, name: str, live: Any, index: Any, settled: threading.Event) -> float:
    before = target.read_text()
    settled.clear()
    started = time.perf_counter()
    target.write_text(f"{before}\n\ndef {name}():\n    return 1\n")
    while not index.open(live.tree).index.definitions(name):
        settled.wait(0.02)
        settled.clear()
    took = 1000 * (time.perf_counter() - started)
    target.write_text(before)
    while index.open(live.tree).index.definitions(name):
        settled.wait(0.02)
        settled.clear()
    return took


def in_process(task: str, *arguments: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--task", task, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(run.stdout.splitlines()[-1]))


def run_task(task: str, arguments: list[str]) -> dict[str, Any]:
    tree, home = Path(arguments[0]), Path(arguments[1])
    if task == "open":
        return measure_open(tree, home)
    if task == "saves":
        return measure_saves(tree, home)
    return measure_queries(tree, home, json.loads(Path(arguments[2]).read_text()))


def aider(python: Path, tree: Path, scratch: Path) -> dict[str, Any]:
    """Aider's map, cold and again with its own cache; told as an error where it does not run."""
    environment = {**os.environ, "HOME": str(scratch), "AIDER_ANALYTICS": "false"}
    runs = []
    for _ in range(2):
        run = subprocess.run(
            [str(python), "-c", _AIDER, str(tree)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=scratch,
        )
        if run.returncode:
            return {"error": run.stderr.strip().splitlines()[-1]}
        runs.append(json.loads(run.stdout.splitlines()[-1]))
    return {"cold": _rounded(runs[0]), "again": _rounded(runs[1])}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", choices=("open", "queries", "saves"), help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument(
        "--dataset", type=Path, help="issues to ask, in SWE-bench's form (django's are taken)"
    )
    parser.add_argument("--aider", type=Path)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "index.json")
    options = parser.parse_args()
    if options.task:
        print(json.dumps(run_task(options.task, options.rest)))
        return
    if options.mirror is None or options.dataset is None:
        parser.error("--mirror and --dataset are needed")
    result = measure(options)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "manifest"}))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rows = [json.loads(line) for line in options.dataset.read_text().splitlines() if line.strip()]
    issues = [row["problem_statement"] for row in rows if "django" in row["repo"]] or [
        row["problem_statement"] for row in rows
    ]
    with tempfile.TemporaryDirectory(prefix="agentforge-index-") as scratch:
        tree, home = Path(scratch) / "tree", Path(scratch) / "home"
        tree.mkdir()
        export(options.mirror, options.commit, tree)
        asked = Path(scratch) / "issues.json"
        asked.write_text(json.dumps(issues))
        places = (str(tree), str(home))
        result = {
            "cold": _rounded(in_process("open", *places)),
            "reopen": _rounded(in_process("open", *places)),
            "queries": _rounded(in_process("queries", *places, str(asked))),
            "saves": _rounded(in_process("saves", *places)),
        }
        if options.aider:
            (Path(scratch) / "aider").mkdir()
            result["aider_repository_map"] = aider(options.aider, tree, Path(scratch) / "aider")
    return {**result, "goals": GOALS, "manifest": manifest(options)}


def manifest(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "agentforge": __version__,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_before": [round(value, 1) for value in os.getloadavg()],
        "tree": options.commit,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


if __name__ == "__main__":
    main()
