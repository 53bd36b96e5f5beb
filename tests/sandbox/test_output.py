"""Capped output: bounded memory, head and tail, nothing a terminal would obey."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentforge.sandbox.output import CappedOutput, printable


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(min_value=9, max_value=200))
def test_head_and_tail_are_kept_and_the_gap_is_counted(chunks: list[bytes], limit: int) -> None:
    output = CappedOutput(limit)
    for chunk in chunks:
        output.write(chunk)
    whole = b"".join(chunks)
    kept = output.getvalue()
    if len(whole) <= limit:
        assert kept == whole
        return
    head, tail = limit // 3, limit - limit // 3
    missing = len(whole) - limit
    assert kept == whole[:head] + f"\n[... {missing} bytes left out ...]\n".encode() + whole[-tail:]


def test_one_line_of_ten_megabytes_is_cut(tmp_path: Path) -> None:
    with CappedOutput(1000, log_path=tmp_path / "logs" / "x.log", log_limit=5000) as output:
        for _ in range(10):
            output.write(b"x" * (1 << 20))
    assert len(output.getvalue()) < 1100
    log = (tmp_path / "logs" / "x.log").read_bytes()
    assert log.startswith(b"x" * 5000)
    assert log.endswith(b"[... log limit reached ...]\n")
    assert len(log) < 5100


def test_control_characters_become_visible() -> None:
    assert printable(b"a\tb\nc\r\nd") == "a\tb\nc\nd"
    assert printable(b"\x1b[31m\x07\x00\x9b") == "\\x1b[31m\\x07\\x00\\x9b"
    assert printable("\u202eevil".encode()) == "\\x202eevil"
    assert printable(b"\xff\xe9") == "\\xff\\xe9"


def test_undecodable_bytes_survive_in_the_log(tmp_path: Path) -> None:
    with CappedOutput(1000, log_path=tmp_path / "x.log", log_limit=5000) as output:
        output.write(b"caf\xe9 \xff\x00\x1b[31m")
    assert (tmp_path / "x.log").read_bytes() == b"caf\xe9 \xff\x00\x1b[31m"
    assert output.text() == "caf\\xe9 \\xff\\x00\\x1b[31m"
