"""Writing a change set to a directory: staged first, then renamed into place, all or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from agentforge.core.errors import PatchError, RefusalReason, RepositoryError
from agentforge.core.tree import Changes, TreeFile
from agentforge.repo.patch.directory import DirectoryTree, opened_parent
from agentforge.repo.patch.paths import jailed, refuse_links

_PERMISSIONS = 0o7777


@dataclass(frozen=True, slots=True)
class _Kept:
    """What stood at a path before: enough to put it back."""

    entry: TreeFile | None
    mode: int = 0
    owner: tuple[int, int] = (-1, -1)


def write_changes(root: Path, changes: Changes) -> None:
    """Bring the directory `root` to `changes`, or leave it as it was.

    Permissions of existing files are kept but for the execute bit a change asks for. Folders are
    made as needed; folders that deletions empty are removed. PatchError for a path that leaves the
    root or goes through a link; RepositoryError when the disk refuses, after everything is undone.
    """
    _check(root, changes)
    writer = _Writer(root)
    try:
        for path, entry in changes.items():
            if entry is not None:
                writer.stage(path, entry)
        for path in changes:
            writer.place(path, changes[path])
    except BaseException as error:
        writer.undo()
        if isinstance(error, OSError):
            raise _explained(error) from error
        raise
    for path, entry in changes.items():
        if entry is None:
            _remove_empty_folders(root, path)


def _check(root: Path, changes: Changes) -> None:
    tree = DirectoryTree(root)
    for path, entry in changes.items():
        if jailed(path) != path:
            raise PatchError(RefusalReason.MALFORMED, f"{path} is not a plain path", path=path)
        if entry is not None and entry.mode == "120000":
            raise PatchError(RefusalReason.TYPE_CHANGE, f"{path} would become a symbolic link", path=path)
        refuse_links(path, tree)


def _explained(error: OSError) -> Exception:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PatchError(RefusalReason.TYPE_CHANGE, f"a folder became a link meanwhile: {error}")
    return RepositoryError(f"the tree cannot be written: {error}", hint="nothing was changed")


class _Writer:
    """Remembers every step, so that all of them can be taken back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.staged: dict[str, str] = {}
        self.kept: dict[str, _Kept] = {}
        self.folders: list[str] = []

    def stage(self, path: str, entry: TreeFile) -> None:
        """Write the new content beside its place."""
        kept = self._stand(path)
        self.staged[path] = _write_beside(self.root, path, entry, kept, self.folders)

    def place(self, path: str, entry: TreeFile | None) -> None:
        """Rename the staged file over its place, or unlink."""
        self.kept[path] = self._stand(path)
        with opened_parent(self.root, path) as (parent, name):
            if entry is None:
                os.unlink(name, dir_fd=parent)
            else:
                os.rename(self.staged[path], name, src_dir_fd=parent, dst_dir_fd=parent)
                del self.staged[path]

    def undo(self) -> None:
        """Put back what was replaced and remove what was added; each step on its own."""
        for path, temporary in self.staged.items():
            with contextlib.suppress(OSError), opened_parent(self.root, path) as (parent, _):
                os.unlink(temporary, dir_fd=parent)
        for path, kept in self.kept.items():
            with contextlib.suppress(OSError):
                self._restore(path, kept)
        for folder in reversed(self.folders):
            with contextlib.suppress(OSError), opened_parent(self.root, folder) as (parent, name):
                os.rmdir(name, dir_fd=parent)

    def _restore(self, path: str, kept: _Kept) -> None:
        if kept.entry is None:
            with opened_parent(self.root, path) as (parent, name):
                os.unlink(name, dir_fd=parent)
            return
        temporary = _write_beside(self.root, path, kept.entry, kept, [])
        with opened_parent(self.root, path) as (parent, name):
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)

    def _stand(self, path: str) -> _Kept:
        try:
            with opened_parent(self.root, path) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return _Kept(None)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ELOOP, "not a regular file any more", path)
        entry = DirectoryTree(self.root).read(path)
        return _Kept(entry, status.st_mode & _PERMISSIONS, (status.st_uid, status.st_gid))


def _write_beside(root: Path, path: str, entry: TreeFile, kept: _Kept, folders: list[str]) -> str:
    """A temporary file in the folder of `path` with the content and rights it shall have; its name."""
    with opened_parent(root, path, create=folders) as (parent, _):
        temporary = f".agentforge-{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o777 if entry.mode == "100755" else 0o666, dir_fd=parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(entry.data)
                _dress(file.fileno(), entry, kept)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise
        return temporary


def _dress(handle: int, entry: TreeFile, kept: _Kept) -> None:
    """The owner and permissions the file had, with the execute bit the change asks for."""
    if kept.entry is None:
        return
    with contextlib.suppress(PermissionError):
        os.fchown(handle, *kept.owner)
    mode = kept.mode
    if entry.mode != kept.entry.mode:
        readable = (mode & 0o444) >> 2
        mode = mode | readable if entry.mode == "100755" else mode & ~0o111
    os.fchmod(handle, mode)


def _remove_empty_folders(root: Path, path: str) -> None:
    folder = path.rpartition("/")[0]
    while folder:
        try:
            with opened_parent(root, folder) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return
        folder = folder.rpartition("/")[0]
