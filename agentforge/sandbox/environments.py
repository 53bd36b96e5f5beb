"""From a repository to an image in which its tests can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, EnvironmentSpec
from agentforge.core.tree import Tree
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.sandbox.builder import Progress
from agentforge.sandbox.container import Guard
from agentforge.sandbox.test_command import detect_test_command

if TYPE_CHECKING:
    from docker import DockerClient


def prepare_environment(
    client: DockerClient,
    settings: SandboxSettings,
    tree: Tree,
    spec: EnvironmentSpec,
    *,
    guard: Guard,
    progress: Progress,
) -> Environment:
    """Detect the test command and find or build the image. Blocks."""
    command = detect_test_command(tree, spec.test_command, spec.subdirectory)
    image = ensure_base_image(settings, progress)
    return Environment(
        image=image,
        test_command=command.argv,
        framework=command.framework,
        notes=command.notes,
        workdir=spec.subdirectory,
    )
