"""Edit operators: each a pure generator from one place in a file to edits of its bytes.

The weights are priors of our own on how often a fix has this shape; they order the search, no more.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from agentforge.search.operators import calls, donors, flow, names, shapes, statements, strings, values
from agentforge.search.operators.site import NO_FACTS, Facts, Scope, Site
from agentforge.search.source import Edit, Source

Operator = Callable[[Site], Iterator[Edit]]
OPERATORS: tuple[Operator, ...] = (
    *values.OPERATORS,
    *names.OPERATORS,
    *shapes.OPERATORS,
    *statements.OPERATORS,
    *calls.OPERATORS,
    *strings.OPERATORS,
    *flow.OPERATORS,
    *donors.OPERATORS,
)

CROWD = 24
"""How many edits of one operator at one place have their full weight, the likeliest of them."""

__all__ = ["OPERATORS", "Facts", "Operator", "Scope", "Site", "edits_of"]


def sites(source: Source, lines: Mapping[int, float], facts: Facts = NO_FACTS) -> Iterator[Site]:
    """The nodes that begin on one of `lines`, in file order."""
    module, scopes = Scope(source, None), {}
    for node in ast.walk(source.tree):
        if getattr(node, "lineno", None) not in lines or misplaced(source, node):
            continue
        function = source.function_of(node)
        if function not in scopes:
            scopes[function] = Scope(source, function)
        yield Site(source, node, scopes[function], module, facts)


def misplaced(source: Source, node: ast.AST) -> bool:
    """Whether the node lies inside an f-string, where the parser's positions cannot be relied on."""
    inside = (isinstance(up, ast.JoinedStr) for up in source.ancestors(node))
    return isinstance(node, ast.expr) and any(inside) and not same_text(source, node)


def same_text(source: Source, node: ast.expr) -> bool:
    try:
        shown = ast.parse(source.text(node), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return ast.dump(shown) == ast.dump(node)


def edits_of(source: Source, lines: Mapping[int, float], facts: Facts = NO_FACTS) -> Iterator[Edit]:
    """Every edit of every operator at the given lines; the caller orders, screens and deduplicates."""
    for site in sites(source, lines, facts):
        for operator in OPERATORS:
            yield from shared(list(operator(site)))


def shared(edits: list[Edit]) -> Iterator[Edit]:
    """A long function offers more edits at one place, not likelier ones: beyond the `CROWD` likeliest,
    each has a share that falls with its rank. Those first ones lose nothing by what comes after them."""
    if len(edits) <= CROWD:
        yield from edits
        return
    for rank, edit in enumerate(sorted(edits, key=lambda edit: -edit.weight), 1):
        yield edit if rank <= CROWD else replace(edit, weight=edit.weight * CROWD / rank)
