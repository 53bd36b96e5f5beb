"""After every way out of a run: no container and no volume of ours, and an honest record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from agentforge.orchestrator.store import RunStore
from agentforge.sandbox import labels
from tests.orchestrator.conftest import make_repository

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("cleanup")]

SLOW = {
    "calc.py": "def double(x):\n    return x + x + 1\n",
    "test_calc.py": (
        "import time\nfrom calc import double\n\n\n"
        "def test_double():\n    time.sleep(25)\n    assert double(2) == 4\n"
    ),
}
QUICK = {"calc.py": SLOW["calc.py"], "test_calc.py": SLOW["test_calc.py"].replace("sleep(25)", "sleep(0)")}


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


def of_process(engine: docker.DockerClient, pid: int) -> list[str]:
    """Our containers and volumes whose label names `pid`."""
    wanted = {"label": f"{labels.PID}={pid}"}
    containers = [item["Id"] for item in engine.api.containers(all=True, filters=wanted)]
    return containers + [item["Name"] for item in engine.api.volumes(filters=wanted).get("Volumes") or []]


def start(repository: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "agentforge.cli.main", "fix", "--repo", str(repository)]
    command += ["--issue", "double is one too large", "--test-id", "test_calc.py::test_double"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def outcome(env: dict[str, str]) -> str:
    return RunStore(Path(env["AGENTFORGE_DATA_HOME"])).list()[0].outcome


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_and_says_so(
    number: signal.Signals, clean_env: dict[str, str], engine: docker.DockerClient, tmp_path: Path
) -> None:
    process = start(make_repository(tmp_path / "slow", SLOW), clean_env)
    wait_until(lambda: bool(of_process(engine, process.pid)), 30)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    assert of_process(engine, process.pid) == []
    assert outcome(clean_env) == "interrupted"
    assert list((Path(clean_env["AGENTFORGE_DATA_HOME"]) / "scratch").iterdir()) == []


def test_what_a_killed_run_left_is_gone_after_the_next_start(
    clean_env: dict[str, str], engine: docker.DockerClient, tmp_path: Path
) -> None:
    killed = start(make_repository(tmp_path / "slow", SLOW), clean_env)
    wait_until(lambda: bool(of_process(engine, killed.pid)), 30)
    killed.kill()
    killed.communicate(timeout=10)
    assert of_process(engine, killed.pid), "the engine does not remove what a killed client leaves"
    assert outcome(clean_env) == "unfinished"
    again = start(make_repository(tmp_path / "quick", QUICK), clean_env)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err.decode()
    assert of_process(engine, killed.pid) == []
    assert of_process(engine, again.pid) == []
    assert list((Path(clean_env["AGENTFORGE_DATA_HOME"]) / "scratch").iterdir()) == []


def test_a_foreign_container_is_never_touched(
    clean_env: dict[str, str], engine: docker.DockerClient, tmp_path: Path
) -> None:
    """One of a living process of ours (this one), and one without our label."""
    ours = labels.owner_labels("somebody-else", labels.ROLE_RUN)
    kept = [
        engine.api.create_container("agentforge-base:1", ["true"], labels=marks)["Id"] for marks in (ours, {})
    ]
    try:
        again = start(make_repository(tmp_path / "quick", QUICK), clean_env)
        _, err = again.communicate(timeout=120)
        assert again.returncode == 0, err.decode()
        present = {item["Id"] for item in engine.api.containers(all=True)}
        assert set(kept) <= present
        assert os.getpid() != again.pid
    finally:
        for container in kept:
            engine.api.remove_container(container, force=True)
