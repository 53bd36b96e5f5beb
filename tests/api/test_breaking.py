"""What breaks around the server: its queue, its disk, the records it shows, the clients that talk to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from agentforge.api.channels import Hub
from agentforge.api.indexes import MOST
from agentforge.api.jobs import Job, JobQueue, now
from agentforge.api.runner import EngineRunner
from agentforge.api.services import QUEUE
from agentforge.api.workers import Ended, Listener, Workers
from agentforge.cli.main import app
from agentforge.client import Client, ServerGone, ServerRefused
from agentforge.config.load import load_settings
from agentforge.core.errors import AgentForgeError, EnvironmentFault, UsageError
from agentforge.memory.watch import LiveTree
from agentforge.orchestrator.clock import LiveClock
from agentforge.orchestrator.store import RunStore
from tests.api.test_cancelling import Patient, end_of, until
from tests.api.test_edges import begin, close_code

Serve = Callable[..., str]


async def at_once(job: Job, listener: Listener) -> Ended:
    return Ended("no_patch", 1)


def queued(home: Path, *ids: str) -> None:
    queue = JobQueue(home / QUEUE)
    for run_id in ids:
        queue.add(Job(run_id, now(), "queued", {"repository": "/x", "issue": "y"}, run_id), 10)
    queue.close()


def record(home: Path, run_id: str, manifest: Any, events: bytes = b"") -> Path:
    directory = home / "runs" / run_id
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps(manifest))
    (directory / "events.jsonl").write_bytes(events)
    return directory


def test_one_damaged_record_or_row_keeps_nobody_else_from_being_served(tmp_path: Path, serve: Serve) -> None:
    home = tmp_path / "data"
    queued(home, "damaged", "odd", "..", "sound")
    record(home, "damaged", {}, b'{"seq":1,"type":"notice"}\n\0\0garbage\n')
    with sqlite3.connect(home / QUEUE) as raw:
        raw.execute("UPDATE jobs SET request = '[[[' WHERE id = 'odd'")
    raw.close()
    for name, manifest in {
        "spend": {"spend": [1]}, "calls": {"spend": {"calls": "x"}}, "summary": {"summary": 5},
        "outcome": {"outcome": {"a": 1}}, "list": [], "newer": {"schema": 99},
    }.items():  # fmt: skip
        record(home, f"bad-{name}", manifest)
    url = serve(at_once)
    until(url, "sound", "finished")
    until(url, "odd", "finished")
    assert "cannot be read" in httpx.get(f"{url}/v1/runs/damaged").json()["error"]
    listed = {item["id"]: item for item in httpx.get(f"{url}/v1/runs").json()["items"]}
    assert {name for name in listed if name.startswith("bad-")} == {
        "bad-spend", "bad-calls", "bad-summary", "bad-outcome", "bad-list", "bad-newer"
    }  # fmt: skip
    assert all(listed[name]["error"] for name in listed if name.startswith("bad-"))
    # Its stream says so, too, and ends.
    said = httpx.get(f"{url}/v1/runs/damaged/events").text
    assert "event: notice" in said
    assert "cannot be read" in said.split("event: run_status")[1]
    for part in ("events", "calls", "audit", "report", "patch", "logs"):
        for name in listed:
            assert httpx.get(f"{url}/v1/runs/{name}/{part}").status_code < 500, (name, part)


def test_a_request_that_is_none_fails_alone(tmp_path: Path) -> None:
    settings = load_settings(None, {}, {"AGENTFORGE_DATA_HOME": str(tmp_path)}).settings
    with pytest.raises(UsageError, match="is no request"):
        asyncio.run(EngineRunner(settings)(Job("r", now(), "running"), lambda event: None))


def test_a_repository_is_judged_again_when_its_run_begins(tmp_path: Path) -> None:
    """It may have waited long: a folder that was let in can be a link by then, or the roots others."""
    settings = load_settings(None, {}, {"AGENTFORGE_DATA_HOME": str(tmp_path)}).settings
    job = Job("r", now(), "running", {"repository": str(tmp_path), "issue": "x"})
    with pytest.raises(AgentForgeError, match="lies outside"):
        asyncio.run(EngineRunner(settings)(job, lambda event: None))


def test_a_queue_that_fails_for_a_while_ends_no_run_and_forgets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentforge.api.workers.PAUSE_S", 0.02)
    fails = {"claim": 3, "get": 1, "finish": 3}

    class Failing(JobQueue):
        def _failing(self, name: str) -> None:
            fails[name] -= 1
            if fails[name] >= 0:
                raise EnvironmentFault("disk full")

        def claim(self) -> Job | None:
            self._failing("claim")
            return super().claim()

        def finish(self, *given: Any) -> None:  # type: ignore[override]
            self._failing("finish")
            super().finish(*given)

    async def scenario() -> str:
        queue = Failing(tmp_path / "queue.sqlite3")
        hub = Hub(asyncio.get_running_loop(), 1 << 20)
        workers = Workers(queue, hub, at_once, 2)
        hub.open("r1")
        queue.add(Job("r1", now(), "queued", {}, "t"), 10)
        workers.start()
        try:
            return await asyncio.to_thread(end_of, queue, "r1")
        finally:
            assert workers.alive
            await workers.stop()
            workers.wake()  # nobody is there any more: no error either
            workers.cancel("r1")
            queue.close()

    assert asyncio.run(scenario()) == "finished"
    assert fails["finish"] < 0


def test_a_run_that_was_resumed_at_once_keeps_its_readers() -> None:
    """The end of the run before must not close what was opened for the run after."""

    async def scenario() -> tuple[bool, bool]:
        hub = Hub(asyncio.get_running_loop(), 1 << 20, linger_s=0.01)
        before = hub.open("r1")
        after = hub.open("r1")
        hub.retire("r1", before)
        await asyncio.sleep(0.05)
        return after.channel.closed, hub.channel("r1") is after.channel

    assert asyncio.run(scenario()) == (False, True)


def test_cancelled_twice_is_cancelled_once(tmp_path: Path, serve: Serve) -> None:
    """A second wish must not cut short what the first one began: containers would be left."""
    told: list[str] = []
    started = threading.Event()

    async def tidy(job: Job, listener: Listener) -> Ended:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cancelled")
            try:
                await asyncio.sleep(0.4)
                told.append("tidied")
            except asyncio.CancelledError:
                told.append("cut short")
        return Ended("interrupted", 130)

    url = serve(tidy, repository_roots=(str(tmp_path),))
    run = begin(url, tmp_path)
    assert started.wait(10)
    for _ in range(3):
        httpx.post(f"{url}/v1/runs/{run}/cancel")
        time.sleep(0.05)
    until(url, run, "cancelled")
    assert told == ["cancelled", "tidied"]


def test_a_run_of_the_command_line_is_not_taken_from_it_and_its_end_is_shown(
    tmp_path: Path, serve: Serve
) -> None:
    home = tmp_path / "data"
    writer = RunStore(home).create(LiveClock().now(), run_id="20300101-000000-abcdef")
    writer.write_manifest({"outcome": None, "issue_title": "x"})
    runner = Patient()
    url = serve(runner, repository_roots=(str(tmp_path),))
    refused = httpx.post(f"{url}/v1/runs/{writer.run_id}/resume")
    assert (refused.status_code, runner.begun) == (409, [])
    assert "another process" in refused.json()["detail"]
    writer.write_manifest({"outcome": "interrupted", "issue_title": "x"})
    writer.close()
    assert httpx.post(f"{url}/v1/runs/{writer.run_id}/resume").status_code == 200
    until(url, writer.run_id, "running")
    httpx.post(f"{url}/v1/runs/{writer.run_id}/cancel")
    until(url, writer.run_id, "cancelled")
    # Gone on with on the command line, where it came to its end.
    again = RunStore(home).open(writer.run_id).directory / "run.json"
    again.write_text(json.dumps({"outcome": "verified", "exit_code": 0}))
    shown = httpx.get(f"{url}/v1/runs/{writer.run_id}").json()
    assert (shown["status"], shown["outcome"]) == ("finished", "verified")


def test_what_a_websocket_says_amiss_is_answered_and_then_it_is_let_go(tmp_path: Path, serve: Serve) -> None:
    runner = Patient()
    url = serve(runner, repository_roots=(str(tmp_path),))
    run = begin(url, tmp_path)
    assert runner.started.wait(10)
    with connect(f"{url.replace('http', 'ws')}/v1/runs/{run}/ws") as link:
        for odd in (b"\0binary", "[" * 60_000, "{", "5", '{"type": "what"}', "", *["x"] * 10):
            link.send(odd)
        assert close_code(link) == 1003
    httpx.post(f"{url}/v1/runs/{run}/cancel")
    until(url, run, "cancelled")


def test_a_search_follows_its_folder_and_few_folders_are_followed(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[Path] = []
    start = LiveTree.start
    monkeypatch.setattr(LiveTree, "start", lambda self: (scans.append(self.root), start(self))[1])
    folders = [tmp_path / f"p{number}" for number in range(MOST + 2)]
    for folder in folders:
        folder.mkdir()
        (folder / "m.py").write_text("def split_amount(cents):\n    return cents\n")
    url = serve(at_once, repository_roots=(str(tmp_path),))

    def found(folder: Path, q: str) -> list[str]:
        answer = httpx.get(f"{url}/v1/index/search", params={"repository": str(folder), "q": q}, timeout=60)
        assert answer.status_code == 200, answer.text
        return [symbol["name"] for symbol in answer.json()["symbols"]]

    for _ in range(3):
        assert found(folders[0], "split amount") == ["split_amount"]
    assert scans == [folders[0]], "scanned once, not at every question"
    (folders[0] / "n.py").write_text("def join_shares(shares):\n    return sum(shares)\n")
    end = time.monotonic() + 20
    while "join_shares" not in found(folders[0], "join shares") and time.monotonic() < end:
        time.sleep(0.1)
    assert "join_shares" in found(folders[0], "join shares")
    for folder in folders:
        found(folder, "split amount")
    watchers = sum("observer" in type(one).__name__.lower() for one in threading.enumerate())
    assert watchers <= MOST


def test_results_with_numbers_that_json_lacks_are_shown(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "odd.json").write_text('{"mean": NaN, "most": Infinity, "n": 3}')
    (tmp_path / "torn.json").write_text('{"mean"')
    url = serve(at_once, results_dir=str(tmp_path))
    shown = httpx.get(f"{url}/v1/evaluations/odd.json")
    assert (shown.status_code, shown.json()) == (200, {"mean": None, "most": None, "n": 3})
    assert httpx.get(f"{url}/v1/evaluations/torn.json").status_code == 422


def test_a_queue_that_is_no_queue_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / QUEUE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 1000)
    environment = os.environ | {
        "AGENTFORGE_DATA_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "agentforge", "serve", "--port", "0"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 3
    assert ended.stderr.startswith("error: the queue ")
    assert "Traceback" not in ended.stderr


def answering(*answers: bytes) -> tuple[str, threading.Thread]:
    """A server that gives each connection one of `answers` and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_all() -> None:
        with listener:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(answer)

    thread = threading.Thread(target=serve_all, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", thread


def said(status: str, kind: str, body: str) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}"
    ).encode()


