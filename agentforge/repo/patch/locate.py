"""Where a hunk's old lines stand in the original file: exactly first, loosely only where unique.

Rules 3 to 5 of docs/patch-engine.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import Line
from agentforge.repo.patch.haystack import Haystack, canonical
from agentforge.repo.patch.indent import Reindent, indent_shift, tab_style, unchanged
from agentforge.repo.patch.refusal import closest_lines, numbered

_MOST_LOOSE = 1000  # places compared loosely; text that common is ambiguous


@dataclass(frozen=True, slots=True)
class Place:
    """`start` is the 0-based line of the first old line; `verbatim`: added lines keep their own CR."""

    start: int
    verbatim: bool = True
    reindent: Reindent = field(default=unchanged)
    looseness: str = ""
    phantoms: int = 0  # blank old lines that are not there, dropped from the end


@dataclass(frozen=True, slots=True)
class _Rung:
    name: str
    matches: Callable[[Sequence[Line], Sequence[Op], int], Reindent | None]
    exact: bool = False
    verbatim: bool = False


def locate(hunk: Hunk, hay: Haystack, path: str, drift: int | None = None) -> Place:
    """The place of `hunk` in a file; PatchError no_match or ambiguous.

    `drift` is how far below its stated line the hunk before this one was found.
    """
    old = hunk.old
    if not old:
        return _insertion(hunk, hay.lines, path)
    for phantoms in range(_phantom_limit(old) + 1):
        wanted = old[: len(old) - phantoms]
        place = _climb(hunk, wanted, hay, path, drift, phantoms)
        if place is not None:
            return place
    what = f"the lines that {hunk.label} quotes are not in {path}"
    raise PatchError(
        RefusalReason.NO_MATCH, what, path=path, closest=closest_lines(hay.lines, [op.text for op in old])
    )


def _climb(
    hunk: Hunk, wanted: Sequence[Op], hay: Haystack, path: str, drift: int | None, phantoms: int
) -> Place | None:
    if not phantoms and _stands_as_stated(hunk, wanted, hay.lines):
        return Place(hunk.index or 0, _shows_ending(hunk, hay.lines, hunk.index or 0, wanted))
    candidates = hay.candidates([op.text for op in wanted])
    if phantoms > hunk.doubtful or hunk.ends_file:
        candidates = [start for start in candidates if start + len(wanted) == len(hay.lines)]
    for rung in _rungs(hay, wanted):
        starts = _starts(rung, hay.lines, wanted, candidates)
        if not starts:
            continue
        loose = not rung.exact or phantoms > 0
        start = _pick(hunk, sorted(starts), hay.lines, path, drift, loose)
        name = "blank lines at its end" if phantoms and rung.exact else rung.name
        verbatim = rung.verbatim and _shows_ending(hunk, hay.lines, start, wanted)
        return Place(start, verbatim, starts[start], "" if not loose else name, phantoms)
    return None


def _shows_ending(hunk: Hunk, lines: Sequence[Line], start: int, wanted: Sequence[Op]) -> bool:
    """Whether the place has a line ending that agrees with the answer's, or marks speak of endings."""
    return hunk.ends_file or any(line.eol for line in lines[start : start + len(wanted)])


def _stands_as_stated(hunk: Hunk, wanted: Sequence[Op], lines: Sequence[Line]) -> bool:
    """Whether the very text is at the stated line: then no other place need be looked at."""
    if hunk.index is None or hunk.index + len(wanted) > len(lines):
        return False
    if hunk.ends_file and hunk.index + len(wanted) < len(lines):
        return False
    return _verbatim(lines, wanted, hunk.index) is not None


def _pick(
    hunk: Hunk, starts: list[int], lines: Sequence[Line], path: str, drift: int | None, loose: bool
) -> int:
    if len(starts) == 1:
        return starts[0]
    if hunk.index is not None and not loose:
        if hunk.index in starts:
            return hunk.index
        if drift is not None and hunk.index + drift in starts:
            return hunk.index + drift
        stated = hunk.index
        near = sorted(starts, key=lambda start: abs(start - stated))
        if abs(near[0] - stated) < abs(near[1] - stated):
            return near[0]
    shown = "\n".join(numbered(lines, start, min(len(lines), start + 3)) for start in starts[:4])
    count = f"{len(starts)} places"
    what = f"the lines that {hunk.label} quotes fit {count} in {path}"
    raise PatchError(RefusalReason.AMBIGUOUS, what, path=path, closest=shown)


