"""The index of a working directory that follows its files, for as long as somebody asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from agentforge.core.retrieval import Symbol
from agentforge.core.task import Issue
from agentforge.memory.ranking import RankedFile
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.watch import LiveTree

Changed = Callable[[frozenset[str], int], None]


class LiveIndex:
    """A context manager: within the block the index of `root` is current, from any thread.

    Edits are taken in as they settle, not when somebody asks, so that an answer costs a query. `changed`
    is told (paths, number of symbols) after each; `warn` as for `LiveTree`. Entering raises
    `RepositoryError` where `root` is no directory; searching raises `StoreError` as the index does.

    A repair needs none: it works on a fixed base, and its index is handed the run's own trees.
    """

    def __init__(
        self,
        root: Path,
        index: RepositoryIndex,
        warn: Callable[[str], None],
        changed: Changed | None = None,
        *,
        debounce_s: float = 0.1,
        poll_s: float = 2.0,
    ) -> None:
        self.index = index
        self._changed = changed
        self._live = LiveTree(root, self._take_in, warn, debounce_s=debounce_s, poll_s=poll_s)
        self._settled = threading.Condition()
        self._edits = 0

    @property
    def root(self) -> Path:
        """The directory, resolved."""
        return self._live.root

    @property
    def polling(self) -> bool:
        """Whether the kernel had no watches left."""
        return self._live.polling

    @property
    def symbols(self) -> int:
        """How many symbols the directory has now."""
        return self.index.open(self._live.tree).index.symbol_count

    @property
    def edits(self) -> int:
        """How many settled bursts of edits were taken in."""
        return self._edits

    def __enter__(self) -> LiveIndex:
        self._live.start()
        self.index.open(self._live.tree)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def files(self, issue: Issue | str, k: int = 5) -> list[RankedFile]:
        """The `k` best files of what is there now, with reasons."""
        return self.index.open(self._live.tree).rank_files(issue, k)

    def search(self, issue: Issue | str, k: int = 5) -> list[Symbol]:
        """The `k` best symbols of what is there now."""
        return self.index.search(issue, self._live.tree, k)

    def wait_for_edit(self, after: int, timeout_s: float) -> bool:
        """Wait until more than `after` bursts were taken in; False when `timeout_s` ran out."""
        with self._settled:
            return self._settled.wait_for(lambda: self._edits > after, timeout_s)

    def _take_in(self, paths: frozenset[str]) -> None:
        symbols = self.symbols
        with self._settled:
            self._edits += 1
            self._settled.notify_all()
        if self._changed is not None:
            self._changed(paths, symbols)
