"""SEARCH/REPLACE blocks (rule 10): parsed from anywhere in an answer, resolved against the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeReader
from agentforge.repo.patch.blocks import HunkMaker, append_hunk, apply_blocks
from agentforge.repo.patch.cut_answer import refuse_abridged
from agentforge.repo.patch.diff_apply import Overlay, only_file, same_file_name
from agentforge.repo.patch.edits import Hunk
from agentforge.repo.patch.filetext import BOM, split_lines
from agentforge.repo.patch.haystack import Haystack
from agentforge.repo.patch.hints import path_in_info, path_in_line
from agentforge.repo.patch.line_ops import line_ops
from agentforge.repo.patch.locate import locate
from agentforge.repo.patch.paths import jailed

_OPEN = re.compile(rb"^(?P<indent>[ \t]*)(?P<mark><{5,9}) ?(?:SEARCH|ORIGINAL)\b[ \t:]*(?P<path>[^\r]*?)\r?$")
_CLOSE = re.compile(rb"^[ \t]*>{5,9} ?(?:REPLACE|UPDATED)\b.*$")
_BARE_CLOSE = re.compile(rb"^[ \t]*>{5,9}[ \t]*\r?$")
_FENCE = re.compile(rb"^[ \t]*(?:`{3,}|~{3,})(?P<info>[^\r]*)\r?$")
_MOST_DIVIDERS = 50
_LOOK_BACK = 4  # lines above a block in which its file may be named


@dataclass(frozen=True, slots=True)
class SearchReplace:
    """One block: the lines between its markers, and where dividers stand among them."""

    lines: tuple[bytes, ...]
    dividers: tuple[int, ...]
    path: str
    label: str

    def halves(self, divider: int) -> tuple[list[bytes], list[bytes]]:
        return list(self.lines[:divider]), list(self.lines[divider + 1 :])


def looks_like_search_replace(answer: bytes) -> bool:
    return any(_OPEN.match(line) for line in answer.split(b"\n"))


def parse_search_replace(answer: bytes, tree: TreeReader) -> list[SearchReplace]:
    """All blocks of an answer; PatchError malformed (no divider, no end) or partial (cut)."""
    lines = answer.split(b"\n")
    blocks: list[SearchReplace] = []
    number, floor, path = 0, 0, ""
    while number < len(lines):
        opened = _OPEN.match(lines[number])
        if opened is None:
            number += 1
            continue
        end = _end_of_block(lines, number)
        label = f"block {len(blocks) + 1}"
        named = path_in_line(opened["path"], tree) or _path_above(lines, floor, number, tree)
        path = jailed(named) if named else path
        body = _body(lines[number + 1 : end], opened)
        dividers = _dividers(body, len(opened["mark"]))
        _refuse_open(lines, end, bool(dividers), label)
        blocks.append(SearchReplace(tuple(body), dividers, path, label))
        number = floor = end + 1
    return blocks


def _end_of_block(lines: Sequence[bytes], start: int) -> int:
    """The closing marker, or where the next block or the text ends."""
    stop = next((n for n in range(start + 1, len(lines)) if _OPEN.match(lines[n])), len(lines))
    for closes in (_CLOSE, _BARE_CLOSE):
        end = next((n for n in range(start + 1, stop) if closes.match(lines[n])), None)
        if end is not None:
            return end
    return stop


def _refuse_open(lines: Sequence[bytes], end: int, divided: bool, label: str) -> None:
    if not divided:
        raise PatchError(RefusalReason.MALFORMED, f"{label} has no ======= between its halves")
    if end >= len(lines):
        raise PatchError(RefusalReason.PARTIAL, f"the answer was cut in {label}: no >>>>>>> REPLACE")
    if _OPEN.match(lines[end]):
        raise PatchError(RefusalReason.MALFORMED, f"{label} does not end before the next one begins")


def _body(lines: Sequence[bytes], opened: re.Match[bytes]) -> list[bytes]:
    indent = opened["indent"]
    if opened.group(0).endswith(b"\r"):
        lines = [line.removesuffix(b"\r") for line in lines]
    if indent and all(line.startswith(indent) or not line.strip() for line in lines):
        lines = [line[len(indent) :] for line in lines]
    return list(lines)


def _dividers(body: Sequence[bytes], width: int) -> tuple[int, ...]:
    exact = tuple(n for n, line in enumerate(body) if line.strip() == b"=" * width)
    return exact or tuple(n for n, line in enumerate(body) if re.fullmatch(rb"\s*={5,9}\s*", line))


def _path_above(lines: Sequence[bytes], floor: int, start: int, tree: TreeReader) -> str:
    for line in reversed(lines[max(floor, start - _LOOK_BACK) : start]):
        fence = _FENCE.match(line)
        if fence is not None:
            found = path_in_info(fence["info"].decode("utf-8", "surrogateescape").strip(), tree)
        else:
            found = path_in_line(line, tree)
        if found:
            return found
    return ""


# --- applying -----------------------------------------------------------------------------------------


def apply_search_replace(answer: bytes, tree: TreeReader, target: str | None) -> Overlay:
    """The change set of all blocks of `answer`."""
    makers: dict[str, list[HunkMaker]] = {}
    created: dict[str, bytes] = {}
    for block in parse_search_replace(answer, tree):
        path = _resolved(block, tree, target)
        search, replacement = block.halves(block.dividers[0])
        if _is_empty(search) and tree.kind(path) == "missing" and len(block.dividers) == 1:
            refuse_abridged(replacement, (), path)
            created[path] = b"".join(line + b"\n" for line in replacement)
            continue
        makers.setdefault(path, []).append(_maker(block, path))
    return apply_blocks(makers, created, tree)


def _resolved(block: SearchReplace, tree: TreeReader, target: str | None) -> str:
    if not block.path:
        return target or only_file(tree)
    if tree.kind(block.path) != "missing":
        return block.path
    stripped = block.path[2:] if block.path.startswith(("a/", "b/")) else block.path
    if tree.kind(stripped) == "file":
        return stripped
    return target if target and same_file_name(block.path, target) else block.path


def _is_empty(search: Sequence[bytes]) -> bool:
    return not any(line.strip() for line in search)


def _maker(block: SearchReplace, path: str) -> HunkMaker:
    def make(data: bytes) -> Hunk:
        search, replacement = block.halves(_true_divider(block, data, path))
        if _is_empty(search):
            if _is_empty(replacement):
                raise PatchError(RefusalReason.MALFORMED, f"{block.label} is empty", path=path)
            return append_hunk(data, replacement, block.label)
        return Hunk(line_ops(search, replacement), label=block.label)

    return make


def _true_divider(block: SearchReplace, data: bytes, path: str) -> int:
    """Where the text itself holds a line like the divider: the one cut that makes both halves sensible.

    The file must have the SEARCH half; then neither half may tear a merge conflict apart, both hold
    equally many such lines, and REPLACE does not begin with one. A test that no cut passes is skipped.
    """
    if len(block.dividers) == 1:
        return block.dividers[0]
    if len(block.dividers) > _MOST_DIVIDERS:
        what = f"{block.label} can be divided in {len(block.dividers)} ways"
        raise PatchError(RefusalReason.AMBIGUOUS, what, path=path)
    fitting = [divider for divider in block.dividers if _fits(block, divider, data, path)]
    if not fitting:
        raise PatchError(RefusalReason.NO_MATCH, f"no half of {block.label} is in {path}", path=path)
    for sensible in (_keeps_conflicts, _is_even, _starts_with_text):
        fitting = [divider for divider in fitting if sensible(block, divider)] or fitting
    if len(fitting) == 1:
        return fitting[0]
    what = f"{block.label} can be divided in {len(fitting)} ways"
    raise PatchError(RefusalReason.AMBIGUOUS, what, path=path)


def _keeps_conflicts(block: SearchReplace, divider: int) -> bool:
    return all(
        sum(line.startswith(b"<<<<<<<") for line in half) == sum(line.startswith(b">>>>>>>") for line in half)
        for half in block.halves(divider)
    )


def _is_even(block: SearchReplace, divider: int) -> bool:
    return block.dividers.index(divider) * 2 + 1 == len(block.dividers)


def _starts_with_text(block: SearchReplace, divider: int) -> bool:
    return divider + 1 not in block.dividers


def _fits(block: SearchReplace, divider: int, data: bytes, path: str) -> bool:
    search, replacement = block.halves(divider)
    if _is_empty(search):
        return False
    try:
        locate(Hunk(line_ops(search, replacement)), Haystack(split_lines(data.removeprefix(BOM))), path)
    except PatchError:
        return False
    return True