def test_a_client_comes_back_from_what_passes_and_believes_no_stranger() -> None:
    over = 'id: 1\nevent: run_status\ndata: {"status": "failed", "error": "no such folder"}\n\n'
    url, thread = answering(
        said("503 Service Unavailable", "text/html", "<h1>restarting</h1>"),
        said("200 OK", "text/event-stream", over),
        said("200 OK", "text/html", "<h1>hotel wifi</h1>"),
        said("422 Unprocessable", "application/json", "[]"),
    )
    with Client(url) as client:
        assert [event.type for event in client.events("r")] == ["run_status"]
        with pytest.raises(ServerGone, match="not ours"):
            client.get("r")
        with pytest.raises(ServerRefused, match="answered 422"):
            client.get("../config")
    thread.join(5)
    for address in ("http://x:y", "ftp://x", "localhost:8765", ""):
        with pytest.raises(UsageError, match="no address"):
            Client(address)


def test_watching_a_run_that_could_not_be_made_says_why() -> None:
    from typer.testing import CliRunner

    over = 'id: 1\nevent: run_status\ndata: {"status": "failed", "error": "no such folder"}\n\n'
    url, thread = answering(said("200 OK", "text/event-stream", over))
    result = CliRunner().invoke(app, ["watch", "r", "--server", url, "--no-stream"])
    thread.join(5)
    assert "no such folder" in str(result.exception)
