"""Fuse text ranking with the evidence in an issue into one ranking of files and symbols, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agentforge.core.retrieval import Symbol
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.memory.evidence import Evidence, read_issue
from agentforge.memory.facts import FactsCache, index_files
from agentforge.memory.lexical import LexicalIndex, Scores, query_weights
from agentforge.memory.paths import PathResolver, is_aside, is_test
from agentforge.memory.symbols import decode_source

# Set by hand on reasons: text carries most issues; a path or frame in an issue is nearly always right;
# a name that is defined in few places is often only a bystander. Signals are scaled to 0..1 first.
FILE_WEIGHTS: Mapping[str, float] = {
    "file text": 1.5,
    "title": 0.8,
    "symbol text": 1.3,
    "path words": 0.4,
    "names defined here": 0.8,
    "dotted names": 0.8,
    "paths in the issue": 2.0,
    "traceback": 2.0,
    "message": 0.8,
}
SYMBOL_WEIGHTS: Mapping[str, float] = {
    "file": 0.8,
    "symbol text": 2.0,
    "names defined here": 0.6,
    "dotted names": 1.0,
    "traceback": 2.0,
    "vectors": 0.2,
}
TEST_FACTOR = 0.25
ASIDE_FACTOR = 0.4
_RARE = 12
_FRAME_DECAY = 0.7
_BEST_SYMBOLS = 3
MAX_CLASS_LINES = 80
MAX_CHUNK_CHARS = 8_000
CANDIDATES = 200


@dataclass(frozen=True)
class RankedFile:
    """A file with its fused score and what each signal adds to it (before the factor for its kind)."""

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


@dataclass
class Signals:
    """Scores of one query per signal, over files and over symbols, each scaled to 0..1."""

    files: dict[str, Scores] = field(default_factory=dict)
    symbols: dict[str, Scores] = field(default_factory=dict)


class IndexSearch:
    """Rank the files and symbols of one tree for an issue. Immutable once built; safe to share."""

    def __init__(self, tree: Tree, cache: FactsCache | None = None) -> None:
        cache = cache or FactsCache()
        self.tree = tree
        self.index = LexicalIndex(tuple(index_files(tree, cache)), cache)
        paths = [file.path for file in self.index.files]
        self._resolver = PathResolver(paths)
        self._factor = np.array([_path_factor(path) for path in paths], np.float32)

    def search(self, issue: Issue | str, k: int = 5, vectors: SymbolVectors | None = None) -> list[Symbol]:
        """The `k` best symbols, best first, with their exact text and why they were chosen.

        `vectors` may judge the best `CANDIDATES` anew; what it raises passes through.
        """
        evidence = read_issue(issue)
        signals = self.signals(evidence)
        files = self._fuse_files(signals)
        signals.symbols["file"] = files[self.index.file_of_symbol]
        total = _weighted(signals.symbols, SYMBOL_WEIGHTS, len(self.index.symbols))
        if vectors is not None:
            chosen = top_numbers(total, CANDIDATES)
            signals.symbols["vectors"] = self._similarities(evidence, chosen, vectors)
            total = _weighted(signals.symbols, SYMBOL_WEIGHTS, len(self.index.symbols))
        return [self._symbol(number, float(total[number]), signals) for number in top_numbers(total, k)]

    def _similarities(self, evidence: Evidence, numbers: list[int], vectors: SymbolVectors) -> Scores:
        scores = np.zeros(len(self.index.symbols), np.float32)
        if numbers:
            scores[numbers] = np.maximum(vectors(evidence.text, [self.chunk(n) for n in numbers]), 0.0)
        return _scaled(scores)

    def chunk(self, number: int) -> Chunk:
        """The text of a symbol that is embedded, with an id that holds for this content anywhere."""
        ref = self.index.symbols[number]
        file, symbol = self.index.files[ref.file], ref.symbol
        text = f"{symbol.name}\n{self._lines(file.path, symbol.start_line, symbol.own_end)}"
        return Chunk(f"{file.blob}-{symbol.start_line}-{symbol.own_end}", text[:MAX_CHUNK_CHARS])

    def _lines(self, path: str, first: int, last: int) -> str:
        text = decode_source(self.tree.files[path].data) or ""
        return "\n".join(text.split("\n")[first - 1 : last])

    def rank_files(self, issue: Issue | str, k: int = 10) -> list[RankedFile]:
        """The `k` best files, best first, with the contribution of each signal."""
        signals = self.signals(read_issue(issue))
        total = self._fuse_files(signals)
        return [
            RankedFile(
                self.index.files[number].path,
                round(float(total[number]), 4),
                _contributions(signals.files, FILE_WEIGHTS, number),
            )
            for number in top_numbers(total, k)
        ]

    def signals(self, evidence: Evidence) -> Signals:
        """Every signal by itself, for ranking and for ablation."""
        signals = Signals()
        self._text_signals(evidence, signals)
        self._name_signals(evidence, signals)
        self._dotted_signals(evidence, signals)
        self._traceback_signals(evidence, signals)
        paths = np.zeros(len(self.index.files), np.float32)
        for written in evidence.paths:
            _spread(paths, self._resolver.resolve(written), 1.0)
        signals.files["paths in the issue"] = _scaled(paths)
        signals.files["message"] = self._message_signal(evidence)
        return signals

    def _fuse_files(self, signals: Signals) -> Scores:
        return _weighted(signals.files, FILE_WEIGHTS, len(self.index.files)) * self._factor

    def _text_signals(self, evidence: Evidence, signals: Signals) -> None:
        index = self.index
        whole = query_weights(index.vocabulary, [(evidence.text, 1.0), (evidence.title, 1.0)])
        title = query_weights(index.vocabulary, [(evidence.title, 1.0)])
        by_symbol = index.by_symbol.scores(whole)
        signals.files["file text"] = _scaled(index.by_file.scores(whole))
        signals.files["title"] = _scaled(index.by_file.scores(title))
        signals.files["path words"] = _scaled(index.by_path.scores(whole))
        signals.files["symbol text"] = _scaled(self._best_of_file(by_symbol))
        signals.symbols["symbol text"] = _scaled(by_symbol)

    def _best_of_file(self, by_symbol: Scores) -> Scores:
        """Mean of the three best symbols of each file."""
        order = np.lexsort((-by_symbol, self.index.file_of_symbol))
        owners = self.index.file_of_symbol[order]
        starts = np.searchsorted(owners, np.arange(len(self.index.files)))
        place = np.arange(len(order)) - starts[owners]
        best = np.zeros(len(self.index.files), np.float32)
        kept = place < _BEST_SYMBOLS
        np.add.at(best, owners[kept], by_symbol[order][kept] / _BEST_SYMBOLS)
        return best

    def _name_signals(self, evidence: Evidence, signals: Signals) -> None:
        """Names of the issue that few places define: the fewer, the stronger."""
        symbols = np.zeros(len(self.index.symbols), np.float32)
        for name, weight in evidence.names.items():
            places = [n for n in self.index.definitions.get(name, []) if self._counts(n)]
            if 0 < len(places) <= _RARE:
                symbols[places] += np.float32(weight / len(places))
        self._add(signals, "names defined here", symbols)

    def _counts(self, symbol: int) -> bool:
        return bool(self._factor[self.index.symbols[symbol].file] >= 1)

    def _dotted_signals(self, evidence: Evidence, signals: Signals) -> None:
        """Dotted names: a module of the tree, or Class.method defined somewhere."""
        files = np.zeros(len(self.index.files), np.float32)
        symbols = np.zeros(len(self.index.symbols), np.float32)
        by_qualified = self._qualified(evidence.dotted)
        for dotted in evidence.dotted:
            for file, rest in self._resolver.resolve_dotted(dotted):
                files[file] += 1.0
                symbols[self._named(file, rest)] += 1.0
            tail = ".".join(dotted.split(".")[-2:])
            _spread(symbols, by_qualified.get(tail, []), 1.0)
        signals.symbols["dotted names"] = _scaled(symbols)
        signals.files["dotted names"] = _scaled(np.maximum(files, self._to_files(symbols)))

    def _qualified(self, dotted: Iterable[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name in dotted:
            owner, _, last = name.rpartition(".")
            wanted = f"{owner.rpartition('.')[2]}.{last}"
            for number in self.index.definitions.get(last, []):
                if f".{self.index.symbols[number].symbol.name}".endswith(f".{wanted}"):
                    found.setdefault(wanted, []).append(number)
        return {name: sorted(set(numbers)) for name, numbers in found.items()}

    def _named(self, file: int, name: str) -> list[int]:
        if not name:
            return []
        places = self.index.definitions.get(name.rpartition(".")[2], [])
        return [number for number in places if self.index.symbols[number].file == file]

    def _traceback_signals(self, evidence: Evidence, signals: Signals) -> None:
        files = np.zeros(len(self.index.files), np.float32)
        symbols = np.zeros(len(self.index.symbols), np.float32)
        strength = 1.0
        for frame in evidence.frames:
            found = self._resolver.resolve(frame.path)
            if not found or strength < 0.01:
                continue
            files[found] = np.maximum(files[found], strength / len(found))
            for number in (n for file in found for n in self._at_frame(file, frame.line, frame.function)):
                symbols[number] = max(symbols[number], strength / len(found))
            strength *= _FRAME_DECAY
        signals.files["traceback"], signals.symbols["traceback"] = files, symbols

    def _at_frame(self, file: int, line: int, function: str) -> list[int]:
        """By the function's name (lines drift between versions), else by the line."""
        named = self._named(file, function)
        if named:
            return named
        first = int(np.searchsorted(self.index.file_of_symbol, file))
        last = int(np.searchsorted(self.index.file_of_symbol, file + 1))
        inside = [n for n in range(first, last) if self._covers(n, line)]
        return inside[-1:]

    def _covers(self, number: int, line: int) -> bool:
        symbol = self.index.symbols[number].symbol
        return symbol.start_line <= line <= symbol.own_end

    def _message_signal(self, evidence: Evidence) -> Scores:
        """Files that hold the constant part of a quoted message; the fewer such files, the stronger."""
        files = np.zeros(len(self.index.files), np.float32)
        for fragment in evidence.fragments[:20]:
            needle = fragment.encode("utf-8", "replace")
            found = [
                n for n, file in enumerate(self.index.files) if needle in self.tree.files[file.path].data
            ]
            found = [n for n in found if self._factor[n] >= 1]
            if len(found) <= _RARE:
                _spread(files, found, 1.0)
        return _scaled(files)

    def _add(self, signals: Signals, name: str, symbols: Scores) -> None:
        signals.symbols[name] = _scaled(symbols)
        signals.files[name] = _scaled(self._to_files(symbols))

    def _to_files(self, symbols: Scores) -> Scores:
        files = np.zeros(len(self.index.files), np.float32)
        np.add.at(files, self.index.file_of_symbol, symbols)
        return files

    def _symbol(self, number: int, score: float, signals: Signals) -> Symbol:
        ref = self.index.symbols[number]
        path, symbol = self.index.files[ref.file].path, ref.symbol
        whole = symbol.kind != "class" or symbol.end_line - symbol.start_line < MAX_CLASS_LINES
        end = symbol.end_line if whole else symbol.own_end
        own = _contributions(signals.symbols, SYMBOL_WEIGHTS, number)
        own.pop("file", None)
        of_file = _contributions(signals.files, FILE_WEIGHTS, ref.file)
        why = [f"{name} {share:.2f}" for name, share in own.items()]
        why += [f"file: {name.removeprefix('file ')} {share:.2f}" for name, share in of_file.items()]
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


