"""What turns the base tree, which lies in a container already, into a candidate's tree."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox.archive import MTIME, check_name

MAX_BYTES = 4 * 1024 * 1024
"""A larger difference is not worth an overlay: the whole tree is packed afresh."""


@dataclass(frozen=True)
class Overlay:
    """Regular files to write and paths to remove, relative to the tree's root."""

    write: Mapping[str, TreeFile]
    remove: tuple[str, ...]

    def order(self, request: Mapping[str, object], timeout_s: float) -> bytes:
        """The order that a launcher started ahead waits for (`inside/launch.py`)."""
        write = {
            path: (_mode(entry), MTIME, base64.b64encode(entry.data).decode("ascii"))
            for path, entry in self.write.items()
        }
        order: dict[str, Any] = {
            "request": request,
            "timeout_s": timeout_s,
            "write": write,
            "remove": self.remove,
        }
        data = json.dumps(order).encode("ascii")
        return struct.pack(">Q", len(data)) + data


def overlay(base: Tree, tree: Tree) -> Overlay | None:
    """The difference, or None where it is large or touches anything but plain files in plain folders.

    Raises `EnvironmentFault` for a name that leaves the tree.
    """
    before, after = base.files, tree.files
    write = {path: entry for path, entry in after.items() if before.get(path) != entry}
    remove = tuple(sorted(before.keys() - after.keys()))
    touched = [*write.values(), *(before[path] for path in (*remove, *write) if path in before)]
    if any(entry.mode == "120000" for entry in touched):
        return None
    if sum(len(entry.data) for entry in write.values()) > MAX_BYTES:
        return None
    links = {path for path, entry in before.items() if entry.mode == "120000"}
    for path in write:
        check_name(path, links)
        # A file where a folder was, or the reverse: order would matter.
        if base.kind(path) == "directory" or any(parent in before for parent in _parents(path)):
            return None
    return Overlay(write, remove)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _mode(entry: TreeFile) -> int:
    return 0o755 if entry.mode == "100755" else 0o644
