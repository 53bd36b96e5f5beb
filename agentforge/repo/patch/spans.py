"""Edits that begin and end inside a line, as hunks of the lines they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Span
from agentforge.repo.patch.line_ops import line_ops


def span_hunk(data: bytes, span: Span, label: str, group: int = 0) -> Hunk:
    """The replacement of the bytes of `span` as a hunk of whole lines."""
    start, end, new = span.start, span.end, span.text
    first = data.rfind(b"\n", 0, start) + 1
    if data[start:end].endswith(b"\n") and new and not new.endswith(b"\n"):
        end -= 2 if data[:end].endswith(b"\r\n") else 1
        span = Span(start, end, new)
    stop = data.find(b"\n", end)
    stop = len(data) if stop < 0 else stop
    before = data[first:stop].split(b"\n")
    after = (data[first:start] + new + data[end:stop]).split(b"\n")
    if not new and len(after) == 1 and not after[0].strip():
        after = []
    index = data.count(b"\n", 0, first)
    if stop == len(data):
        hunk = _at_end(before, after, index, label)
    else:
        hunk = Hunk(line_ops(before, after), index, label=label, encoded=True)
    return replace(hunk, span=span, group=group)


def _at_end(before: list[bytes], after: list[bytes], index: int, label: str) -> Hunk:
    old_bare, new_bare = bool(before[-1]), bool(after) and bool(after[-1])
    before = before if old_bare else before[:-1]
    after = after if new_bare or not after else after[:-1]
    return Hunk(
        line_ops(before, after), index, old_bare and not new_bare, new_bare, label=label, encoded=True
    )


def with_shared_lines(hunks: Sequence[Hunk], data: bytes, path: str) -> list[Hunk]:
    """`hunks` with those joined whose spans share a line without sharing text.

    A later edit of the same text wins. PatchError partial where two spans overlap otherwise.
    """
    spans: list[Hunk] = []
    for hunk in sorted((h for h in hunks if h.span is not None), key=lambda h: h.group):
        spans = [*_not_covered(spans, hunk, path), hunk]
    spans.sort(key=_start)
    joined: list[Hunk] = []
    for hunk in spans:
        if joined and _line(data, _end(joined[-1])) == _line(data, _start(hunk)):
            joined[-1] = _join(joined[-1], hunk, data)
        else:
            joined.append(hunk)
    return [*(hunk for hunk in hunks if hunk.span is None), *joined]


def _not_covered(earlier: Sequence[Hunk], hunk: Hunk, path: str) -> list[Hunk]:
    kept: list[Hunk] = []
    for other in earlier:
        if _end(other) <= _start(hunk) or _end(hunk) <= _start(other):
            kept.append(other)
        elif not (_start(hunk) <= _start(other) and _end(other) <= _end(hunk)):
            what = f"{other.label} and {hunk.label} change text of {path} that overlaps"
            raise PatchError(RefusalReason.PARTIAL, what, path=path)
    return kept


def _join(first: Hunk, second: Hunk, data: bytes) -> Hunk:
    assert first.span is not None
    assert second.span is not None
    between = data[first.span.end : second.span.start]
    text = first.span.text + between + second.span.text
    label = f"{first.label} with {second.label}"
    return span_hunk(data, Span(first.span.start, second.span.end, text), label, second.group)


def _start(hunk: Hunk) -> int:
    return hunk.span.start if hunk.span else 0


def _end(hunk: Hunk) -> int:
    return hunk.span.end if hunk.span else 0


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position)
