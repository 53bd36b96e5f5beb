"""The body of one hunk: strictly by its counts where they add up, else by its line prefixes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.edits import Hunk, Op, Tag

HUNK_HEADER = re.compile(rb"^@@(?!@)(?P<range>.*?)(?:@@(?!@).*)?$")
_RANGE = re.compile(rb"-(\d+)(?:,(\d+))?\s+\+(\d+)(?:,(\d+))?")
_OLD_ONLY = re.compile(rb"-(\d+)(?:,(\d+))?")
_SECTION = re.compile(rb"^(diff --git |diff -|--- |\+\+\+ |index [0-9a-f]+\.\.|Index: |@@)")
_TAGS: dict[bytes, Tag] = {b" ": " ", b"+": "+", b"-": "-"}


@dataclass(frozen=True, slots=True)
class Range:
    """What a header says: 1-based old start, old and new counts; None where it says nothing."""

    start: int | None = None
    old: int | None = None
    new: int | None = None

    @property
    def index(self) -> int | None:
        """0-based line of the original; an empty old side starts after the line it names."""
        if self.start is None:
            return None
        return self.start if self.old == 0 else max(0, self.start - 1)


def parse_range(header: bytes) -> Range:
    found = _RANGE.search(header)
    if found:
        start, old, _, new = found.groups()
        return Range(int(start[:9]), int((old or b"1")[:9]), int((new or b"1")[:9]))
    partial = _OLD_ONLY.search(header)
    return Range(int(partial.group(1)[:9])) if partial else Range()


def is_file_header(lines: Sequence[bytes], number: int) -> bool:
    """Whether a `---` line at `number` opens a file section rather than removing `-- …`."""
    if not lines[number].startswith(b"--- ") or number + 1 >= len(lines):
        return False
    if not lines[number + 1].startswith(b"+++ "):
        return False
    return number + 2 >= len(lines) or not lines[number + 2].startswith((b" ", b"+", b"-"))


def opens_next_file(lines: Sequence[bytes], number: int) -> bool:
    """Whether `---`, `+++` and `@@` follow at `number` and name one file: a header whatever the counts say.

    Counts that are one too large would take the two names for a removed and an added line.
    """
    if not is_file_header(lines, number) or number + 2 >= len(lines):
        return False
    if not HUNK_HEADER.match(lines[number + 2].rstrip(b"\r")):
        return False
    old, new = (_bare_name(line) for line in lines[number : number + 2])
    return old == new or b"/dev/null" in (old, new)


def _bare_name(line: bytes) -> bytes:
    name = line[4:].split(b"\t")[0].strip()
    return name[2:] if name[1:2] == b"/" else name


def read_hunk(
    lines: Sequence[bytes], start: int, extent: Range, fenced: bool, cut: bool, group: int, label: str
) -> tuple[Hunk, int]:
    """The hunk whose body starts at `start`, and the line after it.

    `cut`: the text ends here without its closing fence, so a body shorter than its counts is
    a cut answer (partial).
    """
    end = _strict_end(lines, start, extent)
    strict = end is not None
    if end is None:
        end = _lenient_end(lines, start, extent)
    hunk = _build(lines[start:end], extent, group, label)
    short = _is_short(hunk, extent)
    if cut and short and end >= len(lines):
        raise PatchError(RefusalReason.PARTIAL, f"the answer was cut in {label}")
    if not strict:
        _refuse_leftovers(lines, end, fenced, short, label)
    return replace(hunk, short=short and end >= len(lines), doubtful=_empty_tail(lines[start:end])), end


def _empty_tail(body: Sequence[bytes]) -> int:
    count = 0
    while count < len(body) and not body[-1 - count].strip(b"\r"):
        count += 1
    return count


def _is_short(hunk: Hunk, extent: Range) -> bool:
    return (
        extent.old is not None
        and extent.new is not None
        and (len(hunk.old) < extent.old or len(hunk.new) < extent.new)
    )


def _strict_end(lines: Sequence[bytes], start: int, extent: Range) -> int | None:
    """Where the counts say the body ends, None unless what follows agrees."""
    if extent.old is None or extent.new is None:
        return None
    old, new = extent.old, extent.new
    number = start
    while (old > 0 or new > 0) and number < len(lines):
        if opens_next_file(lines, number):
            return None
        line = lines[number]
        if line.startswith(b"\\"):
            number += 1
            continue
        tag = line[:1] if line.strip(b"\r") else b" "
        if tag not in _TAGS:
            return None
        old -= tag != b"+"
        new -= tag != b"-"
        number += 1
    if old or new:
        return None
    while number < len(lines) and lines[number].startswith(b"\\"):
        number += 1
    return number if _ends_well(lines, number) else None


def _ends_well(lines: Sequence[bytes], number: int) -> bool:
    """After a complete body comes a new section, prose or the end, never more body.

    A blank line or the `-- ` of a mailed patch is an end; so is a bullet list after a blank line.
    """
    if number >= len(lines) or not lines[number].strip():
        return True
    line = lines[number]
    if line[:1] not in _TAGS:
        return True
    return is_file_header(lines, number) or _is_signature(lines, number)


def _is_signature(lines: Sequence[bytes], number: int) -> bool:
    if lines[number].rstrip(b"\r") not in (b"-- ", b"--"):
        return False
    following = lines[number + 1] if number + 1 < len(lines) else b""
    return not following.strip() or bool(re.match(rb"^\d+\.\d+", following))


def _lenient_end(lines: Sequence[bytes], start: int, extent: Range) -> int:
    """As far as lines look like a body; trailing blank lines belong to it only if the counts want them."""
    number = start
    while number < len(lines):
        line = lines[number]
        if is_file_header(lines, number) or _is_signature(lines, number):
            break
        if line.strip(b"\r") and line[:1] not in _TAGS and not line.startswith(b"\\"):
            break
        number += 1
    while number > start and not lines[number - 1].strip(b"\r"):
        if extent.old is not None and _count_old(lines[start:number]) <= extent.old:
            break
        number -= 1
    return number


def _count_old(body: Sequence[bytes]) -> int:
    return sum(not line.startswith((b"+", b"\\")) for line in body)


def _refuse_leftovers(lines: Sequence[bytes], end: int, fenced: bool, short: bool, label: str) -> None:
    """Changed lines after a line without a prefix would be lost silently.

    Outside a fence only lines that follow at once, and that the counts ask for, are the hunk's.
    """
    if not (fenced or short) or end >= len(lines) or _is_signature(lines, end):
        return
    if not (fenced or lines[end - 1].strip()):
        return
    for line in lines[end:]:
        if _SECTION.match(line) or not (fenced or line.strip()):
            return
        if line.startswith((b"+", b"-")):
            raise PatchError(
                RefusalReason.MALFORMED, f"{label} holds a line without a ` `, `+` or `-` in front"
            )


def _build(body: Sequence[bytes], extent: Range, group: int, label: str) -> Hunk:
    ops: list[Op] = []
    old_bare = new_bare = False
    for line in body:
        if line.startswith(b"\\"):
            tag = ops[-1].tag if ops else " "
            old_bare = old_bare or tag != "+"
            new_bare = new_bare or tag != "-"
            continue
        crlf = line.endswith(b"\r")
        text = line[1:-1] if crlf and len(line) > 1 else line[1:]
        ops.append(Op(_TAGS.get(line[:1], " "), text, crlf))
    return Hunk(tuple(ops), extent.index, old_bare, new_bare, group, label)
