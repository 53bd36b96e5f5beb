"""Odd tokens arrive whole, slow readers hold nobody up, and a data home has one server."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from agentforge.api.jobs import Job
from agentforge.api.services import only_server
from agentforge.api.workers import Ended, Listener
from agentforge.client import Client
from agentforge.core.chat import Spend
from agentforge.core.errors import EnvironmentFault
from agentforge.core.events import NodeStarted, RunFinished, Token
from agentforge.core.redact import Redactor
from agentforge.orchestrator.clock import LiveClock
from agentforge.orchestrator.eventlog import EventLog
from agentforge.orchestrator.store import RunStore

Serve = Callable[..., str]
ODD = [
    "a\u2028b\u2029",
    "c\r\nd\n\ne\r",
    "\x85\x0b\x0c",
    "data: x\n\nevent: y",
    "é𝄞\ud800"[:2],
    "\x1b[31m",
    "",
]


def speaker(home: Path, texts: list[str], pause_s: float = 0.0) -> Callable[[Job, Listener], Any]:
    """A run that only speaks; its record is a real one."""

    async def speak(job: Job, listener: Listener) -> Ended:
        writer = RunStore(home).create(LiveClock().now(), run_id=job.id)
        log = EventLog(
            LiveClock(), Redactor(), lambda line, last: writer.append_event(line, last=last), listener
        )
        for number, text in enumerate(texts):
            if number % 5 == 0:
                log.emit(NodeStarted(node=f"n{number}"))
            log.emit(Token(call=1, agent="coder", text=text))
            await asyncio.sleep(pause_s)
        log.emit(RunFinished(outcome="no_patch", exit_code=1, summary="spoken", spend=Spend()))
        writer.close()
        return Ended("no_patch", 1)

    return speak


def begin(url: str, root: Path) -> str:
    body = {"repository": str(root), "issue": "speak"}
    return str(httpx.post(f"{url}/v1/runs", json=body).json()["id"])


def test_complaint_21_line_breaks_of_every_kind_arrive_whole_on_both_ways(
    tmp_path: Path, serve: Serve
) -> None:
    url = serve(speaker(tmp_path / "data", ODD), repository_roots=(str(tmp_path),))
    run = begin(url, tmp_path)
    with Client(url) as client:
        heard = [event.data["text"] for event in client.events(run) if event.type == "token"]
    assert heard == ODD
    with connect(f"{url.replace('http', 'ws')}/v1/runs/{run}/ws") as link:
        frames = [json.loads(message) for message in link]
    assert [frame["data"]["text"] for frame in frames if frame["event"] == "token"] == ODD


def test_a_reader_that_takes_nothing_is_dropped_told_so_and_others_go_on(
    tmp_path: Path, serve: Serve
) -> None:
    url = serve(
        speaker(tmp_path / "data", ["x" * 50_000] * 200, 0.01),
        repository_roots=(str(tmp_path),),
        send_timeout_s=1,
        stream_buffer_mb=1,
    )
    run = begin(url, tmp_path)
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    address = f"{url.replace('http', 'ws')}/v1/runs/{run}/ws"
    # Not compressed: what is always the same would fit into any buffer.
    kinds: list[str] = []

    def read() -> None:
        with Client(url) as client:
            kinds.extend(event.type for event in client.events(run))

    other = threading.Thread(target=read)
    other.start()
    with connect(address, sock=wire, max_queue=1, max_size=None, compression=None) as deaf:
        end = time.monotonic() + 20
        while time.monotonic() < end and "streams_dropped_total 0.0" in httpx.get(f"{url}/metrics").text:
            time.sleep(0.05)
        assert close_code(deaf) == 1008
    other.join(30)
    assert kinds.count("node_started") == 40
    assert kinds[-1] == "run_status"
    end = time.monotonic() + 10
    while time.monotonic() < end and "streams_open 0.0" not in httpx.get(f"{url}/metrics").text:
        time.sleep(0.1)
    assert "agentforge_streams_open 0.0" in httpx.get(f"{url}/metrics").text


def close_code(link: ClientConnection) -> int | None:
    """Read to the end; None where the connection was torn down without a word."""
    try:
        while True:
            link.recv(timeout=10)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


def test_readers_that_leave_leave_nothing_behind(tmp_path: Path, serve: Serve) -> None:
    url = serve(speaker(tmp_path / "data", ["word"] * 300, 0.01), repository_roots=(str(tmp_path),))
    run = begin(url, tmp_path)
    for _ in range(20):
        with httpx.stream("GET", f"{url}/v1/runs/{run}/events") as stream:
            next(stream.iter_lines())
    end = time.monotonic() + 10
    while time.monotonic() < end and "agentforge_streams_open 0.0" not in httpx.get(f"{url}/metrics").text:
        time.sleep(0.1)
    assert "agentforge_streams_open 0.0" in httpx.get(f"{url}/metrics").text
    with Client(url) as client:
        assert [event.type for event in client.events(run)][-2:] == ["run_finished", "run_status"]


def test_two_server_processes_on_one_data_home_are_refused_in_one_line(tmp_path: Path) -> None:
    lock = only_server(tmp_path)
    environment = os.environ | {
        "AGENTFORGE_DATA_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "agentforge", "serve", "--port", "0"]
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    lock.release()
    assert second.returncode == 3
    assert second.stderr.splitlines()[0] == f"error: another server works on {tmp_path}"


def test_one_server_a_data_home(tmp_path: Path) -> None:
    first = only_server(tmp_path)
    with pytest.raises(EnvironmentFault, match="another server works on"):
        only_server(tmp_path)
    first.release()
    only_server(tmp_path).release()
