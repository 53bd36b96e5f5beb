"""BM25 over documents that come and go: postings in segments, statistics over what is alive.

A segment is built once by one sort and never changes. An edited file leaves its old documents dead in
their segment and lives on in a small new one, so that a save costs milliseconds. Document frequencies and
lengths count living documents only: the scores are those of an index built afresh, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Ids = NDArray[np.int32]
Weights = Mapping[int, float]

K1 = 1.2


@dataclass(frozen=True, slots=True)
class Bags:
    """Bags of tokens laid end to end: distinct `ids` with their `counts`, `sizes` of them in each bag."""

    ids: Ids
    counts: Ids
    sizes: Ids

    def __len__(self) -> int:
        return len(self.sizes)


def bag_up(documents: Sequence[Mapping[int, int]]) -> Bags:
    """Bags of documents that are given as counts of token ids."""
    ids: list[int] = []
    counts: list[int] = []
    for document in documents:
        ids.extend(document)
        counts.extend(document.values())
    sizes = [len(document) for document in documents]
    return Bags(np.array(ids, np.int32), np.array(counts, np.int32), np.array(sizes, np.int32))


def join_bags(parts: Sequence[Bags]) -> Bags:
    """All bags of `parts`, one after the other."""
    empty = np.empty(0, np.int32)
    return Bags(
        np.concatenate([empty, *(part.ids for part in parts)]),
        np.concatenate([empty, *(part.counts for part in parts)]),
        np.concatenate([empty, *(part.sizes for part in parts)]),
    )


class Segment:
    """Postings of some documents, by token. Immutable."""

    def __init__(self, bags: Bags) -> None:
        self.size = len(bags)
        owners = np.repeat(np.arange(self.size, dtype=np.int32), bags.sizes)
        order = np.argsort(bags.ids, kind="stable")
        tokens = bags.ids[order]
        self.owners: Ids = owners[order]
        self.counts: Ids = bags.counts[order]
        self.lengths: NDArray[np.int64] = np.bincount(
            owners, weights=bags.counts, minlength=self.size
        ).astype(np.int64)
        self.starts = np.searchsorted(tokens, np.arange(int(tokens.max(initial=-1)) + 2))

    def cells(self, token: int) -> slice:
        """Where the postings of `token` lie."""
        if token + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(int(self.starts[token]), int(self.starts[token + 1]))


@dataclass(frozen=True)
class Living:
    """A segment and which of its documents are alive."""

    segment: Segment
    alive: NDArray[np.bool_]


@dataclass(frozen=True)
class _Cells:
    """The living postings of a query's tokens: place in the query, document, count."""

    token: NDArray[np.int64]
    owner: NDArray[np.int64]
    count: NDArray[np.float64]


class Bm25:
    """BM25 (Robertson and Zaragoza 2009; Lucene's idf) over the living documents of several segments.

    Scores are of shape (documents,), in the order of the segments; a dead document scores nothing.
    """

    def __init__(self, parts: Sequence[Living], *, k1: float = K1, b: float = 0.75) -> None:
        self._parts = tuple(parts)
        self._k1, self._b = k1, b
        self.size = sum(part.segment.size for part in parts)
        self._lengths = np.concatenate([np.empty(0, np.int64), *(part.segment.lengths for part in parts)])
        self._alive = np.concatenate([np.empty(0, bool), *(part.alive for part in parts)])
        self._living = int(self._alive.sum())
        total = int(self._lengths[self._alive].sum())
        mean = max(1.0, total / self._living) if self._living else 1.0
        self._damping = k1 * (1 - b + b * self._lengths / mean)

    @classmethod
    def of(cls, documents: Sequence[Mapping[int, int]]) -> Bm25:
        """Over documents that are given as counts of token ids and all stay."""
        return cls([Living(Segment(bag_up(documents)), np.ones(len(documents), bool))])

    def scores(self, weights: Weights) -> Scores:
        """Score of every document for weighted query tokens."""
        return self.scores_of([weights])[0]

    def scores_of(self, queries: Sequence[Weights]) -> list[Scores]:
        """The same for several queries, which share the work on their common tokens."""
        tokens = list(dict.fromkeys(token for query in queries for token in query))
        cells = self._gather(tokens)
        frequency = np.bincount(cells.token, minlength=len(tokens))
        idf = np.log(1 + (self._living - frequency + 0.5) / (frequency + 0.5))
        value = idf[cells.token] * cells.count / (cells.count + self._damping[cells.owner])
        return [self._sum(cells, value, tokens, query) for query in queries]

    def _sum(self, cells: _Cells, value: Scores, tokens: list[int], query: Weights) -> Scores:
        weight = np.array([query.get(token, 0.0) for token in tokens], np.float64)[cells.token]
        used = np.flatnonzero(weight)
        scores = np.bincount(cells.owner[used], weights=weight[used] * value[used], minlength=self.size)
        return np.asarray(scores, np.float64)

    def frequencies(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        """How many living documents hold each token."""
        return np.bincount(self._gather(tokens).token, minlength=len(tokens))

    def holders(self, token: int) -> NDArray[np.int64]:
        """Numbers of the living documents that hold `token`."""
        return self._gather([token]).owner

    def _gather(self, tokens: Sequence[int]) -> _Cells:
        owners, counts, sizes = [], [], []
        for place, token in enumerate(tokens):
            offset = 0
            for part in self._parts:
                cells = part.segment.cells(token)
                owner = part.segment.owners[cells]
                count = part.segment.counts[cells]
                if len(owner):
                    living = part.alive[owner]
                    if not living.all():
                        owner, count = owner[living], count[living]
                    owners.append(owner + offset)
                    counts.append(count)
                    sizes.append((place, len(owner)))
                offset += part.segment.size
        places = np.array([place for place, _ in sizes], np.int64)
        lengths = np.array([length for _, length in sizes], np.int64)
        return _Cells(
            np.repeat(places, lengths),
            np.concatenate([np.empty(0, np.int64), *owners]).astype(np.int64),
            np.concatenate([np.empty(0, np.int64), *counts]).astype(np.float64),
        )
