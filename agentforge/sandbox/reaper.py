"""Removal of what a killed process left behind, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentforge.sandbox import labels
from agentforge.sandbox.container import remove_container
from agentforge.sandbox.engine import engine_errors

if TYPE_CHECKING:
    from docker import DockerClient


def reap(client: DockerClient) -> list[str]:
    """Remove our containers and volumes whose owner process is dead; returns their ids.

    Containers without our label, of another host, or of a process that still runs are not touched.
    """
    removed = []
    for container_id in orphaned_containers(client):
        with engine_errors("removing a container that a dead run left"):
            remove_container(client, container_id)
        removed.append(container_id)
    return removed + _reap_volumes(client)


def orphaned_containers(client: DockerClient) -> list[str]:
    """Ids of our containers whose owner is known to be dead."""
    with engine_errors("listing containers"):
        found = client.api.containers(all=True, filters={"label": labels.PID})
    return [item["Id"] for item in found if labels.owner_is_alive(item.get("Labels") or {}) is False]


def orphaned_volumes(client: DockerClient) -> list[str]:
    """Names of our unused volumes whose owner is known to be dead."""
    with engine_errors("listing volumes"):
        found = client.api.volumes(filters={"label": labels.PID, "dangling": True}).get("Volumes") or []
    return [item["Name"] for item in found if labels.owner_is_alive(item.get("Labels") or {}) is False]


def _reap_volumes(client: DockerClient) -> list[str]:
    from docker.errors import APIError

    removed = []
    for name in orphaned_volumes(client):
        try:
            client.api.remove_volume(name)
        except APIError:
            continue  # somebody else was faster
        removed.append(name)
    return removed
