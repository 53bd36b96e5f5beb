"""All hunks of one file at once: located against the original, checked for overlap, spliced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op
from agentforge.repo.patch.elision import elided_parts, has_elision
from agentforge.repo.patch.filetext import BOM, Line, declared_encoding, join_lines, split_lines, transcode
from agentforge.repo.patch.haystack import Haystack
from agentforge.repo.patch.indent import Reindent, house_style, unchanged
from agentforge.repo.patch.locate import Place, locate
from agentforge.repo.patch.refusal import combined

_PYTHON_FILE = (".py", ".pyi", ".pyw")


@dataclass(frozen=True, slots=True)
class Change:
    """Original lines [start, end) become `lines`; their terminators are set by the place.

    `quoted` is the range of lines that its hunk quotes.
    """

    start: int
    end: int
    lines: tuple[Line, ...]
    hunk: Hunk
    quoted: tuple[int, int]

    def collides(self, other: Change) -> bool:
        if self.start == self.end and other.start == other.end:
            both_bare = not self.hunk.old and not other.hunk.old and self.lines != other.lines
            return self.start == other.start and not both_bare
        return self.start < other.end and other.start < self.end

    def speaks_for(self, other: Change) -> bool:
        return self.quoted[0] <= other.start and other.end <= self.quoted[1]


def apply_hunks(data: bytes, hunks: Sequence[Hunk], path: str) -> tuple[bytes, list[str]]:
    """`data` with every hunk applied, and notes on loose matches; PatchError if any cannot be.

    A hunk that is already there raises `already_applied`; when others fit the reason is `partial`.
    """
    bom = data.startswith(BOM) and not any(op.text.startswith(BOM) for h in hunks for op in h.old)
    body = data[len(BOM) :] if bom else data
    lines = split_lines(body)
    located, notes = _locate_all([_in_encoding(h, body, path) for h in hunks], lines, path)
    changes = _without_overridden([c for h, place in located for c in _changes(h, place, lines, path)], path)
    spliced = _splice(lines, changes)
    if bom:
        return BOM + spliced.removeprefix(BOM), notes
    return spliced, notes


def _in_encoding(hunk: Hunk, data: bytes, path: str) -> Hunk:
    encoding = declared_encoding(data)
    if encoding is None or hunk.encoded or all(op.text.isascii() for op in hunk.ops):
        return hunk
    ops = []
    for op in hunk.ops:
        text = transcode(op.text, encoding)
        if text is None and op.tag == "+":
            what = f"{hunk.label} adds text that {path} cannot hold: it declares {encoding}"
            raise PatchError(RefusalReason.MALFORMED, what, path=path)
        ops.append(replace(op, text=op.text if text is None else text))
    return replace(hunk, ops=tuple(ops))


# --- locating -----------------------------------------------------------------------------------------


def _locate_all(
    hunks: Sequence[Hunk], lines: Sequence[Line], path: str
) -> tuple[list[tuple[Hunk, Place]], list[str]]:
    """Hunks in the order of their stated lines, so that each offset helps the next one."""
    ordered = sorted(hunks, key=lambda hunk: -1 if hunk.index is None else hunk.index)
    hay = Haystack(lines)
    located: list[tuple[Hunk, Place]] = []
    failures: list[PatchError] = []
    fitting = 0
    drift: int | None = None
    for hunk in ordered:
        try:
            parts = _place(hunk, hay, path, drift)
        except PatchError as error:
            failures.append(error)
            continue
        located += parts
        fitting += not hunk.changes_nothing
        if hunk.index is not None and hunk.old and len(parts) == 1:
            drift = parts[0][1].start - hunk.index
    if failures:
        raise combined(failures, others_fit=fitting > 0)
    located = _latest(located)
    return located, [_note(hunk, place, path) for hunk, place in located if _note(hunk, place, path)]


def _latest(located: list[tuple[Hunk, Place]]) -> list[tuple[Hunk, Place]]:
    """Of blocks that quote the very same lines, the last one."""
    last: dict[tuple[int, int], int] = {}
    for hunk, place in located:
        if hunk.old:
            key = (place.start, len(hunk.old))
            last[key] = max(hunk.group, last.get(key, 0))
    return [
        (hunk, place)
        for hunk, place in located
        if not hunk.old or hunk.group == last[place.start, len(hunk.old)]
    ]


def _place(hunk: Hunk, hay: Haystack, path: str, drift: int | None) -> list[tuple[Hunk, Place]]:
    try:
        place = locate(hunk, hay, path, drift)
    except PatchError as error:
        if error.reason is RefusalReason.NO_MATCH:
            if _already_there(hunk, hay):
                raise already(hunk, path) from error
            if has_elision(hunk):
                return elided_parts(hunk, hay, path)
        raise
    if _repeats(hunk, place, hay):
        raise already(hunk, path)
    if path.endswith(_PYTHON_FILE) and place.reindent is unchanged and not hunk.encoded:
        place = replace(place, reindent=_python_indent(hunk, hay))
    return [(hunk, place)]


def _python_indent(hunk: Hunk, hay: Haystack) -> Reindent:
    """Python must not mix tabs and spaces; a hunk that changes the indent itself is left alone."""
    removed = {op.text.strip() for op in hunk.ops if op.tag == "-"}
    added = [op.text for op in hunk.ops if op.tag == "+"]
    if any(text.strip() in removed for text in added if text.strip()):
        return unchanged
    return house_style(hay.leads, added)


def already(hunk: Hunk, path: str) -> PatchError:
    return PatchError(RefusalReason.ALREADY_APPLIED, f"{path} already reads as {hunk.label} wants", path=path)


def _already_there(hunk: Hunk, hay: Haystack) -> bool:
    """Whether the lines the hunk would leave stand in the file, and say enough to be believed."""
    new = hunk.new
    adds = any(op.tag == "+" and op.text.strip() for op in new)
    telling = sum(bool(op.text.strip()) for op in new)
    if hunk.changes_nothing or not (adds or telling >= 2):
        return False
    return bool(hay.standing([op.text for op in new]))


def _repeats(hunk: Hunk, place: Place, hay: Haystack) -> bool:
    """A pure insertion whose lines already stand at its place.

    With context on both sides at its stated line the hunk is believed, as git does.
    """
    if any(op.tag == "-" for op in hunk.ops) or not any(op.tag == "+" for op in hunk.ops):
        return False
    sided = hunk.ops[0].tag == "+" or hunk.ops[-1].tag == "+"
    if place.start == hunk.index and (not sided or (place.start == 0 and hunk.ops[-1].tag == " ")):
        return False
    first = next(number for number, op in enumerate(hunk.ops) if op.tag == "+")
    after = sum(op.tag == "+" for op in hunk.ops) if first == 0 else 0
    standing = hay.standing([op.text for op in hunk.new])
    return any(start in (place.start, place.start - after) for start in standing)


def _note(hunk: Hunk, place: Place, path: str) -> str:
    said = [f"matched with {place.looseness} ignored"] if place.looseness else []
    if hunk.index is not None and hunk.old and place.start != hunk.index:
        said.append(f"found {place.start - hunk.index:+d} lines from the stated line")
    return f"{path}: {hunk.label} {', '.join(said)}" if said else ""


# --- changing -----------------------------------------------------------------------------------------


def _changes(hunk: Hunk, place: Place, lines: Sequence[Line], path: str) -> list[Change]:
    """The runs of removed and added lines as changes of original line ranges."""
    changes: list[Change] = []
    quoted = (place.start, place.start + len(hunk.old))
    ops = list(hunk.ops)
    position, number = place.start, 0
    while number < len(ops):
        if ops[number].tag == " ":
            position, number = min(position + 1, len(lines)), number + 1
            continue
        run = number
        while run < len(ops) and ops[run].tag != " ":
            run += 1
        removed = sum(op.tag == "-" for op in ops[number:run])
        added = [op for op in ops[number:run] if op.tag == "+"]
        eol = _eol_of_place(lines, position, removed)
        dressed = tuple(_dressed(op, place, eol, hunk, path) for op in added)
        changes.append(Change(position, position + removed, dressed, hunk, quoted))
        position, number = position + removed, run
    return changes


def _eol_of_place(lines: Sequence[Line], position: int, removed: int) -> bytes:
    """The terminator of the first replaced line, else of the line above, else of the line below."""
    order = [position] if removed else []
    for number in [*order, position - 1, position]:
        if 0 <= number < len(lines) and lines[number].eol:
            return lines[number].eol
    return b""


def _dressed(op: Op, place: Place, eol: bytes, hunk: Hunk, path: str) -> Line:
    text = place.reindent(op.text)
    if text is None:
        what = f"{hunk.label} adds a line that is indented less than the lines it quotes were shifted"
        raise PatchError(RefusalReason.NO_MATCH, what, path=path)
    own = b"\r\n" if op.crlf else b"\n"
    return Line(text, own if place.verbatim or not eol else eol)


def _without_overridden(changes: list[Change], path: str) -> list[Change]:
    """Over the same lines a later block wins, if it speaks for all that the earlier one changes there.

    Two hunks of one block may not meet.
    """
    ordered = sorted(changes, key=lambda c: (c.start, c.end))
    of_hunk: dict[int, list[Change]] = {}
    for change in ordered:
        of_hunk.setdefault(id(change.hunk), []).append(change)
    beaten: set[int] = set()
    near: list[Change] = []
    for change in ordered:
        near = [other for other in near if other.end >= change.start]
        for other in near:
            if not change.collides(other) or change.hunk is other.hunk:
                continue
            loser, winner = sorted((other, change), key=lambda c: c.hunk.group)
            mine = of_hunk[id(loser.hunk)]
            if change.hunk.group == other.hunk.group or not all(map(winner.speaks_for, mine)):
                what = f"{other.hunk.label} and {change.hunk.label} change the same lines of {path}"
                raise PatchError(RefusalReason.PARTIAL, what, path=path)
            beaten.add(id(loser.hunk))
        near.append(change)
    return [change for change in ordered if id(change.hunk) not in beaten]


def _splice(lines: Sequence[Line], changes: Sequence[Change]) -> bytes:
    result: list[Line] = []
    position = 0
    for change in changes:
        result += lines[position : change.start]
        result += change.lines
        position = change.end
    result += lines[position:]
    last = changes[-1] if changes and position == len(lines) and changes[-1].lines else None
    return join_lines(_terminated(result, lines, last))


def _terminated(result: list[Line], lines: Sequence[Line], last: Change | None) -> list[Line]:
    """Only the last line may lack its terminator: as the marks say, else as the file had it."""
    for number, line in enumerate(result[:-1]):
        if not line.eol:
            eol = result[number - 1].eol if number else result[number + 1].eol
            result[number] = Line(line.text, eol or b"\n")
    if last is None:
        return result
    hunk = last.hunk
    bare = hunk.new_unterminated or (not hunk.old_unterminated and bool(lines) and not lines[-1].eol)
    text, eol = result[-1].text, result[-1].eol
    result[-1] = Line(text, b"" if bare else eol or b"\n")
    return result
