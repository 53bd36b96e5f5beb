"""Text that others wrote, made safe for a terminal.

Model output, repository content and test output may carry escape sequences (to move the cursor, set
the title, write the clipboard), bidirectional overrides that reorder what is read, and invisible
characters that hide it. They are shown, not obeyed and not dropped: hiding them would help the attacker.
"""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
_DANGEROUS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def neutralise(text: str) -> str:
    """`text` with every control, format, surrogate and separator character made visible.

    Newline and tab stay. C0 controls become their pictures (ESC is ␛), the rest `<U+202E>`.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def one_line(text: str, limit: int = 200) -> str:
    """The same on one line of at most `limit` characters; runs of white space become one blank."""
    flat = neutralise(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character in _KEPT:
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if unicodedata.category(character) in _DANGEROUS:
        return f"<U+{code:04X}>"
    return character
