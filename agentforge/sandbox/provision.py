"""Containers furnished for an execution: the limits of the settings, the tree in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment
from agentforge.core.tree import Tree
from agentforge.sandbox import labels
from agentforge.sandbox.archive import pack_job, packed_mb, tree_archive
from agentforge.sandbox.container import Container, Guard, dispose, start
from agentforge.sandbox.engine import engine_errors
from agentforge.sandbox.environments import GENERATED, GENERATED_DIR
from agentforge.sandbox.limits import JOB, REPO, WORKSPACE, ContainerPlan

if TYPE_CHECKING:
    from docker import DockerClient

_MB = 1024 * 1024
_SPARE_INODES = 50_000
_JOB_MB = 64


@dataclass(frozen=True)
class Provisioner:
    """Makes the containers of one sandbox."""

    client: DockerClient
    settings: SandboxSettings
    run_id: str
    _generated: dict[str, bool] = field(default_factory=dict)

    def plan(self, image: str, tree: Tree, files: Mapping[str, bytes]) -> ContainerPlan:
        settings = self.settings
        return ContainerPlan(
            image=image,
            labels=labels.owner_labels(self.run_id),
            memory_mb=settings.memory_mb,
            cpus=settings.cpus,
            pids=settings.pids,
            workspace_mb=settings.workspace_mb + packed_mb(tree.files.values()),
            tmp_mb=settings.tmp_mb,
            inodes=_SPARE_INODES + 4 * len(tree.files),
            job_mb=_JOB_MB + sum(map(len, files.values())) // _MB,
            runtime=settings.runtime,
        )

    def furnished(
        self,
        environment: Environment,
        tree: Tree,
        files: Mapping[str, bytes],
        guard: Guard,
        *,
        archive: bytes | None = None,
    ) -> Container:
        """A running container with `tree` and, under /job, `files`; the caller disposes of it.

        `archive` is the tree's packed form, where the caller has it already.
        """
        box = start(self.client, self.plan(environment.image, tree, files), guard)
        try:
            box.put(WORKSPACE, tree_archive(tree, "repo") if archive is None else archive)
            box.put(JOB, pack_job(files))
            if self._has_generated(environment.image):
                box.run(("cp", "-rn", f"{GENERATED_DIR}/.", REPO), lambda _: None, timeout_s=30)
        except BaseException:
            dispose(box, guard)
            raise
        return box

    def _has_generated(self, image: str) -> bool:
        """Whether installing the project made files in the tree that later trees need beneath them."""
        if image not in self._generated:
            with engine_errors("looking at the environment image"):
                found = self.client.images.get(image)
            self._generated[image] = found.labels.get(GENERATED, "0") != "0"
        return self._generated[image]
