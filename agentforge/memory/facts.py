"""What the index knows of one file, computed once per content and kept on disk by its git blob id."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.postings import Bags, Ids, bag_up
from agentforge.memory.symbols import CodeSymbol, SplitFile, split_source
from agentforge.memory.tokens import code_tokens

_SUFFIXES = (
    ".py .pyi .pyw .pyx .pxd .js .jsx .mjs .cjs .ts .tsx .java .kt .scala .go .rs .c .h .cc .cpp .cxx .hpp "
    ".cs .rb .php .swift .lua .pl .sh .sql"
)
SOURCE_SUFFIXES = frozenset(_SUFFIXES.split())
FIELDS = ("names", "docstrings", "comments", "strings")
_NAME_WEIGHT = 2
_MAX_DOCSTRING = 400
_COMMENT = re.compile(r"(?:#|//)[^\n]*|/\*.{0,5000}?\*/", re.DOTALL)


def blob_id(data: bytes) -> str:
    """Git's id of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _suffix(path: str) -> str:
    """Like `PurePosixPath.suffix`, in lower case; asked for every file at every edit, so without objects."""
    stem, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return dot + suffix.lower() if stem else ""


def is_indexed(path: str) -> bool:
    """Whether a file of this name is worth reading at all."""
    return _suffix(path) in SOURCE_SUFFIXES


class Vocabulary:
    """Token -> small integer, growing."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def learn(self, tokens: Sequence[str]) -> Ids:
        """Ids of `tokens`, new ones included."""
        ids = self._ids
        for token in tokens:
            if token not in ids:
                ids[token] = len(ids)
        return np.fromiter(map(ids.__getitem__, tokens), np.int32, len(tokens))

    def count(self, tokens: Iterable[str]) -> dict[int, int]:
        """How often each token occurs, by id, new ones included."""
        ids = self._ids
        return {ids.setdefault(token, len(ids)): count for token, count in Counter(tokens).items()}

    def words(self) -> list[str]:
        """All tokens, by their ids."""
        return list(self._ids)

    def known(self, tokens: Sequence[str]) -> list[int]:
        """Ids of those tokens that occur anywhere in the index."""
        return [self._ids[token] for token in tokens if token in self._ids]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Symbols of one content with a bag of tokens each, and one bag for the file and for each field.

    `bags` holds the whole file's, then those of `FIELDS`, then the symbols'.
    """

    symbols: tuple[CodeSymbol, ...]
    bags: Bags
    imports: tuple[str, ...]
    line_count: int

    def part(self, number: int) -> Bags:
        """One of the leading bags: 0 the whole file, then the fields in order."""
        start = int(self.bags.sizes[:number].sum())
        end = start + int(self.bags.sizes[number])
        return Bags(
            self.bags.ids[start:end], self.bags.counts[start:end], self.bags.sizes[number : number + 1]
        )

    def of_symbols(self) -> Bags:
        """The bags of the symbols, in order."""
        skipped = 1 + len(FIELDS)
        start = int(self.bags.sizes[:skipped].sum())
        return Bags(self.bags.ids[start:], self.bags.counts[start:], self.bags.sizes[skipped:])


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A path of the tree at hand, its content's id and facts."""

    path: str
    blob: str
    facts: FileFacts


class FactsStore:
    """Where facts outlive the process: `load` many by key, `save` what was computed. This one forgets."""

    problem = ""

    def load(self, keys: Sequence[str], vocabulary: Vocabulary) -> dict[str, FileFacts]:
        return {}

    def save(self, facts: dict[str, FileFacts], vocabulary: Vocabulary) -> None:
        return None


