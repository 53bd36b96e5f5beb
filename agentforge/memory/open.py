"""Where the stores of a data home lie, and how they are opened."""

from __future__ import annotations

from pathlib import Path

from agentforge.core.redact import Redactor
from agentforge.memory.embed import Embedder, HashedEmbedder
from agentforge.memory.episodes import EpisodeStore
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.store import VectorStore

LOCK_TIMEOUT_S = 10.0


def open_episodes(
    data_home: Path,
    *,
    embedder: Embedder | None = None,
    redactor: Redactor | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> EpisodeStore:
    """The episodic memory. Nothing is read or made before it is used."""
    store = VectorStore(data_home / "memory", embedder or HashedEmbedder(), timeout_s=timeout_s)
    return EpisodeStore(store, redactor)


def open_index(
    data_home: Path, *, embedder: Embedder | None = None, timeout_s: float = LOCK_TIMEOUT_S
) -> RepositoryIndex:
    """The symbol index, apart from the episodes: a cache whose size or damage must not touch them."""
    return RepositoryIndex(
        VectorStore(data_home / "index", embedder or HashedEmbedder(), timeout_s=timeout_s)
    )
