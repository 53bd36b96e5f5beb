"""A root file system from Debian packages, for machines where no image registry answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentforge.core.errors import ImageError
from agentforge.sandbox.engine import engine_errors

if TYPE_CHECKING:
    from docker import DockerClient

SUITE = "bookworm"
PACKAGES = ("python3", "python3-pip", "python3-venv", "git", "ca-certificates", "patch", "procps")
_TIMEOUT_S = 900
_LEFT_OUT = (
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./dev/*",
)


def import_debian(client: DockerClient, tag: str, progress: Callable[[str], None]) -> str:
    """Bootstrap Debian with Python into an image called `tag`; returns its id. About a minute.

    Raises `ImageError` where the tool, the rights or the package mirror are missing.
    """
    tool = shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin:/sbin")
    if tool is None:
        raise ImageError(
            "no image registry answers, and debootstrap, which would build the image from Debian "
            "packages, is not installed",
            hint="`apt-get install debootstrap` as root, or make python:3.11-slim available to the engine",
        )
    if os.geteuid() != 0:
        raise ImageError(
            "no image registry answers, and building the image from Debian packages needs root",
            hint="run `agentforge sandbox build` as root once, or load python:3.11-slim into the engine",
        )
    with tempfile.TemporaryDirectory(prefix="agentforge-debian-") as folder:
        root = Path(folder) / "root"
        progress(f"bootstrapping Debian {SUITE} (about a minute)")
        _bootstrap(tool, root)
        progress("importing it into the engine")
        return _import(client, root, tag)


def _bootstrap(tool: str, root: Path) -> None:
    command = [tool, "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"debootstrap did not finish in {_TIMEOUT_S} s", hint="is the mirror reachable?"
        ) from error
    if done.returncode != 0:
        last = "\n".join("    " + line for line in (done.stdout + done.stderr).splitlines()[-8:])
        raise ImageError(f"debootstrap failed:\n{last}", hint="is the Debian mirror reachable?")


def _import(client: DockerClient, root: Path, tag: str) -> str:
    repository, _, version = tag.rpartition(":")
    excludes = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    command = ["tar", "-C", str(root), *excludes, "--numeric-owner", "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as packer:  # noqa: S603
        with engine_errors("importing the Debian image"):
            client.api.import_image(packer.stdout, repository=repository, tag=version, stream_src=True)
        if packer.wait() != 0:
            raise ImageError("tar failed while packing the Debian root file system")
    with engine_errors("importing the Debian image"):
        return str(client.images.get(tag).id)
