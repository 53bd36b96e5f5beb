"""Fuse the signals into one ranking of files and symbols, with reasons.

The score of a file is linear in its signals, each divided by its largest value among source files; the
weights were learned with whole repositories held out (`benchmarks/learn_weights.py` wrote `weights.json`).
A symbol adds its own signals to the score of its file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as once
from functools import cached_property
from importlib import resources
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentforge.core.retrieval import Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.evidence import Evidence, read_issue
from agentforge.memory.facts import FactsCache, Progress
from agentforge.memory.history import History
from agentforge.memory.lexical import KIND_CODES, LexicalIndex
from agentforge.memory.postings import Scores
from agentforge.memory.second import SIGNALS as SECOND
from agentforge.memory.second import second_signals, settled
from agentforge.memory.signals import Signals, Surroundings, all_signals, unscaled
from agentforge.memory.symbols import decode_source

TEST_PENALTY = 3.0
"""Tests come after all source that the issue points at half as clearly (natural logarithm)."""
MAX_CLASS_LINES = 80
MAX_CHUNK_CHARS = 8_000
CANDIDATES = 60
_KEPT_TEXTS = 100
_PRIORS = frozenset(
    {"lies aside", "package head", "lines", "at the top", "often changed", "recently changed"}
)
"""Signals that do not look at the issue; alone they rank nothing."""
Weights = Mapping[str, float]


@dataclass(frozen=True)
class RankedFile:
    """A file, its score (1 for the best; the ratio of two is how much likelier one is) and what made it.

    `why` is what each signal adds to the logarithm of the score.
    """

    path: str
    score: float
    why: Mapping[str, float]


@dataclass(frozen=True)
class Chunk:
    """A text to embed and its id."""

    id: str
    text: str


class SymbolVectors(Protocol):
    """Cosine of a query to each chunk. May raise `StoreError`."""

    def __call__(self, query: str, chunks: Sequence[Chunk]) -> Scores: ...


@dataclass(frozen=True)
class RankWeights:
    """Learned weights of the signals of files and of symbols.

    `second` are those of files in the second pass, `seeds` those that choose where it starts: reasoned, not
    learned, so that what is learned after them can be held out honestly.
    """

    files: Weights
    symbols: Weights
    second: Weights
    seeds: Weights


@once
def shipped_weights() -> RankWeights:
    """The weights that come with this version."""
    text = resources.files("agentforge.memory").joinpath("weights.json").read_text("utf-8")
    document = json.loads(text)
    return RankWeights(*(document[part] for part in ("files", "symbols", "second", "seeds")))


@dataclass(frozen=True)
class Ranking:
    """All files of one index ranked for one issue. `first`, `logits` and `pointed` are of shape (files,).

    `first` are the scores of the first pass, `logits` the final ones.
    """

    evidence: Evidence
    signals: Signals
    features: Mapping[str, Scores]
    first: Scores
    logits: Scores
    pointed: NDArray[np.bool_]
    """Files that anything in the issue points at."""


class IndexSearch:
    """Rank the files and symbols of one tree for an issue. Immutable once built; safe to share."""

    def __init__(
        self,
        tree: Tree,
        cache: FactsCache | None = None,
        *,
        history: History | None = None,
        weights: RankWeights | None = None,
        progress: Progress | None = None,
        index: LexicalIndex | None = None,
    ) -> None:
        self.index = index or LexicalIndex.of(tree, cache or FactsCache(), progress)
        self.tree = tree
        self.history = history
        self.weights = weights or shipped_weights()
        self._texts: dict[str, list[str]] = {}

    def updated(self, tree: Tree, history: History | None = None) -> IndexSearch:
        """The same for another tree; only what differs is read anew."""
        return IndexSearch(
            tree, history=history or self.history, weights=self.weights, index=self.index.updated(tree)
        )

    @cached_property
    def around(self) -> Surroundings:
        return Surroundings(self.index)

    @property
    def _shown(self) -> Weights:
        """The weights by which a place is explained: those of the first pass, and what the second adds."""
        return {**self.weights.files, **{name: self.weights.second.get(name, 0.0) for name in SECOND}}

    @cached_property
    def _by_path(self) -> NDArray[np.int64]:
        living = [int(number) for number in np.flatnonzero(self.index.alive)]
        return np.array(sorted(living, key=lambda number: self.index.files[number].path), np.int64)

    def rank(self, issue: Issue | str) -> Ranking:
        """Every signal of every file, and the fused score."""
        evidence = read_issue(issue)
        signals = all_signals(self.around, evidence, self.history)
        features = file_features(self.around, signals)
        first = self._logits(features, self.weights.files)
        seeds = self._logits(features, self.weights.seeds)
        signals.files.update(second_signals(self.around, seeds, self.history))
        features = file_features(self.around, signals)
        logits = self._logits(features, self.weights.second)
        # Living files by path: neither ties nor the head may depend on how the index came to be.
        logits[self._by_path] = settled(first[self._by_path], logits[self._by_path])
        pointed = np.zeros(len(self.index.files), bool)
        for name, scores in signals.files.items():
            if name not in _PRIORS:
                pointed |= scores > 0
        return Ranking(evidence, signals, features, first, logits, pointed & self.index.alive)

    def _logits(self, features: Mapping[str, Scores], weights: Weights) -> Scores:
        return weighted(features, weights, len(self.index.files)) - TEST_PENALTY * self.around.tests

    def rank_files(self, issue: Issue | str, k: int = 10) -> list[RankedFile]:
        """The `k` best files, best first, with the contribution of each signal."""
        ranking = self.rank(issue)
        numbers = self._best(np.flatnonzero(ranking.pointed), ranking.logits, k)
        top = float(ranking.logits[numbers[0]]) if numbers else 0.0
        return [
            RankedFile(
                self.index.files[number].path,
                round(float(np.exp(ranking.logits[number] - top)), 4),
                contributions(ranking.features, self._shown, number),
            )
            for number in numbers
        ]

    def search(self, issue: Issue | str, k: int = 5, vectors: SymbolVectors | None = None) -> list[Symbol]:
        """The `k` best symbols, best first, with their exact text and why they were chosen.

        `vectors` may judge the best `CANDIDATES` anew; what it raises passes through.
        """
        ranking = self.rank(issue)
        own = np.flatnonzero(ranking.pointed[self.index.file_of_symbol])
        features = symbol_features(self.index, ranking, own)
        logits = weighted(features, self.weights.symbols, len(own))
        if vectors is not None and len(own):
            chosen = self._best_symbols(own, logits, CANDIDATES)
            chunks = [self.chunk(int(own[place])) for place in chosen]
            cosine = np.zeros(len(own))
            cosine[chosen] = np.maximum(vectors(ranking.evidence.text, chunks), 0.0)
            features["vectors"] = scaled_by(cosine, cosine)
            logits = weighted(features, self.weights.symbols, len(own))
        places = self._best_symbols(own, logits, k)
        top = float(logits[places[0]]) if places else 0.0
        return [
            self._symbol(int(own[place]), float(np.exp(logits[place] - top)), place, features, ranking)
            for place in places
        ]

    def _best(self, numbers: NDArray[np.int64], logits: Scores, k: int) -> list[int]:
        """Ties by path, so that the order does not depend on how the index came to be."""
        order = sorted(numbers.tolist(), key=lambda number: (-logits[number], self.index.files[number].path))
        return [int(number) for number in order[: max(0, k)]]

    def _best_symbols(self, own: NDArray[np.int64], logits: Scores, k: int) -> list[int]:
        if k <= 0 or not len(own):
            return []
        least = np.sort(logits)[::-1][min(k, len(own)) - 1]
        places = np.flatnonzero(logits >= least)

        def key(place: int) -> tuple[float, str, int]:
            number = int(own[place])
            file = int(self.index.file_of_symbol[number])
            return -float(logits[place]), self.index.files[file].path, number

        return sorted(places.tolist(), key=key)[:k]

    def chunk(self, number: int) -> Chunk:
        """The text of a symbol that is embedded, with an id that holds for this content anywhere."""
        ref = self.index.symbol(number)
        file, symbol = self.index.files[ref.file], ref.symbol
        text = f"{symbol.name}\n{self._lines(file.path, symbol.start_line, symbol.own_end)}"
        return Chunk(f"{file.blob}-{symbol.start_line}-{symbol.own_end}", text[:MAX_CHUNK_CHARS])

    def _lines(self, path: str, first: int, last: int) -> str:
        return "\n".join(self._split(path)[first - 1 : last])

    def _split(self, path: str) -> list[str]:
        """The lines of a file; the last few files are kept, as the best symbols lie in few."""
        lines = self._texts.get(path)
        if lines is None:
            if len(self._texts) >= _KEPT_TEXTS:
                self._texts.clear()
            lines = self._texts[path] = (decode_source(self.tree.files[path].data) or "").split("\n")
        return lines

    def _symbol(
        self, number: int, score: float, place: int, features: Mapping[str, Scores], ranking: Ranking
    ) -> Symbol:
        ref = self.index.symbol(number)
        path, symbol = self.index.files[ref.file].path, ref.symbol
        whole = symbol.kind != "class" or symbol.end_line - symbol.start_line < MAX_CLASS_LINES
        end = symbol.end_line if whole else symbol.own_end
        own = contributions(features, self.weights.symbols, place)
        own.pop("file", None)
        of_file = contributions(ranking.features, self._shown, ref.file)
        why = [f"{name} {share:.2f}" for name, share in own.items()]
        why += [f"file: {name} {share:.2f}" for name, share in of_file.items()]
        return Symbol(
            path=path,
            name=symbol.name,
            kind=symbol.kind if whole else "class head",
            start_line=symbol.start_line,
            end_line=end,
            text=self._lines(path, symbol.start_line, end),
            score=round(score, 4),
            why=tuple(why),
        )


def file_features(around: Surroundings, signals: Signals) -> dict[str, Scores]:
    """The signals on one scale: 1 for the largest value among source files."""
    plain = frozenset(unscaled())
    return {
        name: scores if name in plain else scaled_by(scores, scores[around.source])
        for name, scores in signals.files.items()
    }


def symbol_features(index: LexicalIndex, ranking: Ranking, own: NDArray[np.int64]) -> dict[str, Scores]:
    """The features of the symbols `own`, of shape (len(own),)."""
    files = index.file_of_symbol[own]
    text = ranking.signals.symbols["symbol text"]
    best = np.zeros(len(index.files))
    np.maximum.at(best, files, text[own])
    found = {name: scaled_by(scores[own], scores[own]) for name, scores in ranking.signals.symbols.items()}
    found["file"] = ranking.first[files] - ranking.first.max(initial=0.0)
    found["best of its file"] = np.divide(
        text[own], best[files], out=np.zeros(len(own)), where=best[files] > 0
    )
    for kind, code in KIND_CODES.items():
        found[f"is {kind}"] = (index.kinds[own] == code).astype(np.float64)
    return found


def scaled_by(scores: Scores, reference: Scores) -> Scores:
    """`scores` by the largest of `reference`; at most 1."""
    top = float(reference.max(initial=0.0)) or float(scores.max(initial=0.0))
    return np.minimum(scores / top, 1.0) if top > 0 else scores


def weighted(features: Mapping[str, Scores], weights: Weights, size: int) -> Scores:
    """Sum of the features by their weights; a feature without one does not count."""
    total = np.zeros(size)
    for name, scores in features.items():
        weight = weights.get(name, 0.0)
        if weight:
            total += weight * scores
    return total


def contributions(features: Mapping[str, Scores], weights: Weights, number: int) -> dict[str, float]:
    """What each signal adds to one score, the largest first; what hardly counts is left out."""
    added = {name: weights.get(name, 0.0) * float(scores[number]) for name, scores in features.items()}
    ordered = sorted(added.items(), key=lambda pair: (-pair[1], pair[0]))
    return {name: round(value, 3) for name, value in ordered if value >= 0.05}
