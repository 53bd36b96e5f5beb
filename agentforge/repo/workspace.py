"""The disposable, history-free copy of a repository in which patches are made and proved."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.patch import Patch
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.repo.git import Git, GitFailure
from agentforge.repo.objects import (
    decode_path,
    file_mode,
    import_changes,
    import_tree,
    is_safe_path,
    read_blobs,
)
from agentforge.repo.shadow import make_git_dir

BASE = "refs/heads/base"
_CANDIDATE = "refs/heads/candidate"
_DIFF = (
    "diff-tree",
    "-r",
    "--binary",
    "--full-index",
    # A rename header makes other tools lose the edit inside it; delete and create applies everywhere.
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--unified=3",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_APPLY = ("apply", "--cached", "--whitespace=nowarn")


class GitWorkspace:
    """A bare repository with one commit and nothing else: no remote, tag, reflog, hook or worktree.

    Files never touch the disk as files, so no link in the tree can be followed. Use as a context
    manager; its folder is gone on every way out. Implements `core.ports.Workspace`.
    """

    def __init__(self, tree: Tree, scratch: Path) -> None:
        self._tree = tree
        self._folder = Path(tempfile.mkdtemp(prefix="workspace-", dir=scratch))
        try:
            self._git = make_git_dir(self._folder / "base.git")
            import_tree(self._git, BASE, tree)
            self._base = self._git.text("rev-parse", "--verify", f"{BASE}^{{commit}}")
        except BaseException:
            self.close()
            raise

    @classmethod
    async def create(cls, tree: Tree, scratch: Path) -> GitWorkspace:
        """A workspace of `tree` in a new folder under `scratch`, made off the event loop."""
        return await asyncio.to_thread(cls, tree, scratch)

    @property
    def tree(self) -> Tree:
        return self._tree

    @property
    def git_dir(self) -> Path:
        """The bare repository, for tools that read git; it holds one commit."""
        return self._git.git_dir

    async def make_patch(self, changes: Changes) -> Patch:
        """The canonical diff of `changes`. Raises `PatchError`; ALREADY_APPLIED when nothing changes.

        It ends in one newline; only after a binary file there is also the blank line git needs there.
        """
        return await asyncio.to_thread(self.diff, changes)

    async def read_patch(self, patch: Patch) -> Changes:
        """What a diff changes, by a strict `git apply`. Raises `PatchError`."""
        return await asyncio.to_thread(self.changes_of, patch.diff)

    def diff(self, changes: Changes) -> Patch:
        """`make_patch`, blocking."""
        real = {path: entry for path, entry in changes.items() if self._tree.files.get(path) != entry}
        if not real:
            raise PatchError(RefusalReason.ALREADY_APPLIED, "no change: the files already are as wanted")
        for path in real:
            self._check_path(path, real)
        with self._candidate() as git:
            import_changes(git, _CANDIDATE, self._base, real)
            wanted = git.text("rev-parse", f"{_CANDIDATE}^{{tree}}")
            diff = git.run(*_DIFF, self._base, _CANDIDATE)
            if self._apply(git, diff) != wanted:
                raise PatchError(RefusalReason.MALFORMED, "git apply does not give back what was wanted")
        added, removed = count_lines(diff)
        files = tuple(path.encode("utf-8", "backslashreplace").decode() for path in sorted(real))
        return Patch(diff=diff, files=files, added=added, removed=removed)

    def changes_of(self, diff: bytes) -> Changes:
        """`read_patch`, blocking."""
        with self._candidate() as git:
            tree = self._apply(git, diff)
            listed = git.run(
                "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", self._base, tree
            )
            return _changes(git, listed)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> GitWorkspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _candidate(self) -> Iterator[Git]:
        """A throw-away repository on top of the base: the base stays at one commit, calls may overlap."""
        with tempfile.TemporaryDirectory(prefix="candidate-", dir=self._folder) as name:
            folder = Path(name)
            git = make_git_dir(folder / "git", alternate=self._git.git_dir / "objects")
            yield git.with_index(folder / "index")

    def _apply(self, git: Git, diff: bytes) -> str:
        """The tree that a strict apply to the fresh base gives: equal ids mean equal bytes and modes."""
        git.run("read-tree", self._base)
        try:
            git.run(*_APPLY, "--check", "-", stdin=diff)
            git.run(*_APPLY, "-", stdin=diff)
        except GitFailure as failure:
            raise PatchError(RefusalReason.NO_MATCH, f"the patch does not apply: {failure.what}") from failure
        return git.text("write-tree")

    def _check_path(self, path: str, changes: Changes) -> None:
        if any(part.lower() == ".git" for part in path.split("/")):
            raise PatchError(RefusalReason.GIT_INTERNAL, f"{path}: belongs to git", path=path)
        if not is_safe_path(path):
            raise PatchError(RefusalReason.PATH_ESCAPE, f"{path}: leaves the repository", path=path)
        parts = path.split("/")
        for end in range(1, len(parts)):
            parent = "/".join(parts[:end])
            gone = parent in changes and changes[parent] is None
            if not gone and self._tree.kind(parent) in ("file", "symlink", "submodule"):
                raise PatchError(RefusalReason.TYPE_CHANGE, f"{parent}: is not a folder", path=path)
        if self._tree.kind(path) == "submodule":
            raise PatchError(RefusalReason.TYPE_CHANGE, f"{path}: is a submodule", path=path)


def count_lines(diff: bytes) -> tuple[int, int]:
    """(added, removed) lines of a git diff; binary files count none."""
    from unidiff.patch import PatchSet

    # Latin-1 maps every byte to one character, so no encoding can break a line.
    patch = PatchSet(diff.decode("latin-1"), metadata_only=True)
    return patch.added, patch.removed


def _changes(git: Git, listed: bytes) -> Changes:
    fields = listed.split(b"\0")[:-1]
    rows = [
        (head.decode().split(), decode_path(raw)) for head, raw in zip(fields[::2], fields[1::2], strict=True)
    ]
    kept = [(row, path) for row, path in rows if row[4] != "D"]
    for row, path in kept:
        if row[1] == "160000" or not is_safe_path(path):
            raise PatchError(RefusalReason.TYPE_CHANGE, f"{path}: not a file", path=path)
    blobs = read_blobs(git, [row[3] for row, _ in kept])
    changes: dict[str, TreeFile | None] = {path: None for row, path in rows if row[4] == "D"}
    for (row, path), data in zip(kept, blobs, strict=True):
        changes[path] = TreeFile(data, file_mode(row[1]))
    return changes
