"""A door before an OpenAI-compatible endpoint that counts what goes through, the same way for every tool."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


@dataclass
class Count:
    """`calls` that were begun, `refused` of them by the endpoint, tokens as the endpoint reports them.

    A call whose caller went away before its end counts as a call, with no tokens.
    """

    calls: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, usage: dict[str, Any] | None) -> None:
        self.prompt_tokens += int((usage or {}).get("prompt_tokens", 0))
        self.completion_tokens += int((usage or {}).get("completion_tokens", 0))


class CountingProxy:
    """Serves on a free port of loopback while it is entered; `count` may be replaced between two users."""

    def __init__(self, upstream: str) -> None:
        self.upstream, self.count = upstream.rstrip("/"), Count()
        routes = [Route("/v1/{path:path}", self.forward, methods=["GET", "POST"])]
        config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self.thread.join(10)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}/v1"

    async def forward(self, request: Request) -> Response:
        count, body = self.count, await request.body()
        chat = request.url.path.endswith("/chat/completions")
        count.calls += chat
        body, streamed = with_usage(body) if chat else (body, False)
        client = httpx.AsyncClient(timeout=httpx.Timeout(3600))
        url = f"{self.upstream}/{request.path_params['path']}"
        sent = client.build_request(
            request.method, url, content=body, headers={"content-type": "application/json"}
        )
        if not streamed:
            return await self.whole(client, sent, request, count)
        answer = await client.send(sent, stream=True)
        count.refused += answer.status_code >= 400
        return StreamingResponse(
            follow(client, answer, count), status_code=answer.status_code, media_type="text/event-stream"
        )

    async def whole(
        self, client: httpx.AsyncClient, sent: httpx.Request, request: Request, count: Count
    ) -> Response:
        """A plain answer; given up when the caller goes away, so that the endpoint stops as well."""
        async with client:
            call = asyncio.ensure_future(client.send(sent))
            while not call.done():
                await asyncio.wait({call}, timeout=0.5)
                if not call.done() and await request.is_disconnected():
                    call.cancel()
                    return Response(status_code=499)
            answer = call.result()
        count.refused += answer.status_code >= 400
        if answer.status_code < 400 and request.method == "POST":
            count.add(answer.json().get("usage"))
        return Response(answer.content, answer.status_code, media_type="application/json")


def with_usage(body: bytes) -> tuple[bytes, bool]:
    """The request, asking for usage where it streams; and whether it does."""
    asked = json.loads(body)
    if not asked.get("stream"):
        return body, False
    return json.dumps(asked | {"stream_options": {"include_usage": True}}).encode(), True


async def follow(client: httpx.AsyncClient, answer: httpx.Response, count: Count) -> AsyncIterator[bytes]:
    try:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                count.add(json.loads(line.removeprefix("data: ")).get("usage"))
            yield f"{line}\n".encode()
    finally:
        await answer.aclose()
        await client.aclose()
