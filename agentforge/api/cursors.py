"""Places in the stream of a run: what `id:` carries and `Last-Event-ID` brings back."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"^(\d{1,12})(?:\.(\d{1,12})\.([0-9a-z]{1,16}))?$")


@dataclass(frozen=True, order=True)
class Cursor:
    """Durable event `seq`, then the `part`-th transient event after it, counted in one `epoch`.

    A durable event is "17", the third token after it "17.3.ab12cd". The epoch names the life of the
    server in which the token was seen: a token of another life cannot be found again, and counting
    starts after the durable event before it.
    """

    seq: int = 0
    part: int = 0
    epoch: str = ""

    def __str__(self) -> str:
        return f"{self.seq}.{self.part}.{self.epoch}" if self.part else str(self.seq)

    @staticmethod
    def parse(text: str) -> Cursor:
        """Raises `ValueError` where `text` is not a place."""
        found = _FORM.match(text.strip())
        if found is None:
            raise ValueError(f"not a place in a stream: {text[:40]!r}")
        seq, part, epoch = found.groups()
        return Cursor(int(seq), int(part or 0), epoch or "")

    def within(self, epoch: str) -> tuple[int, int]:
        """As (seq, part) for a stream of this `epoch`."""
        return (self.seq, self.part if self.epoch == epoch else 0)
