"""Units of code: every line of a file belongs to exactly one.

A unit is "path::name" for a function, a method or what a class holds besides its methods, and "path"
for the lines of a module outside of them, and for any file that is not Python. Functions inside
functions belong to the outer one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import lru_cache

from agentforge.core.tree import Tree
from agentforge.repo.patch.outline import Definition, comments_start, outline, source_lines

Lines = tuple[str, ...]
"""The unit of each line of a file, from line 1."""


def units_of_lines(path: str, data: bytes) -> Lines:
    """The unit of each line of `data`, the content of `path`."""
    if not path.endswith((".py", ".pyi")):
        return (path,) * _count(data)
    return _python_units(path, data)


def unit_at(path: str, data: bytes, line: int) -> str | None:
    """The unit of a line (from 1); None where the file has no such line."""
    lines = units_of_lines(path, data)
    return lines[line - 1] if 0 < line <= len(lines) else None


def unit_code(path: str, data: bytes) -> dict[str, bytes]:
    """The bytes of each unit of a file, its pieces joined in order.

    Blank lines around a piece are no code of anybody's: an edit next to it may move them.
    """
    pieces: dict[str, list[bytes]] = {}
    rows = zip(units_of_lines(path, data), _split(data), strict=True)
    for unit, group in itertools.groupby(rows, key=lambda row: row[0]):
        piece = _without_blank_ends([line for _, line in group])
        if piece:
            pieces.setdefault(unit, []).append(piece)
    return {unit: b"\n".join(parts) for unit, parts in pieces.items()}


def _without_blank_ends(lines: list[bytes]) -> bytes:
    full = [number for number, line in enumerate(lines) if line.strip()]
    return b"".join(lines[full[0] : full[-1] + 1]).rstrip(b"\r\n") if full else b""


def units_in(tree: Tree, paths: Iterable[str]) -> dict[str, bytes]:
    """Units and their bytes of those `paths` that are files of `tree`."""
    found: dict[str, bytes] = {}
    for path in sorted(set(paths)):
        if tree.kind(path) == "file":
            found |= unit_code(path, tree.read(path).data)
    return found


def path_of(unit: str) -> str:
    return unit.split("::", 1)[0]


def changed_units(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Units that are new, gone or different."""
    every = sorted(before.keys() | after.keys())
    return tuple(unit for unit in every if before.get(unit) != after.get(unit))


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    kept = [line + b"\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def _count(data: bytes) -> int:
    return len(_split(data))


@lru_cache(maxsize=256)
def _python_units(path: str, data: bytes) -> Lines:
    rows = _split(data)
    units = [path] * len(rows)
    lines = source_lines(data)
    for item in _outermost(outline(data)):
        for number in range(max(0, comments_start(lines, item)), min(item.end, len(units))):
            units[number] = f"{path}::{'.'.join(item.qualified)}"
    for number in range(1, len(rows)):
        if not rows[number].strip():
            units[number] = units[number - 1]
    return tuple(units)


def _outermost(found: list[Definition]) -> Iterable[Definition]:
    """Classes and methods, outer ones first; nothing that lies inside a function."""
    functions = {item.qualified for item in found if item.kind == "function"}
    for item in found:
        inside = any(item.parents[:size] in functions for size in range(1, len(item.parents) + 1))
        if not inside:
            yield item
