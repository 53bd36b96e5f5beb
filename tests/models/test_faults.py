"""What is retried, what is not, and that no text is ever shown twice (complaint 19)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest

from agentforge.config.settings import ModelSettings
from agentforge.core.errors import ExitCode, LimitReached, ModelError
from agentforge.models import client as client_module
from agentforge.models.client import OpenAIModel
from agentforge.models.errors import (
    AuthError,
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextLengthError,
    EndpointError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
    UnknownModelError,
)
from agentforge.models.failures import retry_after_s
from tests.models.helpers import Shown, Waits, ask, client_for, ledger_with, settings_for, until
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

FINAL = [
    (failure(401), AuthError),
    (failure(403), AuthError),
    (failure(404, "The model does not exist", code="model_not_found"), UnknownModelError),
    (failure(400, "no"), BadRequestError),
    (failure(422, "no"), BadRequestError),
    (failure(400, "filtered", code="content_filter"), ContentFilterError),
    (failure(400, "flagged", code="content_policy_violation"), ContentFilterError),
    (context_too_long("openai"), ContextLengthError),
    (context_too_long("llama.cpp"), ContextLengthError),
    (
        failure(400, "Requested tokens exceed context window: maximum context length is 2048"),
        ContextLengthError,
    ),
    (out_of_quota(), QuotaExceededError),
    (Reply(status=400, body="not json"), BadRequestError),
    (Reply(status=401, body=""), AuthError),
]

PASSING = [
    (failure(408), ServerError),
    (failure(409), ServerError),
    (rate_limited(), RateLimitedError),
    (failure(500), ServerError),
    (bad_gateway(), ServerError),
    (failure(503), ServerError),
    (Reply(reset_after=-1), ConnectionFailedError),
    (Reply("a b c", reset_after=0), StreamBrokenError),
    (Reply("a b c d", reset_after=3), StreamBrokenError),
    (Reply("a b c", finish_reason=None), StreamBrokenError),
    (Reply("a b c", finish_reason=None, done=False), StreamBrokenError),
    (Reply("a b c", finish_reason=None, done=False, cut=True), StreamBrokenError),
    (Reply("a b c", bad_chunk_after=2), StreamBrokenError),
    (Reply("a b c", error_after=(2, {"message": "overloaded", "code": 503})), ServerError),
    (
        Reply("a b c", error_after=(2, {"message": "slow down", "code": "rate_limit_exceeded"})),
        RateLimitedError,
    ),
    (Reply("a b c", error_after=(1, {"message": "something", "type": "server_error"})), StreamBrokenError),
]


@pytest.mark.parametrize(("reply", "kind"), FINAL)
async def test_complaint_19_what_waiting_cannot_cure_is_not_retried(
    reply: Reply, kind: type[EndpointError]
) -> None:
    waits, ledger = Waits(), ledger_with()
    with ScriptedModel(lambda body: reply) as server, pytest.raises(kind) as caught:
        await client_for(server, ledger, waits).complete(ask())
    assert type(caught.value) is kind
    assert len(server.requests) == 1
    assert waits.seconds == []
    assert caught.value.hint
    assert caught.value.exit_code == ExitCode.MODEL
    assert ledger.spend.calls == 0


@pytest.mark.parametrize(("reply", "kind"), PASSING)
async def test_complaint_19_what_passes_is_retried_and_shown_once(
    reply: Reply, kind: type[EndpointError]
) -> None:
    waits, sink = Waits(), Shown()
    with ScriptedModel([reply, Reply("the answer")]) as server:
        completion = await client_for(server, waits=waits).complete(ask(), sink)
    assert completion.text == sink.text == "the answer"
    assert completion.retries == 1
    assert len(waits.seconds) == 1
    assert 0 <= waits.seconds[0] <= 60
    assert sink.resets == (1 if len(sink.log) > 2 else 0)


@pytest.mark.parametrize("flavour", ["openai", "llama.cpp"])
async def test_complaint_16_an_overflow_is_said_once_with_advice(flavour: str) -> None:
    with ScriptedModel(lambda body: context_too_long(flavour)) as server:
        with pytest.raises(ContextLengthError, match="max_output_tokens"):
            await client_for(server).complete(ask())
        assert len(server.requests) == 1


@pytest.mark.parametrize(("reply", "kind"), PASSING)
async def test_retries_end(reply: Reply, kind: type[EndpointError]) -> None:
    waits = Waits()
    with ScriptedModel(lambda body: reply) as server, pytest.raises(kind) as caught:
        await client_for(server, waits=waits, max_retries=2).complete(ask())
    assert type(caught.value) is kind
    assert len(server.requests) == 3
    assert len(waits.seconds) == 2


async def test_no_retries_where_none_are_wanted() -> None:
    with ScriptedModel(lambda body: failure(500)) as server, pytest.raises(ServerError):
        await client_for(server, max_retries=0).complete(ask())
    assert len(server.requests) == 1


async def test_back_off_grows() -> None:
    waits = Waits()
    with ScriptedModel(lambda body: failure(503)) as server, pytest.raises(ServerError):
        await client_for(server, waits=waits, max_retries=5).complete(ask())
    assert waits.seconds[4] > 4 > waits.seconds[0]
    assert len(set(waits.seconds)) == 5


async def test_complaint_19_retry_after_in_seconds_is_honoured() -> None:
    waits = Waits()
    with ScriptedModel([rate_limited(2), "ok"]) as server:
        await client_for(server, waits=waits).complete(ask())
    assert 2 <= waits.seconds[0] < 2.5


async def test_retry_after_as_a_date_is_honoured() -> None:
    waits = Waits()
    with ScriptedModel([rate_limited(http_date(time.time() + 20)), "ok"]) as server:
        await client_for(server, waits=waits).complete(ask())
    assert 17 < waits.seconds[0] < 21


async def test_retry_after_is_capped() -> None:
    waits = Waits()
    with ScriptedModel([rate_limited(86_400), "ok"]) as server:
        await client_for(server, waits=waits).complete(ask())
    assert 60 <= waits.seconds[0] < 61


NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 01 Jan 2025 12:00:30 GMT"}, 30),
        ({"retry-after": "Wed, 01 Jan 2025 11:00:00 GMT"}, 0),
    ],
)
def test_every_form_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOON) == seconds


async def test_a_wait_beyond_the_time_limit_is_not_begun() -> None:
    waits = Waits()
    with ScriptedModel(lambda body: rate_limited(30)) as server, pytest.raises(LimitReached) as caught:
        await client_for(server, ledger_with(time_limit_s=10), waits).complete(ask())
    assert caught.value.limit == "time"
    assert waits.seconds == []


async def test_eg16_a_silent_endpoint_is_a_broken_stream_and_is_tried_again() -> None:
    """Timeouts are the endpoint's fault and never an answer."""
    sink = Shown()
    with ScriptedModel([Reply("one two three", stall_after=2), "fine"]) as server:
        completion = await client_for(server, timeout_s=0.3).complete(ask(), sink)
    assert completion.text == sink.text == "fine"
    assert sink.resets == 1
    assert "no byte from the endpoint for 0.3 s" in "".join(sink.log)


