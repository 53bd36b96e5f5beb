"""A real engine, the real base image; small limits so that hostile cases end quickly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.report import TestReport
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox, labels
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.sandbox.engine import connect

MakeTree = Callable[..., Tree]


def make_tree(files: dict[str, str | bytes]) -> Tree:
    return Tree({p: TreeFile(t.encode() if isinstance(t, str) else t) for p, t in files.items()})


@pytest.fixture(scope="session")
def settings() -> SandboxSettings:
    return SandboxSettings()


@pytest.fixture(scope="session")
def base_image(settings: SandboxSettings) -> str:
    return ensure_base_image(settings)


@pytest.fixture(scope="session")
def environment(base_image: str) -> Environment:
    return Environment(image=base_image)


@pytest.fixture(scope="session")
def engine() -> Any:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return f"test-{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def sandbox(settings: SandboxSettings, run_id: str, tmp_path: Path, engine: Any) -> Any:
    """A sandbox that must leave nothing behind."""
    yield DockerSandbox(settings, run_id, tmp_path / "logs")
    assert left_behind(engine, run_id) == []


def left_behind(engine: Any, run_id: str) -> list[str]:
    mine = {"label": f"{labels.RUN}={run_id}"}
    containers = [item["Id"] for item in engine.api.containers(all=True, filters=mine)]
    return containers + [item["Name"] for item in engine.api.volumes(filters=mine)["Volumes"] or []]


@pytest.fixture
def run(sandbox: DockerSandbox, environment: Environment) -> Callable[..., TestReport]:
    """Run the tests of some files, synchronously."""

    def run_files(files: dict[str, str | bytes], *targets: str, timeout_s: float = 30.0) -> TestReport:
        request = TestRequest(targets=targets, timeout_s=timeout_s)
        return asyncio.run(sandbox.run_tests(environment, make_tree(files), request))

    return run_files
