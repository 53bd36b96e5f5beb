"""Nothing that others wrote reaches a terminal as a command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.cli.sanitize import neutralise, one_line


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\rb", "a␍b"),
        ("a\x08b\x7f", "a␈b␡"),
        ("if admin\u202e", "if admin<U+202E>"),
        ("\u2066x\u2069", "<U+2066>x<U+2069>"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("line\u2028break", "line<U+2028>break"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("bad\udcff", "bad<U+DCFF>"),
        ("\x00", "␀"),
    ],
)
def test_control_and_format_characters_are_shown(hostile: str, shown: str) -> None:
    assert neutralise(hostile) == shown


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand tab", "naïve 日本語 😀", "[b]no[/b]"])
def test_ordinary_text_is_untouched(text: str) -> None:
    assert neutralise(text) == text


@given(st.text())
def test_what_comes_out_is_printable_and_encodable(text: str) -> None:
    safe = neutralise(text)
    safe.encode("utf-8")
    assert all(character in "\n\t" or ord(character) >= 0x20 for character in safe)
    assert neutralise(safe) == safe


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
