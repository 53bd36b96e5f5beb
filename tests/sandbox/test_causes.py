"""Each way a test run can end, on a real engine, has its own name and message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EngineUnavailable, ImageError
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.container import Guard, started
from agentforge.sandbox.provision import Provisioner
from tests.sandbox.conftest import make_tree

pytestmark = pytest.mark.docker
Run = Callable[..., TestReport]

# Every way to make a child is used up, then the process ends without a report.
BOMB = """
import os, time
def test_bomb():
    while True:
        try:
            if not os.fork():
                time.sleep(60)
                os._exit(0)
        except OSError:
            os._exit(3)
"""
FILLER = """
import os, sys
def test_fill(capfd):
    with capfd.disabled():
        try:
            with open("/tmp/fill", "wb") as stream:
                while True:
                    stream.write(bytes(1 << 20))
        except OSError as error:
            os.write(2, f"{error}\\n".encode())
            os._exit(3)
"""
STUBBORN = """
import signal, time
def test_quick():
    pass
def test_stay():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(60)
"""
FORKS = """
import os, time
while True:
    try:
        if not os.fork():
            time.sleep(30)
            os._exit(0)
    except OSError:
        time.sleep(30)
"""


@pytest.mark.parametrize(
    ("files", "cause", "words"),
    [
        pytest.param({"test_a.py": "def test_a():\n    pass\n"}, Cause.OK, "", id="ok"),
        pytest.param({"test_a.py": "def test_a():\n    assert 0\n"}, Cause.OK, "", id="tests-failed"),
        pytest.param({"test_a.py": "x = 1\n"}, Cause.NO_TESTS, "no test was collected", id="no-tests"),
        pytest.param({"test_a.py": "1 /\n"}, Cause.COLLECTION_ERROR, "test_a.py", id="collection-error"),
        pytest.param({"test_a.py": BOMB}, Cause.PIDS, "limit of processes was reached, in test_a", id="pids"),
        pytest.param({"test_a.py": FILLER}, Cause.DISK_FULL, "disk was full, in test_a", id="disk-full"),
        pytest.param(
            {"test_a.py": "import os\ndef test_a():\n    os.abort()\n"},
            Cause.SIGNAL,
            "killed by SIGABRT, in test_a.py::test_a after",
            id="signal",
        ),
        pytest.param(
            {"test_a.py": "import os\ndef test_a():\n    os._exit(0)\n"},
            Cause.CRASH,
            "exit code 0 before its report was complete, in test_a.py::test_a",
            id="crash",
        ),
    ],
)
def test_each_end_has_its_name(run: Run, files: dict[str, str], cause: Cause, words: str) -> None:
    report = run(files)
    assert report.cause is cause, report
    assert words in report.cause_detail


def test_a_timeout_says_which_test_and_for_how_long(run: Run) -> None:
    report = run({"test_a.py": STUBBORN}, timeout_s=6.0)
    assert report.cause is Cause.TIMEOUT
    assert report.cause_detail.startswith("not finished after 6 s, in test_a.py::test_stay after ")


def test_counters_are_read_when_no_process_slot_is_left(
    engine: Any, settings: SandboxSettings, environment: Environment, run_id: str
) -> None:
    plan = Provisioner(engine, settings, run_id).plan(environment.image, make_tree({}), {})
    with started(engine, plan, Guard()) as box:
        box.process(("python3", "-c", FORKS), lambda _: None, user="1000:1000")
        deadline = time.monotonic() + 20
        while not box.counters().pids_refused:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_a_missing_image_is_named(settings: SandboxSettings, run_id: str) -> None:
    sandbox = DockerSandbox(settings, run_id)
    missing = Environment(image="sha256:" + "0" * 64)
    with pytest.raises(ImageError, match="No such image"):
        asyncio.run(sandbox.run_tests(missing, make_tree({}), TestRequest()))


def test_no_engine_is_named(
    settings: SandboxSettings, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(EngineUnavailable, match="no container engine answers"):
        asyncio.run(DockerSandbox(settings, "x").run_tests(environment, make_tree({}), TestRequest()))
