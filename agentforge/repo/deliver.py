"""Handing a verified patch over: into the worktree, onto a new branch, or to a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from agentforge.core.errors import PatchError, RepositoryError, UsageError
from agentforge.core.patch import Patch
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.repo.git import Git, GitFailure, read_config, user_config
from agentforge.repo.intake import resolve_revision
from agentforge.repo.objects import blob_id, read_tree
from agentforge.repo.shadow import Location, locate, make_shadow, read_regular
from agentforge.repo.workspace import GitWorkspace
from agentforge.repo.worktree import dirty_paths

_NEUTRAL = ("AgentForge", "agentforge@example.invalid")
_OTHER_NAME = "choose another name for --branch"
_OTHERWISE = "use --branch or --output instead"
_BARE = "use --branch"
_UNCOMMITTED = "it was made on uncommitted changes? commit them first, or use --apply or --output"
_MAX_FILE = 512 * 1024 * 1024


def check_worktree(repo_path: Path) -> tuple[str, ...]:
    """The uncommitted paths, on which `apply_to_worktree` would refuse a patch. Raises `RepositoryError`
    where there is no worktree. Blocking."""
    location = locate(repo_path)
    if location.work_tree is None:
        raise RepositoryError(f"{repo_path}: a bare repository has no worktree", hint=_BARE)
    with tempfile.TemporaryDirectory(prefix="agentforge-check-") as scratch:
        return tuple(item.path for item in dirty_paths(make_shadow(location, Path(scratch))))


def check_branch(repo_path: Path, name: str) -> None:
    """Raises `RepositoryError` where `create_branch` could not make `name`. Blocking."""
    location = locate(repo_path)
    with tempfile.TemporaryDirectory(prefix="agentforge-check-") as scratch:
        _check_branch(make_shadow(location, Path(scratch)), name, f"refs/heads/{name}")


def apply_to_worktree(
    repo_path: Path, patch: Patch, base_commit: str, *, base_tree: Tree | None = None
) -> tuple[str, ...]:
    """Change exactly the patch's paths in the user's worktree; the index stays. Returns the paths.

    Refuses before anything is written when a path of the patch is dirty or is not what the patch was
    made against. `base_tree` is the tree of a run that included uncommitted changes: then the worktree's
    paths must equal that. Blocking. Raises `RepositoryError`.
    """
    location = locate(repo_path)
    if location.work_tree is None:
        raise RepositoryError(f"{repo_path}: a bare repository has no worktree", hint=_BARE)
    with tempfile.TemporaryDirectory(prefix="agentforge-apply-") as scratch:
        git = make_shadow(location, Path(scratch))
        base = base_tree or read_tree(git, resolve_revision(git, base_commit))
        changes = _changes(base, patch, Path(scratch))
        if base_tree is None:
            _refuse_dirty(git, changes)
        _refuse_different(git, location.work_tree, base, changes)
        _apply(git, location.work_tree, patch, changes)
    return tuple(sorted(changes))


def create_branch(
    repo_path: Path,
    name: str,
    patch: Patch,
    base_commit: str,
    message: str,
    *,
    base_tree: Tree | None = None,
) -> str:
    """A new branch with one commit on top of `base_commit`; returns the commit's id.

    The commit holds exactly what was verified: `base_tree` (where the run took uncommitted changes in;
    else the tree of `base_commit`) with the patch. Where that would be another tree, it is refused.
    Worktree, index and HEAD stay as they are and no hook runs. Blocking. Raises `RepositoryError`.
    """
    location = locate(repo_path)
    with tempfile.TemporaryDirectory(prefix="agentforge-branch-") as scratch:
        git = _writer(location, Path(scratch))
        ref = f"refs/heads/{name}"
        _check_branch(git, name, ref)
        base = resolve_revision(git, base_commit)
        git.run("read-tree", base)
        try:
            git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.diff)
        except GitFailure as failure:
            raise RepositoryError(
                f"the patch does not apply to {base[:12]}: {failure.what}",
                hint=_UNCOMMITTED,
            ) from failure
        tree = git.text("write-tree")
        _refuse_other_tree(git, tree, base_tree or read_tree(git, base), patch, Path(scratch))
        commit = git.text("commit-tree", tree, "-p", base, "-F", "-", stdin=_message(message))
        try:
            git.run("update-ref", "-m", "agentforge: created", ref, commit, "0" * len(commit))
        except GitFailure as failure:
            raise RepositoryError(f"cannot create branch {name}: {failure.what}") from failure
    return commit


def _refuse_other_tree(git: Git, made: str, base: Tree, patch: Patch, scratch: Path) -> None:
    """What is committed must be what was verified, down to the files that the patch does not touch."""
    verified = base.with_changes(_changes(base, patch, scratch)).files
    committed = read_tree(git, made).files
    paths = verified.keys() | committed.keys()
    other = sorted(path for path in paths if verified.get(path) != committed.get(path))
    if other:
        raise RepositoryError(
            f"no branch was made: its commit would differ from what was verified ({other[0]})",
            hint=_UNCOMMITTED,
        )


def write_output(path: Path, patch: Patch) -> None:
    """Write the diff to `path`, whole or not at all. Raises `UsageError`."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder", hint="give --output a file name")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(patch.diff)  # a pipe or /dev/stdout
            return
        _replace(path.resolve(), patch.diff)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}", hint="check --output") from error


