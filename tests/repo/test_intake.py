"""Intake of real repositories in every state users have them in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentforge.core.errors import RepositoryError, UsageError
from agentforge.core.task import RepositoryRef
from agentforge.repo.intake import IntakeResult, open_repository
from tests.repo.git_server import serve_git
from tests.repo.repositories import commit, git, make_repository, snapshot, write

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\nsize 5\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def intake(
    source: Path | str, scratch: Path, revision: str | None = None, *, dirty: bool = False
) -> IntakeResult:
    ref = RepositoryRef(source=str(source), revision=revision, include_uncommitted=dirty)
    return open_repository(ref, scratch)


def refusal(source: Path | str, scratch: Path, revision: str | None = None) -> str:
    with pytest.raises(RepositoryError) as caught:
        intake(source, scratch, revision)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


def make_dirty(root: Path) -> None:
    """One of each: staged, unstaged, staged and unstaged, deleted, new, ignored, link, mode."""
    write(root, dict.fromkeys(("staged", "unstaged", "both", "gone", "unlinked", "mode", "a/b"), b"0\n"))
    write(root, {".gitignore": b"*.log\n"})
    commit(root, "more")
    write(root, dict.fromkeys(("staged", "unstaged", "both", "new/file", "x.log"), b"1\n"))
    git(root, "add", "staged", "both")
    write(root, {"both": b"2\n"})
    git(root, "rm", "-q", "gone")
    (root / "unlinked").unlink()
    (root / "mode").chmod(0o755)
    (root / "link").symlink_to("/etc/passwd")
    shutil.rmtree(root / "a")
    write(root, {"a": b"now a file\n"})


def test_a_clean_tree_is_read_as_raw_bytes(root: Path, scratch: Path) -> None:
    write(
        root,
        {"crlf.txt": b"a\r\nb\n", "bin": b"\0\xff", "run.sh": b"#!/bin/sh\n", ".gitattributes": b"* text\n"},
    )
    git(root, "config", "core.autocrlf", "false")
    (root / "run.sh").chmod(0o755)
    (root / "out").symlink_to("/etc/passwd")
    oid = git(root, "hash-object", "-w", "--no-filters", "--", "crlf.txt")
    git(root, "add", "-A")
    git(root, "update-index", "--cacheinfo", f"100644,{oid},crlf.txt")
    git(root, "commit", "-qm", "odd files")
    result = intake(root, scratch, "HEAD")
    assert result.base_commit == git(root, "rev-parse", "HEAD")
    assert result.tree.files["crlf.txt"].data == b"a\r\nb\n"
    assert result.tree.files["bin"].data == b"\0\xff"
    assert result.tree.files["run.sh"].mode == "100755"
    assert (result.tree.files["out"].mode, result.tree.files["out"].data) == ("120000", b"/etc/passwd")


def test_uncommitted_work_is_reported_and_left_out(root: Path, scratch: Path) -> None:
    make_dirty(root)
    result = intake(root, scratch)
    assert result.tree.files["unstaged"].data == b"0\n"
    assert "new/file" not in result.tree.files
    assert not result.includes_uncommitted
    (notice,) = result.notices
    assert "7 changed and 3 untracked" in notice
    assert "--include-uncommitted" in notice
    assert "x.log" not in result.dirty_paths


def test_uncommitted_work_is_laid_over_when_asked(root: Path, scratch: Path) -> None:
    make_dirty(root)
    result = intake(root, scratch, dirty=True)
    files = result.tree.files
    assert result.includes_uncommitted
    assert result.base_commit == git(root, "rev-parse", "HEAD")
    assert {name: files[name].data for name in ("staged", "unstaged", "both", "new/file", "a")} == {
        "staged": b"1\n",
        "unstaged": b"1\n",
        "both": b"2\n",
        "new/file": b"1\n",
        "a": b"now a file\n",
    }
    assert (files["link"].mode, files["link"].data) == ("120000", b"/etc/passwd")
    assert files["mode"].mode == "100755"
    assert not {"gone", "unlinked", "x.log", "a/b"} & set(files)


@pytest.mark.parametrize("dirty", [False, True])
def test_the_users_repository_stays_byte_identical(root: Path, scratch: Path, dirty: bool) -> None:
    make_dirty(root)
    # Stale stat data: a refreshing `git status` would rewrite the index now.
    os.utime(root / "README.md", (1, 1))
    before = snapshot(root)
    intake(root, scratch, dirty=dirty)
    assert snapshot(root) == before


def test_intake_reads_a_repository_it_may_not_write(root: Path, scratch: Path) -> None:
    make_dirty(root)
    for place in (root, *root.rglob("*")):
        if not place.is_symlink():
            place.chmod(0o555 if place.is_dir() else 0o444)
    assert intake(root, scratch, dirty=True).tree.files["both"].data == b"2\n"
    for place in (root, *root.rglob("*")):
        if not place.is_symlink():
            place.chmod(0o755)


def test_an_edit_in_the_same_second_and_size_is_seen(root: Path, scratch: Path) -> None:
    """git trusts stat data younger than its index; a copied index must not lose that rule."""
    write(root, {"racy": b"aaaa\n"})
    commit(root)
    stamp = (root / ".git" / "index").stat().st_mtime_ns
    write(root, {"racy": b"bbbb\n"})
    os.utime(root / "racy", ns=(stamp, stamp))
    assert intake(root, scratch).dirty_paths == ("racy",)


def test_include_uncommitted_belongs_to_head(root: Path, scratch: Path) -> None:
    make_dirty(root)
    with pytest.raises(UsageError, match="belong to HEAD"):
        intake(root, scratch, "HEAD~1", dirty=True)
    assert intake(root, scratch, "main", dirty=True).includes_uncommitted


def test_a_subdirectory_is_recorded_and_the_whole_tree_read(root: Path, scratch: Path) -> None:
    result = intake(root / "src", scratch)
    assert result.subdirectory == "src"
    assert result.root == root
    assert sorted(result.tree.files) == ["README.md", "src/calc.py"]


def test_an_untracked_subdirectory_is_refused(root: Path, scratch: Path) -> None:
    write(root, {"loose/x.py": b"\n"})
    assert "no file there" in refusal(root / "loose", scratch)
    assert intake(root / "loose", scratch, dirty=True).subdirectory == "loose"


def test_a_linked_worktree_has_its_own_head_and_changes(root: Path, scratch: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    write(tmp_path / "linked", {"topic.py": b"\n"})
    head = commit(tmp_path / "linked")
    write(tmp_path / "linked", {"README.md": b"changed\n"})
    result = intake(tmp_path / "linked", scratch)
    assert result.base_commit == head
    assert result.dirty_paths == ("README.md",)
    assert intake(root, scratch).dirty_paths == ()


def test_detached_head_and_revisions_of_all_kinds(root: Path, scratch: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    git(root, "tag", "v1", "-m", "annotated")
    write(root, {"later.py": b"\n"})
    second = commit(root)
    git(root, "checkout", "-q", "--detach", first)
    assert intake(root, scratch).base_commit == first
    for revision, wanted in {"main": second, "v1": first, "main~1": first, second[:8]: second}.items():
        assert intake(root, scratch, revision).base_commit == wanted


def test_bare_and_shallow_repositories(root: Path, scratch: Path, tmp_path: Path) -> None:
    write(root, {"later.py": b"\n"})
    head = commit(root)
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
    git(tmp_path, "clone", "-q", "--depth=1", root.as_uri(), "shallow")
    assert intake(tmp_path / "bare.git", scratch).base_commit == head
    assert intake(tmp_path / "shallow", scratch).base_commit == head
    assert "unknown revision" in refusal(tmp_path / "shallow", scratch, "HEAD~1")
    with pytest.raises(UsageError, match="bare"):
        intake(tmp_path / "bare.git", scratch, dirty=True)


def test_a_head_without_commits_is_named_and_a_base_helps(root: Path, scratch: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    git(root, "symbolic-ref", "HEAD", "refs/heads/absent")
    assert "HEAD is on absent, which has no commits (name one with --base)" in refusal(root, scratch)
    assert intake(root, scratch, "main").base_commit == head


def test_objects_borrowed_from_another_repository_are_found(
    root: Path, scratch: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "borrower")
    alternates = tmp_path / "borrower" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("../../../repo/.git/objects\n")
    assert "README.md" in intake(tmp_path / "borrower", scratch).tree.files


def test_sha256_and_packed_repositories(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q", "--object-format=sha256")
    make_repository(tmp_path / "new")
    git(tmp_path / "new", "gc", "-q")
    write(tmp_path / "new", {"README.md": b"changed\n"})
    result = intake(tmp_path / "new", scratch, dirty=True)
    assert len(result.base_commit) == 64
    assert result.tree.files["README.md"].data == b"changed\n"


def test_submodules_are_skipped_reported_and_not_entered(root: Path, scratch: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    git(root, "submodule", "--quiet", "add", str(other), "vendor/other")
    commit(root)
    write(root / "vendor" / "other", {"README.md": b"changed in the submodule\n"})
    result = intake(root, scratch, dirty=True)
    assert result.tree.submodules == {"vendor/other"}
    assert result.tree.kind("vendor/other") == "submodule"
    assert not any(path.startswith("vendor/other/") for path in result.tree.files)
    assert result.dirty_paths == ()
    assert any("skipped 1 submodule(s): vendor/other" in notice for notice in result.notices)
    inside = intake(root / "vendor" / "other", scratch)
    assert inside.root == root / "vendor" / "other"


def test_lfs_pointers_are_left_alone(root: Path, scratch: Path) -> None:
    write(root, {"big.bin": POINTER, "other.bin": POINTER.replace(b"2cf2", b"0000")})
    commit(root)
    write(root, {"big.bin": b"hello", "other.bin": b"really changed"})
    result = intake(root, scratch, dirty=True)
    assert result.tree.files["big.bin"].data == POINTER
    assert result.tree.files["other.bin"].data == b"really changed"
    assert result.lfs_paths == ("big.bin",)
    assert any("1 Git LFS pointer" in notice for notice in result.notices)


def test_nested_repositories_special_and_huge_files_are_left_out(root: Path, scratch: Path) -> None:
    make_repository(root / "nested")
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    write(root, {"kept.py": b"\n"})
    result = intake(root, scratch, dirty=True)
    assert "kept.py" in result.tree.files
    assert not {"pipe", "huge"} & set(result.tree.files)
    assert not any(path.startswith("nested") for path in result.tree.files)
    assert any("nested/: a repository of its own" in notice for notice in result.notices)
    assert any("huge: larger than 64 MB" in notice for notice in result.notices)


def test_a_folder_replaced_by_a_link_is_not_followed(root: Path, scratch: Path, tmp_path: Path) -> None:
    write(tmp_path / "private", {"calc.py": b"secret\n"})
    shutil.rmtree(root / "src")
    (root / "src").symlink_to(tmp_path / "private")
    result = intake(root, scratch, dirty=True)
    assert result.tree.files["src"].mode == "120000"
    assert "src/calc.py" not in result.tree.files


def test_line_endings_of_the_worktree_are_no_change(root: Path, scratch: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    write(root, {"README.md": b"calc\r\n", "new.txt": b"a\r\nb\r\n"})
    result = intake(root, scratch, dirty=True)
    assert result.tree.files["README.md"].data == b"calc\n"
    assert result.tree.files["new.txt"].data == b"a\nb\n"


def test_the_users_own_ignore_file_counts(root: Path, scratch: Path, no_user_configuration: Path) -> None:
    write(root, {"editor.swp": b"x\n", "mine.tmp": b"y\n"})
    write(no_user_configuration, {".config/git/ignore": b"*.swp\n"})
    assert intake(root, scratch).dirty_paths == ("mine.tmp",)
    write(no_user_configuration, {".gitconfig": b"[core]\n\texcludesFile = ~/other\n", "other": b"*.tmp\n"})
    assert intake(root, scratch).dirty_paths == ("editor.swp",)


def test_an_unfinished_merge_is_refused(root: Path, scratch: Path) -> None:
    git(root, "checkout", "-q", "-b", "other")
    write(root, {"README.md": b"theirs\n"})
    commit(root)
    git(root, "checkout", "-q", "main")
    write(root, {"README.md": b"ours\n"})
    commit(root)
    with pytest.raises(AssertionError):
        git(root, "merge", "-q", "other")
    with pytest.raises(RepositoryError, match=r"a merge is unfinished: README\.md"):
        intake(root, scratch, dirty=True)
    assert intake(root, scratch).tree.files["README.md"].data == b"ours\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_oh_pr_9136_a_repository_of_another_user_is_read(root: Path, scratch: Path) -> None:
    """git refuses such a repository ("dubious ownership") for fear of its configuration; we read none."""
    for place in (root, *root.rglob("*")):
        os.chown(place, 12345, 12345, follow_symlinks=False)
    with pytest.raises(AssertionError, match="dubious ownership"):
        git(root, "status")
    write(root, {"README.md": b"changed\n"})
    assert intake(root, scratch, dirty=True).tree.files["README.md"].data == b"changed\n"


def test_names_that_are_not_utf8_survive(root: Path, scratch: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    write(root, {name: b"x\n"})
    commit(root)
    write(root, {name: b"y\n"})
    result = intake(root, scratch, dirty=True)
    assert result.tree.files[name].data == b"y\n"
    assert result.tree.digest
    assert all(notice.encode() for notice in intake(root, scratch).notices)


def test_missing_path_not_a_repository_and_no_commits(tmp_path: Path, scratch: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "absent", scratch)
    assert "is empty" in refusal("", scratch)
    assert "name too long" in refusal("x" * 300, scratch)
    write(tmp_path, {"file": b""})
    assert "not a folder" in refusal(tmp_path / "file", scratch)
    (tmp_path / "plain").mkdir()
    assert "not a git repository" in refusal(tmp_path / "plain", scratch)
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert "no commits" in refusal(tmp_path / "empty", scratch)


def test_an_unknown_revision_suggests_near_names(root: Path, scratch: Path) -> None:
    git(root, "branch", "release-1.2")
    assert "did you mean release-1.2" in refusal(root, scratch, "release-1.3")
    assert "unknown revision" in refusal(root, scratch, "0" * 40)
    assert "unknown revision" in refusal(root, scratch, "main:README.md")


@pytest.mark.parametrize("damage", ["head", "blob", "tree", "corrupt", "index"])
def test_a_damaged_repository_is_one_clear_line(root: Path, scratch: Path, damage: str) -> None:
    def loose(spec: str) -> Path:
        oid = git(root, "rev-parse", spec)
        return root / ".git" / "objects" / oid[:2] / oid[2:]

    if damage == "head":
        (root / ".git" / "HEAD").write_bytes(b"\0garbage")
    elif damage == "blob":
        loose("HEAD:README.md").unlink()
    elif damage == "tree":
        loose("HEAD^{tree}").unlink()
    elif damage == "corrupt":
        victim = loose("HEAD:README.md")
        victim.chmod(0o644)
        victim.write_bytes(loose("HEAD:src/calc.py").read_bytes())
    else:
        (root / ".git" / "index").write_bytes(b"garbage")
    assert refusal(root, scratch)


def test_a_forged_tree_cannot_name_paths_outside(root: Path, scratch: Path) -> None:
    blob = git(root, "hash-object", "-w", "--stdin", stdin=b"evil\n")
    for name in ("..", ".git", ".GIT"):
        raw = b"100644 " + name.encode() + b"\0" + bytes.fromhex(blob)
        tree = git(root, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
        forged = git(root, "commit-tree", tree, "-m", "forged")
        assert "forbidden path" in refusal(root, scratch, forged)


@pytest.mark.parametrize(
    "source",
    ["ext::sh -c touch% marker", "-oProxyCommand=x", "ssh://-oProxyCommand=x/y", "ftp://h/x", "fd::7"],
)
def test_dangerous_sources_are_refused(source: str, scratch: Path) -> None:
    assert refusal(source, scratch)
    assert list(scratch.iterdir()) == []


def test_a_url_is_fetched_one_commit_deep(root: Path, scratch: Path, tmp_path: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    git(root, "tag", "v1")
    write(root, {"later.py": b"\n"})
    second = commit(root)
    with serve_git(tmp_path) as base:
        url = f"{base}/repo/.git"
        result = intake(url, scratch)
        (clone,) = scratch.iterdir()
        assert (result.base_commit, result.root) == (second, None)
        assert "later.py" in result.tree.files
        assert git(clone, "rev-list", "--all", "--count") == "1"
        for revision in ("v1", first, first[:9], "main~1", "HEAD~1", "origin/main~1"):
            assert intake(url, scratch, revision).base_commit == first
        assert "did you mean v1" in refusal(url, scratch, "v11")


def test_fetching_fails_in_one_clear_line(scratch: Path, tmp_path: Path) -> None:
    with serve_git(tmp_path) as base:
        assert "no git repository there" in refusal(f"{base}/absent", scratch)
        (tmp_path / "void").mkdir()
        git(tmp_path / "void", "init", "-q")
        assert "no commits" in refusal(f"{base}/void/.git", scratch)
    with serve_git(tmp_path, status=401) as base:
        secret = base.replace("http://", "http://me:hunter2@") + "/x"
        message = refusal(secret, scratch)
        assert "access was refused" in message
        assert "hunter2" not in message
    assert "check the address and the network" in refusal(f"{base}/gone", scratch)


def test_a_url_has_no_uncommitted_changes(root: Path, scratch: Path) -> None:
    for url in ("https://127.0.0.1:1/x", root.as_uri()):
        with pytest.raises(UsageError, match="no uncommitted changes"):
            intake(url, scratch, dirty=True)
