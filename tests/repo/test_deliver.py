"""Delivery changes what the patch names and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge.core.errors import RepositoryError, UsageError
from agentforge.core.patch import Patch
from agentforge.core.task import RepositoryRef
from agentforge.core.tree import Changes, TreeFile
from agentforge.repo.deliver import apply_to_worktree, create_branch, write_output
from agentforge.repo.intake import IntakeResult, open_repository
from agentforge.repo.workspace import GitWorkspace
from tests.repo.repositories import commit, git, make_repository, snapshot, write

FIX = b"def add(a, b):\n    return a + b\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def prepare(root: Path, changes: Changes, *, dirty: bool = False) -> tuple[IntakeResult, Patch]:
    base = open_repository(RepositoryRef(source=str(root), include_uncommitted=dirty), root.parent)
    with GitWorkspace(base.tree, root.parent) as workspace:
        return base, workspace.diff(changes)


def test_apply_changes_exactly_the_paths_of_the_patch(root: Path) -> None:
    write(root, {"README.md": b"my own edit\n", "notes.txt": b"mine\n"})
    base, patch = prepare(
        root, {"src/calc.py": TreeFile(FIX), "tests/test_calc.py": TreeFile(b"t\n", "100755")}
    )
    before = snapshot(root)
    assert apply_to_worktree(root, patch, base.base_commit) == ("src/calc.py", "tests/test_calc.py")
    after = snapshot(root)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {"src/calc.py", "src", "tests", "tests/test_calc.py"}
    assert (root / "src/calc.py").read_bytes() == FIX
    assert os.access(root / "tests/test_calc.py", os.X_OK)
    assert git(root, "diff", "--cached", "--name-only") == ""


def test_apply_works_from_a_subdirectory_and_on_links(root: Path) -> None:
    (root / "link").symlink_to("README.md")
    commit(root)
    base, patch = prepare(root, {"link": TreeFile(b"src/calc.py", "120000"), "README.md": None})
    apply_to_worktree(root / "src", patch, base.base_commit)
    assert str((root / "link").readlink()) == "src/calc.py"
    assert not (root / "README.md").exists()


@pytest.mark.parametrize(
    "state", ["modified", "staged", "deleted", "untracked", "ignored", "other base", "link"]
)
def test_apply_respects_a_dirty_path_and_changes_nothing(root: Path, state: str) -> None:
    write(root, {".gitignore": b"*.log\n"})
    commit(root)
    base, patch = prepare(
        root, {"src/calc.py": TreeFile(FIX), "new.py": TreeFile(b"n\n"), "new.log": TreeFile(b"l\n")}
    )
    if state == "modified":
        write(root, {"src/calc.py": b"mine\n"})
    elif state == "staged":
        original = (root / "src/calc.py").read_bytes()
        write(root, {"src/calc.py": b"mine\n"})
        git(root, "add", "-A")
        write(root, {"src/calc.py": original})
    elif state == "deleted":
        (root / "src/calc.py").unlink()
    elif state == "untracked":
        write(root, {"new.py": b"mine\n"})
    elif state == "ignored":
        write(root, {"new.log": b"mine\n"})
    elif state == "other base":
        write(root, {"src/calc.py": b"committed since\n"})
        commit(root)
    else:
        (root / "src").rename(root.parent / "outside")
        (root / "src").symlink_to(root.parent / "outside")
    before = snapshot(root.parent)
    with pytest.raises(RepositoryError, match="nothing was changed") as caught:
        apply_to_worktree(root, patch, base.base_commit)
    assert caught.value.exit_code == 3
    assert snapshot(root.parent) == before


def test_apply_onto_included_uncommitted_work(root: Path) -> None:
    write(root, {"src/calc.py": b"def add(a, b):\n    return a * b\n"})
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)}, dirty=True)
    with pytest.raises(RepositoryError, match="does not fit its base"):
        apply_to_worktree(root, patch, base.base_commit)
    apply_to_worktree(root, patch, base.base_commit, base_tree=base.tree)
    assert (root / "src/calc.py").read_bytes() == FIX


def test_apply_with_mapped_line_endings(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    (root / "src/calc.py").unlink()
    git(root, "checkout", "-q", "--", ".")
    assert b"\r\n" in (root / "src/calc.py").read_bytes()
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)})
    apply_to_worktree(root, patch, base.base_commit)
    assert (root / "src/calc.py").read_bytes() == FIX.replace(b"\n", b"\r\n")


def test_a_half_done_apply_is_undone(root: Path) -> None:
    """git finds out about a folder that is in the way only while it writes."""
    write(root, {".gitignore": b"*.log\n", "run.sh": b"#!/bin/sh\n"})
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("README.md")
    commit(root)
    changes = {"src/calc.py": TreeFile(FIX), "README.md": None, "link": None, "new.py": TreeFile(b"n\n")}
    base, patch = prepare(root, {**changes, "run.sh": None, "zzz": TreeFile(b"x\n")})
    write(root, {"zzz/mine.log": b"mine\n"})
    before = {name: state[:2] for name, state in snapshot(root).items()}
    with pytest.raises(RepositoryError, match="nothing was changed"):
        apply_to_worktree(root, patch, base.base_commit)
    assert {name: state[:2] for name, state in snapshot(root).items()} == before


def test_a_branch_leaves_worktree_index_and_head_alone(root: Path) -> None:
    write(root, {"src/calc.py": b"dirty\n"})
    git(root, "add", "-A")
    write(root, {"src/calc.py": b"dirtier\n"})
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX), "new.py": TreeFile(b"n\n")})
    before = {name: state for name, state in snapshot(root).items() if not name.startswith(".git/objects")}
    made = create_branch(root, "agentforge/fix-1", patch, base.base_commit, "Fix add\n\nBecause.")
    after = {name: state for name, state in snapshot(root).items() if not name.startswith(".git/objects")}
    new = set(after) - set(before)
    folders = {".git/refs/heads/agentforge", ".git/logs/refs/heads/agentforge"}
    assert new == folders | {f"{folder}/fix-1" for folder in folders}
    same = set(before) - {".git/refs/heads", ".git/logs/refs/heads"}
    assert {name: before[name] for name in same} == {name: after[name] for name in same}
    assert git(root, "rev-parse", "agentforge/fix-1") == made
    assert git(root, "rev-parse", "agentforge/fix-1^") == base.base_commit
    assert git(root, "log", "-1", "--format=%B", made).strip() == "Fix add\n\nBecause."
    assert git(root, "diff", "--name-only", base.base_commit, made) == "new.py\nsrc/calc.py"
    assert git(root, "show", f"{made}:src/calc.py").encode() + b"\n" == FIX
    git(root, "fsck", "--strict")


def test_the_author_is_the_users_or_a_neutral_one(root: Path, no_user_configuration: Path) -> None:
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)})
    show = ("log", "-1", "--format=%an <%ae> %cn")
    made = create_branch(root, "one", patch, base.base_commit, "m")
    assert git(root, *show, made) == "AgentForge <agentforge@example.invalid> AgentForge"
    write(no_user_configuration, {".gitconfig": b"[user]\n\tname = Grace\n\temail = grace@example.invalid\n"})
    made = create_branch(root, "two", patch, base.base_commit, "m")
    assert git(root, *show, made) == "Grace <grace@example.invalid> Grace"
    git(root, "config", "user.name", "Local")
    made = create_branch(root, "three", patch, base.base_commit, "m")
    assert git(root, *show, made) == "Local <grace@example.invalid> Local"


def test_a_branch_in_bare_packed_and_linked_repositories(root: Path, tmp_path: Path) -> None:
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)})
    git(tmp_path, "clone", "-q", "--bare", str(root), "bare.git")
    git(root, "gc", "-q")
    git(root, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    for number, place in enumerate((tmp_path / "bare.git", root, tmp_path / "linked")):
        made = create_branch(place, f"fix-{number}", patch, base.base_commit, "m")
        assert git(place, "rev-parse", f"fix-{number}") == made


def test_an_existing_branch_is_not_moved(root: Path) -> None:
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)})
    git(root, "branch", "taken/name")
    git(root, "pack-refs", "--all")
    for name in ("main", "taken/name"):
        with pytest.raises(RepositoryError, match="exists already"):
            create_branch(root, name, patch, base.base_commit, "m")
    with pytest.raises(RepositoryError, match="cannot create branch taken"):
        create_branch(root, "taken", patch, base.base_commit, "m")
    assert git(root, "rev-parse", "main", "taken/name").split() == [base.base_commit] * 2


def test_a_branch_cannot_hold_a_patch_of_uncommitted_work(root: Path) -> None:
    write(root, {"src/calc.py": b"uncommitted\n"})
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)}, dirty=True)
    with pytest.raises(RepositoryError, match="commit them first"):
        create_branch(root, "fix", patch, base.base_commit, "m")
    assert git(root, "branch", "--list", "fix") == ""


def test_a_branch_holds_the_tree_that_was_verified_or_is_not_made(root: Path) -> None:
    """The patch applies to HEAD, but a file that it does not touch was uncommitted when it was verified."""
    write(root, {"helper.py": b"verified with this\n"})
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)}, dirty=True)
    with pytest.raises(RepositoryError, match=r"differ from what was verified \(helper.py\)") as caught:
        create_branch(root, "fix", patch, base.base_commit, "m", base_tree=base.tree)
    assert "commit them first" in caught.value.hint
    assert git(root, "branch", "--list", "fix") == ""
    commit(root)
    base, patch = prepare(root, {"src/calc.py": TreeFile(FIX)}, dirty=True)
    assert create_branch(root, "fix", patch, base.base_commit, "m", base_tree=base.tree)


def test_output_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    patch = Patch(diff=b"diff\n", files=("x",))
    target = tmp_path / "fix.diff"
    target.write_bytes(b"old")
    target.chmod(0o640)
    write_output(target, patch)
    assert target.read_bytes() == b"diff\n"
    assert target.stat().st_mode & 0o777 == 0o640
    (tmp_path / "link").symlink_to(target)
    write_output(tmp_path / "link", Patch(diff=b"two\n", files=("x",)))
    assert target.read_bytes() == b"two\n"
    assert (tmp_path / "link").is_symlink()
    assert sorted(place.name for place in tmp_path.iterdir()) == ["fix.diff", "link"]
    for bad in (tmp_path, tmp_path / "absent" / "x.diff", target / "x.diff"):
        with pytest.raises(UsageError, match=r"is a folder|cannot be written"):
            write_output(bad, patch)


def test_output_to_a_device(tmp_path: Path) -> None:
    write_output(Path("/dev/null"), Patch(diff=b"x\n", files=()))
    assert not Path("/dev/null").is_file()
