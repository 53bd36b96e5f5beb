"""What SEARCH/REPLACE and JSON edits share: old lines against new lines, several to a file."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeFile, TreeReader
from agentforge.repo.patch.cut_answer import refuse_placeholders
from agentforge.repo.patch.diff_apply import Overlay
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import split_lines
from agentforge.repo.patch.hunks import apply_hunks
from agentforge.repo.patch.paths import refuse_links
from agentforge.repo.patch.refusal import combined

# Turns one block into a hunk against the bytes of its file; may refuse.
HunkMaker = Callable[[bytes], Hunk]
_MOST_PAIRS = 200_000  # equal line pairs; beyond, only the equal head and tail count as context


def line_ops(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Op, ...]:
    """Old and new lines as one run of context, removed and added lines. Lines may end in CR."""
    ops: list[Op] = []
    for tag, i, j, k, m in _opcodes(old, new):
        if tag == "equal":
            ops += [_op(" ", line) for line in old[i:j]]
            continue
        ops += [_op("-", line) for line in old[i:j]]
        ops += [_op("+", line) for line in new[k:m]]
    return tuple(ops)


def _op(tag: str, line: bytes) -> Op:
    crlf = line.endswith(b"\r")
    text = line[:-1] if crlf else line
    return Op(" " if tag == " " else "-" if tag == "-" else "+", text, crlf)


def _opcodes(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[str, int, int, int, int]]:
    have, want = Counter(old), Counter(new)
    if sum(count * want[line] for line, count in have.items()) <= _MOST_PAIRS:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return [(tag, i, j, k, m) for tag, i, j, k, m in matcher.get_opcodes()]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = len(old) - tail, len(new) - tail
    return [("equal", 0, head, 0, head), ("replace", head, a, head, b), ("equal", a, len(old), b, len(new))]


def append_hunk(data: bytes, lines: Sequence[bytes], label: str) -> Hunk:
    """Lines to add at the end of a file."""
    return Hunk(tuple(_op("+", line) for line in lines), index=len(split_lines(data)), label=label)


def apply_blocks(
    makers: Mapping[str, Sequence[HunkMaker]], created: Mapping[str, bytes], tree: TreeReader
) -> Overlay:
    """Every block of every file, or PatchError. `created` are files that blocks with nothing to find make."""
    overlay = Overlay(tree)
    for path in (*makers, *created):
        refuse_links(path, tree)
    failures: list[PatchError] = []
    for path, data in created.items():
        overlay.changes[path] = TreeFile(data)
    for path, wanted in makers.items():
        try:
            entry = overlay.text(path)
            data, notes = _apply_file(entry.data, wanted, path)
            overlay.changes[path] = TreeFile(data, entry.mode)
            overlay.notes += notes
        except PatchError as error:
            failures.append(error)
    if failures:
        raise combined(failures, others_fit=len(failures) < len(makers) + len(created))
    return overlay


def _apply_file(data: bytes, makers: Sequence[HunkMaker], path: str) -> tuple[bytes, list[str]]:
    """All blocks against the original; where that fails, one after the other, as if typed in turn."""
    try:
        return _at_once(data, makers, path)
    except PatchError as error:
        if len(makers) < 2 or error.reason not in (RefusalReason.NO_MATCH, RefusalReason.PARTIAL):
            raise
        try:
            return _in_turn(data, makers, path)
        except PatchError:
            raise error from None


def _at_once(data: bytes, makers: Sequence[HunkMaker], path: str) -> tuple[bytes, list[str]]:
    hunks: list[Hunk] = []
    failures: list[PatchError] = []
    for group, make in enumerate(makers):
        try:
            hunks.append(replace(make(data), group=group))
        except PatchError as error:
            failures.append(error)
    if failures:
        raise combined(failures, others_fit=_any_fits(data, hunks, path))
    refuse_placeholders(hunks, data, path)
    return apply_hunks(data, hunks, path)


def _any_fits(data: bytes, hunks: Sequence[Hunk], path: str) -> bool:
    try:
        apply_hunks(data, hunks, path)
    except PatchError as error:
        return error.reason is RefusalReason.PARTIAL
    return any(not hunk.changes_nothing for hunk in hunks)


def _in_turn(data: bytes, makers: Sequence[HunkMaker], path: str) -> tuple[bytes, list[str]]:
    notes = [f"{path}: the edits build on one another and were applied in turn"]
    for make in makers:
        hunk = make(data)
        refuse_placeholders([hunk], data, path)
        data, said = apply_hunks(data, [hunk], path)
        notes += said
    return data, notes
