"""Indexes of the folders that visitors search, each followed for as long as it is among the latest asked."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from agentforge.config.settings import Settings

if TYPE_CHECKING:
    from agentforge.core.retrieval import Symbol
    from agentforge.core.task import Issue
    from agentforge.memory.live import LiveIndex
    from agentforge.memory.ranking import RankedFile

MOST = 4
"""Folders that are followed at the same time: each holds its facts in memory and watches in the kernel."""
log = logging.getLogger("agentforge.api")


class Indexes:
    """Blocking; safe from several threads, one question at a time."""

    def __init__(self, settings: Settings, most: int = MOST) -> None:
        self._settings, self._most = settings, most
        self._lock = threading.Lock()
        self._followed: OrderedDict[tuple[Path, int], LiveIndex] = OrderedDict()

    def search(self, folder: Path, issue: Issue, k: int) -> tuple[list[RankedFile], list[Symbol]]:
        """The `k` best files and symbols of `folder` as it is now.

        Raises `RepositoryError` where it is no directory, `StoreError` where the index cannot be used.
        """
        with self._lock:
            live = self._following(folder)
            return live.files(issue, k), live.search(issue, k)

    def close(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            while self._followed:
                self._followed.popitem()[1].__exit__(None, None, None)

    def _following(self, folder: Path) -> LiveIndex:
        from agentforge.memory.live import LiveIndex
        from agentforge.memory.open import open_index

        # A folder that was removed and made again is another one, of which nothing is followed yet.
        key = (folder, folder.stat().st_ino if folder.is_dir() else 0)
        live = self._followed.pop(key, None)
        if live is None:
            while len(self._followed) >= self._most:
                self._followed.popitem(last=False)[1].__exit__(None, None, None)
            index = open_index(self._settings.data_home, self._settings.memory)
            live = LiveIndex(folder, index, log.warning).__enter__()
        self._followed[key] = live
        return live