def _changes(base: Tree, patch: Patch, scratch: Path) -> Changes:
    try:
        with GitWorkspace(base, scratch) as workspace:
            return workspace.changes_of(patch.diff)
    except PatchError as error:
        raise RepositoryError(f"the patch does not fit its base: {error.what}", hint=_OTHERWISE) from error


def _apply(git: Git, root: Path, patch: Patch, changes: Changes) -> None:
    """Apply and look: what lies there afterwards is what was verified, or what was there before."""
    before = {path: _snapshot(root, path) for path in changes}
    try:
        git.run("apply", "--whitespace=nowarn", "-", stdin=patch.diff)
        wrong = [path for path, entry in changes.items() if _stored(git, root, path, entry) != entry]
    except GitFailure as failure:
        _restore(root, before)
        raise RepositoryError(f"nothing was changed: {failure.what}", hint=_OTHERWISE) from failure
    if wrong:
        _restore(root, before)
        raise RepositoryError(
            f"{wrong[0]}: git would not write it as verified, so nothing was changed", hint=_OTHERWISE
        )


def _refuse_dirty(git: Git, changes: Changes) -> None:
    dirty = dirty_paths(git, list(changes))
    if dirty:
        raise RepositoryError(
            f"{dirty[0].path}: has uncommitted changes, so nothing was changed",
            hint=f"commit or stash them, or {_OTHERWISE}",
        )


def _refuse_different(git: Git, root: Path, base: Tree, changes: Changes) -> None:
    for path in sorted(changes):
        _refuse_linked_parent(root, path)
        if _stored(git, root, path, base.files.get(path)) != base.files.get(path):
            raise RepositoryError(
                f"{path}: differs from the base of the patch, so nothing was changed",
                hint=f"check out the base first, or {_OTHERWISE}",
            )


def _refuse_linked_parent(root: Path, path: str) -> None:
    for parent in list(Path(path).parents)[:-1]:
        if (root / parent).is_symlink():
            raise RepositoryError(f"{path}: lies behind a symbolic link, so nothing was changed")


def _stored(git: Git, root: Path, path: str, expected: TreeFile | None) -> TreeFile | None:
    """What git would store of the worktree's file: as it is, or with its line endings mapped."""
    found = _snapshot(root, path)
    if found is None or found.mode == "120000":
        return found
    # Where the file system keeps no executable bit, git takes the recorded one.
    keeps_mode = "core.filemode=false" not in git.config
    mode = found.mode if keeps_mode or expected is None else expected.mode
    oid = git.text("hash-object", "--stdin", f"--path={path}", stdin=found.data)
    if oid == blob_id(found.data, oid):
        return TreeFile(found.data, mode)
    if expected is not None and oid == blob_id(expected.data, oid):
        return TreeFile(expected.data, mode)
    return TreeFile(found.data, mode)


def _snapshot(root: Path, path: str) -> TreeFile | None:
    """The file at `path` as it lies on the disk, None when nothing is there; links are not followed."""
    place = root / path
    if place.is_symlink():
        return TreeFile(os.fsencode(place.readlink()), "120000")
    if not os.path.lexists(place) or place.is_dir():
        return None
    data = read_regular(place, _MAX_FILE)
    if data is None:
        raise RepositoryError(f"{path}: is not a regular file, so nothing was changed")
    return TreeFile(data, "100755" if place.stat().st_mode & 0o100 else "100644")


def _restore(root: Path, before: Mapping[str, TreeFile | None]) -> None:
    """Undo a half-done apply (disk full, no permission)."""
    for path, entry in before.items():
        if _snapshot(root, path) == entry:
            continue
        place = root / path
        place.unlink(missing_ok=True)
        if entry is None:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            place.symlink_to(os.fsdecode(entry.data))
        else:
            place.write_bytes(entry.data)
            place.chmod(0o755 if entry.mode == "100755" else 0o644)


def _writer(location: Location, scratch: Path) -> Git:
    """A shadow whose index is its own and whose commits carry the user's name."""
    git = make_shadow(location, scratch).with_index(scratch / "index")
    name, email = _identity(location)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
    committer = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
    logs = location.common_dir / "logs"
    if logs.is_dir():
        (git.git_dir / "logs").symlink_to(logs)
        git = Git(git.git_dir, git.work_tree, git.env, (*git.config, "core.logAllRefUpdates=true"))
    return git.with_env(**author, **committer)


def _identity(location: Location) -> tuple[str, str]:
    config = {**user_config(), **read_config(location.common_dir / "config")}
    name, email = config.get("user.name", "").strip(), config.get("user.email", "").strip()
    return (name, email) if name and email else _NEUTRAL


def _check_branch(git: Git, name: str, ref: str) -> None:
    try:
        git.run("check-ref-format", ref)
        valid = not name.startswith("-") and name != "HEAD"
    except (GitFailure, ValueError):
        valid = False
    if not valid:
        raise RepositoryError(f"{name!r}: not a valid branch name", hint="see `git help check-ref-format`")
    parents = [f"refs/heads/{parent.as_posix()}" for parent in list(Path(name).parents)[:-1]]
    for found in git.text("for-each-ref", "--format=%(refname)", ref, *parents).splitlines():
        if found == ref:
            raise RepositoryError(f"branch {name} exists already", hint=_OTHER_NAME)
        if found in parents or found.startswith(f"{ref}/"):
            taken = found.removeprefix("refs/heads/")
            raise RepositoryError(f"cannot create branch {name}: there is a branch {taken}", hint=_OTHER_NAME)


def _message(message: str) -> bytes:
    return message.strip().encode("utf-8", "replace") + b"\n"


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
