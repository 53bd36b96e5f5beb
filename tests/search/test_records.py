"""Records come from where the repository's code runs: odd ones cost themselves and nothing else."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentforge.config.settings import SandboxSettings, SearchSettings
from agentforge.core.ports import Job, JobResult
from agentforge.core.report import Cause
from agentforge.core.tree import Tree
from agentforge.sandbox import DockerSandbox
from agentforge.search.batch import Observation, Observed, observed_of, verdicts_of
from agentforge.search.engine import Diagnosis, SearchEngine, make_plan
from agentforge.search.facts import facts_of
from agentforge.search.inside.processes import MAX_VERDICT_BYTES
from agentforge.search.inside.server import MAX_OUT_BYTES, Server
from agentforge.search.inside.supervisor import verdicts
from agentforge.search.localize import SuspiciousLine
from agentforge.search.source import Edit, Source

HEAD = {"tests": ["t.py::a"], "imported": [["m.py", 1]], "startup_s": 0.5}
GOOD = {"test": "t.py::a", "v": "failed", "cpu_s": 0.1, "lines": {"m.py": [1, 2]}}
ODD = (
    {"test": "t.py::b"},
    {**GOOD, "cpu_s": "long"},
    {**GOOD, "cpu_s": float("nan")},
    {**GOOD, "lines": [1, 2]},
    {**GOOD, "lines": {"m.py": ["x"]}},
    {**GOOD, "frames": [["m.py", 1]]},
    {**GOOD, "seen": [1]},
    {**GOOD, "seen": {"frames": [{"path": "m.py"}]}},
    {**GOOD, "seen": {"calls": 7}},
)


def told(*records: object) -> JobResult:
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    return JobResult(exit_code=0, cause=Cause.OK, files={"search.jsonl": lines})


def test_observations_out_of_shape_are_dropped() -> None:
    seen = observed_of(told({"tests": 3}, {"tests": ["x"], "imported": [1]}, HEAD, *ODD, GOOD))
    assert [o.lines for o in seen.observations] == [{"m.py": (1, 2)}]
    assert (seen.collected, seen.imported, seen.startup_s) == (("t.py::a",), frozenset({("m.py", 1)}), 0.5)
    assert not observed_of(told({"tests": None})).observations


def test_values_have_their_bounds_whoever_wrote_them() -> None:
    frame = {
        "path": "m.py",
        "line": 2,
        "function": "f" * 999,
        "span": [1, 2, 3],
        "values": [["x", "y" * 999]] * 99,
    }
    call = {"path": "m.py", "line": 1, "function": "f", "arguments": [[1, 2]], "returned": "z" * 999}
    record = {**GOOD, "seen": {"frames": [frame] * 99, "calls": [call] * 99}}
    seen = observed_of(told(HEAD, record))
    source = Source("m.py", b"def f():\n    return 1\n")
    failing = Diagnosis(Tree({}), seen, ("t.py::a",), (), (), {"m.py": source})
    (failure,) = facts_of(failing, lines=1, clean=str).failures
    assert (len(failure.frames), len(failure.calls), len(failure.frames[0].values)) == (4, 4, 12)
    assert len(failure.frames[0].function) == len(failure.frames[0].values[0].text) == 120
    assert len(failure.calls[0].returned or "") == 120
    assert failure.calls[0].arguments[0].name == "1"


def test_verdicts_out_of_shape_are_dropped() -> None:
    edits = [Edit("m.py", at, at, b"x", "test", 1.0, 1) for at in range(3)]
    records = ({"id": 0, "v": "failed", "n": "many"}, {"id": 1}, {"id": [2]}, {"id": 2, "v": "plausible"})
    assert [v.edit for v in verdicts_of(edits, told(*records))] == [edits[2]]


def test_the_supervisor_reads_on_after_lines_that_are_no_records(tmp_path: Path) -> None:
    out = f"{tmp_path}/search.jsonl"
    with open(out, "wb") as file:
        file.write(
            b'{"id": 1, "v": "failed"}\n\xff\n7\n{"id": 2}\n{"id": [], "v": 1}\n{"id": 3, "v": "broke"}\n'
        )
    assert verdicts(out) == {1: "failed", 3: "broke"}


def test_work_ends_before_the_answers_are_too_many_to_be_fetched(tmp_path: Path) -> None:
    out = tmp_path / "search.jsonl"
    spec = {"root": "/", "out": str(out), "started": time.monotonic(), "slack_s": 60.0, "budget_s": 60.0}
    server = Server(spec, [], [])
    assert not server.late()
    out.write_bytes(b"x" * (MAX_OUT_BYTES + 1))
    assert server.late()
    assert Job(argv=("x",)).max_result_bytes > MAX_OUT_BYTES + MAX_VERDICT_BYTES


def test_targets_that_hang_leave_candidates_the_time_that_their_file_s_tests_take() -> None:
    observations = (
        Observation("t.py::hangs", "timeout", 1.5, {"m.py": (1, 2)}),
        Observation("t.py::a", "passed", 0.3, {"m.py": (1, 2)}),
        Observation("u.py::b", "passed", 0.01, {"m.py": (1, 2)}),
    )
    lines = (SuspiciousLine("m.py", 2, 1.0),)
    seen = Observed(observations, (), frozenset())
    plan = make_plan(Diagnosis(Tree({}), seen, ("t.py::hangs",), ("t.py",), lines, {}))
    assert 1.8 < plan.cpu_s < 5


class Stopped:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 100.0


@pytest.mark.parametrize(("left", "most"), [(20.0, 8.0), (60.0, 20.0), (600.0, 90.0), (0.5, 1.0)])
def test_observing_leaves_the_better_part_of_a_short_time(left: float, most: float) -> None:
    sandbox = DockerSandbox(SandboxSettings(), "test-search-records")
    engine = SearchEngine(sandbox, SearchSettings(), lambda _: None, Stopped())
    assert engine._observe_budget(100.0 + left) == pytest.approx(most)


@pytest.mark.parametrize("between", ["\x0c", "# \u2028"])
def test_statements_are_told_by_the_parser_s_lines(between: str) -> None:
    source = Source(
        "m.py", f"{between}\ndef f(x):\n    s = '{between}'\n    return (x +\n            1)\n".encode()
    )
    failing = Observation("t.py::a", "failed", lines={"m.py": (4,)})
    lines = (SuspiciousLine("m.py", 4, 1.0),)
    seen = Observed((failing,), (), frozenset())
    diagnosis = Diagnosis(Tree({}), seen, ("t.py::a",), (), lines, {"m.py": source})
    assert facts_of(diagnosis, lines=1, clean=str).suspects[0].code == "return (x + 1)"
