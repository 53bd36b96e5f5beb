"""Indentation: what turns an answer's leading blanks into those of the place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

Reindent = Callable[[bytes], bytes | None]
_BLANKS = b" \t"
_UNITS = (4, 2, 8, 3)


def unchanged(text: bytes) -> bytes | None:
    return text


def lead(text: bytes) -> bytes:
    return text[: len(text) - len(text.lstrip(_BLANKS))]


def shifter(remove: bytes, add: bytes) -> Reindent:
    """Replace the leading `remove` by `add`; None where a line does not begin with it."""

    def shift(text: bytes) -> bytes | None:
        if not text.strip():
            return text
        return add + text[len(remove) :] if text.startswith(remove) else None

    return shift


def indent_shift(pairs: Sequence[tuple[bytes, bytes]]) -> Reindent | None:
    """The one shift that turns each (answer, file) left side into its right side, None if there is none."""
    shift: tuple[bytes, bytes] | None = None
    for answer, real in pairs:
        answer, real = answer.rstrip(b" \t\r"), real.rstrip(b" \t\r")
        if answer.lstrip(_BLANKS) != real.lstrip(_BLANKS):
            return None
        if not answer:
            continue
        step = _step(lead(answer), lead(real))
        if step is None or (shift is not None and step != shift):
            return None
        shift = step
    return shifter(*shift) if shift is not None else None


def _step(answer: bytes, real: bytes) -> tuple[bytes, bytes] | None:
    if real.endswith(answer):
        return b"", real[: len(real) - len(answer)]
    if answer.endswith(real):
        return answer[: len(answer) - len(real)], b""
    return None


def tab_style(pairs: Sequence[tuple[bytes, bytes]]) -> Reindent | None:
    """The conversion between tabs and spaces that explains all pairs, None if there is none."""
    for unit in _UNITS:
        for to_tabs in (True, False):
            convert = converter(unit, to_tabs)
            converted = [(convert(answer), real) for answer, real in pairs]
            shift = indent_shift([(answer, real) for answer, real in converted if answer is not None])
            if shift is not None and _telling(converted, pairs):
                return _chained(convert, shift)
    return None


def _telling(converted: Sequence[tuple[bytes | None, bytes]], pairs: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the conversion did anything; without that it is a shift, which was tried before."""
    return any(after != before for (after, _), (before, _) in zip(converted, pairs, strict=True))


def _chained(first: Reindent, second: Reindent) -> Reindent:
    def both(text: bytes) -> bytes | None:
        between = first(text)
        return None if between is None else second(between)

    return both


def converter(unit: int, to_tabs: bool) -> Reindent:
    """Leading `unit` spaces become a tab each, or the other way round."""

    def convert(text: bytes) -> bytes | None:
        blanks = lead(text)
        if to_tabs:
            width = len(blanks.expandtabs(unit))
            return b"\t" * (width // unit) + b" " * (width % unit) + text[len(blanks) :]
        return blanks.expandtabs(unit) + text[len(blanks) :]

    return convert


def house_style(leads: Collection[bytes], added: Sequence[bytes]) -> Reindent:
    """The conversion of added lines to the one kind of indent a file uses; none where it mixes them.

    `leads` are the indents that the lines of the file have.
    """
    theirs = {blanks[:1] for blanks in leads}
    ours = {bytes([blank]) for text in added if text.strip() for blank in lead(text)}
    if len(theirs) != 1 or len(ours) != 1 or theirs == ours:
        return unchanged
    if theirs == {b"\t"}:
        return converter(min(len(lead(text)) for text in added if lead(text) and text.strip()), to_tabs=True)
    return converter(min(map(len, leads)), to_tabs=False)
