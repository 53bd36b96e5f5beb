"""The papers' examples through `solve`: the permutation (AuditCoder, B.3) and topological sort."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.core.problem import Example, Problem
from agentforge.orchestrator.responsibility.check import check, read_stored
from agentforge.orchestrator.solve import solve_problem
from agentforge.orchestrator.store import RunStore
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker


def problem(name: str, entry: str, statement: str, *examples: tuple[str, str]) -> Problem:
    return Problem(
        id=name,
        title=name,
        statement=statement,
        entry_point=entry,
        stub=f"def {entry}(text):\n    raise NotImplementedError\n",
        examples=tuple(
            Example(call=f"{entry}({given!r})", expected=repr(wanted)) for given, wanted in examples
        ),
    )


def node(
    identifier: str, parent: str, goal: str, *symbols: str, leaf: bool = True, **more: Any
) -> dict[str, Any]:
    files = {"files": ["solution.py"], "symbols": list(symbols)} if symbols else {}
    return {"id": identifier, "parent": parent, "leaf": leaf, "goal": goal, **files, **more}


def answer(*functions: str) -> str:
    return "solution.py\n```python\n" + "\n\n\n".join(functions) + "\n```\n"


async def solved(configure: Callable[..., Any], task: Problem, **replies: list[str]) -> Any:
    with ScriptedModel(replies) as server:
        settings = configure(
            model__base_url=server.base_url, model__edit_format="symbol", workflow="auditcoder", retries=2
        )
        solution = await solve_problem(task, settings, listener=lambda event: None)
        asked = [body["_agent"] for body in server.requests]
    store = RunStore(settings.data_home)
    record = store.open("last")
    assert [finding for finding in check(read_stored(record, store)) if not finding.holds] == []
    return solution, record.audit(), asked


PERMUTATION = problem(
    "permutation",
    "solve",
    "Read N and K. Print a permutation of 1..N with max(LIS, LDS) == K made of K reversed blocks, or -1.",
    ("1 1", "1"),
    ("4 1", "-1"),
    ("5 6", "-1"),
    ("4 2", "2 1 4 3"),
    ("5 3", "2 1 4 3 5"),
)
FEASIBLE = "def check_feasibility(N, K):\n    return K <= N <= K * K"
SOLVE = (
    "def solve(text):\n    N, K = map(int, text.split())\n"
    "    return construct_permutation(N, K, check_feasibility(N, K))"
)


def constructor(name: str) -> str:
    """The figure's constructor; with a wrong `name` for the size of a block it raises."""
    return (
        "def construct_permutation(N, K, is_possible):\n"
        "    if not is_possible:\n        return '-1'\n"
        "    base_size, remainder = divmod(N, K)\n    result, current = [], 1\n"
        "    for i in range(K):\n"
        "        block_size = base_size + (i < remainder)\n"
        f"        result.extend(range(current + {name} - 1, current - 1, -1))\n"
        "        current += block_size\n"
        "    return ' '.join(map(str, result))"
    )


def permutation_graph(*more: dict[str, Any]) -> str:
    nodes = [
        node("S0", "", "read N and K, emit the permutation or -1", "solve", leaf=False),
        node("S1", "S0", "coordinate the checker and the constructor", leaf=False),
        node(
            "S1_S1",
            "S1",
            "decide feasibility by the Erdos-Szekeres bound",
            "check_feasibility",
            category="math",
            inputs={"N": "task", "K": "task"},
            outputs=["is_possible"],
            contract={"name": "check_feasibility", "args": ["N", "K"], "returns": "bool"},
            budget="O(1)",
            checks=["check_feasibility(1, 1)", "not check_feasibility(4, 1)", "not check_feasibility(5, 6)"],
        ),
        node(
            "S1_S2",
            "S1",
            "construct the permutation from K reversed blocks",
            "construct_permutation",
            category="greedy",
            inputs={"N": "task", "is_possible": "S1_S1.is_possible"},
            depends_on=["S1_S1"],
            contract={"name": "construct_permutation", "args": ["N", "K", "is_possible"], "returns": "str"},
            budget="O(n)",
        ),
        *more,
    ]
    return json.dumps({"explanation": "reversed blocks", "nodes": nodes})


