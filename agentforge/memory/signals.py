"""Everything that may say where a fault is, as scores over the files and symbols of an index.

Each signal stands for a reason that holds in any repository; how much it counts is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

from agentforge.memory.evidence import Evidence
from agentforge.memory.facts import FIELDS
from agentforge.memory.history import SIGNALS as HISTORY
from agentforge.memory.history import History
from agentforge.memory.lexical import LexicalIndex, query_weights
from agentforge.memory.neighbours import neighbour_signals
from agentforge.memory.paths import PathResolver, is_aside, is_test
from agentforge.memory.postings import Scores

RARE = 12
"""A name that more places define than this says nothing."""
_FRAME_DECAY = 0.7
_BEST_SYMBOLS = 3
_MAX_FRAGMENTS = 20
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_CLASS_NAME = re.compile(r"[A-Z][a-z0-9]+[A-Za-z0-9]*|[A-Z]{3,}[a-z0-9]*")


@dataclass
class Signals:
    """Scores by name of the signal, over all files (or symbols) of an index; larger is likelier."""

    files: dict[str, Scores] = field(default_factory=dict)
    symbols: dict[str, Scores] = field(default_factory=dict)


class Surroundings:
    """What every query on one index needs of its paths. Immutable once built."""

    def __init__(self, index: LexicalIndex) -> None:
        self.index = index
        paths = [file.path for file in index.files]
        self.number = {file.path: number for number, file in index.living()}
        self.resolver = PathResolver(((number, file.path) for number, file in index.living()))
        self.tests = np.array([is_test(path) for path in paths], bool)
        self.aside = np.array([is_aside(path) for path in paths], bool)
        self.source = index.alive & ~self.tests & ~self.aside
        self.stems = [path.rpartition("/")[2].partition(".")[0].lower() for path in paths]
        self.shape = {
            "lies aside": self.aside.astype(np.float64),
            "package head": np.array([path.endswith("__init__.py") for path in paths], np.float64),
            "lines": np.log1p([file.facts.line_count for file in index.files]) / 10,
            "at the top": np.array(["/" not in path for path in paths], np.float64),
        }


def all_signals(around: Surroundings, evidence: Evidence, history: History | None) -> Signals:
    """Every signal by itself, for ranking, for learning and for ablation."""
    signals = Signals()
    _text_signals(around, evidence, signals)
    _name_signals(around, evidence, signals)
    _dotted_signals(around, evidence, signals)
    _traceback_signals(around, evidence, signals)
    _path_signals(around, evidence, signals)
    signals.files["message"] = _message_signal(around, evidence)
    base = scaled(signals.files["file text"]) + scaled(signals.files["three symbols"])
    signals.files.update(neighbour_signals(around.index, base, around.tests, around.source))
    size = len(around.index.files)
    if history is not None:
        signals.files.update(history.signals(evidence.text, evidence.title, around.number, size))
    else:
        signals.files.update({name: np.zeros(size) for name in HISTORY})
    signals.files.update(around.shape)
    return signals


def scaled(scores: Scores) -> Scores:
    """Divided by the largest, so that the best file has 1."""
    top = float(scores.max(initial=0.0))
    return scores / top if top > 0 else scores


def _text_signals(around: Surroundings, evidence: Evidence, signals: Signals) -> None:
    index = around.index
    texts = {"text": evidence.text, "title": evidence.title, "prose": evidence.prose, "code": evidence.code}
    queries = {name: query_weights(index.vocabulary, [(text, 1.0)]) for name, text in texts.items()}
    queries["text"] = query_weights(index.vocabulary, [(evidence.text, 1.0), (evidence.title, 1.0)])
    order = list(queries)
    for kind, label in (("files", "file"), ("paths", "path"), ("symbols", "symbol")):
        for name, scores in zip(order, index.bm25(kind).scores_of([queries[n] for n in order]), strict=True):
            if kind == "symbols":
                _symbol_signals(index, name, scores, signals)
            else:
                signals.files[f"{label} {name}"] = scores
    for kind in FIELDS:
        whole, title = index.bm25(kind).scores_of([queries["text"], queries["title"]])
        signals.files[f"{kind} text"], signals.files[f"{kind} title"] = whole, title
    signals.files["title covered"] = _coverage(around, queries["title"])


def _symbol_signals(index: LexicalIndex, name: str, scores: Scores, signals: Signals) -> None:
    """The best symbol of each file and the mean of its three best."""
    label = "" if name == "text" else f" {name}"
    best, mean = best_of_file(index, scores)
    signals.files[f"best symbol{label}"] = best
    signals.files[f"three symbols{label}"] = mean
    if name in ("text", "title"):
        signals.symbols[f"symbol {name}"] = scores


def best_of_file(index: LexicalIndex, by_symbol: Scores) -> tuple[Scores, Scores]:
    """(largest, mean of the `_BEST_SYMBOLS` largest) symbol score of each file."""
    best, mean = np.zeros(len(index.files)), np.zeros(len(index.files))
    # The symbols of a file lie side by side, so its largest is one reduction; then it is taken out.
    files = np.flatnonzero(np.diff(index.first_symbol))
    left = by_symbol.copy()
    for place in range(_BEST_SYMBOLS if len(files) else 0):
        largest = np.maximum.reduceat(left, index.first_symbol[files])
        mean[files] += largest / _BEST_SYMBOLS
        if place == 0:
            best[files] = largest
        top = np.zeros(len(index.files))
        top[files] = largest
        at = np.flatnonzero((left > 0) & (left == top[index.file_of_symbol]))
        _, first = np.unique(index.file_of_symbol[at], return_index=True)
        left[at[first]] = 0.0
    return best, mean


def _coverage(around: Surroundings, title: dict[int, float]) -> Scores:
    """Share of the title's weight of words that a file holds at all."""
    bm25, living = around.index.bm25("files"), int(around.index.alive.sum())
    covered, total = np.zeros(len(around.index.files)), 0.0
    for token in title:
        holders = bm25.holders(token)
        if len(holders):
            idf = log((living + 1) / (len(holders) + 0.5))
            covered[holders] += idf
            total += idf
    return covered / total if total > 0 else covered


