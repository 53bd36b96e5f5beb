"""Every call is on disk before its answer is used, and the record answers in the model's place."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.chat import Completion, Spend
from agentforge.core.errors import LimitReached, RecordError
from agentforge.models.errors import AuthError, ContextLengthError
from agentforge.models.ledger import Ledger
from agentforge.models.record import RecordingModel, load_calls
from agentforge.models.replay import ReplayModel
from tests.models.helpers import Shown, ask, client_for, ledger_with, until
from tests.support.model_server import Replies, Reply, ScriptedModel, context_too_long, failure


class Heard:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_start(self, call: int, agent: str, model: str) -> None:
        self.events.append(("start", call, agent, model))

    def on_token(self, call: int, agent: str, text: str) -> None:
        self.events.append(("token", call, agent, text))

    def on_reset(self, call: int, agent: str, reason: str) -> None:
        self.events.append(("reset", call, agent, reason))

    def on_finish(self, call: int, agent: str, completion: Completion, spend: Spend) -> None:
        self.events.append(("finish", call, agent, completion, spend))


def recorder(server: ScriptedModel, path: Path, ledger: Ledger | None = None, **more: Any) -> RecordingModel:
    ledger = ledger or ledger_with()
    return RecordingModel(client_for(server, ledger), path, ledger, more.pop("listener", None), **more)


async def record(
    replies: Replies, path: Path, *texts: str, listener: Heard | None = None
) -> list[Completion]:
    """Ask `texts` one after the other of a scripted server, recording."""
    with ScriptedModel(replies) as server:
        model = recorder(server, path, listener=listener)
        return [await model.complete(ask(text), Shown()) for text in texts]


def raw(path: Path) -> bytes:
    return path.read_bytes()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "calls.jsonl"


async def test_af31_the_record_says_what_was_really_asked_and_answered(path: Path) -> None:
    [completion] = await record([Reply("hello there", model="scripted-0806")], path, "hi")
    [call] = load_calls(path)
    assert (call.call, call.agent, call.model) == (1, "coder", "scripted-0806")
    sent = call.request
    assert (sent.model, sent.temperature, sent.seed, sent.max_tokens) == ("scripted", 0.0, 42, 4096)
    assert sent.messages[0].content == "hi"
    assert call.completion == completion
    assert call.cost_usd == completion.cost_usd == call.spend.cost_usd
    assert call.started <= call.ended
    assert sum(call.pieces) == len("hello there")


async def test_the_line_is_there_before_the_answer(path: Path) -> None:
    with ScriptedModel(["a", "b"]) as server:
        model = recorder(server, path)
        for expected in (1, 2):
            await model.complete(ask())
            assert len(raw(path).splitlines()) == expected
    assert all(json.loads(line)["v"] == 1 for line in raw(path).split(b"\n") if line)


async def test_u2028_and_emoji_stay_on_one_line(path: Path) -> None:
    await record([Reply("a\u2028b 🐍\n")], path, "x\u2029y")
    [call] = load_calls(path)
    assert call.completion is not None
    assert call.completion.text == "a\u2028b 🐍\n"
    assert raw(path).count(b"\n") == 1


async def test_failed_limited_and_interrupted_calls_are_recorded(path: Path) -> None:
    ledger = ledger_with(max_calls=2)
    with ScriptedModel([failure(401), Reply("x " * 300, delay_s=0.02), "never"]) as server:
        model = recorder(server, path, ledger)
        with pytest.raises(AuthError):
            await model.complete(ask("one"))
        shown = Shown()
        task = asyncio.create_task(model.complete(ask("two"), shown))
        await until(lambda: shown.log)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ledger.reserve("scripted", 1, 1)
        with pytest.raises(LimitReached):
            await model.complete(ask("three"))
    kinds = [call.error.kind for call in load_calls(path) if call.error]
    assert kinds == ["AuthError", "interrupted", "LimitReached"]
    assert [len(call.charges) for call in load_calls(path)] == [0, 1, 0]


async def test_every_attempt_is_on_the_record_and_the_costs_add_up(path: Path) -> None:
    ledger = ledger_with()
    replies = [Reply("a b c", finish_reason=None), Reply("one"), failure(503), Reply("two", usage=None)]
    with ScriptedModel(replies) as server:
        model = recorder(server, path, ledger)
        await model.complete(ask("1"))
        await model.complete(ask("2"))
    first, second = load_calls(path)
    assert (first.retries, len(first.charges)) == (1, 2)
    assert (second.retries, len(second.charges)) == (1, 1)
    assert first.voided[0].text == "a b c"
    assert (first.cost_usd or 0) + (second.cost_usd or 0) == pytest.approx(ledger.spend.cost_usd)
    assert second.spend == ledger.spend


async def test_secrets_are_not_on_the_record(path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    with ScriptedModel([Reply(f"here: {token}")]) as server:
        completion = await recorder(server, path).complete(ask(f"my token is {token}"))
    assert token in completion.text
    assert token not in raw(path).decode()
    replayed = await ReplayModel(path).complete(ask(f"my token is {token}"))
    assert replayed.text == "here: [redacted]"


async def test_a_torn_last_line_is_left_out_and_then_cut_off(path: Path) -> None:
    await record(["a", "b"], path, "1", "2")
    whole = raw(path)
    overwrite(path, whole[:-20])
    assert [call.call for call in load_calls(path)] == [1]
    await record(["c"], path, "3")
    assert [call.call for call in load_calls(path)] == [1, 2]
    assert whole.split(b"\n")[0] == raw(path).split(b"\n")[0]


async def test_a_last_line_that_lacks_only_its_newline_counts(path: Path) -> None:
    await record(["a"], path, "1")
    overwrite(path, raw(path)[:-1])
    assert len(load_calls(path)) == 1


async def test_a_damaged_line_is_named(path: Path) -> None:
    await record(["a", "b"], path, "1", "2")
    first, second, _ = raw(path).split(b"\n")
    overwrite(path, first[:50] + b"\n" + second + b"\n")
    with pytest.raises(RecordError, match="line 1"):
        load_calls(path)


def test_a_missing_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl"):
        ReplayModel(tmp_path / "none.jsonl")


async def test_the_same_run_replayed_gives_the_same_events(path: Path, tmp_path: Path) -> None:
    replies = [Reply("a b c d", reset_after=2), Reply("plan it"), Reply("code\n it"), Reply("again é")]
    live, again = Heard(), Heard()
    answers = await record(replies, path, "one", "two", "two", listener=live)
    ledger = Ledger()
    model = RecordingModel(ReplayModel(path, ledger), tmp_path / "again.jsonl", ledger, again)
    replayed = [await model.complete(ask(text), Shown()) for text in ("one", "two", "two")]
    assert replayed == answers
    assert again.events == live.events
    assert any(event[0] == "reset" for event in live.events)
    first, second = load_calls(path), load_calls(tmp_path / "again.jsonl")
    assert [c.charges for c in first] == [c.charges for c in second]
    assert [c.request for c in first] == [c.request for c in second]
    assert [c.key for c in first] == [c.key for c in second]


async def test_equal_requests_are_answered_in_order(path: Path) -> None:
    await record(["first", "second"], path, "same", "same")
    model = ReplayModel(path)
    assert [(await model.complete(ask("same"))).text for _ in range(2)] == ["first", "second"]
    assert model.unplayed == ()
    with pytest.raises(RecordError, match=r"call 3 .*\(coder\).*used already"):
        await model.complete(ask("same"))


async def test_recorded_errors_are_raised_again(path: Path) -> None:
    with ScriptedModel([context_too_long()]) as server, pytest.raises(ContextLengthError) as live:
        await recorder(server, path).complete(ask())
    with pytest.raises(ContextLengthError) as again:
        await ReplayModel(path).complete(ask())
    assert str(again.value) == str(live.value)
    assert again.value.status == 400


async def test_a_recorded_limit_is_raised_again(path: Path) -> None:
    with ScriptedModel([]) as server, pytest.raises(LimitReached):
        await recorder(server, path, ledger_with(max_calls=0)).complete(ask())
    with pytest.raises(LimitReached) as again:
        await ReplayModel(path).complete(ask())
    assert again.value.limit == "calls"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (ask("fix the thing"), r"message 1 \(user\) at character 8 says 'thing', it was 'bug'"),
        (ask("fix the bug", temperature=0.5), r"temperature is 0\.5, it was None"),
        (ask("fix the bug", seed=1), "seed is 1, it was None"),
        (ask("fix the bug", json_schema={"type": "object"}), "JSON schema differs"),
        (ask("fix the bug", agent="critic"), r"\(critic\).* the next one recorded is call 1 \(coder\)"),
    ],
)
async def test_a_request_that_is_not_in_the_record_is_told_apart(
    path: Path, request_: Any, told: str
) -> None:
    await record(["answer"], path, "fix the bug")
    with pytest.raises(RecordError, match=told) as caught:
        await ReplayModel(path).complete(request_)
    assert "model call 1 of this replay" in caught.value.what


async def test_concurrent_calls_have_their_own_numbers_and_whole_lines(path: Path) -> None:
    with ScriptedModel(lambda body: Reply("x " * 50)) as server:
        model = recorder(server, path)
        await asyncio.gather(*(model.complete(ask(str(number))) for number in range(10)))
    assert sorted(call.call for call in load_calls(path)) == list(range(1, 11))


async def test_a_sink_that_fails_does_not_lose_the_call(path: Path) -> None:
    class Broken(Shown):
        def token(self, text: str) -> None:
            raise RuntimeError("screen gone")

    with ScriptedModel(["a b"]) as server, pytest.raises(RuntimeError, match="screen gone"):
        await recorder(server, path).complete(ask(), Broken())
    [call] = load_calls(path)
    assert call.error is not None
    assert call.error.kind == "RuntimeError"
    assert len(call.charges) == 1


async def test_the_record_is_for_its_owner(path: Path) -> None:
    old = os.umask(0o022)
    try:
        await record(["a"], path, "1")
    finally:
        os.umask(old)
    assert mode(path) == 0o600
