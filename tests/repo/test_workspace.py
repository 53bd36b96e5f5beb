"""Patches made by the workspace apply everywhere and give back the intended bytes."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge.core.errors import PatchError, RefusalReason, RepositoryError
from agentforge.core.ports import Workspace
from agentforge.core.task import RepositoryRef
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.repo.intake import open_repository
from agentforge.repo.workspace import GitWorkspace
from tests.repo.repositories import ENVIRONMENT, commit, git, make_repository, write

BASE = Tree(
    {
        "a.py": TreeFile(b"one\ntwo\nthree\n"),
        "pkg/b.py": TreeFile(b"no newline"),
        "crlf.txt": TreeFile(b"a\r\nb\r\n"),
        "bin": TreeFile(bytes(range(256))),
        "run.sh": TreeFile(b"#!/bin/sh\n", "100755"),
        "out": TreeFile(b"/etc", "120000"),
        ".gitattributes": TreeFile(b"* text=auto eol=lf\n*.py -diff filter=x\n*.sh binary\n"),
        ".gitignore": TreeFile(b"*.log\nbuild/\n"),
    },
    frozenset({"vendor/sub"}),
)


def materialize(tree: Tree, root: Path) -> Path:
    """The tree as a plain folder, the way any user would have it."""
    for path, entry in tree.files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            place.symlink_to(entry.data.decode())
        else:
            place.write_bytes(entry.data)
            place.chmod(0o755 if entry.mode == "100755" else 0o644)
    return root


def read_back(root: Path) -> dict[str, TreeFile]:
    files = {}
    for place in root.rglob("*"):
        name = place.relative_to(root).as_posix()
        if place.is_symlink():
            files[name] = TreeFile(str(place.readlink()).encode(), "120000")
        elif place.is_file():
            files[name] = TreeFile(place.read_bytes(), "100755" if place.stat().st_mode & 0o100 else "100644")
    return files


def plain_git_apply(root: Path, diff: bytes) -> None:
    """`git apply` as a stranger would call it, outside of any repository."""
    for extra in (["--check"], []):
        done = subprocess.run(
            ["git", "apply", *extra, "-"],
            cwd=root,
            env={**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(root.parent)},
            input=diff,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()


CASES: dict[str, Changes] = {
    "edit": {"a.py": TreeFile(b"one\nTWO\nthree\n")},
    "newline added": {"pkg/b.py": TreeFile(b"no newline\n")},
    "newline removed": {"a.py": TreeFile(b"one\ntwo\nthree")},
    "line endings": {"crlf.txt": TreeFile(b"a\r\nB\r\n"), "new.txt": TreeFile(b"x\r\ny\n")},
    "odd line breaks": {"a.py": TreeFile(b"one\x0c\ntwo\x85\xe2\x80\xa8\r\nthree\n")},
    "binary": {"bin": TreeFile(bytes(reversed(range(256)))), "new.bin": TreeFile(b"\0")},
    "mode": {"run.sh": TreeFile(b"#!/bin/sh\n"), "a.py": TreeFile(b"one\ntwo\nthree\n", "100755")},
    "delete": {"pkg/b.py": None, "out": None},
    "ignored by the repository": {"debug.log": TreeFile(b"x\n"), "build/x.py": TreeFile(b"y\n")},
    "empty file": {"pkg/__init__.py": TreeFile(b"")},
    "file becomes folder": {"a.py": None, "a.py/x.py": TreeFile(b"x\n")},
    "link becomes file": {"out": TreeFile(b"text\n")},
    "looks like a diff": {"a.py": TreeFile(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- \n")},
    "last line blank": {"a.py": TreeFile(b"one\ntwo\nthree\n \n\n")},
    "odd names": {
        'sp ace "q" \\ é\t.py': TreeFile(b"x\n"),
        "-rf": TreeFile(b"y\n"),
        "a\nb": TreeFile(b"z\n"),
    },
    "rename": {"a.py": None, "moved.py": TreeFile(b"one\ntwo\nthree\n")},
    "attributes themselves": {".gitattributes": TreeFile(b"* binary\n"), "a.py": TreeFile(b"1\n")},
}


@pytest.mark.parametrize("name", CASES)
async def test_a_patch_applies_anywhere_to_the_intended_bytes(name: str, tmp_path: Path) -> None:
    changes = CASES[name]
    with GitWorkspace(BASE, tmp_path) as workspace:
        patch = await workspace.make_patch(changes)
        assert dict(await workspace.read_patch(patch)) == dict(changes)
    assert patch.files == tuple(sorted(changes))
    root = materialize(BASE, tmp_path / "elsewhere")
    plain_git_apply(root, patch.diff)
    assert read_back(root) == dict(BASE.with_changes(changes).files)


async def test_af34_a_patch_keeps_its_last_newline(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        for changes in (
            {"a.py": TreeFile(b"one\ntwo\nthree\n\n")},
            {"a.py": TreeFile(b"one")},
            {"bin": None},
        ):
            patch = await workspace.make_patch(changes)
            assert patch.diff.endswith(b"\n")
            if b"GIT binary patch" not in patch.diff:
                assert not patch.diff.endswith(b"\n\n")
            assert dict(await workspace.read_patch(patch)) == changes


async def test_swe_bench_465_the_workspace_has_no_history(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"a.py": b"bug\n"})
    base = git(root, "rev-parse", "HEAD")
    write(root, {"a.py": b"the secret fix\n"})
    commit(root, "the secret fix")
    git(root, "tag", "v2")
    git(root, "remote", "add", "origin", "https://example.invalid/x")
    tree = open_repository(RepositoryRef(source=str(root), revision=base), tmp_path).tree
    with GitWorkspace(tree, tmp_path) as workspace:
        await workspace.make_patch({"a.py": TreeFile(b"fixed\n")})
        place = workspace.git_dir
        assert (
            git(place, "log", "--all", "--format=%an %ad %s", "--date=raw")
            == "AgentForge 946684800 +0000 base"
        )
        assert git(place, "rev-list", "--all", "--reflog", "--count") == "1"
        assert git(place, "remote") == git(place, "tag") == git(place, "reflog") == ""
        assert not (place / "hooks").exists()
        objects = git(place, "cat-file", "--batch-all-objects", "--batch-check")
        assert len(objects.splitlines()) == 3  # commit, tree, blob


async def test_equal_trees_give_equal_commits(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as one, GitWorkspace(BASE, tmp_path) as two:
        assert git(one.git_dir, "rev-parse", "base") == git(two.git_dir, "rev-parse", "base")


async def test_attributes_of_the_tree_do_not_shape_the_diff(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        patch = await workspace.make_patch({"a.py": TreeFile(b"1\n"), "run.sh": TreeFile(b"2\n", "100755")})
    assert b"GIT binary patch" not in patch.diff
    assert b"index 4cb29ea38f70d7c61b2a3a25b02e3bdf44905402.." in patch.diff
    assert (patch.added, patch.removed) == (2, 4)


def test_a_workspace_is_gone_on_every_way_out(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), GitWorkspace(BASE, tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(PatchError), GitWorkspace(BASE, tmp_path) as workspace:
        workspace.diff({})
    with pytest.raises(RepositoryError, match="fast-import"):
        GitWorkspace(Tree({"a//b": TreeFile(b"x")}), tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_no_change_is_not_a_patch(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        for changes in ({}, {"a.py": BASE.files["a.py"]}, {"absent": None}):
            with pytest.raises(PatchError, match="no change") as caught:
                await workspace.make_patch(changes)
            assert caught.value.reason is RefusalReason.ALREADY_APPLIED


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", RefusalReason.PATH_ESCAPE),
        ("/etc/x", RefusalReason.PATH_ESCAPE),
        ("a/./b", RefusalReason.PATH_ESCAPE),
        ("a/../b", RefusalReason.PATH_ESCAPE),
        ("x\0y", RefusalReason.PATH_ESCAPE),
        (".git/hooks/pre-commit", RefusalReason.GIT_INTERNAL),
        ("sub/.GIT/config", RefusalReason.GIT_INTERNAL),
        ("out/passwd", RefusalReason.TYPE_CHANGE),
        ("a.py/x", RefusalReason.TYPE_CHANGE),
        ("vendor/sub", RefusalReason.TYPE_CHANGE),
        ("vendor/sub/x.py", RefusalReason.TYPE_CHANGE),
    ],
)
async def test_af25_a_change_stays_in_the_jail(path: str, reason: RefusalReason, tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        with pytest.raises(PatchError) as caught:
            await workspace.make_patch({path: TreeFile(b"x\n")})
        assert caught.value.reason is reason


async def test_a_foreign_patch_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        patch = await workspace.make_patch({"a.py": TreeFile(b"one\n2\nthree\n")})
        stale = patch.model_copy(update={"diff": patch.diff.replace(b"-two", b"-zwei")})
        with pytest.raises(PatchError, match="does not apply"):
            await workspace.read_patch(stale)


async def test_patches_may_be_made_at_the_same_time(tmp_path: Path) -> None:
    with GitWorkspace(BASE, tmp_path) as workspace:
        wanted = [{"a.py": TreeFile(b"%d\n" % number)} for number in range(4)]
        patches = await asyncio.gather(*(workspace.make_patch(changes) for changes in wanted))
        for patch, changes in zip(patches, wanted, strict=True):
            assert dict(await workspace.read_patch(patch)) == changes


def test_it_is_the_port(tmp_path: Path) -> None:
    workspace: Workspace = GitWorkspace(BASE, tmp_path)
    assert workspace.tree is BASE


LINE = st.binary(max_size=6).filter(lambda raw: b"\n" not in raw)
CONTENT = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINE, max_size=12), st.sampled_from([b"", b"\n"])
)
FILES = st.dictionaries(st.sampled_from(["a", "b", "d/c", "d/e", "é"]), CONTENT.map(TreeFile), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=FILES, after=FILES)
def test_any_edit_of_any_bytes_comes_back(
    tmp_path: Path, before: dict[str, TreeFile], after: dict[str, TreeFile]
) -> None:
    changes = {path: after.get(path) for path in {*before, *after} if before.get(path) != after.get(path)}
    if not changes:
        return
    with GitWorkspace(Tree(before), tmp_path) as workspace:
        assert dict(workspace.changes_of(workspace.diff(changes).diff)) == changes
