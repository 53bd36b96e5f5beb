"""What we hold on the engine and no longer need: leftovers of dead runs, old environment images."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentforge.core.base import Frozen
from agentforge.sandbox import labels
from agentforge.sandbox.container import remove_container
from agentforge.sandbox.engine import engine_errors
from agentforge.sandbox.reaper import orphaned_containers, orphaned_volumes

if TYPE_CHECKING:
    from docker import DockerClient


class Pruned(Frozen):
    """Ids of containers, names of volumes and tags of images; `image_bytes` is what the images hold beyond
    the image they were built over."""

    containers: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    image_bytes: int = 0
    dry_run: bool = False


def prune(
    client: DockerClient,
    *,
    older_than_days: float = 30.0,
    keep_gb: float | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Remove orphaned containers and volumes of ours, and environment images older than given.

    With `keep_gb` the oldest of the rest go too, until those left hold no more than that. Nothing of a
    live run, of another host, or without our label is touched. An image in use stays.
    """
    containers, volumes = orphaned_containers(client), orphaned_volumes(client)
    images = _unneeded(client, datetime.now(UTC) - timedelta(days=older_than_days), keep_gb)
    removed = []
    if not dry_run:
        with engine_errors("removing what dead runs left"):
            for container in containers:
                remove_container(client, container)
        volumes = [name for name in volumes if _removed(client.api.remove_volume, name)]
    for tag, size in images:
        if dry_run or _removed(client.api.remove_image, tag):
            removed.append((tag, size))
    return Pruned(
        containers=tuple(containers),
        volumes=tuple(volumes),
        images=tuple(tag for tag, _ in removed),
        image_bytes=sum(size for _, size in removed),
        dry_run=dry_run,
    )


def _unneeded(client: DockerClient, before: datetime, keep_gb: float | None) -> list[tuple[str, int]]:
    """Tags and own sizes of environment images, oldest first: by age, then by what they hold together."""
    with engine_errors("listing environment images"):
        found = client.api.images(filters={"label": f"{labels.ROLE}={labels.ROLE_ENV}"})
        aged = sorted(
            (int(image["Created"]), _tag(image), _own_bytes(client, image["Id"])) for image in found
        )
    limit = float("inf") if keep_gb is None else keep_gb * 1e9
    held = sum(size for _, _, size in aged)
    unneeded = []
    for created, tag, size in aged:
        if datetime.fromtimestamp(created, UTC) < before or held > limit:
            unneeded.append((tag, size))
            held -= size
    return unneeded


def _tag(image: dict[str, Any]) -> str:
    return str((image["RepoTags"] or [image["Id"]])[0])


def _own_bytes(client: Any, image: str) -> int:
    """The newest layer: what was installed over the base image, which others share."""
    return int(client.api.history(image)[0]["Size"])


def _removed(remove: Any, name: str) -> bool:
    from docker.errors import APIError

    try:
        remove(name)
    except APIError:
        return False  # in use, or somebody else was faster
    return True
