"""The one stand-in for a language model: a real HTTP server that speaks the chat-completions protocol.

    with ScriptedModel([Reply("hello"), rate_limited(2), Reply("bye")]) as server:
        ... OpenAIModel(base_url=server.base_url) ...
        assert server.requests[0]["messages"][-1]["content"] == "…"

`replies` is a list (answered in order), a callable `(request body) -> Reply | str`, or a mapping
`{agent: [replies] or callable}`; our client names the asking agent in the header `X-AgentForge-Agent`,
which is also in every recorded body under "_agent". A plain `str` is a `Reply` with that text.
When the script runs out the server answers 400 (never retried) and `server.exhausted` is true.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

AGENT_HEADER = "X-AgentForge-Agent"
Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One scripted answer. Faults are fields, so they combine.

    `usage`: "auto" counts words, None reports none, a dict goes out as it is.
    `reset_after`: the connection is reset after that many pieces (0: after the headers, -1: before them).
    `finish_reason` None and `done` False leave out the protocol's ends; `cut` leaves out the end of the body.
    `bad_chunk_after`: an event that is not JSON after that many pieces; `error_after`: an error event.
    `stall_after`: silence after that many pieces; `stall_at_end`: after the finish reason.
    `wire_bytes`: the body is sent in writes of that many bytes, which splits characters.
    """

    text: str = ""
    pieces: tuple[str, ...] | None = None
    finish_reason: str | None = "stop"
    usage: Mapping[str, Any] | str | None = "auto"
    model: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | str | Mapping[str, Any] | None = None
    content_type: str | None = None
    done: bool = True
    cut: bool = False
    reset_after: int | None = None
    bad_chunk_after: int | None = None
    error_after: tuple[int, Mapping[str, Any]] | None = None
    delay_s: float = 0.0
    first_delay_s: float = 0.0
    stall_after: int | None = None
    stall_at_end: bool = False
    crlf: bool = False
    comments: bool = False
    wire_bytes: int | None = None
    ascii: bool = False
    refusal: str | None = None

    def parts(self) -> tuple[str, ...]:
        if self.pieces is not None:
            return self.pieces
        return tuple(re.findall(r"\s*\S+\s*?|\s+", self.text))

    def tokens(self, request: Body) -> Mapping[str, Any] | None:
        if not isinstance(self.usage, str):
            return self.usage
        prompt = sum(len(str(message["content"]).split()) for message in request.get("messages", []))
        made = len(self.parts())
        return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


Answer = Reply | str
Script = Callable[[Body], Answer]
Replies = Sequence[Answer] | Script | Mapping[str, Sequence[Answer] | Script]


def failure(status: int, message: str = "scripted failure", **error: Any) -> Reply:
    """A JSON error in OpenAI's shape; `code`, `type` and `param` as keywords."""
    return Reply(status=status, body={"error": {"message": message, "type": "scripted", **error}})


def rate_limited(retry_after: float | str | None = None) -> Reply:
    """429; `retry_after` in seconds, or a ready header value such as an HTTP date."""
    reply = failure(429, "Rate limit reached", code="rate_limit_exceeded")
    return reply if retry_after is None else replace(reply, headers={"Retry-After": str(retry_after)})


def http_date(timestamp: float) -> str:
    """`timestamp` (seconds since the epoch) as an HTTP date."""
    return formatdate(timestamp, usegmt=True)


def out_of_quota() -> Reply:
    return failure(
        429, "You exceeded your current quota", code="insufficient_quota", type="insufficient_quota"
    )


def bad_gateway() -> Reply:
    """502 with the HTML page of a proxy."""
    return Reply(status=502, body="<html><body>502 Bad Gateway</body></html>", content_type="text/html")


def context_too_long(flavour: str = "openai") -> Reply:
    """400 as OpenAI or as llama.cpp words it."""
    if flavour == "openai":
        message = (
            "This model's maximum context length is 2000 tokens. However, your messages resulted in 9000."
        )
        return failure(
            400, message, code="context_length_exceeded", type="invalid_request_error", param="messages"
        )
    error = {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 2000,
    }
    return Reply(status=400, body={"error": error})


