"""The page in the system's Chromium, the real server as a process, and a scripted model behind it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.api.web.scenario import ISSUE, Pace, make_repository, script
from tests.support.model_server import ScriptedModel

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
CLIENT = Path(__file__).parents[3] / "agentforge" / "api" / "web"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker for all of them: each starts a browser and a server."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.docker)


class Server:
    """`agentforge serve` as a process that can be stopped and started again on the same address."""

    def __init__(self, home: Path, model_url: str, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.home, self.url = home, f"http://127.0.0.1:{self.port}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTFORGE_")}
        self._env = kept | {
            "AGENTFORGE_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "xdg"),
            "AGENTFORGE_MODEL__BASE_URL": model_url,
            "AGENTFORGE_MODEL__NAME": "scripted",
            "AGENTFORGE_MODEL__EDIT_FORMAT": "diff",
            "AGENTFORGE_MODEL__PRICES": json.dumps({"scripted": {"input": 2.5, "output": 10}}),
            "AGENTFORGE_SERVER__REPOSITORY_ROOTS": str(home),
            "AGENTFORGE_SERVER__RESULTS_DIR": str(RESULTS),
        }
        self._options = options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "agentforge.cli.main", "serve", "--port", str(self.port)]
        command += self._options
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self._env, stdout=log, stderr=log, cwd=self.home)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.ask("/readyz")
            except OSError:
                assert self.process.poll() is None, (self.home / "server.log").read_text()
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=10)
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()

    def ask(self, path: str, body: Any = None) -> Any:
        """The answer to a request, read as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def outcome_of(self, run: str, seconds: float = 60) -> str:
        """How a run ends, waited for."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.ask(f"/v1/runs/{run}")
            if found["status"] not in ("queued", "running"):
                return str(found["outcome"] or found["status"])
            time.sleep(0.1)
        raise AssertionError(f"run {run} did not end: {found}")


@pytest.fixture(scope="session")
def pace() -> Pace:
    return Pace()


@pytest.fixture(scope="session")
def model(pace: Pace) -> Iterator[ScriptedModel]:
    with ScriptedModel(script(pace)) as server:
        yield server


@pytest.fixture(scope="session")
def server(model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("web"), model.base_url)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shop(server: Server) -> Path:
    return make_repository(server.home / "shop")


@pytest.fixture(scope="session")
def finished(server: Server, shop: Path, pace: Pace) -> str:
    """The id of a run that is verified."""
    pace.reset()
    run = server.ask("/v1/runs", {"repository": str(shop), "issue": ISSUE})["id"]
    assert server.outcome_of(run) == "verified"
    return str(run)


# Of the module, not of the session: it holds an event loop, which no other tests may meet.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("the browser tests need Chromium: scripts/web.sh browser")
    if not (CLIENT / "dist" / "index.html").is_file():
        pytest.skip("the web client is not built: scripts/web.sh")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield chromium
        chromium.close()


class Watched:
    """A page that keeps every error and every refusal of the content policy."""

    def __init__(self, page: Page) -> None:
        self.page, self.errors = page, list[str]()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))


@pytest.fixture
def watched(browser: Browser, server: Server) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=server.url)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(15_000)
    yield Watched(context.new_page())
    context.close()


@pytest.fixture
def page(watched: Watched) -> Iterator[Page]:
    """A page that must not have had an error."""
    yield watched.page
    assert watched.errors == []
