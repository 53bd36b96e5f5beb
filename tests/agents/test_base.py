"""Budgets: never more than the window, at most three reductions, then the run stops."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agentforge.agents.base import MAX_SHRINKS, Agent, Window, was_cut
from agentforge.agents.context import clip
from agentforge.agents.planner import Planner
from agentforge.config.settings import AgentSettings, ModelSettings, Settings
from agentforge.core.chat import Completion, Message
from agentforge.core.errors import ExitCode, LimitReached
from agentforge.models.errors import ContextLengthError
from agentforge.models.ledger import estimate_prompt_tokens
from tests.agents.scripted import Script


def elastic(budget: int) -> tuple[Message, ...]:
    return (Message(role="user", content=clip("word " * 100_000, budget - 100)),)


def rigid(budget: int) -> tuple[Message, ...]:
    return (Message(role="user", content="word " * 10_000),)


def agent(model: Script, window: Window) -> Agent:
    return Planner(model, window=window, temperature=0.0, seed=42)


@pytest.mark.parametrize(("context", "output"), [(2000, 4096), (2000, 100), (8192, 4096), (64, 64)])
def test_window_reserves_output(context, output):
    window = Window(context, output)
    assert window.input_tokens + window.output_tokens <= context
    assert window.input_tokens >= context // 2


async def test_complaint16_prompt_and_output_fit_a_window_of_2000_tokens():
    model = Script("ok")
    await agent(model, Window(2000, 1500)).ask(elastic)
    (request,) = model.requests
    assert request.max_tokens is not None
    assert estimate_prompt_tokens(request.messages) + request.max_tokens <= 2000


async def test_complaint16_overflow_shrinks_three_times_then_stops():
    model = Script(*[ContextLengthError("too long")] * 9)
    with pytest.raises(LimitReached, match="context") as caught:
        await agent(model, Window(100_000, 4000)).ask(elastic)
    assert caught.value.limit == "context_exhausted"
    assert caught.value.exit_code is ExitCode.LIMIT
    assert len(model.requests) == MAX_SHRINKS + 1
    sizes = [estimate_prompt_tokens(request.messages) for request in model.requests]
    assert all(later < earlier * 0.6 for earlier, later in pairwise(sizes))
    outputs = [request.max_tokens or 0 for request in model.requests]
    assert outputs == sorted(outputs, reverse=True)
    assert outputs[-1] < outputs[0]


async def test_complaint16_a_smaller_window_than_configured_is_found():
    def picky(request):
        too_long = estimate_prompt_tokens(request.messages) + (request.max_tokens or 0) > 30_000
        return ContextLengthError("too long") if too_long else "ok"

    model = Script(picky, picky, picky, picky)
    completion = await agent(model, Window(128_000, 4096)).ask(elastic)
    assert completion.text == "ok"
    assert len(model.requests) <= MAX_SHRINKS + 1


async def test_complaint16_a_prompt_that_cannot_shrink_is_never_sent():
    model = Script()
    with pytest.raises(LimitReached):
        await agent(model, Window(2000, 500)).ask(rigid)
    assert model.requests == []


async def test_eg20_a_later_attempt_is_another_request():
    model = Script("a", "b", "c")
    asker = agent(model, Window())
    for attempt in range(2):
        await asker.ask(elastic, attempt=attempt)
    await asker.ask(elastic, attempt=2, temperature=0.7)
    assert [(request.seed, request.temperature) for request in model.requests] == [
        (42, 0.0),
        (43, 0.0),
        (44, 0.7),
    ]


def test_settings_of_one_agent_win_over_the_models():
    settings = Settings(
        model=ModelSettings(context_tokens=9000, max_output_tokens=1000, temperature=0.1, seed=5),
        agents={"planner": AgentSettings(temperature=0.0, seed=9, max_output_tokens=700)},
    )
    made = Planner.create(Script(), settings)
    assert (made.temperature, made.seed, made.window) == (0.0, 9, Window(9000, 700))
    made = Planner.create(Script(), settings.model_copy(update={"agents": {}}))
    assert (made.temperature, made.seed, made.window) == (0.1, 5, Window(9000, 1000))


def test_clip_keeps_head_and_tail_and_says_so():
    text = "HEAD " + "x" * 10_000 + " TAIL"
    short = clip(text, 100)
    assert short.startswith("HEAD")
    assert short.endswith("TAIL")
    assert "characters left out" in short
    assert len(short) < 450
    assert clip("short", 100) == "short"


def test_was_cut():
    assert was_cut(Completion(text="", model="m", finish_reason="length"))
    assert not was_cut(Completion(text="", model="m"))
