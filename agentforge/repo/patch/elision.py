"""A `...` line in quoted text stands for lines the answer leaves out; each part must be unique."""

from __future__ import annotations

from dataclasses import replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.haystack import Haystack
from agentforge.repo.patch.locate import Place, locate

_DOTS = (b"...", "…".encode(), b"# ...", b"// ...")


def is_dots(op: Op) -> bool:
    return op.tag == " " and op.text.strip() in _DOTS


def has_elision(hunk: Hunk) -> bool:
    return any(is_dots(op) for op in hunk.ops)


def elided_parts(hunk: Hunk, hay: Haystack, path: str) -> list[tuple[Hunk, Place]]:
    """The parts between `...` lines, each located once and in order; PatchError otherwise."""
    parts: list[tuple[Hunk, Place]] = []
    floor = 0
    for ops in _segments(hunk):
        part = replace(hunk, ops=ops, index=None)
        place = locate(part, hay, path)
        if place.start < floor:
            what = f"the parts round `...` of {hunk.label} stand in another order in {path}"
            raise PatchError(RefusalReason.NO_MATCH, what, path=path)
        floor = place.start + len(part.old)
        parts.append((part, replace(place, looseness="`...` lines")))
    return parts


def _segments(hunk: Hunk) -> list[tuple[Op, ...]]:
    segments: list[list[Op]] = [[]]
    for op in hunk.ops:
        if is_dots(op):
            segments.append([])
        else:
            segments[-1].append(op)
    return [tuple(ops) for ops in segments if ops]
