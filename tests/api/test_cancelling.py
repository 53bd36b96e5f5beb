"""Cancelling and resuming at awkward moments: readers are told, and no run works twice."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from agentforge.api.channels import Hub
from agentforge.api.jobs import Job, JobQueue, now
from agentforge.api.workers import Ended, Listener, Workers

Serve = Callable[..., str]


class Patient:
    """A runner that works until it is cancelled; counts how many it works on."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.busy = self.most = 0
        self.started = threading.Event()

    async def __call__(self, job: Job, listener: Listener) -> Ended:
        self.begun.append(job.id)
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return Ended("interrupted", 130)
        finally:
            self.busy -= 1
        return Ended("no_patch", 1)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    def make(url: str) -> dict[str, Any]:
        answer = httpx.post(f"{url}/v1/runs", json={"repository": str(tmp_path), "issue": "it is wrong"})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    return make


def status(url: str, run_id: str) -> str:
    return str(httpx.get(f"{url}/v1/runs/{run_id}").json()["status"])


def until(url: str, run_id: str, wanted: str) -> None:
    end = time.monotonic() + 10
    while status(url, run_id) != wanted:
        assert time.monotonic() < end, status(url, run_id)
        time.sleep(0.02)


def end_of(queue: JobQueue, run_id: str) -> str:
    end = time.monotonic() + 10
    while not (job := queue.get(run_id)) or not job.over:
        assert time.monotonic() < end
        time.sleep(0.02)
    return job.status


def test_readers_of_a_run_that_is_cancelled_while_it_waits_are_told_and_let_go(
    serve: Serve, tmp_path: Path, ask: Callable[[str], dict[str, Any]]
) -> None:
    runner = Patient()
    url = serve(runner, workers=1, repository_roots=(str(tmp_path),))
    first, waiting = ask(url), ask(url)
    assert runner.started.wait(10)
    with connect(f"{url.replace('http', 'ws', 1)}/v1/runs/{waiting['id']}/ws") as socket:
        socket.send('{"type": "cancel"}')
        said = [json.loads(message) for message in socket]  # ends, because the server closes it
    assert [one["data"]["status"] for one in said if one["event"] == "run_status"][-1] == "cancelled"
    assert status(url, waiting["id"]) == "cancelled"
    assert runner.begun == [first["id"]]
    httpx.post(f"{url}/v1/runs/{first['id']}/cancel")
    until(url, first["id"], "cancelled")


def test_a_wish_to_cancel_between_queue_and_work_is_not_lost(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, int]:
        queue = JobQueue(tmp_path / "queue.sqlite3")
        hub = Hub(asyncio.get_running_loop(), 1 << 20)
        runner = Patient()
        workers = Workers(queue, hub, runner, 1)
        claim = queue.claim

        def claimed_and_cancelled() -> Job | None:
            job = claim()
            if job is not None:  # the wish comes before the worker knows of the run
                queue.cancel(job.id)
                workers.cancel(job.id)
                time.sleep(0.05)
            return job

        queue.claim = claimed_and_cancelled  # type: ignore[method-assign]
        hub.open("r1")
        queue.add(Job("r1", now(), "queued", {}, "t"), 10)
        workers.start()
        try:
            ended = await asyncio.to_thread(end_of, queue, "r1")
        finally:
            await workers.stop()
            queue.close()
        return ended, runner.busy

    assert asyncio.run(scenario()) == ("cancelled", 0)


def test_many_wishes_to_resume_make_one_run(
    serve: Serve, tmp_path: Path, ask: Callable[[str], dict[str, Any]]
) -> None:
    runner = Patient()
    url = serve(runner, workers=4, repository_roots=(str(tmp_path),))
    run_id = ask(url)["id"]
    assert runner.started.wait(10)
    httpx.post(f"{url}/v1/runs/{run_id}/cancel")
    until(url, run_id, "cancelled")
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: httpx.post(f"{url}/v1/runs/{run_id}/resume").status_code, range(8)))
    assert sorted(codes) == [200] + [409] * 7
    until(url, run_id, "running")
    time.sleep(0.2)
    assert (runner.begun, runner.most) == ([run_id, run_id], 1)
    httpx.post(f"{url}/v1/runs/{run_id}/cancel")
    until(url, run_id, "cancelled")