def _insertion(hunk: Hunk, lines: Sequence[Line], path: str) -> Place:
    """A hunk without old lines goes by its number alone."""
    if not lines:
        return Place(0)
    if hunk.index is None:
        what = f"{hunk.label} adds lines but quotes none and gives no line number"
        raise PatchError(RefusalReason.AMBIGUOUS, what, path=path)
    if hunk.ends_file and hunk.index < len(lines):
        what = f"{hunk.label} is said to end {path}, which goes on"
        raise PatchError(RefusalReason.NO_MATCH, what, path=path)
    if hunk.index > len(lines):
        what = f"{hunk.label} starts after the end of {path} ({len(lines)} lines)"
        raise PatchError(RefusalReason.NO_MATCH, what, path=path)
    return Place(hunk.index, verbatim=False)


def _phantom_limit(old: Sequence[Op]) -> int:
    """How many trailing old lines are blank context; some line that says something must stay."""
    count = 0
    for op in reversed(old):
        if op.tag != " " or op.text.strip():
            break
        count += 1
    return count if any(op.text.strip() for op in old) else 0


def _starts(
    rung: _Rung, lines: Sequence[Line], wanted: Sequence[Op], candidates: Sequence[int]
) -> dict[int, Reindent]:
    if not rung.exact and len(candidates) > _MOST_LOOSE:
        return dict.fromkeys(candidates[:2], unchanged)
    found: dict[int, Reindent] = {}
    for start in candidates:
        reindent = rung.matches(lines, wanted, start)
        if reindent is not None:
            found[start] = reindent
    return found


# --- the rungs ----------------------------------------------------------------------------------------


def _rungs(hay: Haystack, wanted: Sequence[Op]) -> list[_Rung]:
    """Exact, then line endings (as good as exact in a file that has one kind), then looser."""
    uniform = hay.uniform and len({op.crlf for op in wanted}) == 1
    return [
        _Rung("exact", _verbatim, exact=True, verbatim=True),
        _Rung("line endings", _same_text, exact=uniform),
        _Rung("trailing blanks", _trailing_blanks),
        _Rung("uniform indent shift", _shifted),
        _Rung("tabs for spaces", _tabbed),
        _Rung("invisible characters", _unicode_context),
    ]


def _verbatim(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    for offset, op in enumerate(wanted):
        line = lines[start + offset]
        if line.text != op.text or (line.eol and (line.eol == b"\r\n") != op.crlf):
            return None
    return unchanged


def _same_text(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    same = all(lines[start + offset].text == op.text for offset, op in enumerate(wanted))
    return unchanged if same else None


def _trailing_blanks(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    """Context may differ freely; removed lines only where the answer (or the file) lost them throughout."""
    answer_lost = file_lost = True
    for offset, op in enumerate(wanted):
        text, bare = lines[start + offset].text, op.text.rstrip(b" \t\r")
        if text.rstrip(b" \t\r") != bare:
            return None
        if op.tag == "-":
            answer_lost = answer_lost and op.text in (bare, text)
            file_lost = file_lost and text in (bare, op.text)
    return unchanged if answer_lost or file_lost else None


def _shifted(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    pairs = [(op.text, lines[start + offset].text) for offset, op in enumerate(wanted)]
    return indent_shift(pairs)


def _tabbed(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    pairs = [(op.text, lines[start + offset].text) for offset, op in enumerate(wanted)]
    return tab_style(pairs)


def _unicode_context(lines: Sequence[Line], wanted: Sequence[Op], start: int) -> Reindent | None:
    for offset, op in enumerate(wanted):
        text = lines[start + offset].text
        if op.tag == "-":
            if text != op.text:
                return None
        elif text != op.text and canonical(text) != canonical(op.text):
            return None
    return unchanged
