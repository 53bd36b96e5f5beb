"""Many runs whose client dies at a random moment: at the end nothing of ours is left.

20 runs by default; LEAK_RUNS in the environment sets another number.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from agentforge.core.ports import Environment
from agentforge.sandbox import labels
from agentforge.sandbox.reaper import reap
from tests.sandbox.conftest import left_behind
from tests.sandbox.test_leaks import CLIENT

pytestmark = pytest.mark.docker
RUNS = int(os.environ.get("LEAK_RUNS", "20"))
LONGEST_S = 4.0
AT_ONCE = 2


@pytest.fixture
def bystanders(engine: Any, environment: Environment) -> Iterator[list[str]]:
    """What is not ours to take: somebody else's, another host's, and what a living process of ours holds."""
    foreign = engine.api.create_container(environment.image, ["true"], labels={"somebody": "else"})["Id"]
    far = {**labels.owner_labels("leak-far"), labels.HOST: "another-machine/boot", labels.PID: "1"}
    elsewhere = engine.api.create_container(environment.image, ["true"], labels=far)["Id"]
    live = labels.owner_labels("leak-live")
    alive = engine.api.create_container(environment.image, ["true"], labels=live)["Id"]
    volume = engine.volumes.create(labels={"somebody": "else"})
    network = engine.networks.create(f"somebody-{volume.name[:12]}")
    yield [foreign, elsewhere, alive]
    for container in (foreign, elsewhere, alive):
        engine.api.remove_container(container, force=True, v=True)
    volume.remove()
    network.remove()


def die_somewhen(run_id: str, image: str, moment: random.Random) -> str:
    """Start a client, and end it by a random signal at a random moment of its life."""
    how = moment.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, run_id, image], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as client:
        time.sleep(moment.uniform(0, LONGEST_S))
        client.send_signal(how)
        client.wait(60)
    return how.name


@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * RUNS)
def test_runs_whose_client_dies_leave_nothing(
    engine: Any, environment: Environment, run_id: str, bystanders: list[str]
) -> None:
    moment = random.Random(RUNS)
    networks = {network.id for network in engine.networks.list()}
    threads = threading.active_count()
    left: list[int] = []
    for number in range(0, RUNS, AT_ONCE):
        names = [f"{run_id}-{number + other}" for other in range(min(AT_ONCE, RUNS - number))]
        deaths = [
            threading.Thread(target=die_somewhen, args=(name, environment.image, moment)) for name in names
        ]
        for death in deaths:
            death.start()
        for death in deaths:
            death.join()
        left += [len(left_behind(engine, name)) for name in names]
    reap(engine)
    for number in range(RUNS):
        assert left_behind(engine, f"{run_id}-{number}") == []
    assert any(left), "no client died while it had a container: the moments are not random enough"
    assert {network.id for network in engine.networks.list()} - networks == set()
    assert threading.active_count() <= threads
    for bystander in bystanders:
        assert engine.api.inspect_container(bystander)["Id"] == bystander
