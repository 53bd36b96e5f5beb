"""Split a source file into symbols with exact lines: Python by `ast`, any other text into windows."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

SymbolKind = Literal["module", "class", "function", "method", "window"]

MAX_FILE_BYTES = 1_000_000
WINDOW_LINES = 60
MAX_LINE_CHARS = 2_000
_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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
    """A decoded file and its symbols, in order of lines. `imports` are dotted names as written."""

    lines: tuple[str, ...]
    symbols: tuple[CodeSymbol, ...]
    imports: tuple[str, ...] = ()
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
            symbols = tuple(_python_symbols(module, lines))
            return SplitFile(lines, symbols, tuple(_imports(module)), parsed=True)
    return SplitFile(lines, tuple(_windows(lines, 1, len(lines), "window", "")))


def parse_python(text: str) -> ast.Module | None:
    """The syntax tree, or None where this Python cannot parse it. Warnings about the code are dropped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except _PARSE_ERRORS:
        return None


def _windows(
    lines: tuple[str, ...], first: int, last: int, kind: SymbolKind, name: str
) -> Iterator[CodeSymbol]:
    """Cut lines `first`..`last` into windows, skipping blank ones and minified lines."""
    for start in range(first, last + 1, WINDOW_LINES):
        end = min(start + WINDOW_LINES - 1, last)
        window = lines[start - 1 : end]
        if any(line.strip() for line in window) and max(map(len, window)) <= MAX_LINE_CHARS:
            yield CodeSymbol(name or f"lines {start}-{end}", kind, start, end, end)


def _python_symbols(module: ast.Module, lines: tuple[str, ...]) -> Iterator[CodeSymbol]:
    definitions = list(_definitions(module.body))
    found = list(_module_code(module, definitions, lines))
    for node in definitions:
        found.extend(_definition_symbols(node, "", lines))
    yield from sorted(found, key=lambda symbol: (symbol.start_line, -symbol.end_line))


def _definitions(body: Iterable[ast.stmt]) -> Iterator[_Definition]:
    """Functions and classes of a block, also those under `if`, `try`, `with` and loops."""
    pending = list(body)[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, _Definition):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While):
            pending.extend(reversed(_nested(node)))


def _nested(node: ast.stmt) -> list[ast.stmt]:
    inner: list[ast.stmt] = []
    for block in ("body", "handlers", "orelse", "finalbody"):
        for child in getattr(node, block, []):
            inner.extend(child.body if isinstance(child, ast.ExceptHandler) else [child])
    return inner


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _module_code(
    module: ast.Module, definitions: list[_Definition], lines: tuple[str, ...]
) -> Iterator[CodeSymbol]:
    """The lines between top-level definitions, in windows; the first is the module's head."""
    docstring = ast.get_docstring(module, clean=False) or ""
    start = 1
    for node in [*sorted(definitions, key=_first_line), None]:
        end = _first_line(node) - 1 if node else len(lines)
        for window in _windows(lines, start, end, "module", "<module>"):
            yield window if window.start_line > 1 else _with_docstring(window, docstring)
        start = max(start, _last_line(node) + 1 if node else start)


def _with_docstring(symbol: CodeSymbol, docstring: str) -> CodeSymbol:
    return CodeSymbol(
        symbol.name, symbol.kind, symbol.start_line, symbol.end_line, symbol.own_end, docstring=docstring
    )


def _definition_symbols(node: _Definition, prefix: str, lines: tuple[str, ...]) -> Iterator[CodeSymbol]:
    name = f"{prefix}{node.name}"
    start, end = _first_line(node), _last_line(node)
    inner = list(_definitions(node.body)) if isinstance(node, ast.ClassDef) else []
    own_end = max(node.lineno, min((_first_line(child) for child in inner), default=end + 1) - 1)
    kind: SymbolKind = "class" if isinstance(node, ast.ClassDef) else "method" if prefix else "function"
    signature = "\n".join(lines[node.lineno - 1 : max(node.lineno, node.body[0].lineno - 1)])[:400].strip()
    yield CodeSymbol(name, kind, start, end, own_end, signature, ast.get_docstring(node, clean=False) or "")
    for child in inner:
        yield from _definition_symbols(child, f"{name}.", lines)


def _imports(module: ast.Module) -> Iterator[str]:
    """Dotted names this module imports; relative ones keep their leading dots."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            joint = "" if base.endswith(".") or not base else "."
            yield from (f"{base}{joint}{alias.name}" for alias in node.names if alias.name != "*")
