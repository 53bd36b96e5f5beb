"""Where the stores of a data home lie, and how they are opened."""

from __future__ import annotations

from pathlib import Path

from agentforge.config.settings import MemorySettings
from agentforge.core.redact import Redactor
from agentforge.memory.embed import Embedder, HashedEmbedder
from agentforge.memory.endpoint import open_embedder
from agentforge.memory.episodes import EpisodeStore
from agentforge.memory.facts import FactsCache
from agentforge.memory.factstore import DiskFacts
from agentforge.memory.insights import InsightStore
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.store import VectorStore

LOCK_TIMEOUT_S = 10.0


def open_store(
    data_home: Path,
    settings: MemorySettings | None = None,
    *,
    embedder: Embedder | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> VectorStore:
    """The store of episodes and insights: a folder, or a Chroma server. Nothing is opened before use."""
    settings = settings or MemorySettings()
    return VectorStore(
        data_home / "memory",
        embedder or open_embedder(settings),
        timeout_s=timeout_s,
        url=settings.chroma_url,
    )


def open_episodes(
    data_home: Path,
    settings: MemorySettings | None = None,
    *,
    embedder: Embedder | None = None,
    redactor: Redactor | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> EpisodeStore:
    """The episodic memory. Nothing is read or made before it is used."""
    return EpisodeStore(open_store(data_home, settings, embedder=embedder, timeout_s=timeout_s), redactor)


def open_insights(
    data_home: Path,
    settings: MemorySettings | None = None,
    *,
    embedder: Embedder | None = None,
    redactor: Redactor | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> InsightStore:
    """Lessons distilled from episodes, beside them in the same store."""
    return InsightStore(open_store(data_home, settings, embedder=embedder, timeout_s=timeout_s), redactor)


def open_index(
    data_home: Path,
    settings: MemorySettings | None = None,
    *,
    embedder: Embedder | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> RepositoryIndex:
    """The symbol index, apart from the episodes: a cache whose size or damage must not touch them."""
    folder = data_home / "index"
    made = embedder or (open_embedder(settings) if settings else HashedEmbedder())
    return RepositoryIndex(VectorStore(folder, made, timeout_s=timeout_s), FactsCache(DiskFacts(folder)))
