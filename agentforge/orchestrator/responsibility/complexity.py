"""What can be told of running time by looking at code: how deep its loops are nested."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping

from agentforge.repo.patch.outline import analysis_text, parse_module

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_POWER = re.compile(r"\b[a-z]\w*\s*(?:\^|\*\*)\s*(\d)", re.IGNORECASE)
_NAME = re.compile(r"[a-z]\w*", re.IGNORECASE)


def has_loop(code: Mapping[str, bytes]) -> bool:
    return loop_depth(code) > 0 or any(_recursive(data) for data in code.values())


def exceeds_budget(code: Mapping[str, bytes], budget: str) -> bool:
    """Whether loops are nested deeper than the degree that `budget` allows; False without a budget."""
    degree = budget_degree(budget)
    return degree is not None and loop_depth(code) > degree


def budget_degree(budget: str) -> int | None:
    """The highest power in "O(...)": 0 for O(1) and O(log n), 1 for O(n log n), 2 for O(n*m) or O(n^2).

    None where `budget` says nothing of the kind.
    """
    inside = re.search(r"O\((?P<term>.*)\)", budget)
    if inside is None:
        return None
    terms = re.split(r"[+]", inside["term"])
    return max(_degree(term) for term in terms)


def _degree(term: str) -> int:
    plain = re.sub(r"\b(log|lg|ln|sqrt|alpha|α)\b\s*(\([^)]*\)|\w+)?", " ", term)
    powers = sum(int(found) for found in _POWER.findall(plain))
    rest = _POWER.sub(" ", plain)
    return powers + len(_NAME.findall(re.sub(r"\d+", " ", rest)))


def loop_depth(code: Mapping[str, bytes]) -> int:
    """The deepest nesting of loops and comprehensions in any unit; 0 for code that does not parse."""
    return max((_nesting(tree) for data in code.values() if (tree := _parsed(data))), default=0)


def _parsed(data: bytes) -> ast.Module | None:
    """A unit as a module of its own: a method stands without its class."""
    tree = parse_module(textwrap.dedent(analysis_text(data)))
    return tree if isinstance(tree, ast.Module) else None


def _nesting(tree: ast.AST) -> int:
    deepest = 0
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        generators = getattr(node, "generators", None)
        depth += len(generators) if generators else int(isinstance(node, _LOOPS))
        deepest = max(deepest, depth)
        todo += [(child, depth) for child in ast.iter_child_nodes(node)]
    return deepest


def _recursive(data: bytes) -> bool:
    tree = _parsed(data)
    functions: Iterable[ast.AST] = ast.walk(tree) if tree else ()
    for node in functions:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
            names = {getattr(func, "id", getattr(func, "attr", "")) for func in calls}
            if node.name in names:
                return True
    return False
