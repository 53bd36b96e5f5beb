"""The lines of a file, prepared to be searched many times."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from agentforge.repo.patch.filetext import Line, uniform_eol
from agentforge.repo.patch.indent import lead

_INVISIBLE = str.maketrans("", "", "\u200b\u200c\u200d\u2060\ufeff\u00ad")
_BLANKS = b" \t\r"


class _Index:
    """Lines joined by LF, which none of them holds: a run of lines is one substring search."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._joined = b"\n".join((b"", *keys, b""))
        self._offsets = [0, *accumulate(len(key) + 1 for key in keys)]

    def runs(self, wanted: Sequence[bytes]) -> list[int]:
        """Where `wanted` begins, as line numbers from 0; overlapping runs count."""
        needle = b"\n".join((b"", *wanted, b""))
        found: list[int] = []
        position = self._joined.find(needle)
        while position >= 0:
            found.append(bisect_left(self._offsets, position))
            position = self._joined.find(needle, position + 1)
        return found


@dataclass(frozen=True)
class Haystack:
    """A file's lines with the forms in which they are compared."""

    lines: Sequence[Line]

    @cached_property
    def texts(self) -> list[bytes]:
        return [line.text for line in self.lines]

    @cached_property
    def leads(self) -> frozenset[bytes]:
        """The indents of lines that say something."""
        return frozenset(lead(text) for text in self.texts if text.strip()) - {b""}

    @cached_property
    def uniform(self) -> bool:
        """Whether one line ending is used throughout."""
        return uniform_eol(list(self.lines)) is not None

    @cached_property
    def _bare(self) -> _Index:
        return _Index([bare(text) for text in self.texts])

    @cached_property
    def _trimmed(self) -> _Index:
        return _Index([text.rstrip(_BLANKS) for text in self.texts])

    def candidates(self, wanted: Sequence[bytes]) -> list[int]:
        """Every start at which some way of matching could succeed."""
        return self._bare.runs([bare(text) for text in wanted])

    def standing(self, wanted: Sequence[bytes]) -> list[int]:
        """Every start at which `wanted` stands but for trailing blanks."""
        return self._trimmed.runs([text.rstrip(_BLANKS) for text in wanted])


def bare(text: bytes) -> bytes:
    """What of a line takes part in every comparison: no indent, no trailing blanks, canonical Unicode."""
    return canonical(text).strip(_BLANKS)


def canonical(text: bytes) -> bytes:
    """NFC without invisible characters and trailing blanks, for comparison alone."""
    if text.isascii():
        return text.rstrip(_BLANKS)
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        return text.rstrip(_BLANKS)
    plain = unicodedata.normalize("NFC", decoded.translate(_INVISIBLE))
    return plain.encode("utf-8").rstrip(_BLANKS)