def _path_factor(path: str) -> float:
    if is_test(path):
        return TEST_FACTOR
    return ASIDE_FACTOR if is_aside(path) else 1.0


def _spread(scores: Scores, numbers: Sequence[int], amount: float) -> None:
    """Share `amount` between the places a mention can mean."""
    if numbers:
        scores[list(numbers)] += np.float32(amount / len(numbers))


def _scaled(scores: Scores) -> Scores:
    top = float(scores.max(initial=0.0))
    return scores / np.float32(top) if top > 0 else scores


def _weighted(signals: Mapping[str, Scores], weights: Mapping[str, float], size: int) -> Scores:
    total = np.zeros(size, np.float32)
    for name, scores in signals.items():
        total += np.float32(weights[name]) * scores
    return total


def _contributions(
    signals: Mapping[str, Scores], weights: Mapping[str, float], number: int
) -> dict[str, float]:
    """What each signal adds to one score, the largest first; what hardly counts is left out."""
    added = {name: round(weights[name] * float(scores[number]), 3) for name, scores in signals.items()}
    return {name: value for name, value in sorted(added.items(), key=lambda pair: -pair[1]) if value >= 0.05}


def top_numbers(scores: Scores, k: int) -> list[int]:
    """Numbers of the `k` best positive scores; ties by number, so that the order is stable."""
    order = np.lexsort((np.arange(len(scores)), -scores))[: max(0, k)]
    return [int(number) for number in order if scores[number] > 0]
