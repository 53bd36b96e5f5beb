"""What the index knows of one file, computed once per content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from agentforge.core.tree import Tree
from agentforge.memory.symbols import CodeSymbol, SplitFile, split_source
from agentforge.memory.tokens import code_tokens

TokenIds = NDArray[np.int32]

_SUFFIXES = (
    ".py .pyi .pyw .pyx .pxd .js .jsx .mjs .cjs .ts .tsx .java .kt .scala .go .rs .c .h .cc .cpp .cxx .hpp "
    ".cs .rb .php .swift .lua .pl .sh .sql"
)
SOURCE_SUFFIXES = frozenset(_SUFFIXES.split())
_NAME_WEIGHT = 2


def blob_id(data: bytes) -> str:
    """Git's id of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def is_indexed(path: str) -> bool:
    """Whether a file of this name is worth reading at all."""
    return PurePosixPath(path).suffix.lower() in SOURCE_SUFFIXES


class Vocabulary:
    """Token -> small integer, growing."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def learn(self, tokens: list[str]) -> TokenIds:
        """Ids of `tokens`, new ones included."""
        ids = self._ids
        return np.fromiter((ids.setdefault(token, len(ids)) for token in tokens), np.int32, len(tokens))

    def known(self, tokens: list[str]) -> list[int]:
        """Ids of those tokens that occur anywhere in the index."""
        return [self._ids[token] for token in tokens if token in self._ids]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Symbols of one content and, side by side with them, their token ids."""

    symbols: tuple[CodeSymbol, ...]
    tokens: tuple[TokenIds, ...]
    imports: tuple[str, ...]
    line_count: int


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A path of the tree at hand, its content's id and facts."""

    path: str
    blob: str
    facts: FileFacts


class FactsCache:
    """Facts by content id and suffix, shared by every tree that one process looks at.

    `computed` counts how often a file was really split.
    """

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.computed = 0
        self._facts: dict[tuple[str, str], FileFacts | None] = {}

    def facts(self, path: str, data: bytes, blob: str) -> FileFacts | None:
        """Facts of this content, or None where it is not text."""
        key = (blob, PurePosixPath(path).suffix.lower())
        if key not in self._facts:
            self.computed += 1
            split = split_source(path, data)
            self._facts[key] = None if split is None else self._compute(split)
        return self._facts[key]

    def _compute(self, split: SplitFile) -> FileFacts:
        symbols, tokens = [], []
        for symbol in split.symbols:
            words = code_tokens(split.text(symbol.start_line, symbol.own_end))
            if words or symbol.kind != "module":
                symbols.append(symbol)
                tokens.append(self.vocabulary.learn(words + code_tokens(symbol.name) * _NAME_WEIGHT))
        return FileFacts(tuple(symbols), tuple(tokens), split.imports, len(split.lines))

    def forget_except(self, blobs: frozenset[str]) -> None:
        """Drop the facts of all other contents."""
        self._facts = {key: facts for key, facts in self._facts.items() if key[0] in blobs}


def index_files(tree: Tree, cache: FactsCache) -> Iterator[IndexedFile]:
    """The indexed files of `tree`, in order of path. Links, submodules and binary files are left out."""
    for path in tree.paths():
        entry = tree.files[path]
        if entry.mode == "120000" or not is_indexed(path):
            continue
        blob = blob_id(entry.data)
        facts = cache.facts(path, entry.data, blob)
        if facts is not None:
            yield IndexedFile(path, blob, facts)