class ScriptedModel:
    """Context manager around the server; every request body is kept in `requests`, in order.

    `rejects` names request fields that are answered with a 400 naming them, as endpoints do that do not
    know them; such requests use up no reply. `api_key` demands a bearer token; without `lists_models`
    `/v1/models` is not there; `cards` are its rows, in place of plain ones for `models`.
    """

    def __init__(
        self,
        replies: Replies = (),
        *,
        models: Sequence[str] = ("scripted",),
        rejects: Sequence[str] = (),
        api_key: str | None = None,
        lists_models: bool = True,
        cards: Sequence[Body] = (),
    ) -> None:
        self.models = tuple(models)
        self.cards: list[Body] = list(cards)
        self.rejects = tuple(rejects)
        self.api_key = api_key
        self.lists_models = lists_models
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.exhausted = False
        self.disconnects = 0
        self.disconnected = threading.Event()
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._script = _compile(replies)
        self._server = _Server(self)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedModel:
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.02},
            name="scripted-model",
            daemon=True,
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def record(self, body: Body, headers: Mapping[str, str]) -> None:
        with self._lock:
            self.requests.append(body)
            self.headers.append(dict(headers))

    def next_reply(self, body: Body) -> Reply:
        for name in self.rejects:
            if name in body:
                return failure(400, f"Unsupported parameter: '{name}' is not supported.", param=name)
        with self._lock:
            answer = self._script(body)
        if answer is None:
            self.exhausted = True
            return failure(400, f"the script has no reply left for agent {body['_agent']!r}")
        return Reply(answer) if isinstance(answer, str) else answer

    def note_disconnect(self) -> None:
        with self._lock:
            self.disconnects += 1
        self.disconnected.set()


