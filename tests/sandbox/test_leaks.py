"""After every way a run can end, nothing of ours is left; and nothing of anybody else's is touched."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from agentforge.core.ports import Environment, TestRequest
from agentforge.sandbox import DockerSandbox, labels
from agentforge.sandbox.reaper import reap
from tests.sandbox.conftest import left_behind, make_tree

pytestmark = pytest.mark.docker

SLEEPY = make_tree({"test_a.py": "import time\ndef test_a():\n    time.sleep(60)\n"})
CLIENT = textwrap.dedent("""
    import asyncio, sys
    from agentforge.config.settings import SandboxSettings
    from agentforge.core.ports import Environment, TestRequest
    from agentforge.core.tree import Tree, TreeFile
    from agentforge.sandbox import DockerSandbox
    tree = Tree({"test_a.py": TreeFile(b"import time\\ndef test_a():\\n    time.sleep(60)\\n")})
    sandbox = DockerSandbox(SandboxSettings(), sys.argv[1])
    asyncio.run(sandbox.run_tests(Environment(image=sys.argv[2]), tree, TestRequest()))
""")


def wait_for(engine: Any, run_id: str, *, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while len(left_behind(engine, run_id)) < 3:  # a container and its two volumes
        assert time.monotonic() < deadline, "the container never came"
        time.sleep(0.1)


def test_success_and_failure_leave_nothing(run: Any, engine: Any, run_id: str) -> None:
    run({"test_a.py": "def test_a():\n    pass\n"})
    assert left_behind(engine, run_id) == []
    run({"test_a.py": "def test_a():\n    assert 0\n"})
    assert left_behind(engine, run_id) == []


def test_af11_the_event_loop_lives_and_cancelling_removes_the_container(
    sandbox: DockerSandbox, environment: Environment, engine: Any, run_id: str
) -> None:
    beats: list[float] = []

    async def heartbeat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        heart = asyncio.ensure_future(heartbeat())
        running = asyncio.ensure_future(sandbox.run_tests(environment, SLEEPY, TestRequest()))
        await asyncio.to_thread(wait_for, engine, run_id)
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert left_behind(engine, run_id) == []
        heart.cancel()

    asyncio.run(scenario())
    gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
    assert len(beats) > 20
    assert max(gaps) < 0.8


def test_cancelling_before_the_container_exists_leaves_nothing(
    sandbox: DockerSandbox, environment: Environment, engine: Any, run_id: str
) -> None:
    async def scenario(delay: float) -> None:
        running = asyncio.ensure_future(sandbox.run_tests(environment, SLEEPY, TestRequest()))
        await asyncio.sleep(delay)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    for delay in (0.0, 0.02, 0.1, 0.3):
        asyncio.run(scenario(delay))
        assert left_behind(engine, run_id) == []


def test_reaper_removes_what_a_killed_process_left_and_only_that(
    engine: Any, environment: Environment, run_id: str
) -> None:
    foreign = engine.api.create_container(environment.image, ["sleep", "60"], labels={"somebody": "else"})[
        "Id"
    ]
    elsewhere = {**labels.owner_labels(run_id + "-far"), labels.HOST: "another-machine/boot", labels.PID: "1"}
    far = engine.api.create_container(environment.image, ["sleep", "60"], labels=elsewhere)["Id"]
    live = engine.api.create_container(
        environment.image, ["sleep", "60"], labels=labels.owner_labels(run_id + "-live")
    )["Id"]
    try:
        with subprocess.Popen([sys.executable, "-c", CLIENT, run_id, environment.image]) as client:
            wait_for(engine, run_id)
            reap(engine)
            assert len(left_behind(engine, run_id)) == 3, "a live run's container was taken"
            os.kill(client.pid, signal.SIGKILL)
            client.wait(10)
        assert left_behind(engine, run_id)
        reap(engine)
        assert left_behind(engine, run_id) == []
        for survivor in (foreign, far, live):
            assert engine.api.inspect_container(survivor)["Id"] == survivor
    finally:
        for container in (foreign, far, live):
            engine.api.remove_container(container, force=True, v=True)


def test_a_reused_pid_is_not_its_former_owner() -> None:
    mine = labels.owner_labels("x")
    assert labels.owner_is_alive(mine) is True
    assert labels.owner_is_alive({**mine, labels.STARTED: "1"}) is False
    assert labels.owner_is_alive({**mine, labels.PID: "99999999"}) is False
    assert labels.owner_is_alive({**mine, labels.HOST: "elsewhere/boot"}) is None
    assert labels.owner_is_alive({}) is None