def _name_signals(around: Surroundings, evidence: Evidence, signals: Signals) -> None:
    """Names of the issue that few places define: the fewer, the stronger."""
    index = around.index
    symbols = np.zeros(len(index.file_of_symbol))
    for name, weight in evidence.names.items():
        places = _source_definitions(around, name)
        if 0 < len(places) <= RARE:
            symbols[places] += weight / len(places)
    signals.symbols["names defined here"] = symbols
    signals.files["names defined here"] = _to_files(index, symbols)
    signals.files["class names"] = _to_files(index, _class_names(around, evidence))


def _class_names(around: Surroundings, evidence: Evidence) -> Scores:
    """Capitalised words of the text that are the exact name of a class."""
    symbols = np.zeros(len(around.index.file_of_symbol))
    in_title = set(_WORD.findall(evidence.title))
    for word in dict.fromkeys(_WORD.findall(evidence.text)):
        if _CLASS_NAME.fullmatch(word):
            places = [
                n for n in _source_definitions(around, word) if around.index.symbol(n).symbol.kind == "class"
            ]
            if 0 < len(places) <= RARE:
                symbols[places] += (2.0 if word in in_title else 1.0) / len(places)
    return symbols


def _source_definitions(around: Surroundings, name: str) -> list[int]:
    owner = around.index.file_of_symbol
    return [number for number in around.index.definitions(name) if around.source[owner[number]]]


def _dotted_signals(around: Surroundings, evidence: Evidence, signals: Signals) -> None:
    """Dotted names: a module of the tree, or Class.method defined somewhere."""
    index = around.index
    files, symbols = np.zeros(len(index.files)), np.zeros(len(index.file_of_symbol))
    for dotted in evidence.dotted:
        for file, rest in around.resolver.resolve_dotted(dotted):
            files[file] += 1.0
            symbols[_named(index, file, rest)] += 1.0
        spread(symbols, _qualified(index, dotted), 1.0)
    signals.symbols["dotted names"] = symbols
    signals.files["dotted names"] = np.maximum(files, _to_files(index, symbols))


