"""The client against a real HTTP server: what is sent, what comes back."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentforge.config.settings import AgentSettings, ModelSettings
from agentforge.core.chat import Message, ModelRequest, Usage
from agentforge.core.errors import ConfigError, LimitReached
from agentforge.models.client import OpenAIModel
from agentforge.models.endpoint import is_loopback
from agentforge.models.errors import BadRequestError, ContentFilterError, EmptyAnswerError
from tests.models.helpers import PRICE, Shown, Waits, ask, client_for, ledger_with, settings_for, until
from tests.support.model_server import Reply, ScriptedModel, failure

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


async def test_an_answer_is_streamed_and_counted() -> None:
    ledger, sink = ledger_with(), Shown()
    with ScriptedModel([Reply("def f():\n    return 1\n")]) as server:
        completion = await client_for(server, ledger).complete(ask("fix it please"), sink)
    assert completion.text == sink.text == "def f():\n    return 1\n"
    assert len(sink.log) > 3
    assert completion.finish_reason == "stop"
    assert completion.usage == Usage(prompt_tokens=3, completion_tokens=len(sink.log))
    assert completion.cost_usd == pytest.approx((3 * 2.5 + len(sink.log) * 10) / 1e6)
    assert ledger.spend.cost_usd == completion.cost_usd
    assert completion.retries == 0
    assert completion.latency_s > 0


async def test_af30_defaults_are_temperature_zero_and_a_seed() -> None:
    with ScriptedModel(["ok"]) as server:
        await client_for(server).complete(ask())
    [body] = server.requests
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 42, 4096)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["_agent"] == "coder"


async def test_af31_the_configured_model_is_asked_and_the_answering_one_is_named() -> None:
    with ScriptedModel([Reply("a"), Reply("b", model="scripted-2024-08-06"), Reply("c")]) as server:
        model = client_for(server, name="my-model")
        first = await model.complete(ask())
        second = await model.complete(ask())
        third = await model.complete(ask(model="another"))
    assert [body["model"] for body in server.requests] == ["my-model", "my-model", "another"]
    assert [first.model, second.model, third.model] == ["my-model", "scripted-2024-08-06", "another"]


async def test_the_environment_does_not_choose_endpoint_model_or_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-this-endpoint-1234567890")
    monkeypatch.setenv("OPENAI_MODEL", "wrong")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ScriptedModel(["ok"]) as server:
        await client_for(server).complete(ask())
    assert server.requests[0]["model"] == "scripted"
    assert "sk-not-for" not in str(server.headers)


async def test_eg20_a_retry_of_the_loop_can_vary_seed_and_temperature() -> None:
    with ScriptedModel(["a", "b", "c"]) as server:
        model = OpenAIModel(
            settings_for(server),
            ledger_with(),
            agents={"debugger": AgentSettings(temperature=0.3, seed=7, model="big", max_output_tokens=99)},
        )
        await model.complete(ask(agent="debugger"))
        await model.complete(ask(agent="debugger", temperature=0.9, seed=8, max_tokens=5))
        await model.complete(ask(agent="planner"))
    sent = [
        (body["model"], body["temperature"], body["seed"], body["max_tokens"]) for body in server.requests
    ]
    assert sent == [("big", 0.3, 7, 99), ("big", 0.9, 8, 5), ("scripted", 0.0, 42, 4096)]


async def test_without_a_seed_none_is_sent() -> None:
    with ScriptedModel(["a"]) as server:
        await client_for(server, seed=None).complete(ask())
    assert "seed" not in server.requests[0]


async def test_a_schema_travels_as_response_format() -> None:
    with ScriptedModel(['{"a": "b"}']) as server:
        await client_for(server).complete(ask(json_schema=SCHEMA))
    assert server.requests[0]["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("name", ["stream_options", "response_format", "seed", "temperature"])
async def test_what_an_endpoint_rejects_is_left_out_once_and_for_all(name: str) -> None:
    waits, ledger = Waits(), ledger_with()
    with ScriptedModel(["one", "two"], rejects=[name]) as server:
        model = client_for(server, ledger, waits)
        assert (await model.complete(ask(json_schema=SCHEMA))).retries == 0
        await model.complete(ask(json_schema=SCHEMA))
    assert [name in body for body in server.requests] == [True, False, False]
    assert waits.seconds == []
    assert ledger.spend.calls == 2


async def test_several_rejections_one_after_the_other() -> None:
    with ScriptedModel(["one"], rejects=["stream_options", "response_format", "seed"]) as server:
        await client_for(server).complete(ask(json_schema=SCHEMA))
    assert len(server.requests) == 4


async def test_newer_models_get_max_completion_tokens() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    with ScriptedModel([failure(400, words, param="max_tokens"), "ok", "ok"]) as server:
        model = client_for(server)
        await model.complete(ask(max_tokens=50))
        await model.complete(ask(max_tokens=60))
    assert [body.get("max_tokens") for body in server.requests] == [50, None, None]
    assert [body.get("max_completion_tokens") for body in server.requests] == [None, 50, 60]


async def test_a_parameter_is_not_dropped_twice() -> None:
    """An endpoint that goes on complaining is believed the second time."""
    with (
        ScriptedModel(lambda body: failure(400, "bad response_format")) as server,
        pytest.raises(BadRequestError, match="bad response_format"),
    ):
        await client_for(server).complete(ask(json_schema=SCHEMA))
    assert len(server.requests) == 2


async def test_length_is_an_answer() -> None:
    with ScriptedModel(
        [Reply("cut of", finish_reason="length"), Reply("", finish_reason="length")]
    ) as server:
        model = client_for(server)
        assert (await model.complete(ask())).finish_reason == "length"
        assert (await model.complete(ask())).text == ""


@pytest.mark.parametrize(
    "reply", [Reply("Sorr", finish_reason="content_filter"), Reply(refusal="I cannot help with that")]
)
async def test_a_filtered_answer_is_an_error_and_billed(reply: Reply) -> None:
    ledger = ledger_with()
    with ScriptedModel([reply]) as server, pytest.raises(ContentFilterError):
        await client_for(server, ledger).complete(ask())
    assert ledger.spend.calls == 1


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_complaint_16_an_empty_answer_is_not_asked_for_again(text: str) -> None:
    waits, ledger = Waits(), ledger_with()
    with ScriptedModel(lambda body: Reply(text)) as server, pytest.raises(EmptyAnswerError):
        await client_for(server, ledger, waits).complete(ask())
    assert len(server.requests) == 1
    assert waits.seconds == []
    assert ledger.spend.calls == 1


@pytest.mark.parametrize("wire_bytes", [None, 1, 2, 7])
@pytest.mark.parametrize("crlf", [False, True])
async def test_complaint_21_framing_keeps_every_character(wire_bytes: int | None, crlf: bool) -> None:
    pieces = ("a\u2028b", "\u2029\x85\x0b\x0c", "é", "\n\n", "data: x\r\n", "  indented", "🐍", "\t")
    sink = Shown()
    with ScriptedModel([Reply(pieces=pieces, crlf=crlf, wire_bytes=wire_bytes, comments=True)]) as server:
        completion = await client_for(server).complete(ask(), sink)
    assert completion.text == "".join(pieces)
    assert tuple(sink.log) == pieces


async def test_surrogates_are_joined_or_replaced() -> None:
    reply = Reply(pieces=("snake \ud83d", "\udc0d", " lone \udc0d."), ascii=True)
    with ScriptedModel([reply]) as server:
        completion = await client_for(server).complete(ask())
    assert completion.text == "snake 🐍 lone \ufffd."


async def test_usage_missing_is_unknown_and_the_bill_an_estimate() -> None:
    ledger = ledger_with()
    with ScriptedModel([Reply("one two three", usage=None)]) as server:
        completion = await client_for(server, ledger).complete(ask())
    assert completion.usage == Usage()
    [charge] = ledger.charges
    assert charge.estimated
    assert charge.prompt_tokens > 0
    assert charge.completion_tokens > 0


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": "many"},
        {"prompt_tokens": None, "completion_tokens": 1.5, "prompt_tokens_details": 7},
    ],
)
async def test_nonsense_in_usage_counts_as_unknown(usage: dict[str, object]) -> None:
    ledger = ledger_with()
    with ScriptedModel([Reply("one", usage=usage)]) as server:
        completion = await client_for(server, ledger).complete(ask())
    assert completion.usage == Usage()
    assert ledger.spend.cost_usd > 0


async def test_an_endpoint_that_ignores_stream_is_understood() -> None:
    body = {
        "model": "scripted",
        "choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1},
    }
    sink = Shown()
    with ScriptedModel([Reply(body=body)]) as server:
        completion = await client_for(server).complete(ask(), sink)
    assert completion.text == sink.text == "whole"
    assert completion.usage.prompt_tokens == 4


async def test_a_web_page_is_no_endpoint() -> None:
    with (
        ScriptedModel([Reply(body="<html>hi</html>", content_type="text/html")]) as server,
        pytest.raises(BadRequestError, match=r"text/html.*--base-url"),
    ):
        await client_for(server).complete(ask())


async def test_a_runaway_answer_is_cut_as_length() -> None:
    with ScriptedModel([Reply(pieces=("x" * 1000,) * 5000)]) as server:
        completion = await client_for(server).complete(ask(max_tokens=10))
    assert completion.finish_reason == "length"
    assert len(completion.text) < 10_000


async def test_secrets_do_not_leave_in_prompts() -> None:
    key = "my-very-own-key"
    with ScriptedModel(["ok"], api_key=key) as server:
        await client_for(server, api_key=key).complete(ask(f"key {key}, also ghp_{'a1' * 18}"))
    sent = server.requests[0]["messages"][0]["content"]
    assert sent == "key [redacted], also [redacted]"


async def test_cancelling_closes_the_stream_and_settles() -> None:
    ledger, sink = ledger_with(), Shown()
    with ScriptedModel([Reply("w " * 500, delay_s=0.02)]) as server:
        task = asyncio.create_task(client_for(server, ledger).complete(ask(), sink))
        await until(lambda: sink.log)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.disconnected.wait, 3)
    [charge] = ledger.charges
    assert charge.estimated
    assert charge.completion_tokens > 0
    ledger.reserve("scripted", 1, 1).release()


async def test_the_time_limit_ends_a_call_in_mid_stream() -> None:
    ledger = ledger_with(time_limit_s=0.4)
    with ScriptedModel([Reply("w " * 500, delay_s=0.02)]) as server:
        started = time.monotonic()
        with pytest.raises(LimitReached) as caught:
            await client_for(server, ledger).complete(ask())
    assert caught.value.limit == "time"
    assert time.monotonic() - started < 2
    assert ledger.spend.calls == 1


async def test_calls_side_by_side_do_not_mix() -> None:
    ledger = ledger_with()
    script = lambda body: Reply(f"echo {body['messages'][0]['content']} " * 5, delay_s=0.001)  # noqa: E731
    with ScriptedModel(script) as server:
        model = client_for(server, ledger)
        answers = await asyncio.gather(*(model.complete(ask(str(number))) for number in range(8)))
    assert [answer.text.split()[1] for answer in answers] == [str(number) for number in range(8)]
    assert ledger.spend.calls == 8


def test_one_model_serves_several_event_loops() -> None:
    with ScriptedModel(["a", "b"]) as server:
        model = client_for(server)
        assert [asyncio.run(model.complete(ask())).text for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host/v1", "http://", "http://[::1", "http://h:99999"]
)
def test_a_bad_url_is_said_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIModel(ModelSettings(base_url=url), ledger_with())


def test_loopback() -> None:
    assert is_loopback("http://127.0.0.1:1/v1")
    assert is_loopback("http://[::1]:1/v1")
    assert is_loopback("http://localhost/v1")
    assert not is_loopback("https://api.openai.com/v1")


async def test_af43_cost_comes_from_the_endpoints_own_count() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 400},
    }
    with ScriptedModel([Reply("x", usage=usage), Reply("x", usage=usage)]) as server:
        model = client_for(server)
        priced = await model.complete(ask())
        unpriced = await model.complete(ask(model="nobody-knows"))
    assert priced.usage == Usage(prompt_tokens=1000, completion_tokens=200, cached_tokens=400)
    assert priced.cost_usd == pytest.approx((600 * PRICE.input + 400 * 1.25 + 200 * PRICE.output) / 1e6)
    assert unpriced.cost_usd is None


async def test_roles_arrive_as_they_were() -> None:
    said = (Message(role="system", content="s"), Message(role="user", content="u"))
    with ScriptedModel(["ok"]) as server:
        await client_for(server).complete(ModelRequest(agent="a gent\n", messages=said))
    assert [message["role"] for message in server.requests[0]["messages"]] == ["system", "user"]
    assert server.requests[0]["_agent"] == "a_gent_"