async def test_no_byte_at_all_is_a_broken_stream() -> None:
    with (
        ScriptedModel([Reply("late", first_delay_s=0.9)]) as server,
        pytest.raises(StreamBrokenError, match=r"no byte .* 0\.2 s"),
    ):
        await client_for(server, timeout_s=0.2, max_retries=0).complete(ask())


async def test_slow_tokens_are_no_fault() -> None:
    with ScriptedModel([Reply("a b c d e f", delay_s=0.06)]) as server:
        completion = await client_for(server, timeout_s=0.3).complete(ask())
    assert completion.text == "a b c d e f"


@pytest.mark.parametrize(
    "reply",
    [
        Reply("whole answer", done=False),
        Reply("whole answer", done=False, cut=True),
        Reply("whole answer", done=False, usage=None, cut=True),
    ],
)
async def test_an_answer_with_its_finish_reason_is_whole(reply: Reply) -> None:
    with ScriptedModel([reply]) as server:
        assert (await client_for(server).complete(ask())).text == "whole answer"


async def test_a_server_that_never_hangs_up_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is complete; usage and end marker never come."""
    monkeypatch.setattr(client_module, "AFTER_FINISH_S", 0.1)
    with ScriptedModel([Reply("whole", stall_at_end=True)]) as server:
        started = time.monotonic()
        assert (await client_for(server).complete(ask())).text == "whole"
    assert time.monotonic() - started < 2


async def test_nothing_listens_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    waits, ledger = Waits(), ledger_with()
    model = OpenAIModel(ModelSettings(base_url=f"http://127.0.0.1:{port}/v1"), ledger, sleep=waits)
    with pytest.raises(ConnectionFailedError, match=str(port)) as caught:
        await model.complete(ask())
    assert len(waits.seconds) == client_module.NEVER_CONNECTED_RETRIES
    assert ledger.spend.calls == 0
    assert "base_url" in caught.value.hint


async def test_an_untrusted_certificate_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    import openai

    request = httpx.Request("POST", "https://h/v1")
    failed = openai.APIConnectionError(request=request)  # type: ignore[arg-type]
    failed.__cause__ = httpx.ConnectError("bad certificate")
    failed.__cause__.__cause__ = ssl.SSLCertVerificationError(1, "self-signed")
    with ScriptedModel([]) as server:
        translator = OpenAIModel(settings_for(server), ledger_with())._errors
    assert not translator.connection(failed, begun=False).retryable


@pytest.mark.parametrize("key", ["sk-proj-abcdefghijklmnop1234", "plain-secret-of-mine"])
async def test_secrets_never_show_in_errors(key: str) -> None:
    with ScriptedModel([], api_key="another") as server, pytest.raises(AuthError) as caught:
        await client_for(server, api_key=key).complete(ask())
    assert "Incorrect API key" in str(caught.value)
    assert key not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_an_errors_text_is_one_plain_short_line() -> None:
    with (
        ScriptedModel([failure(400, "\x1b[31mred\x1b[0m\nline two " + "x" * 5000)]) as server,
        pytest.raises(BadRequestError) as caught,
    ):
        await client_for(server).complete(ask())
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 500


async def test_af30_an_error_is_never_an_answer() -> None:
    with ScriptedModel(lambda body: failure(500)) as server, pytest.raises(ModelError):
        await client_for(server, max_retries=1).complete(ask())


async def test_cancelling_while_waiting_ends_at_once() -> None:
    with ScriptedModel(lambda body: rate_limited(50)) as server:
        model = OpenAIModel(settings_for(server), ledger_with())
        task = asyncio.create_task(model.complete(ask()))
        await until(lambda: server.requests)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1)


async def test_complaint_17_failed_attempts_are_billed_and_the_cap_holds() -> None:
    """A provider that produces text, bills it, and never ends: the cap of two calls stops it."""
    ledger = ledger_with(max_calls=2)
    with (
        ScriptedModel(lambda body: Reply("a b c d", finish_reason=None)) as server,
        pytest.raises(LimitReached) as caught,
    ):
        await client_for(server, ledger).complete(ask())
    assert caught.value.limit == "calls"
    assert len(server.requests) == 2
    assert ledger.spend.calls == 2
    assert ledger.spend.completion_tokens == 8
    assert ledger.spend.cost_usd > 0


async def test_complaint_17_a_timeout_is_billed_by_estimate() -> None:
    ledger = ledger_with()
    with ScriptedModel([Reply("one two three", stall_after=3), "fine"]) as server:
        completion = await client_for(server, ledger, timeout_s=0.2).complete(ask())
    broken, fine = ledger.charges
    assert broken.estimated
    assert broken.completion_tokens >= 3
    assert not fine.estimated
    assert completion.cost_usd == pytest.approx((broken.cost_usd or 0) + (fine.cost_usd or 0))


async def test_complaint_17_a_cost_limit_stops_before_the_call() -> None:
    with ScriptedModel(lambda body: "x") as server, pytest.raises(LimitReached, match="cost limit") as caught:
        await client_for(server, ledger_with(max_cost_usd=0.01)).complete(ask())
    assert server.requests == []
    assert caught.value.limit == "cost"


def test_dates_without_a_zone_are_utc() -> None:
    wish = (NOON + timedelta(seconds=5)).strftime("%a, %d %b %Y %H:%M:%S -0000")
    assert retry_after_s({"retry-after": wish}, NOON) == 5
