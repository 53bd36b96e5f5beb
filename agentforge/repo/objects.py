"""Trees in and out of git's object store, as raw blobs: no checkout, so no filter and no attribute."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from agentforge.core.errors import RepositoryError
from agentforge.core.tree import Changes, FileMode, Tree, TreeFile
from agentforge.repo.git import Git, GitFailure

MAX_TREE_BYTES = 2 * 1024**3
_SUBMODULE = "160000"
_IDENTITY = b"AgentForge <agentforge@example.invalid>"
_EPOCH = b"946684800 +0000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of `ls-tree`. `size` is in bytes, 0 for a submodule."""

    mode: str
    oid: str
    size: int
    path: str


def decode_path(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def blob_id(data: bytes, like: str) -> str:
    """git's name for a blob, by the hash that the object id `like` uses."""
    digest = hashlib.sha256 if len(like) == 64 else lambda raw: hashlib.sha1(raw, usedforsecurity=False)
    return digest(b"blob %d\0" % len(data) + data).hexdigest()


def is_safe_path(path: str) -> bool:
    """Whether a path of a tree stays inside it and away from git's own folder."""
    parts = path.split("/")
    return "\0" not in path and not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts)


def list_tree(git: Git, treeish: str) -> list[Entry]:
    """Every file of a commit or tree, recursively. Raises `RepositoryError`."""
    try:
        listed = git.run("ls-tree", "-r", "-z", "-l", "--full-tree", treeish)
    except GitFailure as failure:
        raise damaged(failure.what) from failure
    entries = []
    for line in listed.split(b"\0")[:-1]:
        head, _, raw = line.partition(b"\t")
        mode, _, oid, size = head.decode("ascii").split()
        if size == "BAD":
            raise damaged(f"object {oid} is missing")
        path = decode_path(raw)
        if not is_safe_path(path):
            raise RepositoryError(f"the repository holds a forbidden path: {path!r}")
        entries.append(Entry(mode, oid, 0 if size == "-" else int(size), path))
    return entries


def read_tree(git: Git, treeish: str) -> Tree:
    """The files of a commit or tree as raw bytes. Raises `RepositoryError`."""
    entries = list_tree(git, treeish)
    blobs = [entry for entry in entries if entry.mode != _SUBMODULE]
    total = sum(entry.size for entry in blobs)
    if total > MAX_TREE_BYTES:
        raise RepositoryError(f"the tree is too large: {total >> 20} MB, the limit is {MAX_TREE_BYTES >> 20}")
    oids = list(dict.fromkeys(entry.oid for entry in blobs))
    contents = dict(zip(oids, read_blobs(git, oids), strict=True))
    files = {entry.path: TreeFile(contents[entry.oid], file_mode(entry.mode)) for entry in blobs}
    submodules = frozenset(entry.path for entry in entries if entry.mode == _SUBMODULE)
    _refuse_shadowed(files, submodules)
    return Tree(files, submodules)


def read_blobs(git: Git, oids: list[str]) -> Iterator[bytes]:
    """The blobs named, in order, each checked against its name."""
    if not oids:
        return
    out = git.run("cat-file", "--batch", "--buffer", stdin="".join(f"{oid}\n" for oid in oids).encode())
    at = 0
    for oid in oids:
        end = out.find(b"\n", at)
        head = out[at:end].split()
        if end < 0 or len(head) != 3 or head[1] != b"blob":
            raise damaged(f"object {oid} is missing")
        size = int(head[2])
        data = out[end + 1 : end + 1 + size]
        if blob_id(data, oid) != oid:
            raise damaged(f"object {oid} is corrupt")
        yield data
        at = end + 1 + size + 1


def file_mode(mode: str) -> FileMode:
    """git's three file modes; ancient group-writable 100664 counts as 100644."""
    return cast(FileMode, mode) if mode in ("100755", "120000") else "100644"


def import_tree(git: Git, ref: str, tree: Tree) -> None:
    """Write `tree` as the one, parentless commit of `ref`."""
    _fast_import(git, _commit(ref, None, tree.files.items()))


def import_changes(git: Git, ref: str, parent: str, changes: Changes) -> None:
    """Write `changes` on top of `parent` as a commit of `ref`."""
    # Deletions first: a file may give way to a folder of its name.
    ordered = sorted(changes.items(), key=lambda item: (item[1] is not None, item[0]))
    _fast_import(git, _commit(ref, parent, ordered))


def damaged(what: str) -> RepositoryError:
    return RepositoryError(
        f"damaged or incomplete repository: {what}",
        hint="run `git fsck`; in a partial clone fetch the missing objects with `git fetch --refetch`",
    )


def _fast_import(git: Git, stream: Iterable[bytes]) -> None:
    git.run("fast-import", "--quiet", "--done", "--date-format=raw", stdin=b"".join(stream))


def _commit(ref: str, parent: str | None, files: Iterable[tuple[str, TreeFile | None]]) -> Iterator[bytes]:
    message = b"base\n" if parent is None else b"candidate\n"
    yield b"commit %s\n" % ref.encode()
    yield b"author %s %s\ncommitter %s %s\n" % (_IDENTITY, _EPOCH, _IDENTITY, _EPOCH)
    yield b"data %d\n%s" % (len(message), message)
    if parent is not None:
        yield b"from %s\n" % parent.encode()
    for path, entry in files:
        if entry is None:
            yield b"D %s\n" % _quoted(path)
        else:
            yield b"M %s inline %s\n" % (entry.mode.encode(), _quoted(path))
            yield b"data %d\n%s\n" % (len(entry.data), entry.data)
    yield b"done\n"


def _quoted(path: str) -> bytes:
    raw = encode_path(path)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _refuse_shadowed(files: dict[str, TreeFile], submodules: frozenset[str]) -> None:
    """A hostile tree object can hold `a` as a link and `a/b` as a file: writing both would leave the tree."""
    for path in (*files, *submodules):
        parent = os.path.dirname(path)  # noqa: PTH120 (a path inside the tree, not on this machine)
        while parent:
            if parent in files or parent in submodules:
                raise RepositoryError(
                    f"the repository holds both a file {parent!r} and a folder of that name"
                )
            parent = os.path.dirname(parent)  # noqa: PTH120
