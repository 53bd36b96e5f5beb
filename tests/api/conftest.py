"""The real server on loopback: as a process where it must be killed, in a thread where it need not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from agentforge.api.app import create_app
from agentforge.api.connections import uvicorn_config
from agentforge.api.workers import Runner
from agentforge.config.load import explain_settings, load_settings


@contextmanager
def served(home: Path, runner: Runner | None = None, **overrides: object) -> Iterator[str]:
    """The application behind uvicorn in a thread; its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    keys = {f"server.{key}": value for key, value in overrides.items()}
    resolved = load_settings(None, {"server.port": port, **keys}, {"AGENTFORGE_DATA_HOME": str(home)})
    app = create_app(resolved.settings, list(explain_settings(resolved)), runner=runner)
    server = uvicorn.Server(
        uvicorn_config(app, resolved.settings.server, log_level="error", timeout_graceful_shutdown=2)
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
        assert not thread.is_alive(), "the server did not end"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts servers of the test's own; all end with it."""
    open_servers = []

    def start(runner: Runner | None = None, **overrides: object) -> str:
        context = served(tmp_path / "data", runner, **overrides)
        open_servers.append(context)
        return context.__enter__()

    yield start
    for context in reversed(open_servers):
        context.__exit__(None, None, None)


class ServerProcess:
    """`agentforge serve` as a process that can be killed and started again on the same address."""

    def __init__(self, home: Path, model_url: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.home, self.url = home, f"http://127.0.0.1:{self.port}"
        self._env = os.environ | {
            "AGENTFORGE_DATA_HOME": str(home / "data"),
            "AGENTFORGE_MODEL__BASE_URL": model_url,
            "AGENTFORGE_MODEL__NAME": "scripted",
            "AGENTFORGE_MODEL__EDIT_FORMAT": "diff",
            "AGENTFORGE_SERVER__REPOSITORY_ROOTS": str(home),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "agentforge", "serve", "--port", str(self.port)]
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert self.process.poll() is None, (self.home / "server.log").read_text()
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=60)

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """The record of a run."""
        path = self.home / "data" / "runs" / run_id / "events.jsonl"
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[[str], ServerProcess]]:
    started: list[ServerProcess] = []

    def start(model_url: str) -> ServerProcess:
        server = ServerProcess(tmp_path, model_url)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process is not None and server.process.poll() is None:
            server.stop()
