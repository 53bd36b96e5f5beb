"""One image for all tests of this folder, removed with what was made from it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from docker.errors import APIError

from agentforge.config.settings import SandboxSettings
from agentforge.sandbox import labels
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.sandbox.engine import connect
from tests.evaluation.swebench.instances import Project, build_image, make_project


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On one worker: what is made from the image is removed at the end, whoever made it."""
    for item in items:
        if "instance_image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("instance-image"))


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="session")
def instance_image(project: Project) -> Iterator[str]:
    name = f"agentforge-test/shapes-{secrets.token_hex(4)}:latest"
    build_image(project, name, ensure_base_image(SandboxSettings()))
    client = connect()
    try:
        before = {image.id for image in client.images.list(filters={"label": labels.ROLE})}
        yield name
        for image in client.images.list(filters={"label": f"{labels.ROLE}={labels.ROLE_ENV}"}):
            if image.id not in before and any("instance-" in tag for tag in image.tags):
                with suppress(APIError):  # gone already, or held by a container that is on its way out
                    client.images.remove(str(image.id), force=True)
        with suppress(APIError):
            client.images.remove(name, force=True)
    finally:
        client.close()


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """The environment of a process: no key, no configuration of the machine."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTFORGE_", "OPENAI_"))
    }
    return {**kept, "AGENTFORGE_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
