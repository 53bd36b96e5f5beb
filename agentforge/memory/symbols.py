"""Split a source file into symbols with exact lines.

Python by `ast`, other languages by tree-sitter where it is installed, any other text into windows.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agentforge.memory import languages
from agentforge.memory.languages import Definition

SymbolKind = Literal["module", "class", "function", "method", "window"]

MAX_FILE_BYTES = 1_000_000
WINDOW_LINES = 60
MAX_LINE_CHARS = 2_000
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
_PythonDefinition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Lines = tuple[str, ...]
MAX_STRING = 400


@dataclass(frozen=True, slots=True)
class CodeSymbol:
    """One symbol of one file.

    Lines are 1-based and inclusive, decorators included. `own_end` is the last line that is the symbol's
    own: for a class with methods the line before the first of them, otherwise `end_line`.
    """

    name: str
    kind: SymbolKind
    start_line: int
    end_line: int
    own_end: int
    signature: str = ""
    docstring: str = ""


@dataclass(frozen=True)
class SplitFile:
    """A decoded file and its symbols, in order of lines. `imports` are names as written."""

    lines: Lines
    symbols: tuple[CodeSymbol, ...]
    imports: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    parsed: bool = False

    def text(self, start_line: int, end_line: int) -> str:
        """Those lines, as they stand in the file."""
        return "\n".join(self.lines[start_line - 1 : end_line])


def decode_source(data: bytes) -> str | None:
    """The text of a file, or None where it is binary, too large or not worth indexing.

    UTF-8 first, then latin-1 (which cannot fail). Size in bytes: at most `MAX_FILE_BYTES`.
    """
    if len(data) > MAX_FILE_BYTES or b"\0" in data[:8192]:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_source(path: str, data: bytes) -> SplitFile | None:
    """Split the file at `path`; None where `decode_source` gives none. Never raises on any content."""
    text = decode_source(data)
    if text is None:
        return None
    lines = tuple(text.split("\n"))
    if lines and not lines[-1]:
        lines = lines[:-1]
    if path.endswith((".py", ".pyi", ".pyw")):
        module = parse_python(text)
        if module is not None:
            return _split_python(module, lines)
    other = languages.parse(path, text) if not _is_minified(lines) else None
    if other is not None and other[0]:
        return SplitFile(lines, _symbols(other[0], "", lines), other[1], parsed=True)
    return SplitFile(lines, tuple(_windows(lines, 1, len(lines), "window", "")))


def _split_python(module: ast.Module, lines: Lines) -> SplitFile:
    docstring = ast.get_docstring(module, clean=False) or ""
    nodes = list(_nodes(module))
    symbols = _symbols(tuple(_python_definitions(module.body)), docstring, lines)
    return SplitFile(lines, symbols, tuple(_imports(nodes)), tuple(_strings(nodes)), parsed=True)


def _is_minified(lines: Lines) -> bool:
    return any(len(line) > MAX_LINE_CHARS for line in lines)


def parse_python(text: str) -> ast.Module | None:
    """The syntax tree, or None where this Python cannot parse it. Warnings about the code are dropped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except _PARSE_ERRORS:
        return None


def _windows(lines: Lines, first: int, last: int, kind: SymbolKind, name: str) -> Iterator[CodeSymbol]:
    """Cut lines `first`..`last` into windows, skipping blank ones and minified lines."""
    for start in range(first, last + 1, WINDOW_LINES):
        end = min(start + WINDOW_LINES - 1, last)
        window = lines[start - 1 : end]
        if any(line.strip() for line in window) and max(map(len, window)) <= MAX_LINE_CHARS:
            yield CodeSymbol(name or f"lines {start}-{end}", kind, start, end, end)


def _symbols(definitions: Sequence[Definition], docstring: str, lines: Lines) -> tuple[CodeSymbol, ...]:
    found = list(_module_code(definitions, docstring, lines))
    for definition in definitions:
        found.extend(_definition_symbols(definition, lines, inner=False))
    return tuple(sorted(found, key=lambda symbol: (symbol.start_line, -symbol.end_line)))


def _module_code(definitions: Sequence[Definition], docstring: str, lines: Lines) -> Iterator[CodeSymbol]:
    """The lines between top-level definitions, in windows; the first is the module's head."""
    start = 1
    for definition in sorted(definitions, key=lambda one: one.start_line):
        yield from _module_windows(start, definition.start_line - 1, docstring, lines)
        start = max(start, definition.end_line + 1)
    yield from _module_windows(start, len(lines), docstring, lines)


def _module_windows(first: int, last: int, docstring: str, lines: Lines) -> Iterator[CodeSymbol]:
    for window in _windows(lines, first, last, "module", "<module>"):
        yield replace(window, docstring=docstring) if window.start_line == 1 else window


def _definition_symbols(one: Definition, lines: Lines, *, inner: bool) -> Iterator[CodeSymbol]:
    first_child = min((child.start_line for child in one.children), default=one.end_line + 1)
    own_end = max(one.head, first_child - 1)
    kind: SymbolKind = "class" if one.is_class else "method" if inner else "function"
    signature = "\n".join(lines[one.head - 1 : max(one.head, one.body_line - 1)])[:400].strip()
    yield CodeSymbol(one.name, kind, one.start_line, one.end_line, own_end, signature, one.docstring)
    for child in one.children:
        yield from _definition_symbols(child, lines, inner=True)


def _python_definitions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[Definition]:
    """Functions and classes of a block, also those under `if`, `try`, `with` and loops."""
    pending = list(body)[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, _PythonDefinition):
            yield _python_definition(node, prefix)
        elif isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While):
            pending.extend(reversed(_nested(node)))


def _python_definition(node: _PythonDefinition, prefix: str) -> Definition:
    name, is_class = f"{prefix}{node.name}", isinstance(node, ast.ClassDef)
    return Definition(
        name,
        is_class,
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
        node.lineno,
        node.end_lineno or node.lineno,
        node.body[0].lineno,
        ast.get_docstring(node, clean=False) or "",
        tuple(_python_definitions(node.body, f"{name}.")) if is_class else (),
    )


def _nested(node: ast.stmt) -> list[ast.stmt]:
    inner: list[ast.stmt] = []
    for block in ("body", "handlers", "orelse", "finalbody"):
        for child in getattr(node, block, []):
            inner.extend(child.body if isinstance(child, ast.ExceptHandler) else [child])
    return inner


def _nodes(module: ast.Module) -> Iterator[ast.Import | ast.ImportFrom | ast.Constant]:
    """Imports and constants anywhere in the module. (`ast.walk` visits every context and operator, too.)"""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Constant):
            yield node
            continue
        if isinstance(node, ast.Name):
            continue
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                pending.extend(child for child in value if isinstance(child, ast.AST))
            elif isinstance(value, ast.AST) and name not in ("ctx", "op"):
                pending.append(value)


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names a module imports, in order; relative ones keep their leading dots."""
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(imports, key=lambda one: one.lineno):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            joint = "" if base.endswith(".") or not base else "."
            yield from (f"{base}{joint}{alias.name}" for alias in node.names if alias.name != "*")


def _strings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """String literals, docstrings and tables of text left out by their length."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < MAX_STRING:
            yield node.value
