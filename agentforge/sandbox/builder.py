"""Images made by running a container with network and committing it.

The engine's build API cannot be given the host's certificates or package index without keeping
them in the image; a container can: certificates lie in a volume and credentials in the environment
of one exec, and neither is part of a commit.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.tree import TreeFile
from agentforge.sandbox import labels
from agentforge.sandbox.archive import pack
from agentforge.sandbox.container import Container, Guard, started
from agentforge.sandbox.engine import engine_errors
from agentforge.sandbox.limits import JOB, USER, ContainerPlan
from agentforge.sandbox.output import CappedOutput
from agentforge.sandbox.pip_settings import CONTAINER_CA, PipSettings, host_pip_settings

if TYPE_CHECKING:
    from docker import DockerClient

Progress = Callable[[str], None]

ENV_DIR = "/opt/env"
IMAGE_PATH = f"{ENV_DIR}/bin:/usr/local/bin:/usr/bin:/bin"
BUILD_HOME = f"{JOB}/home"
BUILD_TMP = f"{JOB}/tmp"  # noqa: S108  in a volume of the build container
_BUILD_PIDS = 512
# What pip, apt and the engine say at the end of every failure, and nobody learns from.
_CHATTER = re.compile(
    r"\s*(note: This (error|is)|\[notice\]|hint: See (above|below)|\[end of output\]|╰─>|Removing inter|--->)"
)
_BUILD_CPUS = 2.0


@dataclass
class Builder:
    """A build container; `run` steps in it, then `commit`."""

    container: Container
    client: DockerClient
    pip: PipSettings
    timeout_s: float
    log_path: Path | None = None
    own_image: bool = False
    """The user's image keeps its own PATH and environment, and is changed as its own root."""
    output: CappedOutput = field(init=False)

    def __post_init__(self) -> None:
        self.output = CappedOutput(64 * 1024, log_path=self.log_path, log_limit=8 * 1024 * 1024)

    def run(
        self, argv: Sequence[str], *, user: str = USER, workdir: str = "/", doing: str, hint: str = ""
    ) -> str:
        """Run one step; its output is returned. Raises `ImageError` with the last useful lines."""
        step = CappedOutput(64 * 1024)

        def sink(chunk: bytes) -> None:
            step.write(chunk)
            self.output.write(chunk)

        environment = {"HOME": BUILD_HOME, **self.pip.environment}
        if not self.own_image:
            environment["PATH"] = IMAGE_PATH + ":/usr/sbin:/sbin"
        environment |= {"TMPDIR": BUILD_TMP, "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
        ended = self.container.run(
            argv, sink, timeout_s=self.timeout_s, workdir=workdir, environment=environment, user=user
        )
        if ended.exit_code != 0:
            raise ImageError(_failure(doing, ended.exit_code, self.timeout_s, step.text()), hint=hint)
        return step.text()

    def commit(
        self, tag: str, image_labels: Mapping[str, str], *, environment: Mapping[str, str] | None = None
    ) -> str:
        """Make an image of the container; returns its id. Labels of the container are not inherited.

        `environment` is what the image's commands find set, beside what it sets itself.
        """
        repository, _, version = tag.rpartition(":")
        changes = [f"USER {USER}", "WORKDIR /", 'CMD ["sleep", "60"]']
        if not self.own_image:
            changes += [f"ENV PATH={IMAGE_PATH}", "ENV LC_ALL=C.UTF-8", "ENV PYTHONDONTWRITEBYTECODE=1"]
        changes += [f'ENV {name}="{value}"' for name, value in (environment or {}).items()]
        blank = dict.fromkeys((labels.RUN, labels.PID, labels.STARTED, labels.HOST), "")
        with engine_errors("keeping the built image"):
            made = self.client.api.commit(
                self.container.id,
                repository=repository,
                tag=version,
                changes=changes,
                conf={"Labels": blank | dict(image_labels)},
            )
        return str(made["Id"])


@contextmanager
def build_container(
    client: DockerClient,
    image: str,
    settings: SandboxSettings,
    *,
    trusted_root: bool = False,
    own_image: bool = False,
    guard: Guard | None = None,
    log_path: Path | None = None,
) -> Iterator[Builder]:
    """A container with network, a writable root and more memory; every other limit holds."""
    plan = ContainerPlan(
        image=image,
        labels=labels.owner_labels(f"build-{secrets.token_hex(4)}", labels.ROLE_BUILD),
        memory_mb=settings.build_memory_mb,
        cpus=max(settings.cpus, _BUILD_CPUS),
        pids=_BUILD_PIDS,
        workspace_mb=settings.build_memory_mb,
        tmp_mb=settings.tmp_mb,
        build=True,
        trusted_root=trusted_root,
    )
    with started(client, plan, guard) as container:
        pip = host_pip_settings()
        container.put(JOB, pack({"home/.keep": TreeFile(b""), "tmp/.keep": TreeFile(b"")}, "", owner=1000))
        if pip.ca_bundle is not None:
            name = CONTAINER_CA.removeprefix(JOB + "/")
            container.put(JOB, pack({name: TreeFile(pip.ca_bundle.read_bytes())}, "", owner=0))
        builder = Builder(container, client, pip, settings.build_timeout_s, log_path, own_image)
        with builder.output:
            yield builder


def _failure(doing: str, exit_code: int | None, timeout_s: float, output: str) -> str:
    why = f"exit code {exit_code}"
    if exit_code in (None, 124):
        why = f"not finished after {timeout_s:.0f} s"
    elif exit_code == 137:
        why = "killed, most likely out of memory"
    if "Temporary failure in name resolution" in output or "from versions: none" in output:
        why += "; the package index cannot be reached from a container"
    return last_lines(f"{doing} failed: {why}", output)


def last_lines(what: str, output: str, count: int = 15) -> str:
    """`what`, and below it the last lines of an output that say something."""
    useful = [line for line in output.splitlines() if line.strip() and not _CHATTER.match(line)][-count:]
    return what + "".join("\n    " + line[:300] for line in useful)
