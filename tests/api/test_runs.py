"""Runs over HTTP with the real engine: streams equal the record, and a killed server loses nothing."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from agentforge.client import Client, ServerRefused, StreamedEvent
from tests.api.conftest import ServerProcess
from tests.orchestrator.conftest import ISSUE, SHOP, make_repository
from tests.orchestrator.test_five_agents import PASS, PLAN, RIGHT, TESTS, WRONG
from tests.support.model_server import Body, Reply, ScriptedModel

pytestmark = pytest.mark.docker
ANSWERS = {"planner": PLAN, "coder": WRONG, "tester": TESTS, "debugger": RIGHT, "critic": PASS}
Start = Callable[[str], ServerProcess]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    def answer(body: Body) -> Reply:
        return Reply(ANSWERS[str(body["_agent"])], first_delay_s=0.1, delay_s=0.01)

    with ScriptedModel(answer) as server:
        yield server


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return str(make_repository(tmp_path / "shop", SHOP))


def durable(events: list[StreamedEvent]) -> list[dict[str, Any]]:
    return [event.data for event in events if "." not in event.id]


def test_a_run_is_watched_as_it_happens_and_everything_can_be_asked_for(
    shop: str, model: ScriptedModel, start_server: Start
) -> None:
    server = start_server(model.base_url)
    with Client(server.url) as client:
        run = client.start(shop, ISSUE)
        seen, early = [], False
        for event in client.events(run["id"]):
            early |= event.type == "token" and client.get(run["id"])["status"] == "running"
            seen.append(event)
        assert early, "tokens came before the end"
        assert durable(seen) == server.events(run["id"])
        tokens = "".join(e.data["text"] for e in seen if e.type == "token" and e.data["agent"] == "coder")
        assert tokens == WRONG
        ended = client.get(run["id"])
        assert (ended["status"], ended["outcome"], ended["exit_code"]) == ("finished", "verified", 0)
        assert ended["spend"]["calls"] == 5
        assert b"+    left = cents" in client.patch(run["id"])
        report = client.report(run["id"])
        assert report["verdict"] == "verified"
        target = next(row for row in report["tests"] if row["target"])
        assert (target["base"], target["candidate"]) == ("failed", "passed")
        assert client.audit(run["id"])
        assert [item["id"] for item in client.list(q="split", outcome="verified")["items"]] == [run["id"]]
        assert client.list(status="running")["items"] == []
        logs = httpx.get(f"{server.url}/v1/runs/{run['id']}/logs").json()
        assert "passed" in httpx.get(f"{server.url}/v1/runs/{run['id']}/logs/{logs[0]['name']}").text
        assert len(httpx.get(f"{server.url}/v1/runs/{run['id']}/calls").json()) == 5
        # Whoever comes back at any place gets exactly the rest.
        record = server.events(run["id"])
        for place in (0, 1, len(record) // 2, len(record)):
            again = list(client.events(run["id"], after=str(place)))
            assert durable([e for e in again if e.type != "run_status"]) == record[place:]
        with pytest.raises(ServerRefused, match="nothing to resume") as refused:
            client.resume(run["id"])
        assert refused.value.status == 409


def test_the_websocket_says_the_same_and_takes_a_cancel(
    shop: str, model: ScriptedModel, start_server: Start
) -> None:
    server = start_server(model.base_url)
    with Client(server.url) as client:
        run = client.start(shop, ISSUE)["id"]
        frames = []
        with connect(f"{server.url.replace('http', 'ws')}/v1/runs/{run}/ws") as socket:
            for message in socket:
                frames.append(json.loads(message))
                if frames[-1]["event"] == "token":
                    socket.send(json.dumps({"type": "cancel"}))
        assert frames[-1]["data"]["status"] == "cancelled"
        record = server.events(run)
        assert [frame["data"] for frame in frames if "." not in frame["id"]] == record
        assert record[-1]["outcome"] == "interrupted"
        client.resume(run)
        after = durable(list(client.events(run, after=str(record[-1]["seq"]))))
        assert after[0]["type"] == "run_resumed"
        assert client.get(run)["outcome"] == "verified"
        asked = Counter(str(body["_agent"]) for body in model.requests)
        assert asked["planner"] <= 2, "the cut call at most once more"
        assert asked["tester"] == asked["debugger"] == 1


@pytest.mark.slow
def test_a_killed_server_takes_its_runs_up_again_and_readers_miss_nothing(
    shop: str, model: ScriptedModel, start_server: Start
) -> None:
    server = start_server(model.base_url)
    seen: list[StreamedEvent] = []
    with Client(server.url) as client:
        run = client.start(shop, ISSUE)["id"]
        reader = threading.Thread(target=lambda: seen.extend(client.events(run)))
        reader.start()
        while Counter(str(body["_agent"]) for body in model.requests)["tester"] == 0:
            time.sleep(0.01)
        server.kill()
        server.start()
        reader.join(120)
        assert not reader.is_alive()
    record = server.events(run)
    assert record[-1]["outcome"] == "verified"
    assert durable(seen) == record
    asked = Counter(str(body["_agent"]) for body in model.requests)
    assert asked["planner"] == asked["coder"] == asked["debugger"] == 1
    assert asked["tester"] <= 2, "the call under way at the kill"


@pytest.mark.slow
def test_a_server_that_is_ended_hands_its_runs_to_the_next_one(
    shop: str, model: ScriptedModel, start_server: Start
) -> None:
    server = start_server(model.base_url)
    with Client(server.url) as client:
        run = client.start(shop, ISSUE)["id"]
        waiting = [client.start(shop, ISSUE)["id"] for _ in range(3)]
        while not model.requests:
            time.sleep(0.01)
        assert server.stop() == 0
        server.start()
        for one in (run, *waiting):
            assert [event.type for event in client.events(one)][-1] == "run_status"
            assert client.get(one)["outcome"] == "verified"
