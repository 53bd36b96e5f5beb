"""Jobs for the part that runs inside the sandbox: observe the tests, screen candidates in batches."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeVar

from agentforge.core.ports import Environment, Job, JobResult, Sandbox
from agentforge.core.report import Outcome
from agentforge.core.tree import Tree
from agentforge.search.source import Edit, Source, hot_assignment, hot_source

PACKAGE = "agentforge_search_inside"
STARTUP_S = 20.0
"""Seconds of a job beyond its own budget: import of pytest, the last child."""
SLACK_S = 60.0
"""How long imports and collection may take before they count against the budget."""
CHILD_MEMORY_MB = 320
OBSERVED_TEST_CPU_S = 1.5
"""Processor seconds a test may take while it is observed; `HUNG_TEST_CPU_S` after the first that hung."""
HUNG_TEST_CPU_S = 0.25
MAX_TOLD, MAX_NAMES, MAX_TOLD_CHARS = 4, 12, 120
"""Frames or calls of a failing test, names in each, and characters of each text that are taken over."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Observation:
    """What one test did on the base, and the lines it ran: path -> line numbers."""

    test: str
    outcome: str
    cpu_s: float = 0.0
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    exception: str = ""
    message: str = ""
    frames: tuple[tuple[str, int, str], ...] = ()
    seen: Mapping[str, Any] = field(default_factory=dict)
    """Values and calls of a failing target, as the inside part told them; empty where they were not asked."""

    @property
    def passed(self) -> bool:
        return self.outcome == Outcome.PASSED

    @property
    def failed(self) -> bool:
        return self.outcome in ("failed", "timeout", "crash")


@dataclass(frozen=True)
class Observed:
    """`imported` are the functions, by path and first line, that ran while tests were collected;
    `startup_s` is what imports and collection took on the wall clock."""

    observations: tuple[Observation, ...]
    collected: tuple[str, ...]
    imported: frozenset[tuple[str, int]]
    output: str = ""
    startup_s: float = 0.0

    def joined(self, more: Observed) -> Observed:
        """Both sets of observations; start-up is that of the first."""
        return Observed(
            self.observations + more.observations,
            self.collected + more.collected,
            self.imported | more.imported,
            self.output,
            self.startup_s,
        )


@dataclass(frozen=True)
class Verdict:
    """How the tests ended for one candidate: plausible, failed, broke, timeout, crash, syntax, not_loaded.

    `passed` tests came before `test`, which did not pass because of `why`.
    """

    edit: Edit
    verdict: str
    passed: int = 0
    test: str = ""
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """Which tests judge a candidate, and how long it may take.

    `cpu_s` and `keep_cpu_s` are processor seconds for all targets, and for all neighbours after them.
    """

    files: tuple[str, ...]
    targets: tuple[str, ...]
    neighbours: tuple[str, ...]
    cpu_s: float
    keep_cpu_s: float = 1.0
    grace_count: int = 200
    """How many more candidates a batch tries after its first plausible one: a count, so that the
    outcome does not depend on the machine's load; `grace_s` seconds at most, a quarter for cold ones."""
    grace_s: float = 12.0
    cold: frozenset[tuple[str, int]] = frozenset()
    startup_s: float = 0.0


def shipped() -> dict[str, bytes]:
    """The files of the inside part, as job files."""
    folder = resources.files("agentforge.search") / "inside"
    return {f"{PACKAGE}/{f.name}": f.read_bytes() for f in folder.iterdir() if f.name.endswith(".py")}


