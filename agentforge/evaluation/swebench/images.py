"""The images of a batch: which are here, room for the others, and the removal of what it pulled itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentforge.core.errors import EnvironmentFault
from agentforge.evaluation.bench.batch import append_line
from agentforge.evaluation.bench.preflight import check_room
from agentforge.orchestrator.store import whole_lines
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.engine import connect, engine_errors

PULLED = "pulled.jsonl"


LEAST_FREE_MB = 5 * 1024
"""An image of an instance takes one to three gigabytes."""


def images_here(names: Sequence[str]) -> frozenset[str]:
    """Which of these images the engine has. Blocks."""
    client = connect()
    try:
        return frozenset(name for name in names if get_image(client, name) is not None)
    finally:
        client.close()


def check_engines_room() -> None:
    """Raise `EnvironmentFault` where the engine keeps images on this machine and its disk is full. Blocks."""
    client = connect()
    try:
        with engine_errors("asking where images are kept"):
            root = Path(str(client.info().get("DockerRootDir") or ""))
    finally:
        client.close()
    if root.is_absolute() and root.is_dir():
        check_room(root, LEAST_FREE_MB)


def note_pulled(folder: Path, *images: str) -> None:
    """Say, durably, that the batch in `folder` brought these to this machine."""
    for image in images:
        append_line(folder / PULLED, {"image": image})


def pulled_images(folder: Path) -> tuple[str, ...]:
    lines = (json.loads(line) for line in whole_lines(folder / PULLED))
    names = tuple(dict.fromkeys(str(line["image"]) for line in lines))
    return names[::-1]  # what was made from an image was noted after it, and has to go first


def remove_pulled(folder: Path) -> list[str]:
    """Remove what the batch pulled; the names that went. One still in use stays. Blocks."""
    from docker.errors import APIError

    names = pulled_images(folder)
    if not names:
        return []
    client, gone = connect(), []
    try:
        for name in names:
            try:
                with engine_errors(f"removing {name}"):
                    client.api.remove_image(name)
            except (EnvironmentFault, APIError):
                continue  # in use, or gone already
            gone.append(name)
    finally:
        client.close()
    return gone
