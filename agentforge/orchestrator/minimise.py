"""The smallest part of a verified patch that the gate still accepts: blocks are taken out one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from agentforge.core.tree import Changes, Tree, TreeFile

MAX_TRIALS = 6
"""Executions that minimising may cost."""


def smaller(base: Tree, changes: Changes) -> Iterator[dict[str, TreeFile | None]]:
    """`changes` without one of its blocks, the last ones first; nothing for a patch of one block."""
    blocks = [(path, block) for path in sorted(changes) for block in range(block_count(base, changes, path))]
    if len(blocks) > 1:
        for path, block in reversed(blocks):
            yield without_block(base, changes, path, block)


def block_count(base: Tree, changes: Changes, path: str) -> int:
    """How many separate blocks of lines a file's change has; 1 for a new, deleted or linked file."""
    lines = _lines(base, changes, path)
    return 1 if lines is None else sum(tag != "equal" for tag, *_ in _opcodes(*lines))


def without_block(base: Tree, changes: Changes, path: str, block: int) -> dict[str, TreeFile | None]:
    """`changes` with one block of `path` as it was."""
    left = dict(changes)
    lines = _lines(base, changes, path)
    entry = changes[path]
    if lines is None or entry is None:
        del left[path]
        return left
    before, after = lines
    made: list[bytes] = []
    number = -1
    for tag, one, end, other, last in _opcodes(before, after):
        number += tag != "equal"
        made += before[one:end] if tag != "equal" and number == block else after[other:last]
    data = b"".join(made)
    if data == base.read(path).data and entry.mode == base.read(path).mode:
        del left[path]
    else:
        left[path] = TreeFile(data, entry.mode)
    return left


def _lines(
    base: Tree, changes: Mapping[str, TreeFile | None], path: str
) -> tuple[list[bytes], list[bytes]] | None:
    entry = changes[path]
    if entry is None or entry.mode == "120000" or base.kind(path) != "file":
        return None
    return base.read(path).data.splitlines(keepends=True), entry.data.splitlines(keepends=True)


def _opcodes(before: list[bytes], after: list[bytes]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
