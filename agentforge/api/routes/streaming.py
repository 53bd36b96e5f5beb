"""The events of a run, as server-sent events and over a WebSocket: the same messages, the same places."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, WebSocket, WebSocketDisconnect
from sse_starlette import EventSourceResponse
from starlette.responses import Response
from starlette.types import Message

from agentforge.api.channels import Entry, encode
from agentforge.api.cursors import Cursor
from agentforge.api.guard import deny
from agentforge.api.problems import ApiError, problem
from agentforge.api.routes.runs import PROBLEMS
from agentforge.api.schemas import RunSummary
from agentforge.api.services import Services, Serving, services_of
from agentforge.api.streams import FellBehind, follow
from agentforge.core.errors import RecordError

router = APIRouter(prefix="/v1/runs", tags=["streams"])
Place = Annotated[str | None, Query(max_length=60)]
MAX_MESSAGE = 64 * 1024
FULL, SLOW, BAD = 1013, 1008, 1003
MOST_ODD = 10
"""Messages that are not understood before a talker is let go."""


@router.get("/{run_id}/events", response_class=EventSourceResponse, responses=PROBLEMS)
async def events(
    run_id: str,
    services: Serving,
    after: Place = None,
    ticket: Place = None,
    last_event_id: Annotated[str | None, Header(max_length=60)] = None,
) -> Response:
    """Everything behind `Last-Event-ID` (or `after`), then live, to the end of the run.

    `id:` is the place, `event:` the type, `data:` JSON. The last word is a `run_status`.
    """
    summary = await services.summary(run_id)
    cursor = _cursor(last_event_id or after)
    _check_room(services)
    server = services.settings.server
    return EventSourceResponse(
        _frames(services, summary, cursor),
        ping=int(max(1, server.heartbeat_s)),
        send_timeout=server.send_timeout_s,
        headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"},
    )


def _check_room(services: Services) -> None:
    if services.streams >= services.settings.server.max_streams:
        raise ApiError(503, "too many streams are open", headers={"Retry-After": "5"})


async def _frames(services: Services, summary: RunSummary, cursor: Cursor) -> AsyncIterator[bytes]:
    with _counted(services):
        try:
            async for batch in batches(services, summary, cursor):
                yield b"".join(entry.sse for entry in batch)
        except FellBehind:
            services.dropped += 1


@contextmanager
def _counted(services: Services) -> Iterator[None]:
    services.streams += 1
    try:
        yield
    finally:
        services.streams -= 1


async def batches(services: Services, summary: RunSummary, cursor: Cursor) -> AsyncIterator[list[Entry]]:
    """What follows `cursor`; a run that is over ends with its status."""
    path = services.records.directory(summary.id) / "events.jsonl"
    live = services.hub.channel(summary.id) is not None
    last = cursor
    try:
        async for batch in follow(services.hub, summary.id, path, cursor):
            last = Cursor(*batch[-1].key)
            yield batch
    except RecordError as error:
        yield [_status(summary.model_copy(update={"status": "failed", "error": error.what}), last)]
        return
    if not live:
        yield [_status(summary, last)]


def _status(summary: RunSummary, last: Cursor) -> Entry:
    """The last word on a run that nobody works on; it has the place of the event before it."""
    said = {"type": "run_status", "status": summary.status, "run_id": summary.id, "error": summary.error}
    return Entry(Cursor(last.seq), "run_status", encode(said))


def _cursor(text: str | None) -> Cursor:
    if not text:
        return Cursor()
    try:
        return Cursor.parse(text)
    except ValueError as error:
        raise ApiError(422, str(error), hint="give the id of an event of this stream") from None


@router.websocket("/{run_id}/ws")
async def socket(websocket: WebSocket, run_id: str, after: Place = None) -> None:
    """The same messages as `{"id", "event", "data"}`; takes `{"type": "cancel"}` and answers."""
    services = services_of(websocket)
    try:
        summary, cursor = await services.summary(run_id), _cursor(after)
        _check_room(services)
    except ApiError as error:
        answer = problem(error.status, error.detail, hint=error.hint, headers=error.headers)
        await deny(websocket.scope, websocket.receive, websocket.send, answer)
        return
    await websocket.accept()
    with _counted(services):
        await _converse(websocket, services, summary, cursor)


async def _converse(websocket: WebSocket, services: Services, summary: RunSummary, cursor: Cursor) -> None:
    """Send and receive until either side ends; no task outlives the connection."""
    sending = asyncio.create_task(_send_all(websocket, services, summary, cursor))
    receiving = asyncio.create_task(_receive_all(websocket, services, summary.id))
    done, pending = await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    code, reason = next((task.result() for task in done if task.exception() is None), (1011, ""))
    if code != 1001:
        try:
            await asyncio.wait_for(websocket.close(code, reason), services.settings.server.send_timeout_s)
        except (RuntimeError, WebSocketDisconnect, TimeoutError):
            return


async def _send_all(
    websocket: WebSocket, services: Services, summary: RunSummary, cursor: Cursor
) -> tuple[int, str]:
    limit = services.settings.server.send_timeout_s
    try:
        async for batch in batches(services, summary, cursor):
            for entry in batch:
                await asyncio.wait_for(websocket.send_text(entry.frame), limit)
    except (FellBehind, TimeoutError):
        services.dropped += 1
        return SLOW, "too slow; come back with the last id"
    except (WebSocketDisconnect, RuntimeError):
        return 1001, ""
    return 1000, ""


async def _receive_all(websocket: WebSocket, services: Services, run_id: str) -> tuple[int, str]:
    odd = 0
    limit = services.settings.server.send_timeout_s
    try:
        while odd < MOST_ODD:
            if _message(await websocket.receive()).get("type") == "cancel":
                await services.cancel(run_id)
            else:
                odd += 1
                answer = websocket.send_text('{"event":"error","data":{"detail":"not understood"}}')
                await asyncio.wait_for(answer, limit)
    except (WebSocketDisconnect, RuntimeError):
        return 1001, ""
    except TimeoutError:
        return SLOW, "too slow; come back with the last id"
    return BAD, "nothing was understood"


def _message(received: Message) -> dict[str, Any]:
    """The object that was sent, {} for anything else. Raises `WebSocketDisconnect`."""
    if received["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(received.get("code", 1005))
    text = received.get("text")
    try:
        said = json.loads(text) if text and len(text) <= MAX_MESSAGE else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
