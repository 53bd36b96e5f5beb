"""The changed lines of a patch, in runs that lie in one unit each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.units import units_of_lines

_HEADER = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class ChangedLine(NamedTuple):
    """A line of the patch: added (`new` > 0) or removed (`old` > 0), numbers from 1."""

    path: str
    hunk: int
    """Number of the hunk in its file, from 1."""
    old: int
    new: int
    text: bytes
    at: int
    """Its place among the lines of the diff, from 0."""


class ChangedRun(NamedTuple):
    """Neighbouring changed lines of one unit. `unit` is where the new lines stand, or the old ones did."""

    path: str
    hunk: int
    unit: str
    lines: tuple[ChangedLine, ...]


def changed_lines(diff: bytes) -> Iterator[ChangedLine]:
    """Every added and removed line of a canonical git diff; nothing of binary files."""
    path, hunk, old, new = "", 0, 0, 0
    left_old = left_new = 0
    for at, line in enumerate(diff.split(b"\n")):
        if left_old > 0 or left_new > 0:
            mark = line[:1]
            if mark == b"\\":
                continue
            if mark == b"-":
                yield ChangedLine(path, hunk, old, 0, line[1:], at)
            elif mark == b"+":
                yield ChangedLine(path, hunk, 0, new, line[1:], at)
            old, left_old = (old + 1, left_old - 1) if mark != b"+" else (old, left_old)
            new, left_new = (new + 1, left_new - 1) if mark != b"-" else (new, left_new)
        elif header := _HEADER.match(line):
            hunk += 1
            old, new = int(header[1]), int(header[3])
            left_old = int(header[2]) if header[2] is not None else 1
            left_new = int(header[4]) if header[4] is not None else 1
        elif line.startswith((b"--- ", b"+++ ")):
            name = _path(line)
            if name:
                path, hunk = name, 0


def changed_runs(diff: bytes, base: Tree, patched: Tree) -> tuple[ChangedRun, ...]:
    """The changed lines of `diff`, which turns `base` into `patched`, in runs of one unit."""
    runs: list[ChangedRun] = []
    lines = list(changed_lines(diff))
    for line, unit in zip(lines, _units(lines, base, patched), strict=True):
        last = runs[-1] if runs else None
        if last and (last.path, last.unit) == (line.path, unit) and _adjoin(last.lines[-1], line):
            runs[-1] = last._replace(lines=(*last.lines, line))
        else:
            runs.append(ChangedRun(line.path, line.hunk, unit, (line,)))
    return tuple(runs)


def _adjoin(one: ChangedLine, other: ChangedLine) -> bool:
    return one.path == other.path and one.at + 1 == other.at


def _units(lines: Sequence[ChangedLine], base: Tree, patched: Tree) -> list[str]:
    """The unit of each line; a blank one goes with the code that was changed right behind it."""
    units = [_unit(line, base, patched) for line in lines]
    for number in range(len(lines) - 2, -1, -1):
        if not lines[number].text.strip() and _adjoin(lines[number], lines[number + 1]):
            units[number] = units[number + 1]
    return units


def _unit(line: ChangedLine, base: Tree, patched: Tree) -> str:
    tree, number = (patched, line.new) if line.new else (base, line.old)
    if tree.kind(line.path) != "file":
        return line.path
    units = units_of_lines(line.path, tree.read(line.path).data)
    return units[number - 1] if number <= len(units) else line.path


def _path(line: bytes) -> str:
    """The path of a file header; "" for /dev/null."""
    name = line[4:].rstrip(b"\t\r")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _unquoted(name[1:-1])
    return "" if name == b"/dev/null" else name[2:].decode("utf-8", "surrogateescape")


_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unquoted(name: bytes) -> bytes:
    """A path as git quotes it, with C escapes and octal bytes."""

    def one(found: re.Match[bytes]) -> bytes:
        text = found[1]
        return bytes([int(text, 8)]) if len(text) == 3 else _LETTERS.get(text, text)

    return _ESCAPE.sub(one, name)
