"""Refusals: which reason stands for several, and what to quote back to a model."""

from __future__ import annotations

from collections.abc import Sequence

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.filetext import Line, display

_CONTEXT = 2  # lines shown round the closest run
_MOST_LINES = 40
_SOFT = (RefusalReason.NO_MATCH, RefusalReason.AMBIGUOUS, RefusalReason.ALREADY_APPLIED)
_ADVICE = {
    RefusalReason.NO_MATCH: "Quote the lines exactly as they stand in the file.",
    RefusalReason.ALREADY_APPLIED: "The file already reads this way; the fault is elsewhere.",
    RefusalReason.AMBIGUOUS: "Quote more surrounding lines, so that only one place fits.",
    RefusalReason.PATH_ESCAPE: "Name a path inside the repository, relative to its root.",
    RefusalReason.GIT_INTERNAL: "Git's own files cannot be edited.",
    RefusalReason.BINARY: "Only text files can be edited.",
    RefusalReason.TYPE_CHANGE: "Edit a regular file; links, folders and submodules are off limits.",
    RefusalReason.MALFORMED: "Answer again in the format that was asked for, and in full.",
    RefusalReason.TRUNCATED: "Answer again, in full.",
    RefusalReason.PARTIAL: "Nothing was applied: send the whole edit again, every part of it fitting.",
}


def combined(failures: Sequence[PatchError], others_fit: bool) -> PatchError:
    """One error for a whole answer: hard reasons as they are, soft ones `partial` when parts fit."""
    for failure in failures:
        if failure.reason not in _SOFT:
            return failure
    first = next((f for f in failures if f.reason is not RefusalReason.ALREADY_APPLIED), failures[0])
    if not others_fit:
        return first
    what = f"other parts fit, but {first.what}"
    return PatchError(RefusalReason.PARTIAL, what, path=first.path, closest=first.closest)


def precise_reason(error: PatchError) -> str:
    """What to quote back to a model so that it can mend its answer: reason, file, real lines, advice."""
    parts = [f"The answer was refused ({error.reason.value}): {error.what}."]
    if error.path and error.path not in error.what:
        parts.append(f"File: {error.path}")
    if error.closest:
        parts.append(f"The closest lines of the file are:\n{error.closest}")
    parts.append(_ADVICE[error.reason])
    return "\n".join(parts)


def closest_lines(lines: Sequence[Line], wanted: Sequence[bytes]) -> str:
    """The run of `lines` that shares most with `wanted`, numbered from 1; "" for an empty file."""
    if not lines:
        return ""
    start = _best_window(lines, [text.strip() for text in wanted])
    first = max(0, start - _CONTEXT)
    last = min(len(lines), start + min(len(wanted), _MOST_LINES) + _CONTEXT)
    return numbered(lines, first, last)


def numbered(lines: Sequence[Line], first: int, last: int) -> str:
    return "\n".join(f"{number + 1:>5} | {display(lines[number].text)}" for number in range(first, last))


def _best_window(lines: Sequence[Line], wanted: list[bytes]) -> int:
    """Each file line votes for the starts that would align it with an equal wanted line."""
    votes: dict[int, float] = {}
    offsets: dict[bytes, list[int]] = {}
    for offset, text in enumerate(wanted[:200]):
        if text:
            offsets.setdefault(text, []).append(offset)
    for number, line in enumerate(lines):
        for offset in offsets.get(line.text.strip(), ())[:20]:
            start = max(0, number - offset)
            votes[start] = votes.get(start, 0) + len(line.text.strip())
    if votes:
        return max(votes, key=lambda start: (votes[start], -start))
    return _most_similar(lines, next(iter(offsets), b""))


def _most_similar(lines: Sequence[Line], text: bytes) -> int:
    words = set(text.split())
    scores = [len(words & set(line.text.split())) for line in lines]
    return scores.index(max(scores))
