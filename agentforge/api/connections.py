"""How connections are served: at most so many, and none that sends its request drop by drop."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agentforge.config.settings import ServerSettings

WS_MAX_BYTES = 64 * 1024
OTHER_FILES = 256
"""Descriptors that runs, records and the queue need beside the connections."""


def uvicorn_config(app: ASGIApp, server: ServerSettings, **more: Any) -> uvicorn.Config:
    """The server around `app`, as `agentforge serve` and the tests run it."""
    most = min(server.max_connections, _open_files() - OTHER_FILES)
    return uvicorn.Config(
        app,
        http=_protocol(max(16, most), server.request_timeout_s),
        server_header=False,
        ws_max_size=WS_MAX_BYTES,
        # A proxy is believed in what it says of visitors only where somebody said so.
        proxy_headers=False,
        **{"log_level": "warning", "timeout_graceful_shutdown": 5, **more},
    )


def _open_files() -> int:
    """How many descriptors this process may have, after asking for as many as it is allowed."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return 65536 if soft == resource.RLIM_INFINITY else soft


def _protocol(most: int, timeout_s: float) -> type[HttpToolsProtocol]:
    class Bounded(HttpToolsProtocol):
        """Closes a connection that is one too many, or whose request line and headers do not come in time."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._come()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._come()
            self._wait()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._come()
            super().on_headers_complete()

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(timeout_s, self.transport.abort)

        def _come(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Bounded
