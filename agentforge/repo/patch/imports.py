"""New imports of an answer join the import block; known ones are not doubled (rule 11)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.outline import analysis_text, parse_module, source_lines

Import = ast.Import | ast.ImportFrom
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class NewImport:
    """One import statement of an answer: its own lines, and its syntax."""

    node: Import
    lines: tuple[bytes, ...]


def import_hunks(data: bytes, wanted: Sequence[NewImport], gap: int, label: str) -> list[Hunk]:
    """Insertions that add what `data` does not import yet.

    `gap` is how many blank lines the answer leaves between its imports and its code; it is used
    where the file has no import to join.
    """
    module = parse_module(analysis_text(data))
    body = module.body if isinstance(module, ast.Module) else _loose_imports(data)
    known = {key for node in _imports(body) for key in _keys(node)}
    future: list[bytes] = []
    plain: list[bytes] = []
    for entry in wanted:
        lines = _missing(entry, known)
        known |= set(_keys(entry.node))
        (future if _is_future(entry.node) else plain).extend(lines)
    hunks = []
    if future:
        hunks.append(_insertion(data, body, future, gap, label, future=True))
    if plain:
        hunks.append(_insertion(data, body, plain, gap, label, future=False))
    return _joined(hunks)


def _joined(hunks: list[Hunk]) -> list[Hunk]:
    """Two insertions at one place are one."""
    if len(hunks) == 2 and hunks[0].index == hunks[1].index:
        first, second = hunks
        while first.ops and not first.ops[-1].text:
            first = Hunk(first.ops[:-1], first.index, label=first.label)
        return [Hunk(first.ops + second.ops, first.index, label=first.label)]
    return hunks


def _imports(body: Sequence[ast.stmt]) -> Iterator[Import]:
    for node in body:
        if isinstance(node, Import):
            yield node
        elif isinstance(node, ast.Try):
            yield from _imports(node.body)


def _loose_imports(data: bytes) -> list[ast.stmt]:
    """The one-line imports at the margin of a source that does not parse, with their line numbers."""
    found: list[ast.stmt] = []
    for number, line in enumerate(source_lines(data)):
        if line.startswith((b"import ", b"from ")):
            module = parse_module(analysis_text(line))
            if isinstance(module, ast.Module):
                found += [ast.increment_lineno(node, number) for node in module.body]
        elif line.startswith((b"def ", b"class ", b"async def ")):
            break
    return found


def _keys(node: Import) -> list[_Key]:
    if isinstance(node, ast.Import):
        return [("", alias.name, alias.asname or "") for alias in node.names]
    origin = "." * node.level + (node.module or "")
    return [(origin, alias.name, alias.asname or "") for alias in node.names]


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _missing(entry: NewImport, known: set[_Key]) -> list[bytes]:
    """The statement as written when all of it is new, rebuilt with the new names otherwise."""
    keys = _keys(entry.node)
    fresh = [alias for alias, key in zip(entry.node.names, keys, strict=True) if key not in known]
    if len(fresh) == len(keys):
        return list(entry.lines)
    if not fresh:
        return []
    rebuilt = type(entry.node)(**{**vars(entry.node), "names": fresh})
    return [ast.unparse(rebuilt).encode()]


def _insertion(
    data: bytes, body: Sequence[ast.stmt], lines: list[bytes], gap: int, label: str, *, future: bool
) -> Hunk:
    block = _import_block(body)
    futures = [node for node in block if _is_future(node)]
    text = source_lines(data)
    if future and futures:
        index, extra = futures[-1].end_lineno or 0, lines
    elif future and block:
        index, extra = block[0].lineno - 1, lines
    elif block:
        index, extra = block[-1].end_lineno or 0, lines
    else:
        index, extra = _after_header(text, body, lines, gap)
    return Hunk(tuple(Op("+", line) for line in extra), index, label=f"the imports of {label}")


def _import_block(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Top-level imports, guarded ones too, before the first function or class."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if isinstance(node, Import) or (isinstance(node, ast.Try) and any(_imports(node.body))):
            found.append(node)
    return found


def _after_header(
    text: list[bytes], body: Sequence[ast.stmt], lines: list[bytes], gap: int
) -> tuple[int, list[bytes]]:
    """Behind the docstring, or behind the comments at the top, of a file without imports."""
    if body and is_docstring(body[0]):
        end = body[0].end_lineno or 0
        follows_blank = end < len(text) and not text[end].strip()
        return end, [b"", *lines] if follows_blank or end >= len(text) else [b"", *lines, b""]
    index = 0
    while index < len(text) and text[index].startswith(b"#"):
        index += 1
    if 0 < index < len(text) and text[index].strip():
        index = sum(line.startswith(b"#!") or b"coding" in line for line in text[:2] if line.startswith(b"#"))
    blank = 0
    while index + blank < len(text) and not text[index + blank].strip():
        blank += 1
    before = [b""] if index and text[index - 1].strip() else []
    return index, [*before, *lines, *[b""] * max(0, gap - blank)]


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a bare string."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
