"""A run that is killed at any instant goes on from its record: same end, and no call is paid twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import Settings
from agentforge.core.errors import ExitCode, RecordError
from agentforge.core.events import Event
from agentforge.core.task import Limits
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.resume import resume_run
from agentforge.orchestrator.store import RunRecord, RunStore
from tests.orchestrator.conftest import ISSUE, Fix
from tests.orchestrator.test_five_agents import PASS, PLAN, RIGHT, TESTS, WRONG
from tests.support.model_server import Body, Reply, ScriptedModel
from tests.support.sampling import ALL

pytestmark = pytest.mark.docker
PACE_S = 0.25
ANSWERS = {"planner": PLAN, "coder": WRONG, "tester": TESTS, "debugger": RIGHT, "critic": PASS}


def answer(body: Body) -> Reply:
    """Whoever asks again is answered again: how often it was asked is what the tests look at."""
    return Reply(ANSWERS[str(body["_agent"])], first_delay_s=PACE_S)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(answer) as server:
        yield server


def command(model: ScriptedModel, data: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "AGENTFORGE_DATA_HOME": str(data),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": model.base_url,
        "AGENTFORGE_MODEL__NAME": "scripted",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "agentforge", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def fix(model: ScriptedModel, shop: Path, data: Path) -> subprocess.Popen[bytes]:
    return command(model, data, "fix", "--repo", str(shop), "--issue", ISSUE, "--no-stream")


def events_of(data: Path) -> list[dict[str, Any]]:
    found = list((data / "runs").glob("*/events.jsonl"))
    lines = found[0].read_bytes().split(b"\n")[:-1] if found else []
    return [json.loads(line) for line in lines]


def own(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a run did, without the times, the run's id and what a machine's speed decides."""
    left = [e for e in events if e["type"] not in ("run_resumed", "run_finished", "search_progress")]
    return [(e["type"], e.get("node"), e.get("round"), e.get("agent"), e.get("call")) for e in left]


def paid(data: Path) -> Counter[str]:
    """How often each question was answered and recorded as such."""
    calls = next((data / "runs").glob("*/calls.jsonl"))
    records = [json.loads(line) for line in calls.read_text().splitlines()]
    return Counter(record["key"] for record in records if record["completion"])


def kill_when(process: subprocess.Popen[bytes], ready: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """SIGKILL as soon as `ready`; False where the process came to its end before."""
    end = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < end:
        if ready():
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
        time.sleep(0.003)
    process.communicate()
    return False


def finish(model: ScriptedModel, data: Path) -> int:
    process = command(model, data, "runs", "resume", "last", "--no-stream")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()[-2000:]
    return process.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], bytes]:
    """Events and patch of the run that nobody interrupts."""
    from tests.orchestrator.conftest import SHOP, make_repository

    folder = tmp_path_factory.mktemp("whole")
    shop = make_repository(folder / "shop", SHOP)
    with ScriptedModel(answer) as server:
        process = fix(server, shop, folder / "data")
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()[-2000:]
    patch = next((folder / "data" / "runs").glob("*/patch.diff")).read_bytes()
    return events_of(folder / "data"), patch


def check(data: Path, whole: tuple[list[dict[str, Any]], bytes]) -> None:
    events, patch = whole
    assert next((data / "runs").glob("*/patch.diff")).read_bytes() == patch
    resumed = events_of(data)
    assert [event["seq"] for event in resumed] == list(range(1, len(resumed) + 1))
    assert own(resumed) == own(events)
    assert set(paid(data).values()) == {1}


def starts(events: list[dict[str, Any]]) -> list[str]:
    return [event["node"] for event in events if event["type"] == "node_started"]


@pytest.mark.slow
@pytest.mark.parametrize("boundary", range(25) if ALL else [1, 5, 9])  # beyond the last nothing is killed
def test_killed_at_a_boundary_of_nodes(
    boundary: int,
    model: ScriptedModel,
    shop: Path,
    tmp_path: Path,
    whole: tuple[list[dict[str, Any]], bytes],
) -> None:
    data = tmp_path / "data"
    process = fix(model, shop, data)
    if kill_when(process, lambda: len(starts(events_of(data))) > boundary):
        finish(model, data)
    check(data, whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 11, 23, 42] if ALL else [7])
