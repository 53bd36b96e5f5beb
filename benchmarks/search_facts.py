"""Do the search engine's facts help a model? The same model and bugs, with and without them in its prompt.

    python benchmarks/search_facts.py --base-url URL --quixbugs CHECKOUT [--model NAME] [--count N]
        [--out FOLDER]

Two workflows that differ in one node: `retry`, whose coder and debugger are told suspicious lines and the
values at failure, and `retry-no-facts`. The bugs are fixed before the model is asked, by a rule that knows
nothing of models: of all QuixBugs programs the `--count` whose given half of test cases ends soonest on the
base (in whole seconds, ties by name); `tasks.json` keeps the choice with its seconds. Solved: the gate
verified the patch on the given half, and the half that the model never saw passes, too. A trial is one line
of `trials.jsonl`; one that is there is not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from local_model import Bench, measure, shared_parser

from agentforge.config.settings import SandboxSettings
from agentforge.evaluation.statistics import mcnemar_exact
from agentforge.evaluation.suites.quixbugs import QuixBugs
from agentforge.sandbox.docker_sandbox import DockerSandbox

WITH, WITHOUT = "retry", "retry-no-facts"
RESULTS = Path(__file__).parent / "results" / "search_facts"


async def chosen(options: argparse.Namespace) -> list[str]:
    """The tasks of this folder: chosen once, kept beside its trials."""
    kept = options.out / "tasks.json"
    if not kept.exists():
        seconds = await durations(options)
        order = sorted(seconds, key=lambda name: (seconds[name], name))[: options.count]
        options.out.mkdir(parents=True, exist_ok=True)
        rows = {name: seconds[name] for name in sorted(order)}
        kept.write_text(json.dumps(rows, indent=1) + "\n")
    return [f"quixbugs/{name}" for name in json.loads(kept.read_text())]


async def durations(options: argparse.Namespace) -> dict[str, int]:
    """Whole seconds that the given half of each program's tests takes on the base."""
    sandbox, found = DockerSandbox(SandboxSettings(), "bench-choice"), {}
    bench = Bench(options, options.out)
    for name in options.programs or QuixBugs(options.quixbugs).names:
        _, _, report = await bench.failing_half(sandbox, name)
        found[name] = round(report.duration_s)
        print(f"{name:32} {found[name]} s", flush=True)
    return found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals of both workflows over the tasks that both have finished, and where they differ."""
    by_workflow = {name: {r["task"]: r for r in rows if r["workflow"] == name} for name in (WITH, WITHOUT)}
    tasks = sorted(by_workflow[WITH].keys() & by_workflow[WITHOUT].keys())
    solved = {name: [task for task in tasks if is_solved(own[task])] for name, own in by_workflow.items()}
    only = {name: sorted(set(solved[name]) - set(solved[other])) for name, other in PAIRS}
    return {
        "tasks": len(tasks),
        "with_facts": totals([by_workflow[WITH][task] for task in tasks]),
        "without_facts": totals([by_workflow[WITHOUT][task] for task in tasks]),
        "only_with_facts": only[WITH],
        "only_without_facts": only[WITHOUT],
        "mcnemar_p": round(mcnemar_exact(len(only[WITH]), len(only[WITHOUT])), 4),
    }


PAIRS = ((WITH, WITHOUT), (WITHOUT, WITH))


def is_solved(row: dict[str, Any]) -> bool:
    return bool(row["solved"]) and row["outcome"] == "verified"


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "solved": sum(map(is_solved, rows)),
        "verified": sum(row["outcome"] == "verified" for row in rows),
        "calls": sum(row["calls"] for row in rows),
        "prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        "completion_tokens": sum(row["completion_tokens"] for row in rows),
        "run_s": round(sum(row["run_s"] for row in rows), 1),
    }


async def main() -> None:
    options = parsed()
    options.tasks = await chosen(options)
    table = summary(await measure(options))
    (options.out / "summary.json").write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table, indent=1))


def parsed() -> argparse.Namespace:
    parser = shared_parser(__doc__, RESULTS)
    parser.add_argument("--quixbugs", type=Path, required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--programs", nargs="*", default=[], help="choose among these only")
    parser.set_defaults(humaneval=None, workflows=[WITH, WITHOUT])
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
