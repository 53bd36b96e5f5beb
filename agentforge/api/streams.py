"""One reader of a run: what it missed from the record, then live, with no gap and no duplicate."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agentforge.api.channels import Channel, Entry, Hub, encode, portion
from agentforge.api.cursors import Cursor
from agentforge.core.errors import RecordError
from agentforge.orchestrator.store import understood

_KIND = re.compile(r"^[a-z_]{1,64}$")
BATCH = 256
"""Most events handed to a reader at once: bounds what one slow reader holds."""
LIVE_BATCH = 64
BATCH_BYTES = 256 * 1024


class FellBehind(Exception):
    """The reader was so slow that the live window has passed it; it may come back with its place."""


def recorded(path: Path, after: int, upto: int | None = None) -> Iterator[Entry]:
    """Durable events `after` < seq <= `upto` of an events.jsonl; a torn last line is left out.

    Raises `RecordError` at a line that is no event.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file, understood(f"events.jsonl of run {path.parent.name}"):
        for line in file:
            if not line.endswith(b"\n"):
                return
            if not line.strip():
                continue
            event = json.loads(line.decode("utf-8"))
            seq, kind = int(event["seq"]), str(event["type"])
            if upto is not None and seq > upto:
                return
            if not _KIND.match(kind):
                raise ValueError(f"no type of an event: {kind[:40]!r}")
            if seq > after:
                yield Entry(Cursor(seq), kind, _one_line(line, event))


def _one_line(line: bytes, event: Any) -> str:
    """As this program wrote it; encoded again were it not, for a CR would break the frame."""
    text = line[:-1]
    return text.decode("ascii") if text.isascii() and b"\r" not in text else encode(event)


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
        batch = channel.since(position, LIVE_BATCH, BATCH_BYTES)
        if batch:
            position += len(batch)
            yield batch
        elif channel.closed:
            return
        else:
            await channel.wait(position)


async def _from_record(path: Path, after: int, upto: int | None) -> AsyncIterator[list[Entry]]:
    """What comes before a damaged line is given, then its `RecordError` is raised."""
    entries = recorded(path, after, upto)
    while True:
        batch, error = await asyncio.to_thread(_batch, entries)
        if batch:
            yield batch
        if error is not None:
            raise error
        if not batch:
            return


def _batch(entries: Iterator[Entry]) -> tuple[list[Entry], RecordError | None]:
    batch: list[Entry] = []
    try:
        for entry in portion(islice(entries, BATCH), BATCH_BYTES):
            batch.append(entry)
    except RecordError as error:
        return batch, error
    return batch, None
