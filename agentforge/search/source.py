"""One source file as the operators see it: bytes, syntax tree, byte spans, scopes and regions."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from tokenize import detect_encoding

LINE_END = re.compile(rb"\r\n|\r|\n")
Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MAX_SOURCE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Edit:
    """Replace bytes [start, end) of `path` by `new`. `weight` is the operator's prior, 0 to 1."""

    path: str
    start: int
    end: int
    new: bytes
    operator: str
    weight: float
    line: int

    def apply(self, data: bytes) -> bytes:
        return data[: self.start] + self.new + data[self.end :]


@dataclass(frozen=True)
class Region:
    """The outermost function around a place, or the top-level statement where there is none.

    `start` and `end` are byte offsets of whole lines, decorators included; `owners` are the names of
    the classes around, outermost first. `body_start` is where the function's body begins.
    """

    node: ast.stmt
    start: int
    end: int
    line: int
    owners: tuple[str, ...]
    body_start: int | None


class Source:
    """A parsed file. Raises ValueError or SyntaxError where it is not parseable UTF-8 Python."""

    def __init__(self, path: str, data: bytes) -> None:
        if len(data) > MAX_SOURCE_BYTES or data.startswith(b"\xef\xbb\xbf"):
            raise ValueError(f"{path}: too large, or starts with a byte order mark")
        if not data.isascii() and detect_encoding(BytesIO(data).readline)[0] != "utf-8":
            raise ValueError(f"{path}: declares another encoding than UTF-8")
        self.path, self.data = path, data
        try:
            self.tree = ast.parse(data.decode("utf-8"))
        except (RecursionError, MemoryError) as error:
            raise ValueError(f"{path}: too deeply nested") from error
        self.starts = [0, *(match.end() for match in LINE_END.finditer(data))]
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a position as `ast` gives it (line from 1, column in UTF-8 bytes)."""
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg) -> tuple[int, int]:
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def text(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def line_start(self, line: int) -> int:
        return self.starts[line - 1] if line <= len(self.starts) else len(self.data)

    def indent(self, line: int) -> str:
        start = self.line_start(line)
        match = re.match(rb"[ \t]*", self.data[start:])
        return match.group().decode() if match else ""

    @cached_property
    def newline(self) -> str:
        match = LINE_END.search(self.data)
        return match.group().decode() if match else "\n"

    @cached_property
    def unit(self) -> str:
        """One level of indentation as this file has it."""
        for node in ast.walk(self.tree):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.body[0].lineno > node.lineno:
                outer, inner = self.indent(node.lineno), self.indent(node.body[0].lineno)
                if inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return "    "

    @cached_property
    def names_at_import(self) -> frozenset[str]:
        """Names that are read outside function bodies: at import, in defaults and in decorators."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                function = self.function_of(node)
                if function is None or node.lineno < function.body[0].lineno:
                    found.add(node.id)
        return frozenset(found)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> Function | None:
        """The innermost function whose body holds `node`."""
        return next((up for up in self.ancestors(node) if isinstance(up, FUNCTIONS)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        return next((up for up in self.ancestors(node) if isinstance(up, ast.ClassDef)), None)

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        if isinstance(node, ast.stmt):
            return node
        return next((up for up in self.ancestors(node) if isinstance(up, ast.stmt)), None)

    @cached_property
    def regions(self) -> list[Region]:
        return list(self._regions(self.tree.body, ()))

    def _regions(self, body: list[ast.stmt], owners: tuple[str, ...]) -> Iterator[Region]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._regions(node.body, (*owners, node.name))
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            start, end = self.line_start(first), self.line_start((node.end_lineno or node.lineno) + 1)
            inner = None
            if isinstance(node, FUNCTIONS) and node.body[0].lineno > node.lineno:
                inner = self.span(node.body[0])[0]
            yield Region(node, start, end, first, owners, inner)

    def region_at(self, start: int, end: int) -> Region | None:
        """The smallest region that holds the span."""
        holding = [r for r in self.regions if r.start <= start and end <= r.end]
        return min(holding, key=lambda r: r.end - r.start, default=None)


def fingerprint(source: Source, edit: Edit) -> str | None:
    """A hash of the edited region's normalised syntax tree; None where it does not parse."""
    region = source.region_at(edit.start, edit.end)
    if region is None:
        return None
    text = (source.data[region.start : edit.start] + edit.new + source.data[edit.end : region.end]).decode()
    if text[:1] in " \t":
        text = "if 1:\n" + text
    try:
        dump = ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    place = f"{source.path}:{region.line}:"
    return hashlib.sha256((place + dump).encode("utf-8", "surrogatepass")).hexdigest()


def hot_source(source: Source, edit: Edit) -> tuple[str, int, str] | None:
    """(function name, first line, text to compile) where the edit lies in a function's body.

    The text has the function at its own line, inside skeleton classes so that names are mangled and
    `super()` compiles as in the file. None: only a fresh import shows this edit.
    """
    region = source.region_at(edit.start, edit.end)
    if region is None or region.body_start is None or edit.start < region.body_start:
        return None
    body = (source.data[region.start : edit.start] + edit.new + source.data[edit.end : region.end]).decode()
    heads = [" " * depth + f"class {name}:\n" for depth, name in enumerate(region.owners)]
    padding = "\n" * (region.line - 1 - len(heads))
    assert isinstance(region.node, FUNCTIONS)
    return region.node.name, region.line, padding + "".join(heads) + body


def hot_assignment(source: Source, edit: Edit) -> tuple[tuple[str, ...], str, str] | None:
    """(classes around, variable, text to compile) where the edit lies in an assignment of one variable
    at a module's or class's top level, as most patterns and tables are.

    The value can then be computed anew in the loaded module. None where the file makes something of it
    at import, which would keep the old value.
    """
    region = source.region_at(edit.start, edit.end)
    node = region.node if region else None
    if region is None or not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return None
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    single = not isinstance(node, ast.Assign) or len(node.targets) == 1
    if not single or not isinstance(target, ast.Name) or edit.start < source.span(node.value)[0]:
        return None
    start, end = source.span(node)
    if edit.end > end or target.id in source.names_at_import:
        return None
    text = (source.data[start : edit.start] + edit.new + source.data[edit.end : end]).decode()
    return region.owners, target.id, text
