"""What a user has changed since the last commit, read without touching the worktree or its index."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentforge.core.errors import RepositoryError
from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.git import Git, GitFailure
from agentforge.repo.objects import decode_path, encode_path, import_tree, read_tree
from agentforge.repo.shadow import make_git_dir

MAX_DIRTY_BYTES = 64 * 1024 * 1024
_LFS_POINTER = re.compile(
    rb"\Aversion https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n"
)
DirtyKind = Literal["modified", "deleted", "untracked", "unmerged"]


@dataclass(frozen=True, slots=True)
class Dirty:
    """One path whose worktree or index state differs from HEAD."""

    path: str
    kind: DirtyKind


def lfs_oid(data: bytes) -> str | None:
    """The SHA-256 that a Git LFS pointer names, None when `data` is not a pointer."""
    found = _LFS_POINTER.match(data) if len(data) < 1024 else None
    return found.group(1).decode() if found else None


def dirty_paths(git: Git, paths: Iterable[str] = ()) -> list[Dirty]:
    """Tracked changes and untracked files that are not ignored, sorted. Submodules are not entered."""
    command = ["status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all"]
    try:
        listed = git.run(*command, "--ignore-submodules=all", "--", *paths)
    except GitFailure as failure:
        raise RepositoryError(
            f"cannot read the worktree: {failure.what}", hint="run `git status`"
        ) from failure
    found = [_parse(line) for line in listed.split(b"\0") if line[:1] in (b"1", b"u", b"?")]
    return sorted(found, key=lambda dirty: encode_path(dirty.path))


def read_uncommitted(git: Git, head: str, dirty: list[Dirty]) -> tuple[Tree, tuple[str, ...]]:
    """HEAD's tree with the worktree's state of `dirty` laid over, and what had to be left out.

    git itself reads the files (`update-index`): links stay links, line endings are stored as the
    repository's attributes say, ignored files stay out, and no filter program exists in a shadow.
    """
    if git.work_tree is None:
        raise RepositoryError("a bare repository has no uncommitted changes")
    unmerged = [item.path for item in dirty if item.kind == "unmerged"]
    if unmerged:
        raise RepositoryError(f"a merge is unfinished: {unmerged[0]}", hint="resolve the conflicts first")
    usable, notices = _select(git.work_tree, dirty)
    tree = read_tree(git, head)
    paths = [item.path for item in usable]
    staging = _staging(git, tree, paths)
    _stage(staging, "--force-remove", [item.path for item in usable if item.kind == "deleted"])
    _stage(staging, "--add", [item.path for item in usable if item.kind != "deleted"])
    now = read_tree(staging, staging.text("write-tree")).files
    return _keep_pointers(tree, tree.with_changes({path: now.get(path) for path in paths})), notices


def _parse(line: bytes) -> Dirty:
    if line.startswith(b"?"):
        return Dirty(decode_path(line[2:]), "untracked")
    if line.startswith(b"u"):
        return Dirty(decode_path(line.split(b" ", 10)[10]), "unmerged")
    fields = line.split(b" ", 8)
    return Dirty(decode_path(fields[8]), "deleted" if fields[5] == b"000000" else "modified")


def _select(root: Path, dirty: list[Dirty]) -> tuple[list[Dirty], tuple[str, ...]]:
    usable, notices = [], []
    for item in dirty:
        reason = "" if item.kind == "deleted" else _unusable(root, item.path)
        if reason:
            notices.append(f"left out {item.path}: {reason}")
        else:
            usable.append(item)
    return usable, tuple(notices)


def _unusable(root: Path, path: str) -> str:
    if path.endswith("/"):
        return "a repository of its own"
    try:
        status = (root / path).lstat()
    except OSError:
        return "unreadable"
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return "not a regular file"
    return "" if status.st_size <= MAX_DIRTY_BYTES else f"larger than {MAX_DIRTY_BYTES >> 20} MB"


def _staging(git: Git, tree: Tree, paths: list[str]) -> Git:
    """A repository of our own over the user's worktree, holding HEAD's state of `paths`.

    It must not share the user's object store: git renews the time stamp of every object it would have
    written again. It needs HEAD's blobs: `text=auto` leaves a file alone that has CRLF in the index.
    """
    own = make_git_dir(git.git_dir / "staging")
    (own.git_dir / "info" / "attributes").unlink()
    import_tree(
        own, "refs/heads/base", Tree({path: tree.files[path] for path in paths if path in tree.files})
    )
    staging = Git(own.git_dir, git.work_tree, config=git.config)
    staging.run("read-tree", "refs/heads/base")
    return staging


def _stage(staging: Git, how: str, paths: list[str]) -> None:
    if paths:
        listed = b"".join(encode_path(path) + b"\0" for path in paths)
        try:
            staging.run("update-index", "--replace", how, "-z", "--stdin", stdin=listed)
        except GitFailure as failure:
            raise RepositoryError(f"cannot read uncommitted changes: {failure.what}") from failure


def _keep_pointers(before: Tree, after: Tree) -> Tree:
    """A checked-out LFS file whose content its pointer names is not a change."""
    pointers: dict[str, TreeFile | None] = {}
    for path, entry in after.files.items():
        old = before.files.get(path)
        oid = lfs_oid(old.data) if old is not None and old.data != entry.data else None
        if oid is not None and hashlib.sha256(entry.data).hexdigest() == oid:
            pointers[path] = old
    return after.with_changes(pointers)
