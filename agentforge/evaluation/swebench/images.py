"""Cleaning up: the images that this batch pulled, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from agentforge.core.errors import EnvironmentFault
from agentforge.evaluation.bench.batch import append_line
from agentforge.orchestrator.store import whole_lines
from agentforge.sandbox.engine import connect, engine_errors

PULLED = "pulled.jsonl"


def note_pulled(folder: Path, image: str) -> None:
    """Say, durably, that the batch in `folder` brought `image` to this machine."""
    append_line(folder / PULLED, {"image": image})


def pulled_images(folder: Path) -> tuple[str, ...]:
    lines = (json.loads(line) for line in whole_lines(folder / PULLED))
    return tuple(dict.fromkeys(str(line["image"]) for line in lines))


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
