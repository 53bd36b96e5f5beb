"""Trees, stores and a tmp data home."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.store import VectorStore


def make_tree(files: dict[str, str]) -> Tree:
    return Tree({path: TreeFile(text.encode()) for path, text in files.items()})


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until `condition` holds; whether it did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    return VectorStore(tmp_path / "memory", HashedEmbedder(), timeout_s=5)
