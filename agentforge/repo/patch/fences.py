"""Markdown fences. A fence closes with the mark that opened it, at the same indent."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(rb"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\r]*?)[ \t]*\r?$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: lines [start, stop) of the answer. `lead` is the last line of prose above it."""

    info: str
    body: bytes
    closed: bool
    lead: bytes = b""
    start: int = 0
    stop: int = 0

    @property
    def language(self) -> str:
        return re.split(r"[\s:{]", self.info.strip(), maxsplit=1)[0].lower()


def fenced_blocks(text: bytes) -> list[Block]:
    """The fenced blocks of `text`, outermost only.

    A fence with a language inside an open one opens an inner fence; where that reading leaves a
    block open and the flat reading does not, the flat one is taken.
    """
    nested = _scan(text, nesting=True)
    if all(block.closed for block in nested):
        return nested
    flat = _scan(text, nesting=False)
    return flat if all(block.closed for block in flat) else nested


def _scan(text: bytes, nesting: bool) -> list[Block]:
    lines = text.split(b"\n")
    blocks: list[Block] = []
    lead, number = b"", 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None or (opened["mark"].startswith(b"`") and b"`" in opened["info"]):
            lead = lines[number].strip() or lead
            number += 1
            continue
        end, closed = _closing(lines, number + 1, opened, nesting)
        inner = lines[number + 1 : end]
        if not closed and inner and not inner[-1]:
            inner.pop()
        body = _body(inner, opened["indent"])
        info = opened["info"].decode("utf-8", "replace")
        blocks.append(Block(info, body, closed, lead, number, end + 1))
        lead, number = b"", end + 1
    return blocks


def _closing(lines: list[bytes], start: int, opened: re.Match[bytes], nesting: bool) -> tuple[int, bool]:
    depth = 0
    for number in range(start, len(lines)):
        fence = _FENCE.match(lines[number])
        if fence is None or fence["indent"] != opened["indent"]:
            continue
        if fence["mark"][:1] != opened["mark"][:1] or len(fence["mark"]) < len(opened["mark"]):
            continue
        if fence["info"]:
            depth += nesting
        elif depth == 0:
            return number, True
        else:
            depth -= 1
    return len(lines), False


def _body(lines: list[bytes], indent: bytes) -> bytes:
    if indent and all(line.startswith(indent) or not line.strip() for line in lines):
        lines = [line[len(indent) :] for line in lines]
    return b"".join(line + b"\n" for line in lines)
