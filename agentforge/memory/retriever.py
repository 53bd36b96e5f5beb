"""Memory as the agents see it: the best symbols and episodes, or less, but never an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agentforge.config.settings import MemorySettings
from agentforge.core.errors import AgentForgeError
from agentforge.core.redact import Redactor
from agentforge.core.retrieval import Episode, Retrieved, Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.embed import Embedder
from agentforge.memory.open import LOCK_TIMEOUT_S, open_episodes, open_index

T = TypeVar("T")
Warn = Callable[[str], None]
_FAULTS = (AgentForgeError, OSError, ValueError, MemoryError)


class MemoryRetriever:
    """The `Retriever` port over the two stores of `data_home`.

    A part that fails is left out and told once through `warn`; text ranking of the repository needs no
    store and goes on. With `settings.enabled` false nothing is read or written.
    """

    def __init__(
        self,
        settings: MemorySettings,
        data_home: Path,
        warn: Warn,
        *,
        embedder: Embedder | None = None,
        redactor: Redactor | None = None,
        timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._warn = warn
        self._warned: set[str] = set()
        self._episodes = open_episodes(data_home, embedder=embedder, redactor=redactor, timeout_s=timeout_s)
        self._index = open_index(data_home, embedder=embedder, timeout_s=timeout_s)
        self._vectors_work = True

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        """Top `k` of both stores. Never raises on a broken store; the working part still comes."""
        if not self._settings.enabled or k <= 0:
            return Retrieved()
        symbols = await asyncio.to_thread(self._symbols, issue, tree, k)
        query = f"{issue.title}\n{issue.text}"
        episodes = await asyncio.to_thread(
            self._attempt, "episodes", lambda: self._episodes.search(query, k), ()
        )
        return Retrieved(symbols=tuple(symbols), episodes=episodes)

    async def store(self, episode: Episode) -> None:
        """Remember a verified fix; a failure is a warning."""
        if self._settings.enabled:
            await asyncio.to_thread(self._attempt, "episodes", lambda: self._episodes.store(episode), episode)

    def _symbols(self, issue: Issue, tree: Tree, k: int) -> list[Symbol]:
        if self._vectors_work:
            found = self._attempt("index", lambda: self._index.search(issue, tree, k), None)
            if found is not None:
                return found
            self._vectors_work = False
        return self._attempt("text index", lambda: self._index.open(tree).search(issue, k), list[Symbol]())

    def _attempt(self, part: str, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except _FAULTS as error:
            if part not in self._warned:
                self._warned.add(part)
                self._warn(f"memory ({part}) is not used: {error}")
            return otherwise
