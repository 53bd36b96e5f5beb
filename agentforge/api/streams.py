"""One reader of a run: what it missed from the record, then live, with no gap and no duplicate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path

from agentforge.api.channels import Channel, Entry, Hub
from agentforge.api.cursors import Cursor

BATCH = 256
"""Most events handed to a reader at once: bounds what one slow reader holds."""
LIVE_BATCH = 64


class FellBehind(Exception):
    """The reader was so slow that the live window has passed it; it may come back with its place."""


def recorded(path: Path, after: int, upto: int | None = None) -> Iterator[Entry]:
    """Durable events `after` < seq <= `upto` of an events.jsonl; a torn last line is left out."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            text = line.decode("utf-8", "replace").strip()
            if not text:
                continue
            event = json.loads(text)
            seq = int(event["seq"])
            if upto is not None and seq > upto:
                return
            if seq > after:
                # Written by this program as ASCII; encoded again, were it not.
                data = text if text.isascii() else json.dumps(event)
                yield Entry(Cursor(seq), str(event["type"]), data)


def last_seq(path: Path) -> int:
    """Number of the last durable event, 0 for none."""
    last = 0
    for entry in recorded(path, 0):
        last = entry.key[0]
    return last


async def follow(hub: Hub, run_id: str, events: Path, cursor: Cursor) -> AsyncIterator[list[Entry]]:
    """Batches of events behind `cursor`, to the end of the run or of the server.

    `events` is the record of the run. Raises `FellBehind`.
    """
    channel = hub.channel(run_id)
    if channel is None:
        async for batch in _from_record(events, cursor.seq, None):
            yield batch
        return
    while cursor.seq < channel.floor:
        floor = channel.floor
        async for batch in _from_record(events, cursor.seq, floor):
            yield batch
        cursor = Cursor(floor)
    async for batch in _live(channel, channel.position_after(cursor)):
        yield batch


async def _live(channel: Channel, position: int) -> AsyncIterator[list[Entry]]:
    while True:
        if position < channel.base:
            raise FellBehind
        batch = channel.since(position, LIVE_BATCH)
        if batch:
            position += len(batch)
            yield batch
        elif channel.closed:
            return
        else:
            await channel.wait(position)


async def _from_record(path: Path, after: int, upto: int | None) -> AsyncIterator[list[Entry]]:
    entries = recorded(path, after, upto)
    while batch := await asyncio.to_thread(lambda: list(islice(entries, BATCH))):
        yield batch
