"""Debian packages laid over an image, kept as long as the image and the list are the same."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import UsageError
from agentforge.sandbox import labels
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.builder import Progress, build_container
from agentforge.sandbox.container import Guard

if TYPE_CHECKING:
    from docker import DockerClient

_PACKAGE = re.compile(r"^[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$")
# One of root's own steps: nothing of the repository runs in this container.
_INSTALL = """set -e
apt-get -o APT::Sandbox::User=root update -q
DEBIAN_FRONTEND=noninteractive apt-get -o APT::Sandbox::User=root install -qy --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/*
"""


def with_packages(
    client: DockerClient,
    settings: SandboxSettings,
    image: str,
    packages: tuple[str, ...],
    *,
    own_image: bool,
    guard: Guard,
    progress: Progress,
) -> str:
    """The id of `image` with `packages` installed. Raises `ImageError`, `UsageError` for what is no name."""
    wrong = next((name for name in packages if not _PACKAGE.match(name)), None)
    if wrong is not None:
        raise UsageError(
            f"not the name of a Debian package: {wrong}", hint="--apt NAME or --apt NAME=VERSION"
        )
    if not packages:
        return image
    key = hashlib.sha256("\0".join((image, *sorted(set(packages)))).encode()).hexdigest()[:20]
    tag = f"{labels.ENV_REPOSITORY}:apt-{key}"
    found = get_image(client, tag)
    if found is not None:
        return str(found.id)
    progress("installing Debian packages: " + ", ".join(packages))
    with build_container(
        client, image, settings, trusted_root=True, own_image=own_image, guard=guard
    ) as builder:
        builder.run(
            ["sh", "-c", _INSTALL, "apt", *packages],
            user="0:0",
            doing="installing Debian packages",
            hint="the image must be a Debian, and containers must reach its mirror",
        )
        made = {labels.ROLE: labels.ROLE_ENV, labels.RECIPE: key}
        made[labels.CREATED] = datetime.now(UTC).isoformat(timespec="seconds")
        return builder.commit(tag, made)
