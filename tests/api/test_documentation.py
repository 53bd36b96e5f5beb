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

from tests.api.conftest import served
from tests.orchestrator.conftest import SHOP, make_repository

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "server.md").read_text("utf-8")


def example(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    home = tmp_path_factory.mktemp("documentation")
    shop = make_repository(home / "shop", SHOP)
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


@pytest.mark.docker
def test_the_example_in_python(environment: dict[str, str]) -> None:
    code = example("python").replace("    print(client.patch", "    # print(client.patch")
    said = output_of([sys.executable, "-c", code], environment)
    assert said.splitlines()[-1] in ("no_patch", "verified")


@pytest.mark.docker
def test_the_example_in_javascript(environment: dict[str, str]) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    said = output_of(["node", "--input-type=module", "-e", example("javascript")], environment)
    assert said.strip() in ("no_patch", "verified")


def test_the_server_s_image_runs_as_an_ordinary_user_from_pinned_images() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["agentforge"]
    assert text.index("USER agentforge") < text.index("ENTRYPOINT")
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
