"""What SEARCH/REPLACE and JSON edits share: old lines against new lines, several to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeFile, TreeReader
from agentforge.repo.patch.cut_answer import refuse_placeholders
from agentforge.repo.patch.diff_apply import Overlay
from agentforge.repo.patch.edits import Hunk
from agentforge.repo.patch.filetext import split_lines
from agentforge.repo.patch.hunks import apply_hunks
from agentforge.repo.patch.line_ops import line_op
from agentforge.repo.patch.paths import refuse_links
from agentforge.repo.patch.refusal import combined
from agentforge.repo.patch.spans import with_shared_lines

# Turns one block into a hunk against the bytes of its file; may refuse.
HunkMaker = Callable[[bytes], Hunk]


def append_hunk(data: bytes, lines: Sequence[bytes], label: str) -> Hunk:
    """Lines to add at the end of a file."""
    return Hunk(tuple(line_op("+", line) for line in lines), index=len(split_lines(data)), label=label)


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
    hunks = with_shared_lines(hunks, data, path)
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
