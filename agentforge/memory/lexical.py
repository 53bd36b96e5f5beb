"""The searchable form of one tree: postings of files, fields, symbols and paths, names and imports.

The files lie in parts. The first holds the tree as it was first read; what changed since lies in a second,
small one, and its old versions are dead in the first. An edit rebuilds the small part only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.facts import (
    FIELDS,
    FactsCache,
    IndexedFile,
    Progress,
    Vocabulary,
    index_files,
    indexable,
)
from agentforge.memory.imports import absolute_imports, module_name
from agentforge.memory.postings import Bm25, Living, Segment, bag_up, join_bags
from agentforge.memory.symbols import CodeSymbol
from agentforge.memory.tokens import code_tokens

KINDS = ("files", *FIELDS, "symbols", "paths")
KIND_CODES = {"module": 1, "class": 2}
_MIN_PART = 200
_MAX_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """A symbol and the number of its file in the index."""

    file: int
    symbol: CodeSymbol


class Part:
    """Some files, indexed together. Immutable; numbers are local to the part."""

    def __init__(self, files: Sequence[IndexedFile], cache: FactsCache) -> None:
        self.files = tuple(files)
        paths = bag_up([cache.vocabulary.count(code_tokens(file.path)) for file in files])
        self.segments = {
            "files": Segment(join_bags([file.facts.part(0) for file in files])),
            "paths": Segment(paths),
            "symbols": Segment(join_bags([file.facts.of_symbols() for file in files])),
        }
        for number, name in enumerate(FIELDS, 1):
            self.segments[name] = Segment(join_bags([file.facts.part(number) for file in files]))
        counts = [len(file.facts.symbols) for file in files]
        self.file_of_symbol = np.repeat(np.arange(len(files)), counts)
        kinds = [symbol.kind for file in files for symbol in file.facts.symbols]
        self.kinds = np.array([KIND_CODES.get(kind, 0) for kind in kinds], np.int8)
        self.definitions = _definitions(files)
        self.importers: dict[str, list[int]] = {}
        for number, file in enumerate(files):
            for name in absolute_imports(file.path, file.facts.imports):
                self.importers.setdefault(name, []).append(number)


def _definitions(files: Sequence[IndexedFile]) -> dict[str, list[int]]:
    """Last part of a qualified name -> numbers of the symbols that define it."""
    places: dict[str, list[int]] = {}
    number = 0
    for file in files:
        for symbol in file.facts.symbols:
            if symbol.kind in ("class", "function", "method"):
                places.setdefault(symbol.name.rpartition(".")[2], []).append(number)
            number += 1
    return places


class LexicalIndex:
    """The index of one tree. Immutable; `updated` gives that of another tree and shares what is equal.

    Files and symbols have numbers; those of dead files stay unused. `alive` says which files count.
    """

    def __init__(
        self, parts: Sequence[Part], alive: Sequence[NDArray[np.bool_]], tree: Tree, cache: FactsCache
    ) -> None:
        self._parts = tuple(parts)
        self._alive = tuple(alive)
        self._cache = cache
        self.tree = tree
        self.vocabulary = cache.vocabulary
        self.files = tuple(file for part in parts for file in part.files)
        self.alive = np.concatenate([np.empty(0, bool), *alive])
        offsets = np.cumsum([0, *(len(part.files) for part in parts)])
        self.file_of_symbol = np.concatenate(
            [
                np.empty(0, np.int64),
                *(part.file_of_symbol + offset for part, offset in zip(parts, offsets, strict=False)),
            ]
        )
        self._file_offsets = [int(offset) for offset in offsets]
        self._symbol_offsets = [int(n) for n in np.cumsum([0, *(len(part.file_of_symbol) for part in parts)])]
        self.kinds = np.concatenate([np.empty(0, np.int8), *(part.kinds for part in parts)])
        self._crowds: dict[int, int] = {}
        self._imported: dict[int, frozenset[int]] = {}
        self.first_symbol = np.searchsorted(self.file_of_symbol, np.arange(len(self.files) + 1))

    @classmethod
    def of(cls, tree: Tree, cache: FactsCache, progress: Progress | None = None) -> LexicalIndex:
        """Index the whole of `tree`."""
        files = index_files(list(indexable(tree)), cache, progress)
        return cls([Part(files, cache)], [np.ones(len(files), bool)], tree, cache)

    def updated(self, tree: Tree) -> LexicalIndex:
        """The index of `tree`, by what differs from this one's."""
        before, after = dict(indexable(self.tree)), dict(indexable(tree))
        changed = [path for path, entry in after.items() if not _same(before.get(path), entry)]
        gone = before.keys() - after.keys()
        stale = gone | set(changed)
        if not stale:
            return LexicalIndex(self._parts, self._alive, tree, self._cache)
        base, alive = self._parts[0], self._alive[0].copy()
        for number, file in enumerate(base.files):
            if file.path in stale:
                alive[number] = False
        recent = [
            file for part in self._parts[1:] for file in part.files if file.path not in stale
        ] + index_files([(path, after[path]) for path in changed], self._cache)
        dead = len(base.files) - int(alive.sum())
        if len(recent) + dead > max(_MIN_PART, _MAX_SHARE * len(base.files)):
            return LexicalIndex.of(tree, self._cache)
        recent.sort(key=lambda file: file.path)
        part = Part(recent, self._cache)
        return LexicalIndex([base, part], [alive, np.ones(len(recent), bool)], tree, self._cache)

    @cached_property
    def _bm25(self) -> Mapping[str, Bm25]:
        return {kind: self._ranker(kind, b) for kind, b in _LENGTH_WEIGHT.items()}

    def _ranker(self, kind: str, b: float) -> Bm25:
        living = []
        for part, alive in zip(self._parts, self._alive, strict=True):
            mask = alive[part.file_of_symbol] if kind == "symbols" else alive
            living.append(Living(part.segments[kind], mask))
        return Bm25(living, b=b)

    def bm25(self, kind: str) -> Bm25:
        """The text ranking of "files", "symbols", "paths" or one of `FIELDS`."""
        return self._bm25[kind]

    def symbol(self, number: int) -> SymbolRef:
        """The symbol of that number."""
        file = int(self.file_of_symbol[number])
        return SymbolRef(file, self.files[file].facts.symbols[number - int(self.first_symbol[file])])

    @property
    def symbol_count(self) -> int:
        """How many symbols the living files have."""
        return int(self.alive[self.file_of_symbol].sum())

    def living_symbols(self) -> list[int]:
        """Numbers of all symbols of living files, by path and line."""
        order = sorted(np.flatnonzero(self.alive), key=lambda number: self.files[int(number)].path)
        return [n for file in order for n in range(self.first_symbol[file], self.first_symbol[file + 1])]

    def definitions(self, name: str) -> list[int]:
        """Numbers of the symbols that define `name` (the last part of a qualified name)."""
        found = [
            number + offset
            for part, offset in zip(self._parts, self._symbol_offsets, strict=False)
            for number in part.definitions.get(name, [])
        ]
        return [number for number in found if self.alive[self.file_of_symbol[number]]]

    @cached_property
    def modules(self) -> dict[str, int]:
        """Dotted name of a module -> its file."""
        return {module_name(self.files[int(n)].path): int(n) for n in np.flatnonzero(self.alive)}

    def imported_by(self, file: int) -> frozenset[int]:
        """Files of the tree that `file` imports."""
        if file not in self._imported:
            entry = self.files[file]
            found = (self._module(name) for name in absolute_imports(entry.path, entry.facts.imports))
            self._imported[file] = frozenset(n for n in found if n is not None and n != file)
        return self._imported[file]

    def _module(self, name: str) -> int | None:
        while name:
            if name in self.modules:
                return self.modules[name]
            name = name.rpartition(".")[0]
        return None

    def importers_of(self, file: int) -> list[int]:
        """Files of the tree that import `file`, by its own name or through a name in it."""
        name = module_name(self.files[file].path)
        found = [
            number + offset
            for part, offset in zip(self._parts, self._file_offsets, strict=False)
            for number in part.importers.get(name, [])
        ]
        return [number for number in found if self.alive[number] and number != file]

    def importer_count(self, file: int) -> int:
        """How many files import `file`."""
        if file not in self._crowds:
            self._crowds[file] = len(self.importers_of(file))
        return self._crowds[file]

    @cached_property
    def namesakes(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Living files by their name without suffix and leading underscores, and by their folder's name."""
        by_name: dict[str, list[int]] = {}
        by_folder: dict[str, list[int]] = {}
        for number, file in self.living():
            folders, _, name = file.path.rpartition("/")
            by_name.setdefault(name.partition(".")[0].lstrip("_"), []).append(number)
            if folders:
                by_folder.setdefault(folders.rpartition("/")[2], []).append(number)
        return by_name, by_folder

    def living(self) -> Iterator[tuple[int, IndexedFile]]:
        """The files that count, with their numbers."""
        return ((int(n), self.files[int(n)]) for n in np.flatnonzero(self.alive))


_LENGTH_WEIGHT = {kind: 0.3 if kind == "paths" else 0.75 for kind in KINDS}


def _same(left: TreeFile | None, right: TreeFile) -> bool:
    return left is right or left == right


def query_weights(vocabulary: Vocabulary, parts: Iterable[tuple[str, float]]) -> dict[int, float]:
    """Token weights of a query made of texts with weights; repetition counts by its logarithm."""
    weights: dict[int, float] = {}
    for text, weight in parts:
        for token, count in Counter(vocabulary.known(code_tokens(text))).items():
            weights[token] = weights.get(token, 0.0) + weight * (1 + log(count))
    return weights
