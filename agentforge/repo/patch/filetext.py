"""A file as lines of bytes. Only LF ends a line; form feed, VT, NEL and U+2028 are text."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

BOM = codecs.BOM_UTF8
_BINARY_WINDOW = 8000  # bytes git looks at, too
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its text without the terminator, and the terminator (b"" only on a last line)."""

    text: bytes
    eol: bytes

    @property
    def raw(self) -> bytes:
        return self.text + self.eol

    @property
    def blank(self) -> bool:
        return not self.text.strip(b" \t\r")


def split_lines(data: bytes) -> list[Line]:
    """Cut `data` after each LF; CR LF is one terminator, a lone CR is text."""
    lines = []
    for piece in data.split(b"\n"):
        carried = piece.endswith(b"\r")
        lines.append(Line(piece[:-1], b"\r\n") if carried else Line(piece, b"\n"))
    last = data.rsplit(b"\n", 1)[-1]
    lines[-1] = Line(last, b"")
    return lines if last else lines[:-1]


def join_lines(lines: list[Line]) -> bytes:
    return b"".join(line.raw for line in lines)


def is_binary(data: bytes) -> bool:
    """NUL near the front, or a UTF-16 / UTF-32 byte order mark."""
    return b"\0" in data[:_BINARY_WINDOW] or data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def uniform_eol(lines: list[Line]) -> bytes | None:
    """The one terminator used throughout, None when the file mixes two."""
    kinds = {line.eol for line in lines if line.eol}
    if len(kinds) > 1:
        return None
    return kinds.pop() if kinds else b"\n"


def common_eol(lines: list[Line]) -> bytes:
    """The terminator most lines carry (LF for an empty file and for a tie)."""
    crlf = sum(line.eol == b"\r\n" for line in lines)
    return b"\r\n" if crlf * 2 > sum(bool(line.eol) for line in lines) else b"\n"


def declared_encoding(data: bytes) -> str | None:
    """The codec a PEP 263 cookie names in the first two lines, None for UTF-8 or an unknown one."""
    for line in data.split(b"\n", 2)[:2]:
        found = _CODING.match(line)
        if found:
            return _foreign_codec(found.group(1).decode("ascii", "replace"))
        if line.strip() and not line.lstrip().startswith(b"#"):
            return None
    return None


def _foreign_codec(name: str) -> str | None:
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    text_codec = getattr(codec, "_is_text_encoding", True)
    return None if codec.name in ("utf-8", "ascii", "utf-8-sig") or not text_codec else codec.name


def transcode(text: bytes, encoding: str | None) -> bytes | None:
    """UTF-8 `text` in `encoding`; unchanged where it is not UTF-8; None where it cannot be said in it."""
    if encoding is None or text.isascii():
        return text
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return text
    try:
        return decoded.encode(encoding)
    except UnicodeEncodeError:
        return None


def display(data: bytes) -> str:
    """For people and models only; never written back."""
    return data.decode("utf-8", "backslashreplace")
