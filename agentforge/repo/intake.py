"""Intake: a repository reference becomes a tree of raw bytes at a known commit."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path

from agentforge.core.errors import RepositoryError, UsageError
from agentforge.core.task import RepositoryRef
from agentforge.core.tree import Tree
from agentforge.repo.git import Git, GitFailure, without_credentials
from agentforge.repo.objects import damaged, read_tree
from agentforge.repo.remote import fetch, file_url_path, remote_url
from agentforge.repo.shadow import locate, make_shadow
from agentforge.repo.worktree import Dirty, dirty_paths, lfs_oid, read_uncommitted

_NAMED = 3


@dataclass(frozen=True)
class IntakeResult:
    """The base of a run. Paths are POSIX and relative to the repository's root.

    `root` is the user's local repository (its worktree, or the bare folder), None when it was fetched.
    `dirty_paths` are uncommitted; they are part of `tree` only when `includes_uncommitted`.
    """

    tree: Tree
    base_commit: str
    source: str
    root: Path | None = None
    subdirectory: str = ""
    notices: tuple[str, ...] = ()
    dirty_paths: tuple[str, ...] = ()
    lfs_paths: tuple[str, ...] = ()
    includes_uncommitted: bool = False
    git: Git | None = field(default=None, compare=False, repr=False)
    """Reads the history behind the base, as long as the scratch folder lives."""


def open_repository(ref: RepositoryRef, scratch: Path) -> IntakeResult:
    """Read the repository at its base. Blocking; writes only under `scratch`. Raises `RepositoryError`."""
    at_url = file_url_path(ref.source)
    url = None if at_url else remote_url(ref.source)
    if (at_url or url) and ref.include_uncommitted:
        raise UsageError(
            "a URL has no uncommitted changes", hint="give a path, or drop --include-uncommitted"
        )
    if url is not None:
        return _open_remote(ref, url, scratch)
    return _open_local(ref, scratch)


def resolve_revision(git: Git, revision: str) -> str:
    """The full commit id of `revision`. Raises `RepositoryError`, with names that come close."""
    if not revision or any(ord(letter) < 32 for letter in revision):
        raise RepositoryError(f"unknown revision {revision!r}")
    try:
        return git.text("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except GitFailure as failure:
        if "ambiguous" in failure.stderr:
            raise RepositoryError(f"revision {revision!r} is ambiguous", hint="give more digits") from failure
        raise RepositoryError(f"unknown revision {revision!r}", hint=_near(git, revision)) from failure


def _open_remote(ref: RepositoryRef, url: str, scratch: Path) -> IntakeResult:
    git = fetch(url, ref.revision, scratch, ref.addresses)
    shallow = (git.git_dir / "shallow").exists()
    commit = resolve_revision(git, "HEAD" if shallow else ref.revision or "HEAD")
    tree = read_tree(git, commit)
    notices, lfs = _tree_notices(tree)
    return IntakeResult(tree, commit, without_credentials(url), notices=notices, lfs_paths=lfs, git=git)


def _open_local(ref: RepositoryRef, scratch: Path) -> IntakeResult:
    from_url = file_url_path(ref.source)
    location = locate(from_url or Path(ref.source).expanduser())
    git = make_shadow(location, scratch)
    commit = resolve_revision(git, ref.revision) if ref.revision else _head(git)
    seen = dirty_paths(git) if location.work_tree and not from_url else []
    if ref.include_uncommitted:
        _check_includable(ref, commit, _head(git), bare=location.work_tree is None)
    if ref.include_uncommitted and seen:
        tree, notices = read_uncommitted(git, commit, seen)
    else:
        tree, notices = read_tree(git, commit), _left_out(seen)
    _check_subdirectory(tree, location.subdirectory, ref.source)
    more, lfs = _tree_notices(tree)
    return IntakeResult(
        tree,
        commit,
        ref.source,
        location.work_tree or location.git_dir,
        location.subdirectory,
        notices + more,
        tuple(item.path for item in seen),
        lfs,
        ref.include_uncommitted and bool(seen),
        git,
    )


def _head(git: Git) -> str:
    try:
        return git.text("rev-parse", "--verify", "HEAD^{commit}")
    except GitFailure as failure:
        branch = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).decode("utf-8", "replace").strip()
        if branch and git.run("for-each-ref", "--count=1") and not git.run("for-each-ref", branch):
            raise RepositoryError(
                f"HEAD is on {branch.removeprefix('refs/heads/')}, which has no commits",
                hint="name one with --base",
            ) from failure
        if branch and not git.run("for-each-ref", branch):
            raise RepositoryError(
                "the repository has no commits", hint="commit first: `git add -A && git commit`"
            ) from failure
        raise damaged(f"HEAD cannot be read: {failure.what}") from failure


def _near(git: Git, revision: str) -> str:
    names = git.text("for-each-ref", "--format=%(refname:short)").splitlines()
    close = difflib.get_close_matches(revision, names, n=_NAMED, cutoff=0.5)
    return f"did you mean {', '.join(close)}?" if close else "see `git branch -a` and `git tag`"


def _check_includable(ref: RepositoryRef, commit: str, head: str, *, bare: bool) -> None:
    if bare:
        raise UsageError("a bare repository has no uncommitted changes", hint="drop --include-uncommitted")
    if commit != head:
        raise UsageError(
            f"uncommitted changes belong to HEAD ({head[:12]}), not to {ref.revision}",
            hint="drop --base or --include-uncommitted",
        )


def _left_out(dirty: list[Dirty]) -> tuple[str, ...]:
    if not dirty:
        return ()
    untracked = sum(item.kind == "untracked" for item in dirty)
    counts = [f"{len(dirty) - untracked} changed"] if len(dirty) > untracked else []
    counts += [f"{untracked} untracked"] if untracked else []
    names = _some([item.path for item in dirty])
    return (f"left out uncommitted work: {' and '.join(counts)} ({names}); see --include-uncommitted",)


def _tree_notices(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    notices = []
    if tree.submodules:
        notices.append(f"skipped {len(tree.submodules)} submodule(s): {_some(sorted(tree.submodules))}")
    lfs = tuple(path for path in tree.paths() if lfs_oid(tree.files[path].data))
    if lfs:
        notices.append(f"left {len(lfs)} Git LFS pointer(s) as they are: {_some(lfs)}")
    return tuple(notices), lfs


def _some(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(name.encode("utf-8", "backslashreplace").decode() for name in names[:_NAMED])
    return shown + (", …" if len(names) > _NAMED else "")


def _check_subdirectory(tree: Tree, subdirectory: str, source: str) -> None:
    if subdirectory and tree.kind(subdirectory) != "directory":
        raise RepositoryError(
            f"{source}: the repository around it has no file there", hint="give the repository, or commit it"
        )
