"""Graphs, trees and reports in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.patch import Candidate, Patch
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.responsibility import Construction, Contract, Graph, Implementation, Responsibility
from agentforge.core.state import Judged, Standing
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.responsibility.ownership import bundles, ownership_over


def tree(**files: str) -> Tree:
    """`tree(a="x = 1")` holds a.py."""
    return Tree({f"{name}.py": TreeFile(text.encode()) for name, text in files.items()})


def leaf(
    identifier: str, parent: str = "S0", *symbols: str, file: str = "m.py", **more: Any
) -> Responsibility:
    return Responsibility(
        id=identifier, goal=f"goal of {identifier}", parent=parent, files=(file,), symbols=symbols, **more
    )


def inner(identifier: str, parent: str = "", **more: Any) -> Responsibility:
    return Responsibility(id=identifier, goal=f"goal of {identifier}", parent=parent, leaf=False, **more)


def graph(*nodes: Responsibility, order: tuple[str, ...] | None = None) -> Graph:
    leaves = tuple(node.id for node in nodes if node.leaf)
    return Graph(explanation="why", nodes=nodes, order=leaves if order is None else order)


def signature(name: str, *args: str) -> Contract:
    return Contract(name=name, args=args, returns="int")


def construction(g: Graph, program: Tree, **more: Any) -> Construction:
    """Every node with the code it owns in `program`, and one passed syntax check."""
    ownership = ownership_over(g, {}, program)
    code = bundles(g, ownership, program)
    made = tuple(Implementation(node=name, executor="coder", code=code.get(name, {})) for name in g.owners)
    values: dict[str, Any] = {"graph": g, "implementations": made, "ownership": ownership}
    return Construction(**(values | more))


def report(
    outcomes: Mapping[str, str], *, cause: Cause = Cause.OK, failures: Mapping[str, TestFailure] | None = None
) -> TestReport:
    return TestReport(
        outcomes={test: Outcome(word) for test, word in outcomes.items()},
        failures=failures or {},
        collected=len(outcomes),
        cause=cause,
    )


def judged(
    candidate: str,
    outcomes: Mapping[str, str],
    *,
    verified: bool = False,
    cause: Cause = Cause.OK,
    **more: Any,
) -> Judged:
    result = report(outcomes, cause=cause, **more)
    rank = Rank(verified, 0, len(result.passed), cause is Cause.OK, 0)
    verdict = Verdict.VERIFIED if verified else Verdict.REFUSED
    return Judged(
        candidate=Candidate(id=candidate, patch=Patch(diff=b"", files=()), changes={}, origin="coder"),
        baseline=report({}),
        report=result,
        decision=GateDecision(verdict=verdict, rank=rank),
    )


def standing(built: Construction, outcomes: Mapping[str, str], **more: Any) -> Standing:
    return Standing(judged=judged("c0", outcomes, **more), construction=built)
