"""Whether what a test expects stands in the issue, or was made up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentforge.agents.extract import parse_python
from agentforge.core.task import Issue

_LITERAL = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp


def stated_tests(code: bytes, issue: Issue) -> frozenset[str]:
    """Names of test functions (``Class::name`` for methods) all of whose expectations the issue states.

    An expectation is a literal compared in an assert, or the exception of `pytest.raises`; blanks and
    the kind of quotes do not matter. A test without any is not stated.
    """
    module = parse_python(code)
    if module is None:
        return frozenset()
    told = _plain(f"{issue.title} {issue.text}")
    try:
        return frozenset(
            name
            for name, node in _tests(module.body, "")
            if (wanted := list(_expectations(node))) and all(_plain(value) in told for value in wanted)
        )
    except RecursionError:  # a literal nested hundreds deep
        return frozenset()


def _tests(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def _expectations(test: ast.AST) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            sides = [node.test.left, *node.test.comparators]
            yield from (ast.unparse(side) for side in sides if isinstance(side, _LITERAL))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("raises") and node.args:
            yield ast.unparse(node.args[0])


def _plain(text: str) -> str:
    return "".join(text.split()).replace("'", '"')
