"""The examples of docs/server.md are run as they stand; the container files keep their promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agentforge.client import Client
from tests.api.conftest import served
from tests.orchestrator.conftest import SHOP, make_repository

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "server.md").read_text("utf-8")


# One operator is wrong, which the search engine finds without a model.
MONEY = """def with_tax(cents, percent):
    return cents + cents * percent // 100


def split(cents, people):
    share = cents // people
    left = cents - share * people
    return [share + 1] * left + [share] * (people + left)
"""
FIXED = "+    return [share + 1] * left + [share] * (people - left)"


def example(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("documentation")
    shop = make_repository(home / "shop", {**SHOP, "shop/money.py": MONEY})
    with served(home / "data", repository_roots=(str(home),)) as url:
        paths = os.pathsep.join(sys.path)
        yield os.environ | {"SERVER": url, "REPOSITORY": str(shop), "PYTHONPATH": paths}


def output_of(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.docker
def test_the_example_with_curl(environment: dict[str, str]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    said = output_of(["bash", "-euc", example("bash")], environment)
    assert "1 event: run_finished" in said
    assert FIXED in said.splitlines()


@pytest.mark.docker
def test_the_example_in_python(environment: dict[str, str]) -> None:
    said = output_of([sys.executable, "-c", example("python")], environment)
    lines = said.splitlines()
    assert lines[:3] == ["verified", "verified", "diff --git a/shop/money.py b/shop/money.py"]
    assert FIXED in lines


@pytest.mark.docker
def test_the_example_in_javascript(environment: dict[str, str]) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    said = output_of(["node", "--input-type=module", "-e", example("javascript")], environment)
    assert said.strip() == "verified"


@pytest.mark.docker
def test_watch_shows_a_run_of_the_server_and_ends_as_it_did(environment: dict[str, str]) -> None:
    with Client(environment["SERVER"]) as client:
        run = client.start(environment["REPOSITORY"], "split(10, 3) should return [4, 3, 3]")["id"]
    command = [sys.executable, "-m", "agentforge", "watch", run, "--server", environment["SERVER"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stderr
    gone = subprocess.run(
        [*command[:4], "none", *command[5:]], env=environment, capture_output=True, text=True
    )
    assert gone.returncode == 2
    assert "no run 'none'" in gone.stderr


def test_the_server_s_image_runs_as_an_ordinary_user_from_pinned_images() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["agentforge"]
    assert text.index("USER agentforge") < text.index("ENTRYPOINT")
    # A fresh volume takes over the owner of the folder that it is mounted on.
    assert "--owner=agentforge --mode=0700 /data" in text
    assert "HEALTHCHECK" in text
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (ROOT / name).exists(), name


def test_only_the_proxy_sees_the_engine_s_socket() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    server, engine = compose["services"]["agentforge"], compose["services"]["engine"]
    assert not any("docker.sock" in volume for volume in server["volumes"])
    assert engine["networks"] == ["inside"]
    assert compose["networks"]["inside"]["internal"]
    for service in (server, engine):
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
    assert server["ports"] == ["127.0.0.1:8765:8765"]
    assert int(server["user"].split(":")[0]) > 0
