"""The one door to execution: containers, environment images, test reports."""

from __future__ import annotations

from agentforge.sandbox.docker_sandbox import DockerSandbox

__all__ = ["DockerSandbox"]
