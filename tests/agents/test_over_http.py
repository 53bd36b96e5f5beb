"""Agents over the real protocol: streamed tokens, broken streams, limits, by a real client and server."""

from __future__ import annotations

import json

import pytest

from agentforge.agents.base import MAX_SHRINKS, Window
from agentforge.agents.coder import Coder, EditContext
from agentforge.agents.critic import Critic
from agentforge.agents.planner import Planner
from agentforge.agents.tester import Tester
from agentforge.config.settings import ModelSettings, Settings
from agentforge.core.errors import LimitReached, RefusalReason
from agentforge.core.retrieval import Retrieved
from agentforge.core.task import Limits
from agentforge.models.client import OpenAIModel
from agentforge.models.ledger import Ledger
from tests.agents.scripted import ISSUE, TREE, Tokens, text_at
from tests.agents.test_coder import CONTEXT, FENCED, FIXED, STEP, WRONG_DIFF
from tests.agents.test_critic import PATCH, VERIFIED
from tests.agents.test_tester import CODE, PLAN
from tests.support.model_server import Reply, ScriptedModel, context_too_long


async def no_wait(seconds: float) -> None:
    return None


def model_at(server: ScriptedModel, **settings: object) -> OpenAIModel:
    chosen = ModelSettings.model_validate({"base_url": server.base_url, "name": "scripted", **settings})
    return OpenAIModel(chosen, Ledger(Limits()), sleep=no_wait)


async def test_five_roles_each_give_their_artifact():
    plan = json.dumps({"explanation": "x", "steps": [{"description": "use +", "files": ["pkg/calc.py"]}]})
    replies = {
        "planner": [f"Here is it:\n```json\n{plan}\n```"],
        "coder": [FENCED],
        "tester": [f"```python\n{CODE}```"],
        "critic": ['{"verdict": "PASS", "reasons": []}'],
    }
    with ScriptedModel(replies) as server:
        model = model_at(server)
        settings = Settings()
        made = await Planner.create(model, settings).plan(ISSUE, Retrieved(), TREE)
        edit = await Coder.create(model, settings).write(made.steps[0], CONTEXT, TREE, "diff")
        tests = await Tester.create(model, settings).write(CONTEXT, PLAN, TREE)
        critique = await Critic.create(model, settings).judge(ISSUE, PATCH, VERIFIED)
    assert not made.fallback
    assert edit.changes is not None
    assert text_at(edit.changes, "pkg/calc.py") == FIXED
    assert tests.code == CODE.encode()
    assert critique.verdict == "pass"
    assert [request["_agent"] for request in server.requests] == ["planner", "coder", "tester", "critic"]
    assert all(request["seed"] == 42 and request["temperature"] == 0.0 for request in server.requests)


async def test_tokens_arrive_as_they_are_made():
    with ScriptedModel([Reply(FENCED)]) as server:
        sink = Tokens()
        await Coder(model_at(server)).write(STEP, CONTEXT, TREE, "diff", sink=sink)
    assert "".join(sink.texts) == FENCED
    assert len(sink.texts) > 5


async def test_a_broken_stream_starts_over_and_text_is_never_doubled():
    with ScriptedModel([Reply(FENCED, reset_after=4), Reply(FENCED)]) as server:
        sink = Tokens()
        result = await Coder(model_at(server)).write(STEP, CONTEXT, TREE, "diff", sink=sink)
    assert len(sink.resets) == 1
    assert "".join(sink.texts) == FENCED
    assert result.answers == (FENCED,)
    assert result.changes is not None
    assert text_at(result.changes, "pkg/calc.py") == FIXED


async def test_a_wrong_diff_steps_down_over_http():
    with ScriptedModel([f"```diff\n{WRONG_DIFF}```", FENCED]) as server:
        result = await Coder(model_at(server)).write(STEP, CONTEXT, TREE, "diff")
    assert [refusal.reason for refusal in result.refusals] == [RefusalReason.NO_MATCH]
    assert result.changes is not None
    assert "no_match" in server.requests[1]["messages"][1]["content"]


async def test_complaint20_the_output_limit_is_told_apart():
    with ScriptedModel([Reply(FENCED[:90], finish_reason="length"), FENCED]) as server:
        result = await Coder(model_at(server)).write(STEP, CONTEXT, TREE, "diff")
    assert result.refusals[0].reason is RefusalReason.TRUNCATED


@pytest.mark.parametrize("flavour", ["openai", "llama.cpp"])
async def test_complaint16_context_overflow_ends(flavour):
    with ScriptedModel([context_too_long(flavour)] * 9) as server, pytest.raises(LimitReached) as caught:
        await Coder(model_at(server), window=Window(8000, 1000)).write(STEP, EditContext(ISSUE), TREE, "diff")
    assert caught.value.limit == "context_exhausted"
    assert len(server.requests) == MAX_SHRINKS + 1


async def test_complaint16_empty_replies_end():
    with ScriptedModel([Reply("")] * 60) as server:
        result = await Coder(model_at(server, max_retries=1)).write(STEP, CONTEXT, TREE, "diff")
    assert result.gave_up
    assert len(server.requests) <= 6
    assert all("empty" in refusal.text for refusal in result.refusals)
