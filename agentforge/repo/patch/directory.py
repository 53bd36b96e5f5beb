"""A directory as a tree, read and written without ever following a link.

Every component is opened relative to its parent with O_NOFOLLOW, so a link that appears between
the check and the use is refused as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from agentforge.core.errors import RepositoryError
from agentforge.core.tree import EntryKind, TreeFile

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SUBMODULE_PATH = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.M)


class DirectoryTree:
    """`TreeReader` over a directory; `.git` and the inside of submodules are not part of it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def kind(self, path: str) -> EntryKind:
        with contextlib.suppress(OSError, ValueError), opened_parent(self.root, path) as (parent, name):
            return self._kind_at(parent, name, path)
        return "submodule" if path != ".gitmodules" and path in self._declared else "missing"

    def read(self, path: str) -> TreeFile:
        try:
            with opened_parent(self.root, path) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    return TreeFile(os.fsencode(os.readlink(name, dir_fd=parent)), "120000")
                if not stat.S_ISREG(status.st_mode):
                    raise KeyError(path)
                return _read_regular(parent, name)
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise KeyError(path) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise KeyError(path) from error
            raise RepositoryError(f"{path} cannot be read: {error.strerror}") from error

    def paths(self) -> Iterator[str]:
        found: list[str] = []
        for folder, folders, files in os.walk(self.root, followlinks=False):
            prefix = Path(folder).relative_to(self.root)
            kept = []
            for name in folders:
                path = (prefix / name).as_posix()
                kind = self.kind(path)
                if kind == "symlink":
                    found.append(path)
                elif kind == "directory" and name != ".git":
                    kept.append(name)
            folders[:] = kept
            entries = [(prefix / name).as_posix() for name in files if name != ".git"]
            found += [path for path in entries if self.kind(path) in ("file", "symlink")]
        return iter(sorted(found))

    def _kind_at(self, parent: int, name: str, path: str) -> EntryKind:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return "symlink"
        if stat.S_ISREG(mode):
            return "file"
        if not stat.S_ISDIR(mode):
            return "other"
        return "submodule" if path in self._declared or _has_git(parent, name) else "directory"

    @cached_property
    def _declared(self) -> frozenset[str]:
        """Submodule paths that `.gitmodules` names, checked out or not."""
        try:
            with opened_parent(self.root, ".gitmodules") as (parent, name):
                text = _read_regular(parent, name).data.decode("utf-8", "surrogateescape")
        except OSError:
            return frozenset()
        return frozenset(path.strip('"').strip("/") for path in _SUBMODULE_PATH.findall(text))


def _has_git(parent: int, name: str) -> bool:
    try:
        os.stat(f"{name}/.git", dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read_regular(parent: int, name: str) -> TreeFile:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise FileNotFoundError(errno.ENOENT, "not a regular file", name)
        return TreeFile(file.read(), "100755" if mode & stat.S_IXUSR else "100644")


@contextlib.contextmanager
def opened_parent(root: Path, path: str, *, create: list[str] | None = None) -> Iterator[tuple[int, str]]:
    """The folder of `path` as a descriptor, and the last name. OSError where a component is a link.

    With `create`, missing folders are made and their paths appended to it.
    """
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, folder in enumerate(folders, 1):
            if create is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
                    create.append("/".join(folders[:depth]))
            below = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)
