from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import AgentSettings, ModelSettings, Price, Settings
from agentforge.core.errors import UsageError
from agentforge.core.task import Limits
from agentforge.models.errors import AuthError, ConnectionFailedError
from agentforge.models.factory import build_ledger, build_model, build_redactor, check_endpoint, model_for
from agentforge.models.ledger import Ledger
from agentforge.models.record import load_calls
from tests.models.helpers import Shown, ask
from tests.support.model_server import Reply, ScriptedModel


def settings_for(server: ScriptedModel, **model: Any) -> Settings:
    return Settings(model=ModelSettings(**{"base_url": server.base_url, "name": "scripted", **model}))


def test_each_agent_may_have_its_model() -> None:
    settings = Settings(agents={"critic": AgentSettings(model="big"), "coder": AgentSettings(seed=1)})
    assert model_for(settings, "critic") == "big"
    assert model_for(settings, "coder") == model_for(settings, "anybody") == "gpt-4o-2024-08-06"


async def test_af31_settings_reach_the_wire_record_and_replay(tmp_path: Path) -> None:
    live, again = tmp_path / "calls.jsonl", tmp_path / "again.jsonl"
    with ScriptedModel({"coder": ["the code"], "critic": [Reply("fine")]}) as server:
        settings = settings_for(server).model_copy(
            update={"agents": {"critic": AgentSettings(model="big", temperature=0.7)}}
        )
        model = build_model(settings, build_ledger(settings), record=live)
        assert (await model.complete(ask(agent="coder"))).text == "the code"
        assert (await model.complete(ask(agent="critic"))).text == "fine"
    assert [(body["model"], body["temperature"]) for body in server.requests] == [
        ("scripted", 0.0),
        ("big", 0.7),
    ]
    replay = build_model(settings, Ledger(), replay=live, record=again)
    assert (await replay.complete(ask(agent="critic"), Shown())).text == "fine"
    assert load_calls(again)[0].request == load_calls(live)[1].request


def test_a_cost_limit_without_a_price_fails_before_any_work() -> None:
    model = ModelSettings(base_url="http://127.0.0.1:1/v1", name="local")
    limits = Limits(max_cost_usd=1)
    with pytest.raises(UsageError, match="local"):
        build_ledger(Settings(model=model, limits=limits))
    priced = model.model_copy(update={"prices": {"local": Price(input=1, output=1)}})
    build_ledger(Settings(model=priced, limits=limits))
    with pytest.raises(UsageError, match="big"):
        build_ledger(Settings(model=priced, limits=limits, agents={"critic": AgentSettings(model="big")}))


def test_configured_keys_are_redacted_by_value() -> None:
    settings = Settings(model=ModelSettings(api_key="plain words"), github_token="other words")  # type: ignore[arg-type]
    assert build_redactor(settings).text("plain words, other words") == "[redacted], [redacted]"


async def test_check_lists_the_models() -> None:
    with ScriptedModel([], models=["scripted", "other"]) as server:
        found = await check_endpoint(settings_for(server))
        missing = await check_endpoint(settings_for(server, name="third"))
    assert found.models == ("scripted", "other")
    assert found.listed
    assert missing.listed is False
    assert server.requests == []


async def test_check_asks_for_one_token_where_models_are_not_listed() -> None:
    with ScriptedModel([Reply("ok", finish_reason="length")], lists_models=False) as server:
        report = await check_endpoint(settings_for(server))
    assert report.listed is None
    assert server.requests[0]["max_tokens"] == 1


async def test_check_says_what_is_wrong() -> None:
    with ScriptedModel([], api_key="right") as server, pytest.raises(AuthError):
        await check_endpoint(settings_for(server, api_key="wrong-key"))
    with pytest.raises(ConnectionFailedError):
        await check_endpoint(settings_for(server))
