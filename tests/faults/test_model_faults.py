"""What an endpoint can do to a run: every fault by its name, through the whole of `agentforge fix`.

In the everyday suite every fourth fault runs; `make faults` runs them all.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agentforge.core.errors import ExitCode
from tests.faults.conftest import GOOD, PATCH, Rig
from tests.support.model_server import (
    Reply,
    ScriptedModel,
    bad_gateway,
    context_too_long,
    failure,
    http_date,
    out_of_quota,
    rate_limited,
)
from tests.support.sampling import everyday

pytestmark = pytest.mark.docker

SHARE = 4
VERIFIED, TRIED, MODEL, LIMIT = (
    ExitCode.VERIFIED,
    ExitCode.NO_VERIFIED_PATCH,
    ExitCode.MODEL,
    ExitCode.LIMIT,
)


ANSWER = Reply(GOOD)


@dataclass(frozen=True)
class Fault:
    """`then` follows the fault; without it the fault is all that the endpoint ever answers.

    `requests`: how many the endpoint saw. `says`: words on stderr.
    """

    name: str
    reply: Reply
    code: int
    says: tuple[str, ...] = ()
    then: Reply | None = ANSWER
    requests: tuple[int, int] = (2, 2)
    settings: tuple[tuple[str, object], ...] = ()
    options: tuple[str, ...] = ()


def event(**delta: Any) -> bytes:
    """One event of a stream made by hand."""
    finish = delta.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    row = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    return b"data: " + json.dumps({**row, "choices": [choice]}).encode() + b"\n\n"


def stream(*events: bytes, **headers: str) -> Reply:
    return Reply(body=b"".join(events), content_type="text/event-stream", headers=headers)


END = event(finish_reason="stop") + b"data: [DONE]\n\n"
WHOLE = event(role="assistant", content=GOOD) + END
TOOL_CALL = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "write", "arguments": '{"path": "shop/money.py"}'},
}


def passing(name: str, reply: Reply, **more: Any) -> Fault:
    """Comes once; asked again, the endpoint answers well."""
    return Fault(name, reply, VERIFIED, **more)


def lasting(name: str, reply: Reply, *says: str, requests: int = 1) -> Fault:
    """Comes always and cannot be waited for."""
    return Fault(name, reply, MODEL, says, then=None, requests=(requests, requests))


def harmless(name: str, reply: Reply) -> Fault:
    """Odd, and no fault: the answer is whole."""
    return Fault(name, reply, VERIFIED, then=None, requests=(1, 1))


FAULTS = (
    lasting("401 wrong key", failure(401, "Incorrect API key", code="invalid_api_key"), "key"),
    lasting("403 forbidden", failure(403, "not allowed for this organisation"), "not allowed"),
    lasting("404 unknown model", failure(404, "model x does not exist", code="model_not_found"), "model"),
    lasting("422 unprocessable", failure(422, "messages: field required"), "field required"),
    lasting("429 out of quota", out_of_quota(), "quota"),
    lasting("500 for ever", failure(500, "the engine is on fire"), "500", requests=2),
    passing("408 request timeout", failure(408)),
    passing("409 conflict", failure(409)),
    passing("429 without Retry-After", rate_limited()),
    passing("429 Retry-After in seconds", rate_limited(1)),
    passing("429 Retry-After as a date", rate_limited(http_date(time.time() + 1))),
    passing("429 Retry-After that is no time", rate_limited("whenever you like")),
    Fault(
        "429 Retry-After of a day",
        rate_limited(86_400),
        LIMIT,
        ("time",),
        then=None,
        requests=(1, 1),
        options=("--time-limit", "30"),
    ),
    passing("500 once", failure(500)),
    passing("502 with an HTML page", bad_gateway()),
    passing("503 overloaded", failure(503)),
    passing("529 overloaded", failure(529)),
    passing("reset before the headers", Reply(reset_after=-1)),
    passing("reset before the first token", Reply(GOOD, reset_after=0)),
    passing("reset after some tokens", Reply(GOOD, reset_after=3)),
    passing("half a chunk, then the end", stream(event(content="half"), b'data: {"choices": [{"del')),
    passing("a chunk that is not JSON", Reply(GOOD, bad_chunk_after=2)),
    passing("no finish reason", Reply(GOOD, finish_reason=None)),
    passing("an error event in mid-stream", Reply(GOOD, error_after=(2, {"message": "busy", "code": 503}))),
    passing("a body that ends nowhere", Reply(GOOD, finish_reason=None, done=False, cut=True)),
    passing("nothing at all in the stream", stream(b"")),
    lasting(
        "an HTML page with status 200",
        Reply(body="<html>login</html>", content_type="text/html"),
        "text/html",
        "--base-url",
    ),
    passing("JSON of another shape with status 200", Reply(body={"status": "ok"})),
    passing("silence in mid-stream", Reply(GOOD, stall_after=2), settings=(("model__timeout_s", 0.6),)),
    passing("gzip that is not gzip", stream(b"not compressed", **{"Content-Encoding": "gzip"})),
    harmless("no [DONE]", Reply(GOOD, done=False)),
    harmless("no usage", Reply(GOOD, usage=None)),
    harmless("negative usage", Reply(GOOD, usage={"prompt_tokens": -5, "completion_tokens": -9})),
    harmless("usage of the wrong type", Reply(GOOD, usage={"prompt_tokens": "many"})),
    harmless("another model than asked for", Reply(GOOD, model="somebody-else")),
    harmless("keep-alive comments", Reply(GOOD, comments=True)),
    harmless("carriage returns", Reply(GOOD, crlf=True)),
    harmless("characters split between writes", Reply(GOOD + " ✓", wire_bytes=1)),
    harmless("the wrong role", stream(event(role="user", content=GOOD) + END)),
    harmless("gzip", stream(gzip.compress(WHOLE), **{"Content-Encoding": "gzip"})),
    harmless("one whole answer instead of a stream", Reply(body={
        "id": "x", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": GOOD}}],
    })),
    harmless("the stream sent twice", stream(WHOLE + WHOLE)),
    Fault("an empty answer", Reply(""), TRIED, ("empty",), then=None, requests=(1, 6)),
    Fault("content filter", Reply("I", finish_reason="content_filter"), MODEL, ("filter",), then=None,
          requests=(1, 2)),
    Fault("a refusal", Reply("", refusal="I cannot help"), MODEL, (), then=None, requests=(1, 3)),
    Fault("a tool call instead of text", stream(event(tool_calls=[TOOL_CALL]) + event(
        finish_reason="tool_calls") + b"data: [DONE]\n\n"), TRIED, (), then=None, requests=(1, 6)),
    Fault("cut at the token limit, always", Reply(GOOD[:120], finish_reason="length"), TRIED, (), then=None,
          requests=(1, 6)),
    Fault("prose, always", Reply("I would look at the share."), TRIED, (), then=None, requests=(1, 6)),
    Fault("ten megabytes", Reply("x" * 10_000_000, pieces=("x" * 100_000,) * 100), TRIED, (), then=None,
          requests=(1, 6)),
    Fault("bytes that are not UTF-8", stream(
        b'data: {"choices": [{"index": 0, "delta": {"content": "\xff\xfe"}}]}\n\n' + WHOLE), VERIFIED, (),
          then=Reply(GOOD), requests=(1, 2)),
    Fault("a token a minute", Reply(GOOD, delay_s=60), LIMIT, ("time",), then=None, requests=(1, 1),
          options=("--time-limit", "14")),
    Fault("context too long, as OpenAI says it", context_too_long("openai"), LIMIT, ("context",), then=None,
          requests=(1, 4)),
    Fault("context too long, as llama.cpp says it", context_too_long("llama.cpp"), LIMIT, ("context",),
          then=None, requests=(1, 4)),
)  # fmt: skip


@pytest.mark.parametrize("fault", everyday(FAULTS, SHARE), ids=lambda fault: fault.name)
def test_an_endpoint_s_fault_is_survived_or_named(fault: Fault, rig: Callable[..., Rig]) -> None:
    first = iter([fault.reply])

    def script(body: dict[str, Any]) -> Reply:
        return next(first, fault.then or fault.reply)

    machine = rig(model__max_retries=1, **dict(fault.settings))
    with ScriptedModel(script) as server:
        ending = machine.under(server, *fault.options)
        seen = len(server.requests)
    assert ending.code == fault.code, ending.err
    assert fault.requests[0] <= seen <= fault.requests[1]
    for word in fault.says:
        assert word in ending.err.lower()
    assert bool(ending.patch) is (fault.code == VERIFIED)
    # An endpoint that is still at work holds its own end, in this same process.
    ending.assert_clean(sockets=1 if fault.reply.delay_s else 0)


def test_names_are_said_once() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_nothing_is_paid_twice_for_a_stream_that_broke(rig: Callable[..., Rig]) -> None:
    """The tokens that came before the break are counted, and the second call is another call."""
    machine = rig(model__max_retries=1)
    with ScriptedModel([Reply(GOOD, reset_after=5), replace(Reply(GOOD))]) as server:
        ending = machine.under(server, "--json")
    document = json.loads(ending.out)
    assert document["outcome"] == "verified"
    assert document["calls"] == 2
    assert PATCH.splitlines()[-1] in ending.patch


def test_nothing_listens(rig: Callable[..., Rig]) -> None:
    ending = rig(model__max_retries=1).fix(base_url="http://127.0.0.1:9/v1")
    assert ending.code == MODEL
    assert "127.0.0.1:9" in ending.err
    ending.assert_clean()


def test_tls_is_spoken_to_a_plain_port(rig: Callable[..., Rig]) -> None:
    with ScriptedModel([]) as server:
        ending = rig(model__max_retries=1).fix(base_url=server.base_url.replace("http:", "https:"))
    assert ending.code == MODEL
    ending.assert_clean()
