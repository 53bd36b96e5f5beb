"""Where a hunk's old lines stand in the original file: exactly first, loosely only where unique.

Rules 3 to 5 of docs/patch-engine.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.filetext import Line, uniform_eol
from agentforge.repo.patch.indent import Reindent, indent_shift, tab_style, unchanged
from agentforge.repo.patch.refusal import closest_lines, numbered

Key = Callable[[bytes], bytes]
_INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")


@dataclass(frozen=True, slots=True)
class Place:
    """`start` is the 0-based line of the first old line; `verbatim`: added lines keep their own CR."""

    start: int
    verbatim: bool = True
    reindent: Reindent = field(default=unchanged)
    looseness: str = ""
    phantoms: int = 0  # blank old lines past the end of the file, dropped from the end


@dataclass(frozen=True, slots=True)
class _Rung:
    name: str
    matches: Callable[[Sequence[Line], Sequence[Op], int], Reindent | None]
    exact: bool = False
    verbatim: bool = False


def locate(hunk: Hunk, lines: Sequence[Line], path: str, drift: int | None = None) -> Place:
    """The place of `hunk` in `lines`; PatchError no_match or ambiguous.

    `drift` is how far below its stated line the hunk before this one was found.
    """
    old = hunk.old
    if not old:
        return _insertion(hunk, lines, path)
    for phantoms in range(_phantom_limit(old) + 1):
        wanted = old[: len(old) - phantoms]
        place = _climb(hunk, wanted, lines, path, drift, phantoms)
        if place is not None:
            return place
    what = f"the lines that {hunk.label} quotes are not in {path}"
    raise PatchError(
        RefusalReason.NO_MATCH, what, path=path, closest=closest_lines(lines, [op.text for op in old])
    )


def _climb(
    hunk: Hunk, wanted: Sequence[Op], lines: Sequence[Line], path: str, drift: int | None, phantoms: int
) -> Place | None:
    for rung in _rungs(lines, wanted):
        starts = _starts(rung, lines, wanted, at_end=phantoms > 0)
        if not starts:
            continue
        loose = not rung.exact or phantoms > 0
        start = _pick(hunk, sorted(starts), lines, path, drift, loose)
        name = "blank lines past the end of the file" if phantoms and rung.exact else rung.name
        return Place(start, rung.verbatim, starts[start], "" if not loose else name, phantoms)
    return None


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
    if hunk.index > len(lines):
        what = f"{hunk.label} starts after the end of {path} ({len(lines)} lines)"
        raise PatchError(RefusalReason.NO_MATCH, what, path=path)
    return Place(hunk.index, verbatim=False)


def _phantom_limit(old: Sequence[Op]) -> int:
    """How many trailing old lines are blank context; at least one line must stay to be found."""
    count = 0
    for op in reversed(old):
        if op.tag != " " or op.text.strip():
            break
        count += 1
    return min(count, len(old) - 1)


def _starts(rung: _Rung, lines: Sequence[Line], wanted: Sequence[Op], at_end: bool) -> dict[int, Reindent]:
    last = len(lines) - len(wanted)
    first = last if at_end else 0
    found: dict[int, Reindent] = {}
    for start in range(max(0, first), last + 1):
        reindent = rung.matches(lines, wanted, start)
        if reindent is not None:
            found[start] = reindent
    return found


# --- the rungs ----------------------------------------------------------------------------------------


def _rungs(lines: Sequence[Line], wanted: Sequence[Op]) -> list[_Rung]:
    """Exact, then line endings (as good as exact in a file that has one kind), then looser."""
    uniform = uniform_eol(list(lines)) is not None and len({op.crlf for op in wanted}) == 1
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


def canonical(text: bytes) -> bytes:
    """NFC without invisible characters, for comparison alone."""
    if text.isascii():
        return text.rstrip(b" \t\r")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return text
    plain = unicodedata.normalize("NFC", decoded.translate(_INVISIBLE))
    return plain.encode("utf-8").rstrip(b" \t\r")
