"""The symbol index of a tree: lexical in memory, vectors in the store, both keyed by content.

A vector's id is git's blob id and a line span. A file that did not change is never split or embedded
again, on any branch and in any process; and as only the symbols of the tree at hand are asked for, text
that is gone cannot come back.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentforge.core.retrieval import Commit, Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.facts import FactsCache, Progress
from agentforge.memory.history import History
from agentforge.memory.postings import Scores
from agentforge.memory.ranking import Chunk, IndexSearch
from agentforge.memory.store import Row, VectorStore, collection_name

_BATCH = 500
_MAX_KEPT = 20_000


@dataclass(frozen=True)
class IndexStatus:
    """Size of the index of one tree, and how many of its symbols have a stored vector."""

    files: int
    symbols: int
    embedded: int
    stored: int
    """Vectors in the store, of all trees."""


class RepositoryIndex:
    """Index of whatever tree is handed in. Safe to use from several threads; store calls block."""

    def __init__(self, store: VectorStore | None = None, cache: FactsCache | None = None) -> None:
        self._store = store
        self._cache = cache or FactsCache()
        self._lock = threading.Lock()
        self._latest: IndexSearch | None = None
        self._history: History | None = None
        self._kept: dict[str, list[float]] = {}
        name = store.embedder.name if store else ""
        self._collection = collection_name("symbols", name)

    @property
    def computed(self) -> int:
        """How many file contents were split so far."""
        return self._cache.computed

    @property
    def cache_problem(self) -> str:
        """Why facts cannot be kept on disk; empty where they can."""
        return self._cache.problem

    def learn_history(self, commits: Sequence[Commit]) -> None:
        """Let the ranking use these ancestors of the base; the next `open` sees them."""
        history = History(commits)
        with self._lock:
            self._history = history
            if self._latest is not None:
                self._latest = IndexSearch(
                    self._latest.tree,
                    history=history,
                    weights=self._latest.weights,
                    index=self._latest.index,
                )

    def open(self, tree: Tree, progress: Progress | None = None) -> IndexSearch:
        """The lexical index of `tree`; only what differs from the last tree is indexed anew."""
        with self._lock:
            if self._latest is None:
                self._latest = IndexSearch(tree, self._cache, history=self._history, progress=progress)
            elif self._latest.tree is not tree:
                self._latest = self._latest.updated(tree, self._history)
            return self._latest

    def search(self, issue: Issue | str, tree: Tree, k: int = 5) -> list[Symbol]:
        """The `k` best symbols by text, evidence and vectors. Raises `StoreError`."""
        vectors = self._similarities if self._store is not None else None
        return self.open(tree).search(issue, k, vectors)

    def build(self, tree: Tree, progress: Progress | None = None) -> IndexStatus:
        """Store a vector of every symbol that has none; `progress(done, total)` after each batch."""
        search = self.open(tree)
        numbers = search.index.living_symbols()
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            self._stored_vectors([search.chunk(number) for number in batch])
            if progress is not None:
                progress(start + len(batch), len(numbers))
        return self.status(tree)

    def status(self, tree: Tree) -> IndexStatus:
        """Counts for `tree`. Raises `StoreError`."""
        search = self.open(tree)
        ids = [search.chunk(number).id for number in search.index.living_symbols()]
        known: set[str] = set()
        if self._store is not None:
            for start in range(0, len(ids), _BATCH):
                known.update(self._store.vectors(self._collection, sorted(set(ids[start : start + _BATCH]))))
        stored = self._store.count(self._collection) if self._store is not None else 0
        embedded = sum(chunk_id in known for chunk_id in ids)
        return IndexStatus(int(search.index.alive.sum()), len(ids), embedded, stored)

    def _similarities(self, query: str, chunks: Sequence[Chunk]) -> Scores:
        if self._store is None:
            return np.zeros(len(chunks))
        known = self._vectors(chunks)
        vector = np.asarray(self._store.embedder.embed([query])[0])
        scores: Scores = np.asarray([known[chunk.id] for chunk in chunks]) @ vector
        return scores

    def _vectors(self, chunks: Sequence[Chunk]) -> dict[str, list[float]]:
        """Vectors by chunk id, kept in memory: an edit leaves nearly all of them as they are.

        The offline embedder makes them faster than a database finds them.
        """
        missing = [chunk for chunk in chunks if chunk.id not in self._kept]
        if missing and self._store is not None:
            if len(self._kept) > _MAX_KEPT:
                self._kept = {}
                missing = list(chunks)
            made = self._made(missing) if self._store.embedder.offline else self._stored_vectors(missing)
            self._kept.update(made)
        return self._kept

    def _made(self, chunks: Sequence[Chunk]) -> dict[str, list[float]]:
        if self._store is None:
            return {}
        vectors = self._store.embedder.embed([chunk.text for chunk in chunks])
        return dict(zip((chunk.id for chunk in chunks), vectors, strict=True))

    def _stored_vectors(self, chunks: Sequence[Chunk]) -> dict[str, list[float]]:
        """Vectors by chunk id; those the store lacks are made and written."""
        if self._store is None:
            return {}
        texts = {chunk.id: chunk.text for chunk in chunks}
        known = self._store.vectors(self._collection, list(texts))
        missing = [
            Row(chunk_id, text, {"schema": 1}) for chunk_id, text in texts.items() if chunk_id not in known
        ]
        known.update(self._store.upsert(self._collection, missing))
        return known
