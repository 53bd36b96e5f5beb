"""Takes secrets out of text and bytes before they are kept or sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "[redacted]"
SHORTEST_VALUE = 6
"""A configured value shorter than this would take ordinary words with it."""

# Each pattern's group "secret" is replaced; what stands around it stays readable.
_SHAPES = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<secret>[A-Za-z0-9+/=\s\\:,.-]+?)-----END [A-Z ]*PRIVATE KEY-----",
    r"(?<![A-Za-z0-9_-])(?P<secret>sk-(?:[A-Za-z]{2,10}-)*(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{16,})",
    r"(?<![A-Za-z0-9_])(?P<secret>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,})",
    r"(?<![A-Za-z0-9_])(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
    r"(?<![A-Za-z0-9_])(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,})",
    r"(?<![A-Za-z0-9_])(?P<secret>AIza[A-Za-z0-9_-]{35})",
    r"(?<![A-Za-z0-9_])(?P<secret>hf_[A-Za-z0-9]{30,})",
    r"(?<![A-Za-z0-9_-])(?P<secret>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
    r"(?i:\bbearer)[ \t]+(?P<secret>(?=[A-Za-z0-9._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*)",
    r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@'\"<>{}\[\]]*:(?P<secret>(?![$%])[^\s/@'\"<>{}\[\]]+)(?=@)",
)


class Redactor:
    """Replaces configured `values` and known shapes of secrets by `[redacted]`; idempotent."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST_VALUE and value not in MARK}
        self._values = sorted(known, key=lambda value: (-len(value), value))
        self._shapes = [re.compile(shape) for shape in _SHAPES]

    def text(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MARK)
        for shape in self._shapes:
            text = shape.sub(_masked, text)
        return text

    def bytes(self, data: bytes) -> bytes:
        """As `text`, byte for byte otherwise, whatever the encoding."""
        clean = self.text(data.decode("utf-8", "surrogateescape"))
        return clean.encode("utf-8", "surrogateescape")


def _masked(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    whole = match.group(0)
    return whole[: start - match.start()] + MARK + whole[end - match.start() :]
