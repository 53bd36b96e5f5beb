"""Finding a user's repository, and reading it without its configuration.

A *shadow* is a git directory of ours whose `objects` and `refs` are links into the user's repository and
whose HEAD, index and configuration are copies or our own. git sees the user's history through it, but
none of the user's hooks, filters, includes or aliases, and has nothing of the user's to lock or refresh.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentforge.core.errors import RepositoryError
from agentforge.repo.git import Git, read_config, user_config, user_config_home

_HEAD = re.compile(rb"^(ref: refs/[^\x00-\x20\x7f]+|[0-9a-f]{40}|[0-9a-f]{64})\n?$")
_LINKED = ("objects", "refs", "packed-refs", "reftable", "shallow")
_MAX_HEAD = 4096
_MAX_INDEX = 512 * 1024 * 1024
# Settings that say how the user's worktree maps to blobs. All are plain values; none names a program.
_MAPPING_KEYS = (
    "core.filemode",
    "core.ignorecase",
    "core.symlinks",
    "core.precomposeunicode",
    "core.eol",
    "core.autocrlf",
)
_MAPPING_WORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off", "1", "0", "input", "lf", "crlf", "native"}
)


@dataclass(frozen=True)
class Location:
    """Where a repository's parts lie. `subdirectory` is the asked-for folder, POSIX, "" for the root."""

    git_dir: Path
    common_dir: Path
    work_tree: Path | None
    subdirectory: str = ""


def locate(path: Path) -> Location:
    """The repository that holds `path`. Raises `RepositoryError`."""
    try:
        return _locate(path)
    except OSError as error:
        raise RepositoryError(
            f"{path}: {error.strerror}", hint="check the path and its permissions"
        ) from error


def _locate(path: Path) -> Location:
    if not path.exists():
        raise RepositoryError(f"{path}: no such folder", hint="check --repo")
    if not path.is_dir():
        raise RepositoryError(f"{path}: not a folder", hint="give the folder of a git repository")
    start = path.resolve()
    if _is_git_dir(start):
        return Location(start, _common_dir(start), None)
    for folder in (start, *start.parents):
        git_dir = _git_dir_of(folder)
        if git_dir is not None:
            inside = start.relative_to(folder).as_posix()
            return Location(git_dir, _common_dir(git_dir), folder, "" if inside == "." else inside)
    raise RepositoryError(
        f"{path}: not a git repository", hint="run `git init && git add -A && git commit` there first"
    )


def make_shadow(location: Location, scratch: Path) -> Git:
    """A shadow of the repository at `location` in a new folder under `scratch`."""
    shadow = Path(tempfile.mkdtemp(prefix="shadow-", dir=scratch))
    for name in _LINKED:
        target = location.common_dir / name
        if target.exists():
            (shadow / name).symlink_to(target)
    (shadow / "refs").mkdir(exist_ok=True)
    (shadow / "HEAD").write_bytes(_read_head(location.git_dir))
    (shadow / "config").write_text(_shadow_config(location), encoding="utf-8")
    (shadow / "info").mkdir()
    _copy_index(location.git_dir, shadow)
    exclude = read_regular(location.common_dir / "info" / "exclude", 1024 * 1024)
    if exclude is not None:
        (shadow / "info" / "exclude").write_bytes(exclude)
    return Git(shadow, location.work_tree, config=_mapping_config(location))


def make_git_dir(folder: Path, head: str = "refs/heads/base", *, alternate: Path | None = None) -> Git:
    """A new bare repository written by hand: no template, no hooks, no remote, no reflog."""
    for name in ("objects/info", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text(f"ref: {head}\n", encoding="utf-8")
    (folder / "config").write_text("[core]\n\tbare = true\n\trepositoryformatversion = 0\n", encoding="utf-8")
    # Ours is the highest precedence: whatever `.gitattributes` the tree holds, bytes are just bytes.
    neutral = "* !text !eol !crlf !diff !merge !filter !ident !whitespace !working-tree-encoding\n"
    (folder / "info" / "attributes").write_text(neutral, encoding="utf-8")
    if alternate is not None:
        (folder / "objects" / "info" / "alternates").write_text(f"{alternate}\n", encoding="utf-8")
    return Git(folder)


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file of at most `limit` bytes, never following a link; None for all else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return None
        return file.read(limit)


def _git_dir_of(folder: Path) -> Path | None:
    dot_git = folder / ".git"
    if dot_git.is_dir():
        return dot_git.resolve() if _is_git_dir(dot_git) else None
    said = read_regular(dot_git, _MAX_HEAD)
    if said is None or not said.startswith(b"gitdir:"):
        return None
    target = folder / os.fsdecode(said.removeprefix(b"gitdir:").strip())
    if not _is_git_dir(target):
        raise RepositoryError(
            f"{folder}: its .git file names a missing repository", hint="run `git worktree repair`"
        )
    return target.resolve()


def _is_git_dir(folder: Path) -> bool:
    if not os.path.lexists(folder / "HEAD"):
        return False
    common = _common_dir(folder)
    return (common / "objects").is_dir() and ((common / "refs").is_dir() or (common / "reftable").is_dir())


def _common_dir(git_dir: Path) -> Path:
    """A linked worktree keeps HEAD and index of its own and shares the rest with its main repository."""
    said = read_regular(git_dir / "commondir", _MAX_HEAD)
    return git_dir if said is None else (git_dir / os.fsdecode(said.strip())).resolve()


def _read_head(git_dir: Path) -> bytes:
    head = read_regular(git_dir / "HEAD", _MAX_HEAD)
    if head is None or not _HEAD.match(head):
        raise RepositoryError(f"{git_dir}: damaged repository, HEAD is unreadable", hint="run `git fsck`")
    return head


def _shadow_config(location: Location) -> str:
    config = read_config(location.common_dir / "config")
    lines = ["[core]", f"\tbare = {'false' if location.work_tree else 'true'}"]
    extensions = []
    for key, known in (("objectformat", {"sha1", "sha256"}), ("refstorage", {"files", "reftable"})):
        value = config.get(f"extensions.{key}")
        if value in known:
            extensions.append(f"\t{key} = {value}")
    lines.append(f"\trepositoryformatversion = {1 if extensions else 0}")
    if extensions:
        lines += ["[extensions]", *extensions]
    return "\n".join(lines) + "\n"


def _copy_index(git_dir: Path, shadow: Path) -> None:
    for name in ("index", *(path.name for path in git_dir.glob("sharedindex.*"))):
        content = read_regular(git_dir / name, _MAX_INDEX)
        if content is None:
            continue
        (shadow / name).write_bytes(content)
        # git trusts an entry only if it is older than the index: a younger copy would hide edits.
        status = (git_dir / name).stat()
        with suppress(OSError):
            os.utime(shadow / name, ns=(status.st_atime_ns, status.st_mtime_ns))


def _mapping_config(location: Location) -> tuple[str, ...]:
    if location.work_tree is None:
        return ()
    user = user_config()
    config = {**user, **read_config(location.common_dir / "config")}
    values = ((key, config.get(key, "").lower()) for key in _MAPPING_KEYS)
    found = [f"{key}={value}" for key, value in values if value in _MAPPING_WORDS]
    # Only the user's own ignore file: a repository could name any file of the machine here.
    ignore = Path(user.get("core.excludesfile", user_config_home() / "ignore")).expanduser()
    if ignore.is_file():
        found.append(f"core.excludesFile={ignore}")
    return tuple(found)
