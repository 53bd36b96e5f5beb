"""The live end of a run's events: one shared window per run, and readers that only hold a position.

A reader has no queue of its own, so that ten thousand slow ones cost no more memory than one. What a
reader missed before the window comes from the record (`agentforge.api.streams`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

from agentforge.api.cursors import Cursor
from agentforge.core.events import EventBase, Notice, Token


class Entry:
    """One event, encoded once for all readers."""

    __slots__ = ("_frame", "data", "key", "kind", "place", "sse")

    def __init__(self, cursor: Cursor, kind: str, data: str) -> None:
        self.key = (cursor.seq, cursor.part)
        self.place, self.kind, self.data = str(cursor), kind, data
        # `data` is ASCII JSON: no CR, LF or U+2028 can break the frame.
        self.sse = f"id: {self.place}\nevent: {kind}\ndata: {data}\n\n".encode("ascii")
        self._frame = ""

    @property
    def frame(self) -> str:
        """The same event as a WebSocket message."""
        if not self._frame:
            self._frame = f'{{"id":"{self.place}","event":"{self.kind}","data":{self.data}}}'
        return self._frame


def portion(entries: Iterable[Entry], most_bytes: int) -> Iterator[Entry]:
    """The first `entries` until `most_bytes` are reached: what one slow reader may hold at a time."""
    size = 0
    for entry in entries:
        yield entry
        size += len(entry.sse)
        if size >= most_bytes:
            return


def encode(value: dict[str, Any]) -> str:
    """As the record writes it: sorted, compact, ASCII."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)


class Channel:
    """Events of one run since this server took it up. Used on the server's loop only."""

    def __init__(self, most_bytes: int, floor: int = 0) -> None:
        self.epoch = secrets.token_hex(4)
        self.base = 0
        """Position of the first entry that is still held."""
        self.floor = floor
        """Durable events up to this one are in the record only."""
        self.closed = False
        self._most_bytes, self._bytes = most_bytes, 0
        self._entries: list[Entry] = []
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """Position after the last entry."""
        return self.base + len(self._entries)

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def readers(self) -> int:
        """How many wait just now."""
        return len(self._waiting)

    def extend(self, entries: Sequence[Entry]) -> None:
        self._entries.extend(entries)
        self._bytes += sum(len(entry.sse) for entry in entries)
        if self._bytes > self._most_bytes:
            self._trim()
        self._wake()

    def _trim(self) -> None:
        """Let go of the oldest quarter, so that this is not done for every event."""
        count = 0
        while self._bytes > self._most_bytes * 3 // 4 and count < len(self._entries) - 1:
            entry = self._entries[count]
            self._bytes -= len(entry.sse)
            self.floor = entry.key[0]
            count += 1
        del self._entries[:count]
        self.base += count

    def close(self) -> None:
        """No event will follow."""
        self.closed = True
        self._wake()

    def position_after(self, cursor: Cursor) -> int:
        """Position of the first held entry behind `cursor`."""
        key = cursor.within(self.epoch)
        return self.base + bisect_right(self._entries, key, key=lambda entry: entry.key)

    def since(self, position: int, most: int, most_bytes: int) -> list[Entry]:
        """Up to `most` entries from `position` on, and no more than one beyond `most_bytes`."""
        start = position - self.base
        return list(portion(self._entries[start : start + most], most_bytes))

    async def wait(self, position: int) -> None:
        """Until something follows `position`, or the channel is closed."""
        if self.end > position or self.closed:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()


class Publisher:
    """Takes the events of one run, from the thread it runs in, to its channel on the server's loop."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self.channel, self._loop = channel, loop
        self._lock = Lock()
        self._pending: list[Entry] = []
        self._seq, self._part = channel.floor, 0

    def __call__(self, event: EventBase) -> None:
        """A listener of the engine (`agentforge.orchestrator.eventlog.Listener`)."""
        value = event.model_dump(mode="json")
        transient = isinstance(event, Token) or (isinstance(event, Notice) and event.time is None)
        self.publish(value, None if transient else event.seq)

    def publish(self, value: dict[str, Any], seq: int | None) -> None:
        """A durable event has its number `seq`; None makes a transient one."""
        with self._lock:
            if seq is None:
                self._part += 1
            else:
                self._seq, self._part = seq, 0
            cursor = Cursor(self._seq, self._part, self.channel.epoch)
            first = not self._pending
            self._pending.append(Entry(cursor, str(value["type"]), encode(value)))
        if first:
            with contextlib.suppress(RuntimeError):  # the server has ended: nobody listens, the run goes on
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            entries, self._pending = self._pending, []
        self.channel.extend(entries)


class Hub:
    """The channels of the runs that this server works on. Used on the server's loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int, linger_s: float = 60.0) -> None:
        self._loop, self._most_bytes, self._linger_s = loop, most_bytes, linger_s
        self._open: dict[str, tuple[Channel, Publisher]] = {}

    def open(self, run_id: str, floor: int = 0) -> Publisher:
        """A fresh channel for a run that waits; its record ends with event `floor`."""
        channel = Channel(self._most_bytes, floor)
        publisher = Publisher(channel, self._loop)
        self._open[run_id] = (channel, publisher)
        return publisher

    def channel(self, run_id: str) -> Channel | None:
        """None where this server does not work on the run."""
        found = self._open.get(run_id)
        return found[0] if found else None

    def publisher(self, run_id: str) -> Publisher | None:
        found = self._open.get(run_id)
        return found[1] if found else None

    def channels(self) -> list[Channel]:
        return [channel for channel, _ in self._open.values()]

    def retire(self, run_id: str, publisher: Publisher) -> None:
        """The run is over: its tokens stay for those who are about to come back, then go.

        `publisher` is the one that spoke: the run may have been resumed by now, and then has another.
        """
        publisher.channel.close()
        self._loop.call_later(self._linger_s, self._forget, run_id, publisher.channel)

    def _forget(self, run_id: str, channel: Channel) -> None:
        if self.channel(run_id) is channel:
            del self._open[run_id]

    def close(self) -> None:
        """The server ends: readers get what there is, and come back to the next one."""
        for channel in self.channels():
            channel.close()
