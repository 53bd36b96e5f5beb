"""The scripted server itself, asked by a plain HTTP client: the wire format others rely on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.model_server import Reply, ScriptedModel, rate_limited


def post(server: ScriptedModel, agent: str = "", **body: Any) -> httpx.Response:
    whole = {"model": "m", "messages": [{"role": "user", "content": "a b c"}], **body}
    with httpx.Client(trust_env=False, timeout=5) as client:
        return client.post(
            f"{server.base_url}/chat/completions", json=whole, headers={"X-AgentForge-Agent": agent}
        )


def test_a_stream_is_events_with_an_end() -> None:
    with ScriptedModel(["one two"]) as server:
        answer = post(server, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end = [block.removeprefix("data: ") for block in answer.text.strip().split("\n\n")]
    chunks = [json.loads(event) for event in events]
    texts = [choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]]
    assert end == "[DONE]"
    assert "".join(texts) == "one two"
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_usage_is_streamed_only_when_asked_for() -> None:
    with ScriptedModel(["x"]) as server:
        assert "usage" not in post(server, stream=True).text


def test_unstreamed() -> None:
    with ScriptedModel(["whole thing"]) as server:
        answer = post(server).json()
    assert answer["choices"][0]["message"]["content"] == "whole thing"
    assert answer["usage"]["prompt_tokens"] == 3


def test_the_script_by_agent_and_by_function() -> None:
    script = {"planner": ["plan"], "coder": lambda body: f"code for {body['messages'][0]['content']}"}
    with ScriptedModel(script) as server:
        said = [
            post(server, agent).json()["choices"][0]["message"]["content"] for agent in ("coder", "planner")
        ]
        assert said == ["code for a b c", "plan"]
        assert not server.exhausted
        assert post(server, "planner").status_code == 400
        assert "planner" in post(server, "planner").text
        assert server.exhausted
    assert [body["_agent"] for body in server.requests] == ["coder", "planner", "planner", "planner"]


def test_faults_of_the_transport_reach_the_client() -> None:
    with ScriptedModel([rate_limited(3), Reply("a b c", reset_after=2), Reply("a", cut=True)]) as server:
        limited = post(server)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
        for _ in range(2):
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                post(server, stream=True)


def test_models_and_keys() -> None:
    with ScriptedModel([], models=["a", "b"], api_key="k") as server, httpx.Client(trust_env=False) as client:
        refused = client.get(f"{server.base_url}/models")
        answer = client.get(f"{server.base_url}/models", headers={"Authorization": "Bearer k"})
    assert refused.status_code == 401
    assert [row["id"] for row in answer.json()["data"]] == ["a", "b"]
