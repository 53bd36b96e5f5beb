"""What stands before every request: Host, Origin, rate, token, body size, and the headers of answers.

Plain ASGI, so that a stream passes through without being gathered or delayed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentforge.api.problems import problem
from agentforge.api.tokens import Tickets, Tokens
from agentforge.config.settings import ServerSettings

OPEN_PATHS = ("/healthz", "/readyz")
"""Answered without a token: they say nothing but that the server lives."""
POLICY_VIOLATION = 1008
STREAM_ENDS = ("/events", "/ws")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, nobody else's, and the browser itself turns no string into markup."""
_SECURE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
}


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class RateLimiter:
    """A token bucket per visitor; forgets visitors whose bucket is full again."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic, most: int = 10_000
    ) -> None:
        self._rate, self._burst, self._clock, self._most = rate, float(burst), clock, most
        self._buckets: dict[str, tuple[float, float]] = {}

    def admit(self, visitor: str) -> float:
        """0 where the request may pass, else the seconds to wait."""
        now = self._clock()
        left, seen = self._buckets.pop(visitor, (self._burst, now))
        left = min(self._burst, left + (now - seen) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[visitor] = (left if wait else left - 1, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]  # the one that was quiet longest
        return wait


@dataclass
class Guard:
    """The outermost layer of the application."""

    app: ASGIApp
    settings: ServerSettings
    tokens: Tokens
    tickets: Tickets
    port: int | None = None
    """Where the server listens; None takes any port in `Host`."""
    limiter: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = RateLimiter(self.settings.rate_per_s, self.settings.rate_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(scope, receive, send, *refusal)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            body = _Body(receive, self.settings.max_body_kb * 1024, self.settings.request_timeout_s)
            await self.app(scope, body, _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str, str, dict[str, str]] | None:
        """(status, what, hint, headers) of the first thing that is wrong."""
        headers = Headers(scope=scope)
        if not self._host_allowed(headers.get("host", "")):
            return (421, "this Host is not served here", "add it to server.allowed_hosts", {})
        if not self._origin_allowed(headers):
            return (403, "requests from other sites are refused", "add the site to server.cors_origins", {})
        holder = self._holder(scope, headers)
        client = scope.get("client") or ("?", 0)
        wait = self.limiter.admit(f"token:{holder}" if holder else f"address:{client[0]}")
        if wait:
            return (429, "too many requests", "", {"Retry-After": str(int(wait) + 1)})
        if holder is None and not self._open_to_all(scope, headers):
            bearer = {"WWW-Authenticate": 'Bearer realm="agentforge"'}
            return (401, "a valid token is needed", "Authorization: Bearer TOKEN", bearer)
        if _declared_length(headers) > self.settings.max_body_kb * 1024:
            return (413, f"the body is larger than {self.settings.max_body_kb} kB", "", {})
        scope.setdefault("state", {})["holder"] = holder
        return None

    def _host_allowed(self, host: str) -> bool:
        """A name that a foreign page made point here (DNS rebinding) is not one of ours."""
        name, port = _split_host(host)
        if (
            port is not None
            and self.port is not None
            and port != self.port
            and not self.settings.allowed_hosts
        ):
            return False
        bound = self.settings.host
        known = {*(one.lower() for one in self.settings.allowed_hosts), bound.lower()}
        if is_loopback(bound):
            known |= {"localhost", "127.0.0.1", "::1"}
        if name in known or host.lower() in known:
            return True
        # Rebinding needs a name; an address that reached a server bound to every address is its own.
        return bound in ("0.0.0.0", "::") and _is_address(name)  # noqa: S104 - compared, not bound

    def _origin_allowed(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "none") in ("none", "same-origin") or (
                headers.get("sec-fetch-mode") == "navigate"
            )
        if origin in self.settings.cors_origins:
            return True
        try:
            site = urlsplit(origin).netloc.lower()
        except ValueError:
            return False
        return bool(site) and site == headers.get("host", "").lower()

    def _open_to_all(self, scope: Scope, headers: Headers) -> bool:
        path = scope["path"]
        # A browser asks without a token what a listed site may send; the answer says nothing else.
        preflight = (
            scope["type"] == "http"
            and scope["method"] == "OPTIONS"
            and headers.get("origin") in self.settings.cors_origins
            and "access-control-request-method" in headers
        )
        return path in OPEN_PATHS or _public_asset(path) or preflight

    def _holder(self, scope: Scope, headers: Headers) -> str | None:
        """Who asks: the name of a token or ticket, "local" where none is needed, None for nobody."""
        if not self.tokens:
            return "local"
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return self.tokens.holder(token.strip())
        if scope["path"].endswith(STREAM_ENDS):
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            for ticket in query.get("ticket", [])[:1]:
                return self.tickets.take(ticket)
        return None


class BodyTooLarge(HTTPException):
    """More bytes came than may come; raised inside the application while it reads."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"the body is larger than {most // 1024} kB")


class BodyTooSlow(HTTPException):
    """The body did not come in time; raised inside the application while it reads."""

    def __init__(self) -> None:
        super().__init__(408, "the body did not come in time", headers={"Connection": "close"})


class _Body:
    """Counts what is received, whatever Content-Length says, and does not wait for it for ever."""

    def __init__(self, receive: Receive, most: int, timeout_s: float) -> None:
        self._receive, self._left, self._most = receive, most, most
        self._end = asyncio.get_running_loop().time() + timeout_s
        self._whole = False

    async def __call__(self) -> Message:
        # Behind the body only the end of the connection is told, for which a stream waits long.
        try:
            async with asyncio.timeout_at(None if self._whole else self._end):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow from None
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise BodyTooLarge(self._most)
        return message


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURE_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


async def _refuse(
    scope: Scope, receive: Receive, send: Send, status: int, what: str, hint: str, headers: dict[str, str]
) -> None:
    # The rest of a refused body is not read: the connection ends with the answer.
    answer = problem(status, what, hint=hint, headers={**_SECURE_HEADERS, **headers, "Connection": "close"})
    if scope["type"] == "websocket":
        await receive()
        await deny(scope, receive, send, answer)
    else:
        await answer(scope, receive, send)


async def deny(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
    """Refuse a handshake with an HTTP answer; without that extension of the server, as a policy violation."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await answer(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})


def _public_asset(path: str) -> bool:
    """The page itself and its files hold no data; the page asks for the token."""
    return path == "/" or path.startswith("/assets/") or path == "/favicon.svg"


def _declared_length(headers: Headers) -> int:
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _split_host(host: str) -> tuple[str, int | None]:
    """`name:port` as (lower-case name without brackets, port or None)."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "", parts.port)
    except ValueError:
        return ("", None)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
