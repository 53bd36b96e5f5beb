"""A run whose steps are coded at once: verified, replayed, and killed while three calls are under way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.resume import resume_run
from tests.orchestrator.conftest import make_repository
from tests.orchestrator.parallel import FILES, NAMES, paced
from tests.orchestrator.test_five_agents import PASS
from tests.orchestrator.test_resume import command, events_of, finish, kill_when, paid
from tests.support.model_server import Body, Reply, ScriptedModel

pytestmark = pytest.mark.docker

TESTS = "".join(
    f"def test_{name}():\n    from {name} import {name}\n\n    assert {name}() == 'right'\n\n\n"
    for name in NAMES
)
PLAN = json.dumps(
    {
        "explanation": "each file is wrong on its own",
        "steps": [
            {
                "id": name,
                "agent": "coder",
                "description": f"Mend {name}.",
                "files": [f"{name}.py"],
                "symbols": [name],
                "depends_on": [],
            }
            for name in NAMES
        ],
    }
)
DELAYS = {"one": 1.5, "two": 0.8, "three": 0.0}


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    files = FILES | {"test_all.py": TESTS, "pytest.ini": "[pytest]\npythonpath = .\n"}
    return make_repository(tmp_path / "wrong", files)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    coder = paced(DELAYS)

    def answer(body: Body) -> Reply:
        agent = str(body["_agent"])
        return coder(body) if agent == "coder" else Reply({"planner": PLAN, "critic": PASS}[agent])

    with ScriptedModel(answer) as server:
        yield server


async def test_three_steps_at_once_are_verified_and_replayed_and_survive_a_kill(
    wrong: Path, model: ScriptedModel, configure: Callable[..., Any], fix: Callable[..., Any], tmp_path: Path
) -> None:
    settings = configure(
        model__base_url=model.base_url, model__edit_format="symbol", memory__enabled=False, tests_scope="all"
    )
    targets = tuple(f"test_all.py::test_{name}" for name in NAMES)
    run = await fix(wrong, settings, issue="all three are wrong", target_tests=targets)
    assert run.result.outcome == "verified", run.result.summary
    kinds = [event.type for event in run.events if event.type.startswith("model_call")]
    coder = kinds.index("model_call_finished") + 1
    assert kinds[coder : coder + 6] == ["model_call_started"] * 3 + ["model_call_finished"] * 3
    again = await replay_run(run.result.run_id, settings, lambda event: None)
    assert again.replay_matches, again.difference

    data = tmp_path / "killed"
    tests = [word for target in targets for word in ("--test-id", target)]
    process = await asyncio.to_thread(
        command,
        model,
        data,
        "fix",
        "--repo",
        str(wrong),
        "--issue",
        "all three are wrong",
        *tests,
        "--no-stream",
    )
    one_answered = lambda: _answered(data) == 2  # noqa: E731  the planner's call and the quickest step's
    assert await asyncio.to_thread(kill_when, process, one_answered)
    assert [e["call"] for e in events_of(data) if e["type"] == "model_call_started"] == [1, 2, 3, 4]
    await asyncio.to_thread(finish, model, data)
    assert set(paid(data).values()) == {1}
    assert next((data / "runs").glob("*/patch.diff")).read_bytes() == run.result.patch.diff
    asked = [event["call"] for event in events_of(data) if event["type"] == "model_call_started"]
    assert asked == [1, 2, 3, 4, 5]
    resumed = await replay_run("last", settings.model_copy(update={"data_home": data}), lambda event: None)
    assert resumed.replay_matches, resumed.difference


async def test_cancelled_with_calls_under_way_it_replays_to_there_and_goes_on(
    wrong: Path, model: ScriptedModel, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    settings = configure(model__base_url=model.base_url, model__edit_format="symbol", memory__enabled=False)
    targets = tuple(f"test_all.py::test_{name}" for name in NAMES)
    task = asyncio.create_task(fix(wrong, settings, issue="all three are wrong", target_tests=targets))
    while _answered(settings.data_home) < 2:  # noqa: ASYNC110  the planner's call and the quickest step's
        await asyncio.sleep(0.01)
    task.cancel()
    first = await task
    assert first.result.outcome == "interrupted"
    cut = await replay_run(first.result.run_id, settings, lambda event: None)
    assert cut.replay_matches, cut.difference
    result = await resume_run(first.result.run_id, settings, listener=lambda event: None)
    assert result.outcome == "verified", result.summary
    assert set(paid(settings.data_home).values()) == {1}
    again = await replay_run(result.run_id, settings, lambda event: None)
    assert again.replay_matches, again.difference


def _answered(data: Path) -> int:
    calls = next((data / "runs").glob("*/calls.jsonl"), None)
    return calls.read_bytes().count(b"\n") if calls is not None and calls.exists() else 0
