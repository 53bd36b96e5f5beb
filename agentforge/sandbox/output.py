"""Output of untrusted programs: cut while it is read, kept whole in a size-limited file."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import BinaryIO, Self

# Everything a terminal might obey, except tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class CappedOutput:
    """Keeps the first and last bytes of a stream; memory is bounded by `limit` bytes and a chunk.

    With `log_path` the stream also goes to that file, up to `log_limit` bytes.
    """

    def __init__(self, limit: int, *, log_path: Path | None = None, log_limit: int = 0) -> None:
        self._head_limit = limit // 3
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._log: BinaryIO | None = None
        self._log_left = log_limit
        self.total = 0
        self.log_name = str(log_path) if log_path is not None else ""
        if log_path is not None:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            self._log = log_path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def write(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._write_log(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._write_tail(chunk[-self._tail_limit :])

    def getvalue(self) -> bytes:
        """Head and tail, with a line between that says how much is missing."""
        tail = b"".join(self._tail)[-self._tail_limit :]
        missing = self.total - len(self._head) - len(tail)
        gap = f"\n[... {missing} bytes left out ...]\n".encode() if missing > 0 else b""
        return bytes(self._head) + gap + tail

    def text(self) -> str:
        return printable(self.getvalue())

    def _write_log(self, chunk: bytes) -> None:
        if self._log is None or self._log_left <= 0:
            return
        self._log.write(chunk[: self._log_left])
        self._log_left -= len(chunk)
        if self._log_left <= 0:
            self._log.write(b"\n[... log limit reached ...]\n")

    def _write_tail(self, chunk: bytes) -> None:
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())


def printable(data: bytes) -> str:
    """Text that is safe to show: undecodable bytes and control characters become visible escapes."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
