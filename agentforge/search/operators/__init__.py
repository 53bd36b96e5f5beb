"""Edit operators: each a pure generator from one place in a file to edits of its bytes.

The weights are priors of our own on how often a fix has this shape; they order the search, no more.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from agentforge.search.operators import names, shapes, statements, values
from agentforge.search.operators.site import Scope, Site
from agentforge.search.source import Edit, Source

Operator = Callable[[Site], Iterator[Edit]]
OPERATORS: tuple[Operator, ...] = (
    *values.OPERATORS,
    *names.OPERATORS,
    *shapes.OPERATORS,
    *statements.OPERATORS,
)

__all__ = ["OPERATORS", "Operator", "Scope", "Site", "edits_of"]


def sites(source: Source, lines: Mapping[int, float]) -> Iterator[Site]:
    """The nodes that begin on one of `lines`, in file order."""
    module, scopes = Scope(source, None), {}
    for node in ast.walk(source.tree):
        if getattr(node, "lineno", None) not in lines:
            continue
        function = source.function_of(node)
        if function not in scopes:
            scopes[function] = Scope(source, function)
        yield Site(source, node, scopes[function], module)


def edits_of(source: Source, lines: Mapping[int, float]) -> Iterator[Edit]:
    """Every edit of every operator at the given lines; the caller orders, screens and deduplicates."""
    for site in sites(source, lines):
        for operator in OPERATORS:
            yield from operator(site)
