"""A run of file lines replaced by new text: the hunk that keeps every line it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import Line, common_eol, transcode
from agentforge.repo.patch.line_ops import line_ops


def rewrite_hunk(lines: Sequence[Line], start: int, end: int, new: Sequence[bytes], label: str) -> Hunk:
    """Lines [start, end) of a file become `new`, whose terminators are those of the place."""
    ops = line_ops([line.text for line in lines[start:end]], new)
    dominant = common_eol(list(lines)) == b"\r\n"
    return Hunk(tuple(_with_endings(ops, lines, start, dominant)), start, label=label, encoded=True)


def _with_endings(ops: Sequence[Op], lines: Sequence[Line], start: int, dominant: bool) -> list[Op]:
    dressed: list[Op] = []
    position, crlf = start, dominant
    if start < len(lines) and lines[start].eol:
        crlf = lines[start].eol == b"\r\n"
    for op in ops:
        if op.tag != "+":
            crlf = lines[position].eol == b"\r\n" if lines[position].eol else crlf
            position += 1
        dressed.append(replace(op, crlf=crlf))
    return dressed


def transcoded(new: Sequence[bytes], encoding: str | None, path: str, label: str) -> list[bytes]:
    """`new` in the encoding the file declares; PatchError malformed where it cannot hold it."""
    result = []
    for text in new:
        converted = transcode(text, encoding)
        if converted is None:
            what = f"{label} adds text that {path} cannot hold: it declares {encoding}"
            raise PatchError(RefusalReason.MALFORMED, what, path=path)
        result.append(converted)
    return result