def test_killed_again_and_again_at_random_instants(
    seed: int,
    model: ScriptedModel,
    shop: Path,
    tmp_path: Path,
    whole: tuple[list[dict[str, Any]], bytes],
) -> None:
    chance, data = random.Random(seed), tmp_path / "data"
    process = fix(model, shop, data)
    for _ in range(4):
        wanted = len(events_of(data)) + chance.randint(1, 8)
        pause = chance.random() * 0.3

        def ready(wanted: int = wanted, pause: float = pause) -> bool:
            if len(events_of(data)) < wanted:
                return False
            time.sleep(pause)
            return True

        if not kill_when(process, ready):
            break
        process = command(model, data, "runs", "resume", "last", "--no-stream")
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), errors.decode()[-2000:]
    if process.returncode == -signal.SIGKILL:
        finish(model, data)
    check(data, whole)


async def test_a_cancelled_run_goes_on_and_its_record_replays(
    shop: Path, model: ScriptedModel, configure: Callable[..., Settings], fix: Fix
) -> None:
    settings = configure(model__base_url=model.base_url, model__name="scripted", model__api_key="sk-test")
    task = asyncio.create_task(fix(shop, settings))
    while all(str(body["_agent"]) != "coder" for body in model.requests):  # noqa: ASYNC110  another thread's
        await asyncio.sleep(0.01)
    task.cancel()
    first = await task
    assert first.result.outcome == "interrupted"
    heard: list[Event] = []
    result = await resume_run(first.result.run_id, settings, listener=heard.append)
    assert result.outcome == "verified"
    assert heard[0].type == "run_resumed"
    durable = [event.seq for event in heard if event.type != "token"]
    assert durable == list(range(first.events[-1].seq + 1, heard[-1].seq + 1))
    record = RunRecord(result.run_dir)
    answered = Counter(json.loads(line)["call"] for line in (record.directory / "calls.jsonl").open())
    assert max(answered.values()) == 2, "the cut call was made again under its own number"
    replayed = await replay_run(result.run_id, settings, lambda event: None)
    assert replayed.replay_matches, replayed.difference
    with pytest.raises(RecordError, match="came to its end"):
        await resume_run(result.run_id, settings, listener=heard.append)


async def test_a_run_that_lost_its_endpoint_goes_on_when_it_is_back(
    shop: Path, configure: Callable[..., Settings], fix: Fix
) -> None:
    broken = {"on": True}

    def flaky(body: Body) -> Reply:
        if body["_agent"] == "coder" and broken["on"]:
            return Reply(status=401, body={"error": {"message": "no such key"}})
        return answer(body)

    with ScriptedModel(flaky) as server:
        settings = configure(
            model__base_url=server.base_url, model__name="scripted", model__api_key="sk-test"
        )
        first = await fix(shop, settings)
        assert first.result.exit_code == ExitCode.MODEL
        broken["on"] = False
        result = await resume_run("last", settings, listener=lambda event: None)
        assert result.outcome == "verified"
        assert sum(str(body["_agent"]) == "planner" for body in server.requests) == 1


async def test_a_call_that_a_limit_refused_is_made_when_the_run_goes_on_with_more(
    shop: Path, model: ScriptedModel, configure: Callable[..., Settings], fix: Fix
) -> None:
    settings = configure(
        model__base_url=model.base_url,
        model__name="scripted",
        model__api_key="sk-test",
        limits__max_calls=2,
    )
    first = await fix(shop, settings)
    assert first.result.exit_code == ExitCode.LIMIT
    result = await resume_run("last", settings, listener=lambda event: None, limits=Limits(max_calls=20))
    assert result.outcome == "verified", result.summary
    assert Counter(str(body["_agent"]) for body in model.requests).most_common(1)[0][1] == 1


async def test_one_process_a_run_and_only_the_version_that_made_it(
    shop: Path, model: ScriptedModel, configure: Callable[..., Settings], fix: Fix
) -> None:
    settings = configure(model__base_url=model.base_url, model__name="scripted", model__api_key="sk-test")
    task = asyncio.create_task(fix(shop, settings))
    while not model.requests:  # noqa: ASYNC110  another thread's list
        await asyncio.sleep(0.01)
    with pytest.raises(RecordError, match="another process"):
        await resume_run("last", settings, listener=lambda event: None)
    task.cancel()
    await task
    record = RunStore(settings.data_home).open("last")
    manifest = record.manifest
    manifest["versions"]["agentforge"] = "0.0.0"
    (record.directory / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(RecordError, match=r"was made by agentforge 0\.0\.0"):
        await resume_run("last", settings, listener=lambda event: None)
