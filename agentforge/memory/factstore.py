"""Facts on disk, content-addressed: one SQLite file that every repository and branch shares.

A cache and nothing more: whatever is wrong with the file, facts are computed again, and the file is left
as it is. A row holds JSON and token counts with a vocabulary of its own, so that processes need not agree
on numbers, and nothing in it is ever executed.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from agentforge.memory.facts import FIELDS, FactsStore, FileFacts, Vocabulary
from agentforge.memory.postings import Bags
from agentforge.memory.symbols import CodeSymbol

FORMAT = 2
DATABASE = "facts.sqlite3"
_TABLE = f"facts{FORMAT}"
_HEAD = struct.Struct("<III")
_MAX_KEYS = 500
_BUSY_S = 5.0
MAX_BYTES = 2 * 1024**3
"""Some 400,000 files of Python; a tree of 2,900 takes 12 MB."""
_BROKEN_ROW = (zlib.error, ValueError, KeyError, TypeError, struct.error, IndexError)


class DiskFacts(FactsStore):
    """Facts in `folder`. Never raises: a broken cache only costs time; `problem` says what was wrong.

    When the file has grown beyond `max_bytes`, the rows written first go, until half of that is left.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = folder / DATABASE
        self.problem = ""
        self._max_bytes = max_bytes

    def load(self, keys: Sequence[str], vocabulary: Vocabulary) -> dict[str, FileFacts]:
        found: dict[str, FileFacts] = {}
        if not keys or not self.path.exists():
            return found
        try:
            with closing(self._connect()) as connection:
                for key, data in _rows(connection, keys):
                    facts = unpack(data, vocabulary)
                    if facts is not None:
                        found[key] = facts
        except sqlite3.Error as error:
            self.problem = str(error)
        return found

    def save(self, facts: Mapping[str, FileFacts], vocabulary: Vocabulary) -> None:
        words = vocabulary.words()
        rows = [(key, pack(entry, words)) for key, entry in facts.items()]
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(self._connect()) as connection, connection:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (key TEXT PRIMARY KEY, data BLOB)")
                connection.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", rows)  # noqa: S608
                self._prune(connection)
        except (sqlite3.Error, OSError) as error:
            self.problem = str(error)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Other formats' rows go first, then our oldest. Freed pages are used again by later rows."""
        if _used_bytes(connection) <= self._max_bytes:
            return
        for name in _other_formats(connection):
            connection.execute(f'DROP TABLE "{name}"')
        sizes = connection.execute(f"SELECT rowid, length(data) FROM {_TABLE} ORDER BY rowid DESC")  # noqa: S608
        kept = 0
        for row, size in sizes.fetchall():
            kept += size
            if kept > self._max_bytes // 2:
                connection.execute(f"DELETE FROM {_TABLE} WHERE rowid <= ?", (row,))  # noqa: S608
                return

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        return connection


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _other_formats(connection: sqlite3.Connection) -> list[str]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [name for (name,) in tables if name != _TABLE and re.fullmatch(r"facts\d+", name)]


def _rows(connection: sqlite3.Connection, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.execute(tables, (_TABLE,)).fetchone() is None:
        return
    for start in range(0, len(keys), _MAX_KEYS):
        part = keys[start : start + _MAX_KEYS]
        places = ",".join("?" * len(part))
        yield from connection.execute(
            f"SELECT key, data FROM {_TABLE} WHERE key IN ({places})",  # noqa: S608  only marks
            part,
        )


def pack(facts: FileFacts, words: Sequence[str]) -> bytes:
    """One row."""
    known, local = np.unique(facts.bags.ids, return_inverse=True)
    header = json.dumps(
        {
            "symbols": [_plain(symbol) for symbol in facts.symbols],
            "imports": facts.imports,
            "lines": facts.line_count,
        }
    ).encode("utf-8", "surrogatepass")
    text = "\n".join(words[int(number)] for number in known).encode("utf-8", "surrogatepass")
    arrays = b"".join(
        part.astype("<i4").tobytes() for part in (local.reshape(-1), facts.bags.counts, facts.bags.sizes)
    )
    head = _HEAD.pack(len(header), len(text), len(facts.bags.ids))
    return zlib.compress(head + header + text + arrays, 1)


def unpack(data: bytes, vocabulary: Vocabulary) -> FileFacts | None:
    """The facts of one row, or None where it is damaged."""
    try:
        raw = zlib.decompress(data)
        header_size, text_size, cells = _HEAD.unpack_from(raw)
        start = _HEAD.size + header_size
        header = json.loads(raw[_HEAD.size : start])
        text = raw[start : start + text_size].decode("utf-8", "surrogatepass")
        mapping = vocabulary.learn(text.split("\n") if text else [])
        arrays = np.frombuffer(raw, "<i4", offset=start + text_size)
        local, counts, sizes = arrays[:cells], arrays[cells : 2 * cells], arrays[2 * cells :]
        symbols = tuple(CodeSymbol(*plain) for plain in header["symbols"])
        if len(sizes) != 1 + len(FIELDS) + len(symbols) or int(sizes.sum()) != cells:
            return None
        bags = Bags(mapping[local], counts, sizes)
        return FileFacts(symbols, bags, tuple(header["imports"]), int(header["lines"]))
    except _BROKEN_ROW:
        return None


def _plain(symbol: CodeSymbol) -> list[Any]:
    return [
        symbol.name,
        symbol.kind,
        symbol.start_line,
        symbol.end_line,
        symbol.own_end,
        symbol.signature,
        symbol.docstring,
    ]
