"""Functions and classes of a Python file, by exact lines."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentforge.agents.extract import parse_python
from agentforge.core.tree import Changes, Tree


@dataclass(frozen=True)
class Span:
    """A symbol: qualified name ("Class.method"), kind, lines 1-based inclusive, decorators included."""

    name: str
    kind: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start + 1


def python_symbols(source: str | bytes) -> tuple[Span, ...]:
    """All functions, methods and classes in order of their first line; () where it does not parse."""
    tree = parse_python(source)
    if tree is None:
        return ()
    try:
        return tuple(sorted(_walk(tree.body, ""), key=lambda span: (span.start, -span.end)))
    except RecursionError:  # an elif chain of hundreds is nested that deep
        return ()


def _walk(body: Iterable[ast.stmt], prefix: str) -> Iterator[Span]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            yield Span(name, kind, first, node.end_lineno or node.lineno)
            yield from _walk(node.body, f"{name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _walk(_inner(node), prefix)


def _inner(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    found = list(node.body)
    if isinstance(node, ast.If | ast.Try):
        found += node.orelse
    if isinstance(node, ast.Try):
        found += [statement for handler in node.handlers for statement in handler.body] + node.finalbody
    return found


def find_symbol(spans: Iterable[Span], name: str) -> Span | None:
    """The span called `name`: the qualified name first, else the only one with that last part."""
    known = list(spans)
    wanted = name.strip().removesuffix("()").replace("::", ".").split(":")[-1]
    for span in known:
        if span.name == wanted:
            return span
    last = wanted.rsplit(".", 1)[-1]
    alike = [span for span in known if span.name.rsplit(".", 1)[-1] == last]
    return alike[0] if len(alike) == 1 else None


def enclosing(spans: Iterable[Span], line: int) -> Span | None:
    """The innermost symbol around `line`."""
    around = [span for span in spans if span.start <= line <= span.end]
    return min(around, key=lambda span: span.size, default=None)


def changes_between(base: Tree, other: Tree) -> Changes:
    """What turns `base` into `other`."""
    changed = {path: entry for path, entry in other.files.items() if base.files.get(path) != entry}
    return {**changed, **{path: None for path in base.files if path not in other.files}}


def decode(data: bytes) -> str:
    """Source bytes as text for prompts; what is not UTF-8 is shown as replacement marks."""
    return data.decode("utf-8-sig", "replace")


def is_test_path(path: str) -> bool:
    """Whether `path` looks like a test: its name, or a folder called test(s)."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith(("_test.py", "_tests.py")) or name == "conftest.py"
    return named or any(folder in ("test", "tests", "testing") for folder in folders)
