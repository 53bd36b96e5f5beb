"""Time as the record sees it: live, recorded, replayed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from agentforge.core.errors import RecordError


class LiveClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class RecordingClock:
    """A live clock that remembers every answer, so that a replay takes the same decisions."""

    def __init__(self) -> None:
        self._live = LiveClock()
        self._started = self._live.monotonic()
        self.nows: list[str] = []
        self.monotonics: list[float] = []

    def now(self) -> datetime:
        moment = self._live.now()
        self.nows.append(moment.isoformat())
        return moment

    def monotonic(self) -> float:
        moment = round(self._live.monotonic() - self._started, 6)
        self.monotonics.append(moment)
        return moment


class ReplayClock:
    """Answers what was answered then."""

    def __init__(self, nows: Sequence[str], monotonics: Sequence[float]) -> None:
        self._nows = iter(nows)
        self._monotonics = iter(monotonics)

    def now(self) -> datetime:
        moment = next(self._nows, None)
        if moment is None:
            raise RecordError("the replay asks for the time more often than the run did", hint=_HINT)
        return datetime.fromisoformat(moment)

    def monotonic(self) -> float:
        moment = next(self._monotonics, None)
        if moment is None:
            raise RecordError("the replay asks for the time more often than the run did", hint=_HINT)
        return moment


_HINT = "the record was made by another version; see `versions` in run.json"
