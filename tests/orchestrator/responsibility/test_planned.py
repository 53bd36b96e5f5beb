"""Runs without a graph: the steps of the plan are responsible, or the task itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.patch import Candidate
from agentforge.core.plan import Plan, Step
from agentforge.core.report import TestReport
from agentforge.core.state import Judged, RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.responsibility.graph import structural_problems
from agentforge.orchestrator.responsibility.planned import graph_of_plan
from agentforge.orchestrator.responsibility.record import audit_record
from agentforge.repo.workspace import GitWorkspace
from tests.orchestrator.responsibility.helpers import tree

BASE = tree(m="def f():\n    return 1\n\n\ndef g():\n    return 2\n", n="x = 1\n")
CHANGES = {
    "m.py": TreeFile(b"def f():\n    return 10\n\n\ndef g():\n    return 20\n"),
    "n.py": TreeFile(b"x = 3\n"),
    "new.txt": TreeFile(b"hello\n"),
}


def finished(scratch: Path, plan: Plan | None, base: Tree = BASE) -> RunState:
    with GitWorkspace(base, scratch) as workspace:
        patch = workspace.diff(CHANGES)
    decision = GateDecision(verdict=Verdict.VERIFIED, rank=Rank(True, 1, 0, True, 0), fail_to_pass=("t::a",))
    judged = Judged(
        candidate=Candidate(id="c0", patch=patch, changes=CHANGES, origin="search"),
        baseline=TestReport(),
        report=TestReport(),
        decision=decision,
    )
    task = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text="x"))
    return RunState(task=task, base_commit="0" * 40, plan=plan, best=judged)


def step(identifier: str, *symbols: str, files: tuple[str, ...] = ("m.py",), agent: str = "coder") -> Step:
    return Step(id=identifier, agent=agent, description=f"do {identifier}", files=files, symbols=symbols)


def test_without_a_plan_the_task_owns_everything(tmp_path: Path) -> None:
    audit = audit_record(finished(tmp_path, None), [], BASE)
    assert audit["source"] == "task"
    assert {hunk["responsibility"] for hunk in audit["hunks"]} == {"S0"}
    assert audit["exceptions"] == []
    assert sorted(hunk["unit"] for hunk in audit["hunks"]) == ["m.py::f", "m.py::g", "n.py", "new.txt"]


def test_what_no_step_claims_is_an_exception_of_the_nearest_one(tmp_path: Path) -> None:
    plan = Plan(
        explanation="e", steps=(step("s1", "f"), step("s2", files=("n.py",)), step("t", agent="tester"))
    )
    audit = audit_record(finished(tmp_path, plan), [], BASE)
    owners = {
        hunk["unit"]: (hunk["responsibility"], hunk["exception"] is not None) for hunk in audit["hunks"]
    }
    assert owners == {
        "m.py::f": ("s1", False),
        "m.py::g": ("s1", True),
        "n.py": ("s2", False),
        "new.txt": ("s1", True),
    }
    assert {entry["region"] for entry in audit["exceptions"]} == {"m.py::g", "new.txt"}


def test_a_lone_step_owns_what_it_did_not_name(tmp_path: Path) -> None:
    audit = audit_record(finished(tmp_path, Plan(explanation="e", steps=(step("s1", "f"),))), [], BASE)
    assert {hunk["responsibility"] for hunk in audit["hunks"]} == {"s1"}
    assert audit["exceptions"] == []


@pytest.mark.parametrize("names", [("s1", "s2"), ("1", "2"), ("S0", "task")])
def test_every_plan_is_a_sound_graph(names: tuple[str, str]) -> None:
    steps = (step(names[0], "f"), step(names[1], "g").model_copy(update={"depends_on": (names[0],)}))
    graph = graph_of_plan(Plan(explanation="e", steps=steps))
    assert structural_problems(graph) == ()
    assert graph.nodes[2].depends_on == (graph.nodes[1].id,)
