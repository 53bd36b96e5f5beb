"""What the repository's own past says: which files changed under messages that sound like the issue.

Only ancestors of the base are read, so nothing from after it can show. (Similar earlier reports as a
signal: Zhou et al., "Where should the bugs be fixed?", ICSE 2012.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agentforge.core.retrieval import Commit
from agentforge.memory.facts import Vocabulary
from agentforge.memory.lexical import query_weights
from agentforge.memory.paths import is_test
from agentforge.memory.postings import Bm25, Scores
from agentforge.memory.tokens import code_tokens

MAX_FILES = 30
"""A commit that touches more files is a sweep and says little of any of them."""
_MAX_MESSAGE = 4_000
_YEAR_S = 365 * 86_400.0
_FIELDS = 3
SIGNALS = ("similar commits", "most similar commit", "commit words", "often changed", "recently changed")

RunGit = Callable[..., bytes]


def read_commits(git: RunGit, base: str, limit: int) -> tuple[Commit, ...]:
    """The newest `limit` ancestors of `base` that are no merges, newest first, by `git(*arguments)`."""
    if limit <= 0:
        return ()
    raw = git(
        "log",
        f"--max-count={limit}",
        "--no-merges",
        "--no-renames",
        "--no-show-signature",
        "--name-only",
        "-z",
        "--format=%x01%H%x02%ct%x02%B%x03",
        base,
        "--",
    )
    return tuple(_commit(record) for record in raw.decode("utf-8", "replace").split("\x01")[1:])


def _commit(record: str) -> Commit:
    head, _, names = record.partition("\x03")
    commit, time, message = (*head.split("\x02", _FIELDS - 1), "", "")[:_FIELDS]
    paths = tuple(name for name in (part.strip("\n") for part in names.split("\0")) if name)
    return Commit(
        id=commit, time=int(time) if time.isdigit() else 0, message=message[:_MAX_MESSAGE], paths=paths
    )


class History:
    """Commits of one repository, searchable by message. Immutable."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        kept = [commit for commit in commits if len(commit.paths) <= MAX_FILES]
        self.size = len(kept)
        self.vocabulary = Vocabulary()
        self._bm25 = Bm25.of([self.vocabulary.count(code_tokens(commit.message)) for commit in kept])
        self._paths: dict[str, int] = {}
        owners, touched = [], []
        for number, commit in enumerate(kept):
            for path in commit.paths:
                if not is_test(path):
                    owners.append(number)
                    touched.append(self._paths.setdefault(path, len(self._paths)))
        self._owner = np.array(owners, np.int64)
        self._touched = np.array(touched, np.int64)
        newest = max((commit.time for commit in kept), default=0)
        self._age = np.array([max(0, newest - commit.time) / _YEAR_S for commit in kept], np.float64)

    def signals(self, text: str, title: str, paths: Mapping[str, int], size: int) -> dict[str, Scores]:
        """Scores of shape (size,) for the files at `paths`, by name of the signal."""
        found = {name: np.zeros(size) for name in SIGNALS}
        if not self.size or not len(self._owner):
            return found
        known = np.array([paths.get(path, -1) for path in self._paths], np.int64)
        live = known[self._touched] >= 0
        owner, file = self._owner[live], known[self._touched[live]]
        share = 1.0 / np.maximum(1, np.bincount(owner, minlength=self.size))[owner]
        weights = query_weights(self.vocabulary, [(text, 1.0), (title, 1.0)])
        score = self._bm25.scores(weights)[owner]
        similar = np.bincount(file, weights=score**2 * share, minlength=size)
        found["similar commits"] = np.asarray(similar, np.float64)
        np.maximum.at(found["most similar commit"], file, score * np.sqrt(share))
        found["commit words"] = self._words(weights, owner, file, share, size, len(paths))
        found["often changed"] = np.log1p(np.bincount(file, weights=share, minlength=size))
        fresh = np.exp(-self._age[owner])
        found["recently changed"] = np.log1p(np.bincount(file, weights=fresh * share, minlength=size))
        return found

    def changed_with(self, best: Mapping[str, float], paths: Mapping[str, int], size: int) -> Scores:
        """How much each file used to change together with those of `best` (path -> weight); shape (size,)."""
        total = np.zeros(size)
        known = np.array([paths.get(path, -1) for path in self._paths], np.int64)
        crowd = np.bincount(self._owner, minlength=self.size)
        for path, weight in best.items():
            number = self._paths.get(path)
            if number is None:
                continue
            together = np.isin(self._owner, self._owner[self._touched == number])
            edges = np.flatnonzero(together & (self._touched != number))
            edges = edges[known[self._touched[edges]] >= 0]
            np.add.at(total, known[self._touched[edges]], weight / crowd[self._owner[edges]])
        return total

    def _words(
        self,
        weights: Mapping[int, float],
        owner: NDArray[np.int64],
        file: NDArray[np.int64],
        share: Scores,
        size: int,
        living: int,
    ) -> Scores:
        """BM25 of each file for the query, its document being all messages of commits that touched it."""
        total = np.zeros(size)
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(self.size + 1))
        for token, weight in weights.items():
            holders = self._bm25.holders(token)
            spans = [order[starts[commit] : starts[commit + 1]] for commit in holders]
            edges = np.concatenate([np.empty(0, np.int64), *spans])
            count = np.bincount(file[edges], weights=share[edges], minlength=size)
            frequency = int((count > 0).sum())
            idf = np.log(1 + (living - frequency + 0.5) / (frequency + 0.5))
            total += weight * idf * count / (count + 1.0)
        return total
