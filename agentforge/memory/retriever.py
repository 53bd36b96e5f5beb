"""Memory as the agents see it: the best symbols, episodes and lessons, or less, but never an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agentforge.config.settings import MemorySettings
from agentforge.core.errors import AgentForgeError
from agentforge.core.redact import Redactor
from agentforge.core.retrieval import Commit, Episode, Insight, Retrieved, Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.embed import Embedder
from agentforge.memory.endpoint import Meter, open_embedder
from agentforge.memory.episodes import warnings_of
from agentforge.memory.open import LOCK_TIMEOUT_S, open_episodes, open_index, open_insights

T = TypeVar("T")
Warn = Callable[[str], None]
ReadCommits = Callable[[], Sequence[Commit]]
_FAULTS = (AgentForgeError, OSError, ValueError, MemoryError)


class MemoryRetriever:
    """The `Retriever` port over the stores of `data_home`.

    A part that fails is left out and told once through `warn`; text ranking of the repository needs no
    store and goes on. With `settings.enabled` false nothing is read or written. `commits` gives ancestors
    of the base, newest first; it is called once, in a thread, when first needed. `meter` counts what an
    embedding endpoint bills.
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
        commits: ReadCommits | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._settings = settings
        self._warn = warn
        self._warned: set[str] = set()
        embedder = embedder or open_embedder(settings, meter)
        self._episodes = open_episodes(
            data_home, settings, embedder=embedder, redactor=redactor, timeout_s=timeout_s
        )
        self._insights = open_insights(
            data_home, settings, embedder=embedder, redactor=redactor, timeout_s=timeout_s
        )
        self._index = open_index(data_home, settings, embedder=embedder, timeout_s=timeout_s)
        self._vectors_work = True
        self.commits = commits

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        """Top `k` of each store. Never raises on a broken store; the working part still comes.

        `tree` may be any later tree of the run: only what changed is indexed anew.
        """
        if not self._settings.enabled or k <= 0:
            return Retrieved()
        symbols = await asyncio.to_thread(self._symbols, issue, tree, k)
        episodes, insights = await asyncio.to_thread(self._lessons, f"{issue.title}\n{issue.text}", k)
        return Retrieved(
            symbols=tuple(symbols), episodes=episodes, insights=insights, warnings=warnings_of(episodes, k)
        )

    async def store(self, episode: Episode) -> str:
        """Remember a verified fix and count the lessons anew; a failure is a warning.

        The episode's id, "" where it was not kept.
        """
        if not self._settings.enabled:
            return ""
        return await asyncio.to_thread(self._attempt, "episodes", lambda: self._store(episode), "")

    async def outcome(self, used: Sequence[Insight], *, verified: bool) -> None:
        """Tell the insights that a run was given how it ended; a failure is a warning."""
        if self._settings.enabled and used:
            await asyncio.to_thread(self._attempt, "insights", lambda: self._outcome(used, verified), None)

    async def learn(self, lesson: str, episodes: Sequence[str]) -> str:
        """Keep a model's lesson; its id, "" where it was not kept. A failure is a warning."""
        if not self._settings.enabled:
            return ""
        return await asyncio.to_thread(
            self._attempt, "insights", lambda: self._insights.add(lesson, episodes).id, ""
        )

    def _store(self, episode: Episode) -> str:
        kept = self._episodes.store(episode).id
        self._attempt("insights", lambda: self._insights.refresh(self._episodes.list()), None)
        return kept

    def _outcome(self, used: Sequence[Insight], verified: bool) -> None:
        known = {insight.id for insight in self._insights.list(retracted=True)}
        for insight in used:
            if insight.id in known:  # another process may have forgotten it meanwhile
                self._insights.outcome(insight.id, helped=verified)

    def _lessons(self, query: str, k: int) -> tuple[tuple[Episode, ...], tuple[Insight, ...]]:
        episodes = self._attempt("episodes", lambda: self._episodes.search(query, k), tuple[Episode, ...]())
        if not episodes:  # no insight without episodes, and no second wait for a store that is locked
            return episodes, ()
        return episodes, self._attempt("episodes", lambda: self._insights.search(query, k), ())

    def _symbols(self, issue: Issue, tree: Tree, k: int) -> list[Symbol]:
        self._learn_history()
        found: list[Symbol] | None = None
        if self._vectors_work:
            found = self._attempt("index", lambda: self._index.search(issue, tree, k), None)
            self._vectors_work = found is not None
        if found is None:
            found = self._attempt(
                "text index", lambda: self._index.open(tree).search(issue, k), list[Symbol]()
            )
        if self._index.cache_problem:
            self._warn_once("index", f"the index cache is not used: {self._index.cache_problem}")
        return found

    def _learn_history(self) -> None:
        read, self.commits = self.commits, None
        if read is not None and self._settings.history:
            commits = self._attempt("history", lambda: tuple(read()), tuple[Commit, ...]())
            self._attempt("history", lambda: self._index.learn_history(commits), None)

    def _attempt(self, part: str, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except _FAULTS as error:
            self._warn_once(part, f"memory ({part}) is not used: {error}")
            return otherwise

    def _warn_once(self, part: str, text: str) -> None:
        if part not in self._warned:
            self._warned.add(part)
            self._warn(text)
