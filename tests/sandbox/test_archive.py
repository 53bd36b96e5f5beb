"""The tar writer and the suspicious reader, without an engine."""

from __future__ import annotations

import io
import tarfile

import pytest

from agentforge.core.errors import EnvironmentFault
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox.archive import MTIME, pack_job, packed_mb, tree_archive, unpack_file


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: member for member in opened.getmembers()}


def test_headers_say_everything() -> None:
    tree = Tree(
        {
            "a/b.py": TreeFile(b"x = 1\n"),
            "run.sh": TreeFile(b"#!/bin/sh\n", "100755"),
            "a/link": TreeFile(b"b.py", "120000"),
            "ünï \udcff.txt": TreeFile(b"\xff"),
        }
    )
    found = members(tree_archive(tree, "repo"))
    assert set(found) == {
        "repo",
        "repo/a",
        "repo/a/b.py",
        "repo/run.sh",
        "repo/a/link",
        "repo/ünï \udcff.txt",
    }
    assert {(one.uid, one.gid, one.mtime) for one in found.values()} == {(1000, 1000, MTIME)}
    assert found["repo/run.sh"].mode == 0o755
    assert found["repo/a/b.py"].mode == 0o644
    assert found["repo/a/link"].linkname == "b.py"
    assert tree_archive(tree, "repo") == tree_archive(Tree(dict(reversed(tree.files.items()))), "repo")


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "a/./b", "a/", "a\0b", ""]
)
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(EnvironmentFault, match="refused to unpack"):
        tree_archive(Tree({name: TreeFile(b"")}), "repo")


def test_a_file_behind_a_link_is_refused() -> None:
    tree = Tree({"out": TreeFile(b"/tmp", "120000"), "out/x": TreeFile(b"")})
    with pytest.raises(EnvironmentFault, match="behind a symbolic link"):
        tree_archive(tree, "repo")


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../x", b"a/../../x", b"", b"/"])
def test_links_out_of_the_tree_point_nowhere(target: bytes) -> None:
    found = members(tree_archive(Tree({"link": TreeFile(target, "120000")}), "repo"))
    assert found["repo/link"].linkname == ".agentforge-link-outside-the-tree"


def test_job_files_belong_to_root_and_results_to_the_job() -> None:
    found = members(pack_job({"a/run.py": b"1"}))
    assert {name: (one.uid, oct(one.mode)) for name, one in found.items()} == {
        "a": (0, "0o755"),
        "a/run.py": (0, "0o644"),
        "out": (1000, "0o755"),
        "channel": (1001, "0o711"),
    }


def test_size_counts_pages() -> None:
    assert packed_mb([TreeFile(b"x")] * 1000) == 8
    assert packed_mb([TreeFile(bytes(1 << 20))]) == 2


def sent(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for header, data in entries:
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, link
    return header


def test_only_one_plain_file_is_read_back() -> None:
    assert unpack_file(sent((entry("r"), b"data")), "out/r", 10) == b"data"
    refused = [
        sent((entry("r", tarfile.SYMTYPE, "/etc/passwd"), b"")),
        sent((entry("r", tarfile.LNKTYPE, "x"), b"")),
        sent((entry("r", tarfile.CHRTYPE), b"")),
        sent((entry("r", tarfile.FIFOTYPE), b"")),
        sent((entry("r", tarfile.DIRTYPE), b"")),
        sent((entry("../r"), b"x")),
        sent((entry("r"), b"1"), (entry("r"), b"2")),
        sent((entry("r"), b"too much data")),
        sent(),
        b"no archive at all" * 100,
    ]
    for archive in refused:
        with pytest.raises(EnvironmentFault):
            unpack_file(archive, "out/r", 10)
