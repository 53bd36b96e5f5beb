"""A Python client of `agentforge serve`: runs, and their events without gap or duplicate.

    with Client("http://127.0.0.1:8765") as client:
        run = client.start("/srv/repositories/shop", "split loses a cent")
        for event in client.events(run["id"]):
            print(event.type)

`AsyncClient` is the same for `async with`, `await` and `async for`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, ServerSentEvent

from agentforge.core.errors import AgentForgeError, EnvironmentFault, UsageError

_ADDRESS = "write http://HOST:PORT"
Document = dict[str, Any]
OVER = frozenset({"finished", "cancelled", "interrupted", "failed"})
PASSING = frozenset({429, 502, 503, 504})
"""Answers of a server that is full, or of a proxy whose server is just being started again."""
_STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)
"""Longer than a heartbeat: silence means that the connection is dead."""


@dataclass(frozen=True)
class StreamedEvent:
    """One event. `id` is its place in the stream; `data` the event as the record writes it."""

    id: str
    type: str
    data: Document = field(default_factory=dict)


class ServerRefused(UsageError):
    """The server answered with a problem; `status` is its HTTP status."""

    def __init__(self, status: int, what: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.status = status


class ServerGone(EnvironmentFault):
    """Nobody answers, or nobody came back in time."""


@dataclass
class _Place:
    """Where a reader is, and how patiently it comes back."""

    last: str
    patience_s: float
    lost_at: float | None = None
    over: bool = False

    def take(self, sse: ServerSentEvent) -> StreamedEvent | None:
        """The event, unless it is an end of one that was read already."""
        self.lost_at = None
        if sse.id and sse.id == self.last and sse.event != "run_status":
            return None
        self.last = sse.id or self.last
        event = StreamedEvent(sse.id, sse.event, _document(sse.data))
        self.over = event.type == "run_status" and event.data.get("status") in OVER
        return event

    def pause(self, server: str) -> float:
        """Seconds until the next attempt. Raises `ServerGone` after `patience_s` without an answer."""
        now = time.monotonic()
        self.lost_at = self.lost_at or now
        away = now - self.lost_at
        if away > self.patience_s:
            raise ServerGone(f"{server} does not answer any more", hint="the run goes on; watch it later")
        return min(2.0, 0.1 + away / 4)

    def pause_after(self, error: Exception, server: str) -> float:
        """The same after `error`, which is raised where it is not one that passes."""
        if isinstance(error, ServerRefused) and error.status not in PASSING:
            raise error
        return self.pause(server)

    @property
    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", **({"Last-Event-ID": self.last} if self.last else {})}


class Client:
    """Blocking. Raises `ServerRefused` where the server says no, `ServerGone` where it says nothing."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self.server = server.rstrip("/")
        self._http = httpx.Client(base_url=_address(self.server), headers=_headers(token), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def start(self, repository: str, issue: str, **more: Any) -> Document:
        """Start a run; `more` are the further fields of `POST /v1/runs`."""
        return self._json("POST", "/v1/runs", {"repository": repository, "issue": issue, **more})

    def get(self, run_id: str) -> Document:
        return self._json("GET", _path(run_id))

    def list(self, **filters: Any) -> Document:
        """One page of runs, newest first: `items` and `next`."""
        return self._json("GET", "/v1/runs", params=filters)

    def cancel(self, run_id: str) -> Document:
        return self._json("POST", _path(run_id, "/cancel"))

    def resume(self, run_id: str) -> Document:
        return self._json("POST", _path(run_id, "/resume"))

    def patch(self, run_id: str) -> bytes:
        """The patch, byte for byte."""
        return self._answer("GET", _path(run_id, "/patch")).content

    def report(self, run_id: str) -> Document:
        return self._json("GET", _path(run_id, "/report"))

    def audit(self, run_id: str) -> Document:
        return self._json("GET", _path(run_id, "/audit"))

    def events(self, run_id: str, *, after: str = "", patience_s: float = 60.0) -> Iterator[StreamedEvent]:
        """Every event behind `after`, to the end of the run; comes back by itself when it is cut off."""
        place = _Place(after, patience_s)
        while not place.over:
            try:
                yield from self._stream(run_id, place)
            except (httpx.TransportError, ServerRefused) as error:
                time.sleep(place.pause_after(error, self.server))
            else:
                if not place.over:
                    time.sleep(place.pause(self.server))

    def _stream(self, run_id: str, place: _Place) -> Iterator[StreamedEvent]:
        path = _path(run_id, "/events")
        with self._http.stream("GET", path, headers=place.headers, timeout=_STREAM_TIMEOUT) as response:
            if response.status_code != 200:
                response.read()
                _check(response)
            for sse in EventSource(response).iter_sse():
                event = place.take(sse)
                if event is not None:
                    yield event

    def _json(self, method: str, path: str, body: Document | None = None, params: Any = None) -> Document:
        return _document(self._answer(method, path, body, params).text)

    def _answer(
        self, method: str, path: str, body: Document | None = None, params: Any = None
    ) -> httpx.Response:
        try:
            return _check(self._http.request(method, path, json=body, params=params))
        except httpx.TransportError as error:
            raise _gone(self.server, error) from None


class AsyncClient:
    """As `Client`, for asyncio."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self.server = server.rstrip("/")
        self._http = httpx.AsyncClient(base_url=_address(self.server), headers=_headers(token), timeout=30)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def start(self, repository: str, issue: str, **more: Any) -> Document:
        """Start a run; `more` are the further fields of `POST /v1/runs`."""
        return await self._json("POST", "/v1/runs", {"repository": repository, "issue": issue, **more})

    async def get(self, run_id: str) -> Document:
        return await self._json("GET", _path(run_id))

    async def list(self, **filters: Any) -> Document:
        """One page of runs, newest first: `items` and `next`."""
        return await self._json("GET", "/v1/runs", params=filters)

    async def cancel(self, run_id: str) -> Document:
        return await self._json("POST", _path(run_id, "/cancel"))

    async def resume(self, run_id: str) -> Document:
        return await self._json("POST", _path(run_id, "/resume"))

    async def patch(self, run_id: str) -> bytes:
        """The patch, byte for byte."""
        return (await self._answer("GET", _path(run_id, "/patch"))).content

    async def report(self, run_id: str) -> Document:
        return await self._json("GET", _path(run_id, "/report"))

    async def audit(self, run_id: str) -> Document:
        return await self._json("GET", _path(run_id, "/audit"))

    async def events(
        self, run_id: str, *, after: str = "", patience_s: float = 60.0
    ) -> AsyncIterator[StreamedEvent]:
        """Every event behind `after`, to the end of the run; comes back by itself when it is cut off."""
        place = _Place(after, patience_s)
        while not place.over:
            try:
                async for event in self._stream(run_id, place):
                    yield event
            except (httpx.TransportError, ServerRefused) as error:
                await asyncio.sleep(place.pause_after(error, self.server))
            else:
                if not place.over:
                    await asyncio.sleep(place.pause(self.server))

    async def _stream(self, run_id: str, place: _Place) -> AsyncIterator[StreamedEvent]:
        path = _path(run_id, "/events")
        async with self._http.stream("GET", path, headers=place.headers, timeout=_STREAM_TIMEOUT) as response:
            if response.status_code != 200:
                await response.aread()
                _check(response)
            async for sse in EventSource(response).aiter_sse():
                event = place.take(sse)
                if event is not None:
                    yield event

    async def _json(
        self, method: str, path: str, body: Document | None = None, params: Any = None
    ) -> Document:
        return _document((await self._answer(method, path, body, params)).text)

    async def _answer(
        self, method: str, path: str, body: Document | None = None, params: Any = None
    ) -> httpx.Response:
        try:
            return _check(await self._http.request(method, path, json=body, params=params))
        except httpx.TransportError as error:
            raise _gone(self.server, error) from None


def _address(server: str) -> httpx.URL:
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as error:
        raise UsageError(f"{server!r} is no address of a server: {error}", hint=_ADDRESS) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"{server!r} is no address of a server", hint=_ADDRESS)
    return url


def _path(run_id: str, part: str = "") -> str:
    return f"/v1/runs/{quote(run_id, safe='')}{part}"


def _document(text: str) -> Document:
    """Raises `ServerGone` for what no server of ours says."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServerGone(f"the answer is not ours: {text[:60]!r}", hint="is --server the right address?")
    return found


def _headers(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _check(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        said = _document(response.text)
    except ServerGone:
        said = {}
    what = str(said.get("detail") or said.get("title") or f"the server answered {response.status_code}")
    raise ServerRefused(response.status_code, what, str(said.get("hint", "")))


def _gone(server: str, error: Exception) -> AgentForgeError:
    return ServerGone(f"{server} does not answer: {error}", hint="is `agentforge serve` running there?")
