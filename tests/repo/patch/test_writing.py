"""Directories as trees, and change sets written to them: no link followed, all or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentforge.core.errors import PatchError, RefusalReason, RepositoryError
from agentforge.core.tree import Changes, TreeFile
from agentforge.repo.patch import DirectoryTree, apply_answer, directory, write_changes, writing
from tests.repo.patch.support import block, diff


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small tree with a link out of it, a link inside, a submodule and an executable."""
    root = tmp_path / "tree"
    (root / "pkg").mkdir(parents=True)
    (root / "f.py").write_bytes(b"a\nb\n")
    (root / "pkg" / "g.py").write_bytes(b"x\r\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "in").symlink_to("pkg")
    (root / "l.py").symlink_to("f.py")
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    (root / "sub" / "s.py").write_text("s\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "o.py").write_bytes(b"a\nb\n")
    return root


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        place.relative_to(root).as_posix(): (place.read_bytes(), stat.S_IMODE(place.lstat().st_mode))
        for place in root.rglob("*")
        if place.is_file() and not place.is_symlink()
    }


def test_kinds(root: Path) -> None:
    os.mkfifo(root / "pipe")
    tree = DirectoryTree(root)
    kinds = [
        "f.py",
        "pkg",
        "out",
        "in",
        "l.py",
        "sub",
        "pipe",
        "nope",
        "pkg/nope",
        "f.py/x",
        "out/o.py",
        "in/g.py",
    ]
    assert [tree.kind(path) for path in kinds] == [
        "file", "directory", "symlink", "symlink", "symlink", "submodule", "other", *["missing"] * 5,
    ]  # fmt: skip


def test_paths_leave_out_git_and_submodules_and_do_not_follow_links(root: Path) -> None:
    (root / "pkg" / "loop").symlink_to("..")
    assert list(DirectoryTree(root).paths()) == [
        "f.py",
        "in",
        "l.py",
        "out",
        "pkg/g.py",
        "pkg/loop",
        "run.sh",
    ]


def test_read(root: Path) -> None:
    tree = DirectoryTree(root)
    assert tree.read("pkg/g.py") == TreeFile(b"x\r\n")
    assert tree.read("run.sh") == TreeFile(b"#!/bin/sh\n", "100755")
    assert tree.read("in") == TreeFile(b"pkg", "120000")
    for path in ("nope", "pkg", "in/g.py", "out/o.py"):
        with pytest.raises(KeyError):
            tree.read(path)


def test_submodules_that_are_not_checked_out(root: Path) -> None:
    (root / ".gitmodules").write_text('[submodule "v"]\n\tpath = vendor/v\n\turl = x\n')
    (root / "vendor" / "v").mkdir(parents=True)
    assert DirectoryTree(root).kind("vendor/v") == "submodule"
    with pytest.raises(PatchError) as caught:
        apply_answer(block("", "x\n", "vendor/v/n.py"), DirectoryTree(root))
    assert caught.value.reason is RefusalReason.TYPE_CHANGE


@pytest.mark.parametrize("path", ["out/o.py", "in/g.py", "l.py", "sub/s.py"])
def test_no_edit_goes_through_a_link_or_a_submodule(root: Path, tmp_path: Path, path: str) -> None:
    before = everything(tmp_path)
    with pytest.raises(PatchError) as caught:
        apply_answer(diff(path, "@@ -1 +1 @@\n-a\n+A\n"), DirectoryTree(root))
    assert caught.value.reason is RefusalReason.TYPE_CHANGE
    with pytest.raises(PatchError):
        write_changes(root, {path: TreeFile(b"evil\n")})
    assert everything(tmp_path) == before


@pytest.mark.parametrize("path", ["../x", "/x", ".git/config", "a/../f.py", "./f.py", "pkg//g.py"])
def test_writing_judges_paths_itself(root: Path, path: str) -> None:
    before = everything(root)
    with pytest.raises(PatchError):
        write_changes(root, {"f.py": TreeFile(b"new\n"), path: TreeFile(b"evil\n")})
    assert everything(root) == before


def test_a_link_cannot_be_made(root: Path) -> None:
    with pytest.raises(PatchError):
        write_changes(root, {"n": TreeFile(b"/etc/passwd", "120000")})


def test_writing_makes_folders_keeps_rights_and_removes_emptied_folders(root: Path) -> None:
    changes: Changes = {
        "run.sh": TreeFile(b"#!/bin/sh\ntrue\n", "100755"),
        "new/deep/n.py": TreeFile(b"n\n"),
        "new/tool": TreeFile(b"t\n", "100755"),
        "pkg/g.py": None,
    }
    write_changes(root, changes)
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750
    assert (root / "run.sh").read_bytes() == b"#!/bin/sh\ntrue\n"
    assert (root / "new/deep/n.py").read_bytes() == b"n\n"
    assert (root / "new/tool").stat().st_mode & 0o100
    assert not (root / "pkg").exists()
    assert not list(root.rglob(".agentforge-*"))


def test_execute_bit_follows_the_change(root: Path) -> None:
    (root / "f.py").chmod(0o640)
    write_changes(root, {"f.py": TreeFile(b"a\nb\n", "100755"), "run.sh": TreeFile(b"#!/bin/sh\n", "100644")})
    assert stat.S_IMODE((root / "f.py").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o640


@pytest.mark.parametrize("fails_at", range(1, 5))
def test_a_write_that_fails_leaves_everything_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """Whichever file it is at, the disk refuses once."""
    before = everything(root)
    folders = sorted(place.as_posix() for place in root.rglob("*") if place.is_dir())
    calls = 0
    rename, unlink = os.rename, os.unlink

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(28, "No space left on device")

    def failing_rename(*arguments: object, **more: object) -> None:
        count()
        rename(*arguments, **more)  # type: ignore[arg-type]

    def failing_unlink(*arguments: object, **more: object) -> None:
        count()
        unlink(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(writing.os, "rename", failing_rename)
    monkeypatch.setattr(writing.os, "unlink", failing_unlink)
    changes: Changes = {
        "f.py": TreeFile(b"A\n"),
        "new/n.py": TreeFile(b"n\n"),
        "pkg/g.py": None,
        "run.sh": TreeFile(b"x\n", "100755"),
    }
    with pytest.raises(RepositoryError):
        write_changes(root, changes)
    monkeypatch.undo()
    assert everything(root) == before
    assert sorted(place.as_posix() for place in root.rglob("*") if place.is_dir()) == folders


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the write the folder is swapped for a link out of the tree."""
    before = everything(tmp_path / "outside")
    check = writing._check

    def swap(place: Path, changes: Changes) -> None:
        check(place, changes)
        (root / "pkg").rename(root / "pkg.old")
        (root / "pkg").symlink_to(tmp_path / "outside")

    monkeypatch.setattr(writing, "_check", swap)
    with pytest.raises(PatchError):
        write_changes(root, {"pkg/o.py": TreeFile(b"evil\n")})
    assert everything(tmp_path / "outside") == before
    assert directory.DirectoryTree(root).kind("pkg") == "symlink"


def test_interruption_is_undone_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(root)
    place = writing._Writer.place

    def interrupted(self: writing._Writer, path: str, entry: TreeFile | None) -> None:
        if path == "run.sh":
            raise KeyboardInterrupt
        place(self, path, entry)

    monkeypatch.setattr(writing._Writer, "place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_changes(root, {"f.py": TreeFile(b"A\n"), "run.sh": TreeFile(b"B\n", "100755")})
    assert everything(root) == before