def _compile(replies: Replies) -> Callable[[Body], Answer | None]:
    """The script as one function; None where it has run out."""
    if isinstance(replies, Mapping):
        by_agent = {agent: _compile(script) for agent, script in replies.items()}
        return lambda body: by_agent[body["_agent"]](body) if body["_agent"] in by_agent else None
    if callable(replies):
        return replies
    waiting: Iterator[Answer] = iter(list(replies))
    return lambda body: next(waiting, None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: ScriptedModel) -> None:
        self.script = script
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests, not a line on stderr."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models" or not self._script.lists_models:
            self._send(404, json.dumps({"error": {"message": f"no such path {self.path}"}}).encode())
        elif self._authorized():
            rows = self._script.cards or [
                {"id": name, "object": "model", "created": 0, "owned_by": "test"}
                for name in self._script.models
            ]
            self._send(200, json.dumps({"object": "list", "data": rows}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        body["_agent"] = self.headers.get(AGENT_HEADER, "")
        if self.path != "/v1/chat/completions":
            self._send(404, json.dumps({"error": {"message": f"no such path {self.path}"}}).encode())
            return
        if not self._authorized():
            return
        self._script.record(body, self.headers)
        reply = self._script.next_reply(body)
        if reply.reset_after == -1:
            self._reset()
        elif reply.status != 200 or reply.body is not None:
            self._send_body(reply)
        elif body.get("stream"):
            self._guarded_stream(reply, body)
        else:
            self._send(200, json.dumps(_whole(reply, body)).encode())

    @property
    def _script(self) -> ScriptedModel:
        return self.server.script

    def _authorized(self) -> bool:
        key = self._script.api_key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        shown = self.headers.get("Authorization", "")
        message = f"Incorrect API key provided: {shown.removeprefix('Bearer ')}"
        self._send(401, json.dumps({"error": {"message": message, "code": "invalid_api_key"}}).encode())
        return False

    def _send(
        self,
        status: int,
        data: bytes,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_body(self, reply: Reply) -> None:
        body = reply.body if isinstance(reply.body, str | bytes) else json.dumps(reply.body or {})
        data = body if isinstance(body, bytes) else body.encode()
        self._send(reply.status, data, reply.content_type or "application/json", reply.headers)

    def _guarded_stream(self, reply: Reply, request: Body) -> None:
        """Stream; a reader that leaves early is counted."""
        try:
            self._stream(reply, request)
        except (BrokenPipeError, ConnectionResetError):
            self._script.note_disconnect()
            self.close_connection = True

    def _stream(self, reply: Reply, request: Body) -> None:
        self._pause(reply.first_delay_s)
        self.send_response(200)
        self.send_header("Content-Type", reply.content_type or "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for event in _events(reply, request):
            if event is RESET:
                self._reset()
                return
            if event is STALL:
                self._wait_until_left()
                return
            self._write(event, reply)
            self._pause(reply.delay_s)
        if reply.cut:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _write(self, event: bytes, reply: Reply) -> None:
        data = event.replace(b"\n", b"\r\n") if reply.crlf else event
        size = reply.wire_bytes or len(data)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()

    def _pause(self, seconds: float) -> None:
        if seconds and not self._script.stopping.wait(seconds):
            self._notice_leaving()

    def _notice_leaving(self) -> None:
        """Raise when the reader has closed its end."""
        self.connection.setblocking(False)
        try:
            if self.connection.recv(1, socket.MSG_PEEK) == b"":
                raise BrokenPipeError
        except BlockingIOError:
            pass
        finally:
            self.connection.setblocking(True)

    def _wait_until_left(self) -> None:
        while not self._script.stopping.wait(0.02):
            self._notice_leaving()

    def _reset(self) -> None:
        """End with RST, as a dying server does; a moment earlier the reader gets what was sent."""
        self._script.stopping.wait(0.05)
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.wfile.flush()
        self.connection.close()


RESET = b"\0reset"
STALL = b"\0stall"


def _events(reply: Reply, request: Body) -> Iterator[bytes]:
    """The stream as `data:` events, with the scripted faults in their places."""
    parts = reply.parts()
    yield _event(reply, _chunk(reply, request, {"role": "assistant", "content": ""}))
    for index in range(len(parts) + 1):
        yield from _fault(reply, index)
        if index == reply.reset_after or index == reply.stall_after:
            return
        if index < len(parts):
            yield _event(reply, _chunk(reply, request, {"content": parts[index]}))
    if reply.refusal is not None:
        yield _event(reply, _chunk(reply, request, {"refusal": reply.refusal}))
    if reply.finish_reason is not None:
        yield _event(reply, _chunk(reply, request, {}, reply.finish_reason))
    if reply.stall_at_end:
        yield STALL
        return
    usage = reply.tokens(request)
    if usage is not None and (request.get("stream_options") or {}).get("include_usage"):
        yield _event(reply, {**_chunk(reply, request, {}), "choices": [], "usage": dict(usage)})
    if reply.done:
        yield b"data: [DONE]\n\n"


def _fault(reply: Reply, index: int) -> Iterator[bytes]:
    if reply.comments:
        yield b": keep-alive\n\n"
    if index == reply.bad_chunk_after:
        yield b'data: {"choices": [{"delta": {"con\n\n'
    if reply.error_after is not None and index == reply.error_after[0]:
        yield _event(reply, {"error": dict(reply.error_after[1])})
    if index == reply.reset_after:
        yield RESET
    if index == reply.stall_after:
        yield STALL


def _event(reply: Reply, payload: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(payload, ensure_ascii=reply.ascii)}\n\n".encode()


def _chunk(reply: Reply, request: Body, delta: Body, finish_reason: str | None = None) -> Body:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**_frame(reply, request), "object": "chat.completion.chunk", "choices": [choice]}


def _frame(reply: Reply, request: Body) -> Body:
    return {"id": "chatcmpl-scripted", "created": 0, "model": reply.model or request.get("model", "scripted")}


def _whole(reply: Reply, request: Body) -> Body:
    message = {"role": "assistant", "content": "".join(reply.parts())}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    usage = reply.tokens(request)
    answer = {**_frame(reply, request), "object": "chat.completion", "choices": [choice]}
    return answer if usage is None else {**answer, "usage": dict(usage)}