class FactsCache:
    """Facts by content id and suffix, shared by every tree that one process looks at.

    `computed` counts how often a file was really split.
    """

    def __init__(self, store: FactsStore | None = None) -> None:
        self.vocabulary = Vocabulary()
        self.computed = 0
        self._store = store or FactsStore()
        self._facts: dict[str, FileFacts | None] = {}
        self._unsaved: dict[str, FileFacts] = {}

    def facts(self, path: str, data: bytes, blob: str) -> FileFacts | None:
        """Facts of this content, or None where it is not text."""
        key = facts_key(path, blob)
        if key not in self._facts:
            self.computed += 1
            split = split_source(path, data)
            facts = self._facts[key] = None if split is None else compute_facts(split, self.vocabulary)
            if facts is not None:
                self._unsaved[key] = facts
        return self._facts[key]

    def prefetch(self, keys: Sequence[str]) -> None:
        """Take from disk what is there of `keys`."""
        missing = [key for key in keys if key not in self._facts]
        self._facts.update(self._store.load(missing, self.vocabulary))

    def flush(self) -> None:
        """Write what was computed since the last time."""
        if self._unsaved:
            self._store.save(self._unsaved, self.vocabulary)
            self._unsaved = {}

    @property
    def problem(self) -> str:
        """Why the store of facts does not work; empty where it does."""
        return self._store.problem

    @property
    def unsaved(self) -> int:
        """How many facts a crash would lose."""
        return len(self._unsaved)


def facts_key(path: str, blob: str) -> str:
    """Facts depend on the content and, by its suffix, on the language."""
    return f"{blob}{_suffix(path)}"


def compute_facts(split: SplitFile, vocabulary: Vocabulary) -> FileFacts:
    """Count the tokens of a split file."""
    symbols, documents, whole = list[CodeSymbol](), list[list[str]](), list[str]()
    for symbol in split.symbols:
        words = code_tokens(split.text(symbol.start_line, symbol.own_end))
        if words or symbol.kind != "module":
            symbols.append(symbol)
            documents.append(words + code_tokens(symbol.name) * _NAME_WEIGHT)
            whole.extend(documents[-1])
    fields = {
        "names": " ".join(symbol.name for symbol in symbols if symbol.kind not in ("module", "window")),
        "docstrings": " ".join(symbol.docstring for symbol in split.symbols),
        "comments": " ".join(_COMMENT.findall("\n".join(split.lines))),
        "strings": " ".join(split.strings),
    }
    texts = [whole, *(code_tokens(fields[name]) for name in FIELDS), *documents]
    short = tuple(_with_short_docstring(symbol) for symbol in symbols)
    return FileFacts(
        short, bag_up([vocabulary.count(text) for text in texts]), split.imports, len(split.lines)
    )


def _with_short_docstring(symbol: CodeSymbol) -> CodeSymbol:
    if len(symbol.docstring) <= _MAX_DOCSTRING:
        return symbol
    text = symbol.docstring[:_MAX_DOCSTRING]
    return CodeSymbol(
        symbol.name, symbol.kind, symbol.start_line, symbol.end_line, symbol.own_end, symbol.signature, text
    )


Progress = Callable[[int, int], None]
_FLUSH_EVERY = 500


def indexable(tree: Tree) -> Iterator[tuple[str, TreeFile]]:
    """Files of `tree` worth indexing, in order of path; links and submodules are none."""
    for path in tree.paths():
        entry = tree.files[path]
        if entry.mode != "120000" and is_indexed(path):
            yield path, entry


def index_files(
    files: Sequence[tuple[str, TreeFile]], cache: FactsCache, progress: Progress | None = None
) -> list[IndexedFile]:
    """Facts of all `files`; binary ones are left out.

    What was computed is written every few hundred files, so that an interrupted build is not lost.
    """
    blobs = [blob_id(entry.data) for _, entry in files]
    cache.prefetch([facts_key(path, blob) for (path, _), blob in zip(files, blobs, strict=True)])
    found = []
    try:
        for number, ((path, entry), blob) in enumerate(zip(files, blobs, strict=True), 1):
            facts = cache.facts(path, entry.data, blob)
            if facts is not None:
                found.append(IndexedFile(path, blob, facts))
            if cache.unsaved >= _FLUSH_EVERY:
                cache.flush()
            if progress is not None:
                progress(number, len(files))
    finally:
        cache.flush()
    return found
