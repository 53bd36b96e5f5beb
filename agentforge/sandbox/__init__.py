"""The one door to execution: containers, environment images, test reports."""

from __future__ import annotations

from agentforge.sandbox.base_image import ensure_base_image

# from agentforge.sandbox.docker_sandbox import DockerSandbox
# from agentforge.sandbox.reaper import reap

__all__ = ["ensure_base_image"]
