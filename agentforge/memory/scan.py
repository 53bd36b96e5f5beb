"""Read a working directory as a tree: ignore rules obeyed, links not followed, every cost bounded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from agentforge.core.errors import RepositoryError
from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.facts import is_indexed
from agentforge.memory.symbols import MAX_FILE_BYTES

MAX_DEPTH = 64
_NAMES = (
    ".git .hg .svn .tox .nox .venv venv node_modules __pycache__ .mypy_cache .pytest_cache .ruff_cache "
    ".eggs .idea .vscode"
)
_NEVER = frozenset(_NAMES.split())


class IgnoreRules:
    """The .gitignore files of a directory tree, read as they are met (and .git/info/exclude)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def ignores(self, path: str, *, directory: bool = False) -> bool:
        """Whether `path` (POSIX, relative to the root) or a folder above it is ignored or not ours."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            if self.ignores_entry("/".join(parts[:end]), directory=directory or end < len(parts)):
                return True
        return False

    def ignores_entry(self, path: str, *, directory: bool = False) -> bool:
        """The same where no folder above `path` is ignored."""
        parts = path.split("/")
        return (directory and self._is_foreign(parts[-1], path)) or self._matches(parts, folder=directory)

    def forget(self, folder: str) -> None:
        """Read the rules of `folder` anew when next asked."""
        self._specs.pop(folder, None)

    def _is_foreign(self, name: str, path: str) -> bool:
        """Caches, environments, links and other repositories (submodules, worktrees)."""
        place = f"{self.root}/{path}"  # asked of every folder: no Path objects
        marks = (f"{place}/.git", f"{place}/pyvenv.cfg")
        return name in _NEVER or os.path.islink(place) or any(map(os.path.lexists, marks))  # noqa: PTH114

    def _matches(self, parts: list[str], *, folder: bool) -> bool:
        verdict = False
        for start in range(len(parts)):
            spec = self._spec("/".join(parts[:start]))
            if spec is not None:
                relative = "/".join(parts[start:]) + ("/" if folder else "")
                found = spec.check_file(relative).include
                verdict = verdict if found is None else found
        return verdict

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            lines = _read_lines(self.root / folder / ".gitignore")
            if not folder:
                lines = _read_lines(self.root / ".git" / "info" / "exclude") + lines
            self._specs[folder] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _read_lines(path: Path) -> list[str]:
    try:
        if path.is_symlink() or path.stat().st_size > MAX_FILE_BYTES:
            return []
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


@dataclass
class Scan:
    """A working directory as a tree of its indexed files. `skipped` says what was left out and why."""

    tree: Tree
    directories: tuple[str, ...]
    skipped: dict[str, str] = field(default_factory=dict)


def scan_directory(
    root: Path, rules: IgnoreRules | None = None, tick: Callable[[], None] | None = None
) -> Scan:
    """Read every indexed file under `root`; `tick` is called once a file. Raises `RepositoryError`."""
    if not root.is_dir():
        raise RepositoryError(f"{root} is not a directory")
    rules = rules or IgnoreRules(root)
    files: dict[str, TreeFile] = {}
    skipped: dict[str, str] = {}
    directories = [""]
    for path, kind in walk(root, rules, skipped):
        if kind == "directory":
            directories.append(path)
            continue
        entry = read_source(root, path, skipped)
        if entry is not None:
            files[path] = entry
        if tick is not None:
            tick()
    return Scan(Tree(files), tuple(directories), skipped)


def walk(
    root: Path, rules: IgnoreRules, skipped: dict[str, str], below: str = ""
) -> Iterator[tuple[str, str]]:
    """(path, "file" | "directory") of what is not ignored under `below`; only files worth indexing."""
    pending = [below]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(f"{root}/{folder}"), key=lambda entry: entry.name)
        except OSError as error:
            skipped[folder] = error.strerror or "unreadable"
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if path.count("/") < MAX_DEPTH and not rules.ignores_entry(path, directory=True):
                    pending.append(path)
                    yield path, "directory"
            elif is_indexed(path) and entry.is_file(follow_symlinks=False) and not rules.ignores_entry(path):
                yield path, "file"


def read_source(root: Path, path: str, skipped: dict[str, str] | None = None) -> TreeFile | None:
    """The file's bytes, or None where it is gone, a link, not a file, or too large. Pipes do not block."""
    reason = "gone or unreadable"
    try:
        descriptor = os.open(f"{root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            size = os.fstat(descriptor).st_size
            if size <= MAX_FILE_BYTES:
                # By its size: a larger buffer would keep a mapping of its own for every file, of which
                # a process may only have some 65,000.
                return TreeFile(stream.read(size + 1)[:MAX_FILE_BYTES])
            reason = f"{size} bytes, more than {MAX_FILE_BYTES}"
    except OSError as error:
        reason = error.strerror or reason
    if skipped is not None:
        skipped[path] = reason
    return None
