"""Tar archives written from memory for `put_archive`, and read back with suspicion."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterable, Mapping

from agentforge.core.errors import EnvironmentFault
from agentforge.core.tree import Tree, TreeFile

UID = 1000
COLLECTOR_UID = 1001
_PAGE = 4096
MTIME = 1_600_000_000
"""One fixed time for every file, so that an archive depends on nothing but its content."""


def tree_archive(tree: Tree, folder: str) -> bytes:
    """The tree under `folder/`, owned by uid 1000. Raises `EnvironmentFault` for a hostile name or link."""
    return pack(tree.files, folder, owner=UID)


def pack(files: Mapping[str, TreeFile], folder: str, *, owner: int, folder_mode: int = 0o755) -> bytes:
    """Files and all their directories as a tar archive; names and links are checked first."""
    buffer = io.BytesIO()
    links = {path for path, entry in files.items() if entry.mode == "120000"}
    for path in files:
        check_name(path, links)
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_directories(files, folder)):
            archive.addfile(_header(path, owner, tarfile.DIRTYPE, folder_mode))
        for path in sorted(files):
            _add(archive, posixpath.join(folder, path) if folder else path, path, files[path], owner)
    return buffer.getvalue()


def pack_job(files: Mapping[str, bytes]) -> bytes:
    """What goes under /job: files of root that nobody can change, `out` for the job's results, and
    `channel`, where only the collector's user can create names."""
    buffer = io.BytesIO()
    entries = {path: TreeFile(data) for path, data in files.items()}
    for path in entries:
        check_name(path, set())
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_directories(entries, "") - {"out"}):
            archive.addfile(_header(path, 0, tarfile.DIRTYPE, 0o755))
        archive.addfile(_header("out", UID, tarfile.DIRTYPE, 0o755))
        archive.addfile(_header("channel", COLLECTOR_UID, tarfile.DIRTYPE, 0o711))
        for path in sorted(entries):
            _add(archive, path, path, entries[path], 0)
    return buffer.getvalue()


def packed_mb(files: Iterable[TreeFile]) -> int:
    """Megabytes that files take in a tmpfs, where each fills whole pages."""
    return sum(-(-len(entry.data) // _PAGE) * _PAGE + _PAGE for entry in files) // (1024 * 1024) + 1


def _add(archive: tarfile.TarFile, name: str, path: str, entry: TreeFile, owner: int) -> None:
    if entry.mode == "120000":
        header = _header(name, owner, tarfile.SYMTYPE, 0o777)
        header.linkname = _checked_link(path, entry.data)
        archive.addfile(header)
        return
    header = _header(name, owner, tarfile.REGTYPE, 0o755 if entry.mode == "100755" else 0o644)
    header.size = len(entry.data)
    archive.addfile(header, io.BytesIO(entry.data))


def _header(name: str, owner: int, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type = kind
    header.mode = mode
    header.uid = header.gid = owner
    header.mtime = MTIME
    return header


def _directories(files: Mapping[str, TreeFile], folder: str) -> set[str]:
    found: set[str] = set()
    for path in [*files, "x"]:
        parent = posixpath.dirname(posixpath.join(folder, path))
        while parent:
            found.add(parent)
            parent = posixpath.dirname(parent)
    return found


def check_name(path: str, links: set[str]) -> None:
    """Raises `EnvironmentFault` for a name that would not stay in the tree, or lies behind a link."""
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise EnvironmentFault(f"refused to unpack {path!r}: the name leaves the tree")
    for end in range(1, len(parts)):
        if "/".join(parts[:end]) in links:
            raise EnvironmentFault(f"refused to unpack {path!r}: it lies behind a symbolic link")


def _checked_link(path: str, target: bytes) -> str:
    """The target of a link that stays in the tree; any other is kept, but points nowhere.

    Refusing the whole tree would make a repository with one odd link unrepairable; following it
    inside the container could only reach the container, yet our own reading back must not.
    """
    text = target.decode("utf-8", "surrogateescape")
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
    if not text or text.startswith("/") or "\0" in text or resolved == ".." or resolved.startswith("../"):
        return ".agentforge-link-outside-the-tree"
    return text


def unpack_file(archive: bytes, name: str, limit: int) -> bytes:
    """The one regular file called `name` in an archive that the engine sent.

    Raises `EnvironmentFault` for a link, a device, a sparse or a too large file, or a second entry.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
            members = opened.getmembers()
            if len(members) != 1:
                raise EnvironmentFault(f"{name}: expected one file from the sandbox, got {len(members)}")
            member = members[0]
            if member.type != tarfile.REGTYPE or member.sparse or posixpath.basename(name) != member.name:
                raise EnvironmentFault(f"{name}: not a regular file in the sandbox")
            if member.size > limit:
                raise EnvironmentFault(f"{name}: {member.size} bytes, the limit is {limit}")
            stream = opened.extractfile(member)
            return stream.read(member.size) if stream else b""
    except tarfile.TarError as error:
        raise EnvironmentFault(f"{name}: the archive from the sandbox is damaged: {error}") from error