async def test_the_permutation_of_the_paper(configure: Callable[..., Any]) -> None:
    """The parallel constructor under S2 is no second owner: the graph is refused and asked for again. The
    constructor raises, R1 selects S1_S2, and S0, S1 and S1_S1 stay frozen."""
    twice = permutation_graph(node("S2", "S0", "construct the permutation", "construct_permutation"))
    solution, audit, asked = await solved(
        configure,
        PERMUTATION,
        planner=[twice, permutation_graph()],
        coder=[answer(FEASIBLE), answer(constructor("blok_size")), answer(SOLVE)],
        debugger=[answer(constructor("block_size"))],
    )
    assert solution.run.outcome == "verified", solution.run.summary
    assert asked == ["planner", "planner", "coder", "coder", "coder", "debugger"]
    (entry,) = audit["transactions"]
    assert (entry["locus"]["node"], entry["locus"]["rule"], entry["accepted"]) == ("S1_S2", "R1", True)
    assert entry["locus"]["frozen"] == ["S0", "S1", "S1_S1"]
    owners = {unit.rpartition("::")[2]: owner for unit, owner in audit["ownership"].items() if "::" in unit}
    assert owners == {"solve": "S0", "check_feasibility": "S1_S1", "construct_permutation": "S1_S2"}
    assert {row["id"]: row["executor"] for row in audit["responsibilities"]}["S1_S2"] == "coder (greedy)"
    assert audit["metrics"]["dctc"]["value"] == 1.0


TOPOLOGICAL = problem(
    "topological sort",
    "order",
    "Each line holds an edge `a b`. Return the vertices in topological order, smallest first, or `cycle`.",
    ("a b\nb c", "a b c"),
    ("a b\na c\nb d\nc d", "a b c d"),
    ("a b\nb a", "cycle"),
    ("d a\nc a", "c d a"),
)
PARSE = "def parse(text):\n    return [tuple(line.split()) for line in text.splitlines() if line.strip()]"
ORDER = (
    "def order(text):\n    edges = parse(text)\n    found = peel(edges)\n"
    "    names = {name for edge in edges for name in edge}\n"
    "    return ' '.join(found) if len(found) == len(names) else 'cycle'"
)


def peel(smallest: str) -> str:
    return (
        "def peel(edges):\n"
        "    left = {name: sum(b == name for _, b in edges) for edge in edges for name in edge}\n"
        "    found = []\n"
        "    while ready := [name for name in left if left[name] == 0]:\n"
        f"        name = {smallest}(ready)\n"
        "        del left[name]\n        found.append(name)\n"
        "        for a, b in edges:\n            if a == name:\n                left[b] -= 1\n"
        "    return found"
    )


async def test_topological_sort_is_mended_by_a_local_rejection(configure: Callable[..., Any]) -> None:
    """Wrong order, no traceback: the rejected boundary check of S2 is what R3 has."""
    nodes = [
        node("S0", "", "edges to order", "order", leaf=False),
        node("S1", "S0", "edges of the text", "parse", checks=["parse('a b') == [('a', 'b')]"]),
        node(
            "S2",
            "S0",
            "take vertices without open edges, smallest first",
            "peel",
            inputs={"edges": "S1.edges"},
            checks=["peel([('d', 'a'), ('c', 'a')]) == ['c', 'd', 'a']", "peel([('a', 'a')]) == []"],
        ),
    ]
    solution, audit, _ = await solved(
        configure,
        TOPOLOGICAL,
        planner=[json.dumps({"explanation": "Kahn", "nodes": nodes})],
        coder=[answer(PARSE), answer(peel("max")), answer(ORDER)],
        debugger=[answer(peel("min"))],
    )
    assert solution.run.outcome == "verified", solution.run.summary
    (entry,) = audit["transactions"]
    assert (entry["locus"]["node"], entry["locus"]["rule"]) == ("S2", "R3")
    assert entry["code_delta"][0]["unit"] == "solution.py::peel"
