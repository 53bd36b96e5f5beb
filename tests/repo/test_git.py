"""No program that a hostile repository names may run, whatever we do with the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentforge.core.errors import RepositoryError
from agentforge.core.patch import Patch
from agentforge.core.task import RepositoryRef
from agentforge.core.tree import TreeFile
from agentforge.repo.deliver import apply_to_worktree, create_branch
from agentforge.repo.git import Git, GitFailure, read_config, without_credentials
from agentforge.repo.intake import open_repository
from agentforge.repo.shadow import make_git_dir
from agentforge.repo.workspace import GitWorkspace
from tests.repo.repositories import ENVIRONMENT, git, make_repository, write

HOOKS = (
    "post-index-change",
    "post-checkout",
    "pre-commit",
    "post-commit",
    "prepare-commit-msg",
    "commit-msg",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "fsmonitor-watchman",
)
ATTRIBUTES = b"*.py filter=evil diff=evil merge=evil ident\n*.md filter=evil2 diff=evil\n"


def plant_traps(root: Path, marker: Path) -> None:
    """Every configuration key and hook known to start a program, each of which leaves `marker`."""
    trap = root.parent / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{marker}'\ncat\n")
    trap.chmod(0o755)
    for hook in HOOKS:
        place = root / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(trap.read_bytes())
        place.chmod(0o755)
    keys = (
        "core.fsmonitor core.pager core.editor core.gitProxy core.askPass core.sshCommand "
        "core.alternateRefsCommand "
        "filter.evil.clean filter.evil.smudge filter.evil2.process diff.external diff.evil.command "
        "diff.evil.textconv merge.evil.driver gpg.program credential.helper sequence.editor "
        "uploadpack.packObjectsHook hook.evil.command interactive.diffFilter pager.status pager.diff "
        "remote.origin.uploadpack"
    )
    for key in keys.split():
        git(root, "config", key, str(trap))
    for key in ("status", "ls-tree", "cat-file", "rev-parse", "apply", "diff-tree", "update-index"):
        git(root, "config", f"alias.{key}", f"!{trap}")
    for key, value in {
        "submodule.sub.update": f"!{trap}",
        "hook.evil.event": "reference-transaction",
        "filter.evil.required": "true",
        "commit.gpgSign": "true",
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.hooksPath": str(root / ".git" / "hooks"),
        "include.path": str(root.parent / "included"),
    }.items():
        git(root, "config", key, value)
    (root.parent / "included").write_text(f"[diff]\n\texternal = {trap}\n[core]\n\tfsmonitor = {trap}\n")


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """A repository full of traps and dirty, and the marker file that no trap may create."""
    root = make_repository(
        tmp_path / "hostile", {"a.py": b"x = 1\n", "b.md": b"text\n", ".gitattributes": ATTRIBUTES}
    )
    marker = tmp_path / "marker"
    plant_traps(root, marker)
    write(root, {"a.py": b"x = 2\n", "new.py": b"y = 1\n"})
    return root, marker


def test_the_traps_are_armed(hostile: tuple[Path, Path]) -> None:
    """The test of the tests: plain git does fall into them."""
    root, marker = hostile
    git(root, "status")
    assert marker.exists()


@pytest.mark.parametrize("include", [False, True])
def test_intake_of_a_hostile_repository_runs_nothing(
    hostile: tuple[Path, Path], tmp_path: Path, include: bool
) -> None:
    root, marker = hostile
    result = open_repository(RepositoryRef(source=str(root), include_uncommitted=include), tmp_path)
    assert result.dirty_paths == ("a.py", "new.py")
    assert result.tree.files["a.py"].data == (b"x = 2\n" if include else b"x = 1\n")
    assert not marker.exists()


async def test_patch_and_delivery_of_a_hostile_repository_run_nothing(
    hostile: tuple[Path, Path], tmp_path: Path
) -> None:
    root, marker = hostile
    base = open_repository(RepositoryRef(source=str(root)), tmp_path)
    with GitWorkspace(base.tree, tmp_path) as workspace:
        patch = await workspace.make_patch({"b.md": TreeFile(b"other\n"), "c.py": TreeFile(b"z\n")})
    create_branch(root, "fix", patch, base.base_commit, "fix it")
    apply_to_worktree(root, patch, base.base_commit)
    assert (root / "b.md").read_bytes() == b"other\n"
    assert not marker.exists()


def test_a_file_url_to_a_hostile_repository_runs_nothing(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    root, marker = hostile
    result = open_repository(RepositoryRef(source=root.as_uri()), tmp_path)
    assert result.tree.files["a.py"].data == b"x = 1\n"
    assert result.dirty_paths == ()
    assert not marker.exists()


def test_a_missing_object_of_a_partial_clone_is_not_fetched(
    hostile: tuple[Path, Path], tmp_path: Path
) -> None:
    root, marker = hostile
    oid = git(root, "-c", "core.fsmonitor=false", "rev-parse", "HEAD:b.md")
    marker.unlink(missing_ok=True)
    (root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    with pytest.raises(RepositoryError, match="damaged or incomplete"):
        open_repository(RepositoryRef(source=str(root)), tmp_path)
    assert not marker.exists()


def test_core_worktree_cannot_point_us_elsewhere(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    write(tmp_path / "private", {"secret.txt": b"secret\n"})
    git(root, "config", "core.worktree", str(tmp_path / "private"))
    result = open_repository(RepositoryRef(source=str(root), include_uncommitted=True), tmp_path)
    assert sorted(result.tree.files) == ["README.md", "src/calc.py"]


def test_excludes_file_of_a_repository_is_not_read(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    git(root, "config", "core.excludesFile", str(tmp_path / "ignore"))
    write(tmp_path, {"ignore": b"*.new\n"})
    write(root, {"x.new": b"1\n"})
    result = open_repository(RepositoryRef(source=str(root), include_uncommitted=True), tmp_path)
    assert "x.new" in result.tree.files


def test_inherited_git_variables_do_not_reach_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "repo")
    other = make_repository(tmp_path / "other", {"other.py": b"\n"})
    marker = tmp_path / "marker"
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
        "GIT_EXTERNAL_DIFF": f"touch {marker}",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {marker}",
        "GIT_NAMESPACE": "elsewhere",
        "GIT_TRACE": str(marker),
    }.items():
        monkeypatch.setenv(name, value)
    result = open_repository(RepositoryRef(source=str(root)), tmp_path)
    assert sorted(result.tree.files) == ["README.md", "src/calc.py"]
    assert not marker.exists()


def test_a_git_in_the_repository_is_not_the_git_we_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "repo")
    marker = tmp_path / "marker"
    write(root, {"git": f"#!/bin/sh\ntouch '{marker}'\n".encode()})
    (root / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{ENVIRONMENT['PATH']}")
    monkeypatch.chdir(root)
    open_repository(RepositoryRef(source=str(root)), tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "revision", ["--output=marker", "-h", "--all", "HEAD --output=marker", "HEAD;touch marker"]
)
def test_af23_af24_af25_a_revision_is_never_an_option_or_a_shell_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    root = make_repository(tmp_path / "repo")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RepositoryError, match="unknown revision"):
        open_repository(RepositoryRef(source=str(root), revision=revision), tmp_path)
    assert not (tmp_path / "marker").exists()
    assert not (root / "marker").exists()


@pytest.mark.parametrize(
    "name", ["-D", "--force", "a b", "../../evil", "x..y", "HEAD", "a\nb", "a\0b", "", "@{-1}"]
)
def test_af25_a_branch_name_is_never_an_option(tmp_path: Path, name: str) -> None:
    root = make_repository(tmp_path / "repo")
    before = git(root, "for-each-ref")
    with pytest.raises(RepositoryError, match="not a valid branch name"):
        create_branch(root, name, Patch(diff=b"", files=()), "HEAD", "m")
    assert git(root, "for-each-ref") == before


@pytest.mark.parametrize(
    "name", ["$(touch marker)", "it's", "glob*", "~", "{a,b}", "-rf", ":(glob)x", "a;b", "--"]
)
async def test_af24_odd_file_names_are_plain_names(tmp_path: Path, name: str) -> None:
    root = make_repository(tmp_path / "repo", {name: b"one\n", "other": b"1\n"})
    write(root, {name: b"two\n"})
    result = open_repository(RepositoryRef(source=str(root), include_uncommitted=True), tmp_path)
    assert result.dirty_paths == (name,)
    assert result.tree.files[name].data == b"two\n"
    git(root, "checkout", "-q", "--", ".")
    with GitWorkspace(open_repository(RepositoryRef(source=str(root)), tmp_path).tree, tmp_path) as workspace:
        patch = await workspace.make_patch({name: TreeFile(b"three\n")})
    apply_to_worktree(root, patch, "HEAD")
    assert (root / name).read_bytes() == b"three\n"
    assert (root / "other").read_bytes() == b"1\n"


def test_a_failure_says_what_and_carries_the_status(tmp_path: Path) -> None:
    repo = make_git_dir(tmp_path / "r")
    with pytest.raises(GitFailure, match="git cat-file failed: fatal") as caught:
        repo.run("cat-file", "blob", "0" * 40)
    assert caught.value.status == 128
    assert caught.value.exit_code == 3


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    repo = make_git_dir(tmp_path / "r")
    hanging = Git(repo.git_dir, config=("alias.hang=!sleep 30",))
    with pytest.raises(GitFailure, match=r"took longer than 0\.3 s") as caught:
        hanging.run("hang", timeout_s=0.3)
    assert caught.value.status is None


def test_no_git_at_all_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_git_dir(tmp_path / "r")
    repo.run("rev-parse", "--git-dir")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(bin_folder))
    with pytest.raises(GitFailure, match="git is not on PATH"):
        repo.run("rev-parse", "--git-dir")


def test_no_git_when_the_runner_is_first_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agentforge.repo.git import execute\n"
        "from agentforge.core.errors import RepositoryError\n"
        "try: execute(['version'], {}, Path('/'), b'', 9, (0,), 'version')\n"
        "except RepositoryError as error: sys.exit(str(error))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stderr == "git cannot be started (install git 2.34 or newer)\n"


def test_credentials_leave_no_trace() -> None:
    assert (
        without_credentials("fatal: https://me:pw@h/x and ssh://git@h/y")
        == "fatal: https://h/x and ssh://h/y"
    )


def test_config_is_text_and_includes_need_trust(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"more": b"[user]\n\tname = Mallory\n", "config": b"[core]\n\tbare\n[include]\n\tpath = more\n"},
    )
    assert read_config(tmp_path / "config") == {"core.bare": "true", "include.path": "more"}
    assert read_config(tmp_path / "config", trusted=True)["user.name"] == "Mallory"
    assert read_config(tmp_path / "absent") == {}
