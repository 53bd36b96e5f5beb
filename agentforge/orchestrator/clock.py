"""Time as the record sees it: live, recorded, replayed."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agentforge.core.errors import RecordError
from agentforge.orchestrator.store import cut_torn_line, private, recorded_in, whole_lines

JOURNAL = "clock.log"


class LiveClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Readings:
    """What a clock answered: moments in ISO form, and seconds since the start of the run."""

    nows: tuple[str, ...] = ()
    monotonics: tuple[float, ...] = ()


class RecordingClock:
    """A live clock whose every answer is written to `journal` before it is given.

    A replay takes the same decisions by them; a resumed run is given those of its `past` first, and its
    seconds go on from the last of them: the time in which nobody worked on it does not count.
    """

    def __init__(self, journal: Path, past: Readings = Readings()) -> None:
        self._live = LiveClock()
        self._past_nows, self._past_monotonics = deque(past.nows), deque(past.monotonics)
        self.nows, self.monotonics = list(past.nows), list(past.monotonics)
        self._before = max(past.monotonics, default=0.0)
        self._started: float | None = None if past.monotonics else self._live.monotonic()
        with recorded_in(journal):
            self._journal = open(journal, "a", encoding="ascii", opener=private)  # noqa: SIM115  see `close`

    def now(self) -> datetime:
        if self._past_nows:
            return datetime.fromisoformat(self._past_nows.popleft())
        moment = self._live.now()
        self._keep(f"now {moment.isoformat()}")
        self.nows.append(moment.isoformat())
        return moment

    def monotonic(self) -> float:
        if self._past_monotonics:
            return self._past_monotonics.popleft()
        if self._started is None:
            self._started = self._live.monotonic()
        moment = round(self._before + self._live.monotonic() - self._started, 6)
        self._keep(f"monotonic {moment}")
        self.monotonics.append(moment)
        return moment

    @property
    def used_s(self) -> float:
        """Seconds that had been worked on the run before this process."""
        return self._before

    def close(self) -> None:
        self._journal.close()

    def _keep(self, line: str) -> None:
        with recorded_in(Path(self._journal.name)):
            self._journal.write(line + "\n")
            self._journal.flush()


def read_journal(path: Path) -> Readings:
    """The answers in a journal, whose torn last line is cut off. Raises `RecordError` where it is damaged."""
    cut_torn_line(path)
    nows: list[str] = []
    monotonics: list[float] = []
    for line in whole_lines(path):
        kind, _, value = line.decode("ascii", "replace").partition(" ")
        try:
            if kind == "now":
                nows.append(datetime.fromisoformat(value).isoformat())
            elif kind == "monotonic" and math.isfinite(float(value)):
                monotonics.append(float(value))
            else:
                raise ValueError(line)
        except ValueError:
            raise RecordError(f"{path} is damaged at {line[:40]!r}") from None
    return Readings(tuple(nows), tuple(monotonics))


class ReplayClock:
    """Answers what was answered then."""

    def __init__(self, nows: Sequence[datetime], monotonics: Sequence[float]) -> None:
        self._nows = iter(nows)
        self._monotonics = iter(monotonics)

    def now(self) -> datetime:
        moment = next(self._nows, None)
        if moment is None:
            raise RecordError("the replay asks for the time more often than the run did", hint=_HINT)
        return moment

    def monotonic(self) -> float:
        moment = next(self._monotonics, None)
        if moment is None:
            raise RecordError("the replay asks for the time more often than the run did", hint=_HINT)
        return moment


_HINT = "the record was made by another version; see `versions` in run.json"
