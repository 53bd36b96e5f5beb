"""The symbol index of a tree: lexical in memory, vectors in the store, both keyed by content.

A vector's id is git's blob id and a line span. A file that did not change is never embedded again, on
any branch; and as only the symbols of the tree at hand are asked for, text that is gone cannot come back.
Vectors are made for the symbols that a query brings near the top, not for the whole tree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentforge.core.retrieval import Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.facts import FactsCache
from agentforge.memory.lexical import Scores
from agentforge.memory.ranking import Chunk, IndexSearch
from agentforge.memory.store import Row, VectorStore, collection_name

_BATCH = 500


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
        name = store.embedder.name if store else ""
        self._collection = collection_name("symbols", name)

    @property
    def computed(self) -> int:
        """How many file contents were split so far."""
        return self._cache.computed

    def open(self, tree: Tree) -> IndexSearch:
        """The lexical index of `tree`; only contents not seen before are split."""
        with self._lock:
            if self._latest is None or self._latest.tree is not tree:
                self._latest = IndexSearch(tree, self._cache)
            return self._latest

    def search(self, issue: Issue | str, tree: Tree, k: int = 5) -> list[Symbol]:
        """The `k` best symbols by text, evidence and vectors. Raises `StoreError`."""
        vectors = self._similarities if self._store is not None else None
        return self.open(tree).search(issue, k, vectors)

    def build(self, tree: Tree, progress: Callable[[int, int], None] | None = None) -> IndexStatus:
        """Embed every symbol of `tree` that has no vector yet; `progress(done, total)` after each batch."""
        search = self.open(tree)
        total = len(search.index.symbols)
        for start in range(0, total, _BATCH):
            numbers = range(start, min(start + _BATCH, total))
            self._vectors([search.chunk(number) for number in numbers])
            if progress is not None:
                progress(numbers.stop, total)
        return self.status(tree)

    def status(self, tree: Tree) -> IndexStatus:
        """Counts for `tree`. Raises `StoreError`."""
        search = self.open(tree)
        ids = [search.chunk(number).id for number in range(len(search.index.symbols))]
        known: set[str] = set()
        if self._store is not None:
            for start in range(0, len(ids), _BATCH):
                known.update(self._store.vectors(self._collection, sorted(set(ids[start : start + _BATCH]))))
        stored = self._store.count(self._collection) if self._store is not None else 0
        embedded = sum(chunk_id in known for chunk_id in ids)
        return IndexStatus(len(search.index.files), len(ids), embedded, stored)

    def _similarities(self, query: str, chunks: Sequence[Chunk]) -> Scores:
        if self._store is None:
            return np.zeros(len(chunks), np.float32)
        known = self._vectors(chunks)
        vector = np.asarray(self._store.embedder.embed([query])[0], np.float32)
        matrix = np.asarray([known[chunk.id] for chunk in chunks], np.float32)
        scores: Scores = matrix @ vector
        return scores

    def _vectors(self, chunks: Sequence[Chunk]) -> dict[str, list[float]]:
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
