"""From an answer to a `Graph` of responsibilities: lenient about form, strict about meaning."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from agentforge.agents.extract import json_values
from agentforge.agents.plan_parser import PlanProblem, known_file
from agentforge.core.responsibility import Contract, Graph, Responsibility
from agentforge.core.tree import TreeReader

CATEGORIES = (
    "general",
    "dp",
    "greedy",
    "binary_search",
    "graph_bfs",
    "graph_dfs",
    "union_find",
    "math",
    "string",
    "sorting",
    "two_pointer",
)
"""Execution categories (AuditCoder, L): who writes a node; never its identity."""
MAX_CHECKS = 6


def parse_graph(text: str, tree: TreeReader, shown: Sequence[str] = ()) -> Graph:
    """The graph in `text`; its own consistency is checked elsewhere. Raises `PlanProblem`."""
    for value in json_values(text):
        if isinstance(value, dict) and isinstance(value.get("nodes"), list) and value["nodes"]:
            return _graph(value, tree, shown)
    raise PlanProblem('no JSON object with a list "nodes" was found')


def _graph(value: Mapping[str, object], tree: TreeReader, shown: Sequence[str]) -> Graph:
    raw = value["nodes"]
    assert isinstance(raw, list)
    if not all(isinstance(entry, dict) for entry in raw):
        raise PlanProblem('every entry of "nodes" must be an object')
    parents = {str(entry.get("parent") or "") for entry in raw}
    nodes = tuple(_node(entry, parents, tree, shown) for entry in raw)
    order = strings(value.get("order")) or tuple(node.id for node in nodes if node.leaf)
    return Graph(explanation=str(value.get("explanation") or ""), nodes=nodes, order=order)


def _node(
    entry: Mapping[str, object], parents: set[str], tree: TreeReader, shown: Sequence[str]
) -> Responsibility:
    identifier, goal = str(entry.get("id") or ""), str(entry.get("goal") or entry.get("description") or "")
    if not identifier or not goal:
        raise PlanProblem('every node needs an "id" and a "goal"')
    leaf = entry.get("leaf", entry.get("is_leaf"))
    names = strings(entry.get("files") or entry.get("file"))
    files = tuple(
        dict.fromkeys(known_file(name, identifier, bool(entry.get("new")), tree, shown) for name in names)
    )
    category = str(entry.get("category") or entry.get("agent_type") or "general")
    try:
        return Responsibility(
            id=identifier,
            goal=goal,
            parent=str(entry.get("parent") or ""),
            depends_on=strings(entry.get("depends_on") or entry.get("dependencies")),
            leaf=leaf if isinstance(leaf, bool) else identifier not in parents,
            category=category if category in CATEGORIES else "general",
            files=files,
            symbols=strings(entry.get("symbols")),
            provenance=_sources(entry.get("inputs")),
            outputs=strings(entry.get("outputs")),
            contract=_contract(entry.get("contract") or entry.get("interface")),
            budget=str(entry.get("budget") or entry.get("complexity_budget") or ""),
            checks=usable_checks(strings(entry.get("checks"))),
            hints=strings(entry.get("hints")),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise PlanProblem(f"node {identifier}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _sources(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(source or "task") for name, source in value.items()}
    return dict.fromkeys(strings(value), "task")


def _contract(value: object) -> Contract:
    if not isinstance(value, Mapping):
        return Contract()
    return Contract(
        name=str(value.get("name") or value.get("function_name") or ""),
        args=strings(value.get("args") or value.get("params")),
        returns=str(value.get("returns") or value.get("return_type") or ""),
        pre=strings(value.get("pre")),
        post=strings(value.get("post")),
        invariants=strings(value.get("invariants")),
    )


def strings(value: object) -> tuple[str, ...]:
    """A list of strings, or a lone one; whatever else is left out."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple):
        return ()
    return tuple(dict.fromkeys(item.strip() for item in values if isinstance(item, str) and item.strip()))


def usable_checks(checks: Sequence[str]) -> tuple[str, ...]:
    """Those that are one expression with a call in it: nothing else can say anything about code."""
    return tuple(check for check in checks if _calls(check))[:MAX_CHECKS]


def _calls(check: str) -> bool:
    try:
        tree = ast.parse(check.removeprefix("assert "), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))
