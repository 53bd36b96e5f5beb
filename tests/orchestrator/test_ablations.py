"""Baselines and ablations of AgentForge against a scripted model: whom they ask, how often, what is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.replay import replay_run
from tests.orchestrator.test_five_agents import PASS, PLAN, RIGHT, TESTS, WRONG
from tests.support.model_server import Body, ScriptedModel

pytestmark = pytest.mark.docker

TRACES = Path(__file__).parent / "traces" / "ablations.json"
"""Golden traces: node and round of every step, for a coder and a debugger that never get it right."""
READ = json.dumps({"thought": "look first", "tool": "read_file", "path": "shop/money.py"})
RUN = json.dumps({"thought": "does it hold?", "tool": "run_tests"})
DONE = json.dumps({"thought": "it holds", "tool": "finish"})
WRITE = json.dumps({"thought": "hand out the rest", "tool": "write_code", "path": "shop/money.py"})
FIXED = RIGHT.replace("-    return [share + 1] * people\n", "-    return [share] * people\n")


def answering(**changes: Any) -> Callable[[Body], str]:
    replies = {"planner": PLAN, "coder": WRONG, "tester": TESTS, "debugger": WRONG, "critic": PASS} | changes
    return lambda body: str(replies[str(body["_agent"])])


async def test_af41_react_s_tools_are_real(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    script = {"reacter": [RUN, READ, f"{WRITE}\n{FIXED}", RUN, DONE]}
    with ScriptedModel(script) as server:
        settings = configure(model__base_url=server.base_url, workflow="react")
        run = await fix(shop, settings)
        prompts = [body["messages"][-1]["content"] for body in server.requests]
        again = await replay_run(run.result.run_id, settings, lambda event: None)
    assert "2 passed, 0 failed" in prompts[1]
    assert "def split(cents, people):" in prompts[2]
    assert "written: shop/money.py" in prompts[3]
    assert [event.subject for event in run.of_type("tests_finished")][1:3] == ["step 1", "step 4"]
    assert run.result.patch is not None
    assert b"return [share + 1] * left" in run.result.patch.diff
    assert again.replay_matches, again.difference


async def test_react_ends_after_ten_steps(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(lambda body: READ) as server:
        run = await fix(shop, configure(model__base_url=server.base_url, workflow="react"))
        assert len(server.requests) == 10
    assert run.result.outcome == "no_patch"


@pytest.mark.parametrize(
    ("workflow", "asked"),
    [
        ("agentforge", ["planner", "coder", "tester", "debugger"]),
        ("retry", ["coder", "debugger"]),
        ("no-planner", ["coder", "tester", "debugger"]),
        ("no-tester", ["planner", "coder", "debugger"]),
        ("no-debugger", ["planner", "coder", "tester"]),
        ("no-critic", ["planner", "coder", "tester", "debugger"]),
        ("single-agent", ["coder"]),
    ],
)
async def test_af12_af52_each_ablation_asks_whom_its_label_says(
    shop: Path,
    configure: Callable[..., Any],
    fix: Callable[..., Any],
    workflow: str,
    asked: list[str],
) -> None:
    """Budget 2: at most two regenerations and three generations, whichever agent makes them."""
    with ScriptedModel(answering()) as server:
        settings = configure(
            model__base_url=server.base_url, model__edit_format="diff", workflow=workflow, retries=2
        )
        run = await fix(shop, settings)
        agents = [str(body["_agent"]) for body in server.requests]
    assert list(dict.fromkeys(agents)) == asked
    started = [event for event in run.of_type("node_started") if event.node in {"code", "debug"}]
    assert len(started) == (1 if workflow in {"no-debugger", "single-agent"} else 3)
    assert run.result.workflow == workflow
    trace = [f"{event.node}/{event.round}" for event in run.of_type("node_started")]
    assert trace == json.loads(TRACES.read_text())[workflow]