def _qualified(index: LexicalIndex, dotted: str) -> list[int]:
    owner, _, last = dotted.rpartition(".")
    wanted = f".{owner.rpartition('.')[2]}.{last}"
    return [n for n in index.definitions(last) if f".{index.symbol(n).symbol.name}".endswith(wanted)]


def _named(index: LexicalIndex, file: int, name: str) -> list[int]:
    if not name:
        return []
    return [n for n in index.definitions(name.rpartition(".")[2]) if index.file_of_symbol[n] == file]


def _traceback_signals(around: Surroundings, evidence: Evidence, signals: Signals) -> None:
    """Frames inside the repository, the innermost strongest."""
    index = around.index
    files, symbols = np.zeros(len(index.files)), np.zeros(len(index.file_of_symbol))
    strength = 1.0
    for frame in evidence.frames:
        found = around.resolver.resolve(frame.path)
        if not found or strength < 0.01:
            continue
        files[found] = np.maximum(files[found], strength / len(found))
        for number in (n for file in found for n in _at_frame(index, file, frame.line, frame.function)):
            symbols[number] = max(symbols[number], strength / len(found))
        strength *= _FRAME_DECAY
    signals.files["traceback"], signals.symbols["traceback"] = files, symbols


def _at_frame(index: LexicalIndex, file: int, line: int, function: str) -> list[int]:
    """By the function's name (lines drift between versions), else by the line."""
    named = _named(index, file, function)
    if named:
        return named
    first = int(index.first_symbol[file])
    symbols = index.files[file].facts.symbols
    inside = [first + n for n, one in enumerate(symbols) if one.start_line <= line <= one.own_end]
    return inside[-1:]


def _path_signals(around: Surroundings, evidence: Evidence, signals: Signals) -> None:
    """Paths written out, and names of files and folders among the words."""
    size = len(around.index.files)
    paths = np.zeros(size)
    for written in evidence.paths:
        spread(paths, around.resolver.resolve(written), 1.0)
    signals.files["paths in the issue"] = paths
    signals.files["file name in text"] = _stems(around, evidence.text)
    signals.files["file name in title"] = _stems(around, evidence.title)


def _stems(around: Surroundings, text: str) -> Scores:
    words = {word.lower() for word in _WORD.findall(text)}
    places: dict[str, list[int]] = {}
    for number in np.flatnonzero(around.source):
        if around.stems[number] in words:
            places.setdefault(around.stems[number], []).append(int(number))
    scores = np.zeros(len(around.stems))
    for numbers in places.values():
        scores[numbers] += len(numbers) ** -0.5
    return scores


def _message_signal(around: Surroundings, evidence: Evidence) -> Scores:
    """Files that hold the constant part of a quoted message; the fewer such files, the stronger."""
    index = around.index
    files = np.zeros(len(index.files))
    for fragment in evidence.fragments[:_MAX_FRAGMENTS]:
        needle = fragment.encode("utf-8", "replace")
        candidates = (int(n) for n in _holding_all(index, fragment) if around.source[n])
        found = [n for n in candidates if needle in index.tree.files[index.files[n].path].data]
        if len(found) <= RARE:
            spread(files, found, 1.0)
    return files


def _holding_all(index: LexicalIndex, text: str) -> NDArray[np.int64]:
    """Files that hold every word of `text`: only these need to be read."""
    tokens = list(query_weights(index.vocabulary, [(text, 1.0)]))
    if not tokens:
        return np.empty(0, np.int64)
    bm25 = index.bm25("files")
    holders = [bm25.holders(token) for token in tokens[1:-1] or tokens]  # the outer two may be cut words
    found = holders[0]
    for other in holders[1:]:
        found = np.intersect1d(found, other)
    return found


def _to_files(index: LexicalIndex, symbols: Scores) -> Scores:
    hit = np.flatnonzero(symbols)
    files = np.bincount(index.file_of_symbol[hit], weights=symbols[hit], minlength=len(index.files))
    return np.asarray(files, np.float64)


def spread(scores: Scores, numbers: Sequence[int], amount: float) -> None:
    """Share `amount` between the places a mention can mean."""
    if numbers:
        scores[list(numbers)] += amount / len(numbers)


def unscaled() -> Iterable[str]:
    """Signals whose value already means the same in every repository."""
    return ("lies aside", "package head", "lines", "at the top", "title covered")