def make_job(environment: Environment, spec: Mapping[str, Any], budget_s: float) -> Job:
    python = environment.test_command[0] if environment.test_command else "python"
    if "python" not in python:
        python = "python"
    common = {"out": "/job/out/search.jsonl", "workdir": environment.workdir, "memory_mb": CHILD_MEMORY_MB}
    text = json.dumps({**common, "budget_s": budget_s, "slack_s": SLACK_S, **spec})
    return Job(
        argv=(python, "-m", PACKAGE, "/job/search.json"),
        files={**shipped(), "search.json": text.encode()},
        results=("search.jsonl",),
        timeout_s=budget_s + SLACK_S + STARTUP_S,
        env={"PYTHONPATH": "/job", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def lines_of(result: JobResult) -> Iterator[dict[str, Any]]:
    """The complete records; a torn last line is dropped."""
    for line in result.files.get("search.jsonl", b"").split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def well_formed(read: Callable[[T], R], records: Iterable[T]) -> Iterator[R]:
    """What `read` makes of each record; those out of shape, which the repository wrote, are dropped."""
    for record in records:
        try:
            yield read(record)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue


async def observe(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    *,
    files: Sequence[str],
    targets: Sequence[str],
    budget_s: float,
    explain: int = 0,
    guards: Sequence[str] = (),
) -> Observed:
    """Run every test of `files` alone, twice: for its outcome, and for the lines it runs.

    The order is `targets`, `guards`, then the rest, until the budget is spent.
    The first `explain` targets run once more, where they fail, for the values they fail with.
    """
    spec = {
        "mode": "observe",
        "files": list(files),
        "targets": list(targets),
        "guards": list(guards),
        "test_cpu_s": OBSERVED_TEST_CPU_S,
        "hung_cpu_s": HUNG_TEST_CPU_S,
        "explain": explain,
        "restarts": 0,
        "candidates": [],
    }
    job = make_job(environment, spec, budget_s)
    return observed_of(await sandbox.run_job(environment, tree, job))


def observed_of(result: JobResult) -> Observed:
    records = list(lines_of(result))
    heads = well_formed(head_of, (r for r in records if "tests" in r))
    collected, imported, startup_s = next(heads, ((), frozenset(), 0.0))
    return Observed(
        observations=tuple(well_formed(observation, (r for r in records if "test" in r))),
        collected=collected,
        imported=imported,
        output=result.output,
        startup_s=startup_s,
    )


def head_of(record: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[tuple[str, int]], float]:
    """The tests collected, the functions that ran meanwhile, and how many seconds that took."""
    imported = frozenset((str(path), int(line)) for path, line in record["imported"])
    return tuple(map(str, record["tests"])), imported, seconds(record.get("startup_s", 0.0))


def seconds(value: Any) -> float:
    """A duration; raises ValueError for what is none."""
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"no duration: {number}")
    return number


def observation(record: Mapping[str, Any]) -> Observation:
    lines = record.get("lines", {})
    return Observation(
        test=str(record["test"]),
        outcome=str(record["v"]),
        cpu_s=seconds(record.get("cpu_s", 0.0)),
        lines={path: tuple(map(int, numbers)) for path, numbers in lines.items()},
        exception=str(record.get("exception", "")),
        message=str(record.get("message", "")),
        frames=tuple((str(path), int(line), str(name)) for path, line, name in record.get("frames", ())),
        seen=witnessed(record.get("seen", {})),
    )


def witnessed(seen: Mapping[str, Any]) -> dict[str, Any]:
    """What a child told of values, in its shape and within its bounds whoever wrote it."""
    if not seen:
        return {}
    frames = [
        {**place_of(frame), "span": span_of(frame.get("span")), "values": pairs_of(frame.get("values", ()))}
        for frame in list(seen.get("frames", ()))[:MAX_TOLD]
    ]
    calls = [
        {
            **place_of(call),
            "arguments": pairs_of(call.get("arguments", ())),
            "values": pairs_of(call.get("values", ())),
            "returned": None if call.get("returned") is None else str(call["returned"])[:MAX_TOLD_CHARS],
        }
        for call in list(seen.get("calls", ()))[:MAX_TOLD]
    ]
    return {"frames": frames, "calls": calls}


def place_of(record: Mapping[str, Any]) -> dict[str, Any]:
    function = str(record["function"])[:MAX_TOLD_CHARS]
    return {"path": str(record["path"]), "line": int(record["line"]), "function": function}


def span_of(span: Any) -> list[int] | None:
    """[line, end line, column, end column], or None."""
    numbers = list(map(int, span)) if span else []
    return numbers if len(numbers) == 4 and min(numbers) >= 0 else None


def pairs_of(pairs: Iterable[Any]) -> list[list[str]]:
    return [[str(part)[:MAX_TOLD_CHARS] for part in (name, text)] for name, text in list(pairs)[:MAX_NAMES]]


async def screen(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    sources: Mapping[str, Source],
    edits: Sequence[Edit],
    plan: Plan,
    budget_s: float,
) -> list[Verdict]:
    """Judge `edits` in order until the budget is spent; those without a verdict are not in the answer."""
    hot, cold = split(sources, edits, plan.cold)
    spec = {
        "mode": "screen",
        "files": list(plan.files),
        "targets": list(plan.targets),
        "neighbours": list(plan.neighbours),
        "cpu_s": plan.cpu_s,
        "keep_cpu_s": plan.keep_cpu_s,
        "wall_s": 6 * (plan.cpu_s + plan.keep_cpu_s) + 1,
        "cold_cpu_s": plan.cpu_s + plan.keep_cpu_s + 5 + 2 * plan.startup_s,
        "cold_wall_s": 4 * (plan.cpu_s + plan.keep_cpu_s) + 15 + 4 * plan.startup_s,
        "restarts": 5,
        "grace_count": plan.grace_count,
        "grace_s": plan.grace_s,
        "cold_grace_s": plan.grace_s / 4,
        "candidates": hot,
        "cold": cold,
    }
    result = await sandbox.run_job(environment, tree, make_job(environment, spec, budget_s))
    return verdicts_of(edits, result)


def verdicts_of(edits: Sequence[Edit], result: JobResult) -> list[Verdict]:
    records = {r["id"]: r for r in lines_of(result) if isinstance(r.get("id"), int)}
    found = ((edit, records[i]) for i, edit in enumerate(edits) if i in records)
    return list(well_formed(lambda pair: verdict_of(*pair), found))


def verdict_of(edit: Edit, record: Mapping[str, Any]) -> Verdict:
    test, why = str(record.get("test", "")), str(record.get("why", ""))
    return Verdict(edit, str(record["v"]), int(record.get("n", 0)), test, why)


async def compare(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    sources: Mapping[str, Source],
    edits: Sequence[Edit],
    plan: Plan,
    budget_s: float,
) -> dict[int, float]:
    """Position in `edits` -> share of the edited function's results in passing tests that stay the same.

    Edits outside functions, and functions that no passing test calls, are not in the answer.
    """
    hot = [candidate for candidate in split(sources, edits, plan.cold)[0] if "function" in candidate]
    if not hot or not plan.neighbours:
        return {}
    spec = {
        "mode": "compare",
        "files": list(plan.files),
        "targets": [],
        "neighbours": list(plan.neighbours),
        "cpu_s": 3 * plan.keep_cpu_s + 1,
        "wall_s": 12 * plan.keep_cpu_s + 4,
        "restarts": 0,
        "candidates": hot,
    }
    result = await sandbox.run_job(environment, tree, make_job(environment, spec, budget_s))
    records = (record for record in lines_of(result) if record.get("v") == "recorded")
    seen: dict[tuple[int, bool], list[int]] = dict(well_formed(results_of, records))
    pairs = {n: (seen[n, True], seen[n, False]) for n, base in seen if not base and (n, True) in seen}
    return {number: kept(before, after) for number, (before, after) in pairs.items() if before}


def results_of(record: Mapping[str, Any]) -> tuple[tuple[int, bool], list[int]]:
    return (int(record["id"]), bool(record["base"])), list(map(int, record["results"]))


def kept(before: Sequence[int], after: Sequence[int]) -> float:
    """The share of results that are equal, call by call."""
    same = sum(old == new for old, new in zip(before, after, strict=False))
    return same / max(len(before), len(after), 1)


def split(
    sources: Mapping[str, Source], edits: Iterable[Edit], imported: frozenset[tuple[str, int]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Candidates to patch into live functions, and those that need a fresh import."""
    hot: list[dict[str, Any]] = []
    cold: list[dict[str, Any]] = []
    for number, edit in enumerate(edits):
        common = {"id": number, "path": edit.path}
        place, assigned = hot_source(sources[edit.path], edit), hot_assignment(sources[edit.path], edit)
        if place is not None and (edit.path, place[1]) not in imported:
            name, line, text = place
            hot.append({**common, "function": name, "line": line, "source": text})
        elif assigned is not None and (edit.path, edit.line) not in imported:
            owners, name, text = assigned
            value = {"owners": list(owners), "variable": name, "edited": edit.line, "source": text}
            hot.append({**common, **value})
        else:
            span = {"start": edit.start, "end": edit.end, "new": edit.new.decode()}
            cold.append({**common, **span})
    return hot, cold
