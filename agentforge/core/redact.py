"""Takes secrets out of text and bytes before they are kept or sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "[redacted]"
SHORTEST_VALUE = 6
"""A configured value shorter than this would take ordinary words with it."""

# Each pattern's group "secret" is replaced; what stands around it stays readable. Every pattern is linear
# in the text: hostile text passes through here.
_BEGIN = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
_KEY_BLOCK = _BEGIN + r"(?P<secret>(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))+)-----END [A-Z ]{0,30}PRIVATE KEY-----"
_CUT_KEY_BLOCK = _BEGIN + r"(?P<secret>(?:(?:\s|\\n|\\r)+[A-Za-z0-9+/=]{40,})+)"
_SHAPES = (
    _CUT_KEY_BLOCK,
    r"(?<![A-Za-z0-9_-])(?P<secret>sk-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,})",
    r"(?<![A-Za-z0-9_])(?P<secret>gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,})",
    r"(?<![A-Za-z0-9_])(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])",
    r"(?<![A-Za-z0-9_])(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,})",
    r"(?<![A-Za-z0-9_])(?P<secret>AIza[A-Za-z0-9_-]{35})",
    r"(?<![A-Za-z0-9_])(?P<secret>hf_[A-Za-z0-9]{30,})",
    r"(?<![A-Za-z0-9_-])(?P<secret>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})",
    r"(?i:\bbearer)[ \t]+(?P<secret>(?=[A-Za-z0-9._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*)",
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s/:@'\"<>{}\[\]]*:(?P<secret>(?![$%])[^\s/@'\"<>{}\[\]]+)(?=@)",
)


class Redactor:
    """Replaces configured `values` and known shapes of secrets by `[redacted]`; idempotent."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST_VALUE and value not in MARK}
        longest_first = sorted(known, key=lambda value: (-len(value), value))
        # Key blocks before values: a value inside one must not break its shape.
        masks = [f"(?P<secret>{re.escape(value)})" for value in longest_first]
        self._shapes = [re.compile(shape) for shape in (_KEY_BLOCK, *masks, *_SHAPES)]

    def text(self, text: str) -> str:
        """`text` without secrets. What is between marks is looked at again until nothing is found."""
        while True:
            cleaner = MARK.join(self._once(part) for part in text.split(MARK))
            if cleaner == text:
                return text
            text = cleaner

    def _once(self, text: str) -> str:
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
