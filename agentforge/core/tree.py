"""A source tree as a value: paths, modes and bytes. The unit that is patched and executed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, Protocol

FileMode = Literal["100644", "100755", "120000"]
EntryKind = Literal["file", "symlink", "directory", "submodule", "other", "missing"]


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One blob; for a symlink (mode 120000) `data` is the link's target."""

    data: bytes
    mode: FileMode = "100644"


# A change set: path -> new content, or None where the path is deleted.
Changes = Mapping[str, TreeFile | None]


class TreeReader(Protocol):
    """What the patch engine needs of a tree. Paths are POSIX, relative to the root."""

    def kind(self, path: str) -> EntryKind:
        """What is at `path`, never following links."""

    def read(self, path: str) -> TreeFile:
        """The file at `path`; KeyError where `kind` is not file or symlink."""

    def paths(self) -> Iterator[str]:
        """All files, sorted."""


@dataclass(frozen=True)
class Tree:
    """An immutable tree in memory. `submodules` are paths that are known and left out."""

    files: Mapping[str, TreeFile]
    submodules: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))

    def kind(self, path: str) -> EntryKind:
        if path in self.submodules:
            return "submodule"
        entry = self.files.get(path)
        if entry is not None:
            return "symlink" if entry.mode == "120000" else "file"
        return "directory" if path in self._directories else "missing"

    def read(self, path: str) -> TreeFile:
        return self.files[path]

    def paths(self) -> Iterator[str]:
        return iter(sorted(self.files))

    def with_changes(self, changes: Changes) -> Tree:
        """A new tree with `changes` laid over this one."""
        files = dict(self.files)
        for path, entry in changes.items():
            if entry is None:
                files.pop(path, None)
            else:
                files[path] = entry
        return Tree(files, self.submodules)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over sorted paths, modes and contents: equal trees have equal digests."""
        total = hashlib.sha256()
        for path in self.paths():
            entry = self.files[path]
            content = hashlib.sha256(entry.data).digest()
            total.update(path.encode("utf-8", "surrogateescape") + b"\0" + entry.mode.encode() + content)
        return total.hexdigest()

    @cached_property
    def _directories(self) -> frozenset[str]:
        parents: set[str] = set()
        for path in self.files:
            parts = path.split("/")[:-1]
            parents.update("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return frozenset(parents)
