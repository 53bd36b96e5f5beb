from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.observers import Observer

from agentforge.core.errors import RepositoryError
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.scan import scan_directory
from agentforge.memory.watch import LiveTree
from tests.memory.conftest import wait_until


class Watched:
    """A directory with a live tree over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[frozenset[str]] = []
        self.warnings: list[str] = []
        self.live = LiveTree(root, self.changes.append, self.warnings.append, debounce_s=0.05, poll_s=0.2)

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def has(self, **expected: str) -> bool:
        return {path: entry.data.decode() for path, entry in self.live.tree.files.items()} == expected

    def becomes(self, expected: dict[str, str]) -> bool:
        return wait_until(lambda: self.has(**expected))

    def equals_fresh_scan(self) -> bool:
        return self.live.tree.files == scan_directory(self.root).tree.files


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    root = tmp_path / "project"
    root.mkdir()
    (root / "sub").mkdir()
    (root / "a.py").write_text("a = 1\n")
    (root / "sub" / "b.py").write_text("b = 1\n")
    (root / ".gitignore").write_text("ignored/\n*.gen.py\n")
    made = Watched(root)
    with made.live:
        yield made


def test_create_modify_move_and_delete_are_followed(watched: Watched) -> None:
    assert watched.has(**{"a.py": "a = 1\n", "sub/b.py": "b = 1\n"})
    watched.write("sub/c.py", "c = 1\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "sub/c.py": "c = 1\n"})
    watched.write("a.py", "a = 2\n")
    assert watched.becomes({"a.py": "a = 2\n", "sub/b.py": "b = 1\n", "sub/c.py": "c = 1\n"})
    (watched.root / "sub" / "c.py").rename(watched.root / "d.py")
    assert watched.becomes({"a.py": "a = 2\n", "sub/b.py": "b = 1\n", "d.py": "c = 1\n"})
    (watched.root / "a.py").unlink()
    assert watched.becomes({"sub/b.py": "b = 1\n", "d.py": "c = 1\n"})


def test_af19_an_edit_is_searchable_at_once_and_the_old_text_is_gone(watched: Watched) -> None:
    index = RepositoryIndex()
    assert index.search("`alpha_name`", watched.live.tree) == []
    started = time.monotonic()
    watched.write("a.py", "def alpha_name(): pass\n")
    assert wait_until(lambda: bool(index.search("`alpha_name`", watched.live.tree)))
    assert time.monotonic() - started < 2
    watched.write("a.py", "def gamma_quux(): pass\n")
    assert wait_until(lambda: bool(index.search("`gamma_quux`", watched.live.tree)))
    assert index.search("`alpha_name`", watched.live.tree) == []


def test_editors_that_write_beside_and_rename_are_followed(watched: Watched) -> None:
    watched.write(".a.py.swp~", "a = 3\n")
    (watched.root / ".a.py.swp~").replace(watched.root / "a.py")
    assert watched.becomes({"a.py": "a = 3\n", "sub/b.py": "b = 1\n"})


def test_whole_folders_come_move_and_go(watched: Watched) -> None:
    watched.write("new/deep/er/x.py", "x = 1\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "new/deep/er/x.py": "x = 1\n"})
    (watched.root / "new").rename(watched.root / "sub" / "moved")
    assert watched.becomes({"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "sub/moved/deep/er/x.py": "x = 1\n"})
    watched.write("sub/moved/deep/er/x.py", "x = 2\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "sub/moved/deep/er/x.py": "x = 2\n"})
    subprocess.run(["rm", "-r", str(watched.root / "sub")], check=True)
    assert watched.becomes({"a.py": "a = 1\n"})
    watched.write("sub/again.py", "y = 1\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/again.py": "y = 1\n"})
    watched.write("sub/again.py", "y = 2\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/again.py": "y = 2\n"})


def test_a_burst_is_one_change(watched: Watched) -> None:
    for number in range(200):
        watched.write(f"sub/m{number}.py", "m = 1\n")
    assert wait_until(lambda: len(watched.live.tree.files) == 202)
    assert len(watched.changes) <= 5


def test_ignored_files_and_git_are_not_followed(watched: Watched) -> None:
    for path in (
        "ignored/x.py",
        "sub/y.gen.py",
        ".git/hooks/z.py",
        "node_modules/w.py",
        "sub/__pycache__/v.py",
    ):
        watched.write(path, "x = 1\n")
    watched.write("last.py", "x = 1\n")
    assert watched.becomes({"a.py": "a = 1\n", "sub/b.py": "b = 1\n", "last.py": "x = 1\n"})


def test_changed_ignore_rules_count_at_once(watched: Watched) -> None:
    watched.write("ignored/x.py", "x = 1\n")
    watched.write(".gitignore", "a.py\n")
    assert watched.becomes({"sub/b.py": "b = 1\n", "ignored/x.py": "x = 1\n"})
    watched.write("ignored/x.py", "x = 2\n")
    assert watched.becomes({"sub/b.py": "b = 1\n", "ignored/x.py": "x = 2\n"})


def test_a_branch_switch_ends_equal_to_a_fresh_scan(watched: Watched) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
        subprocess.run(
            ["git", "-C", str(watched.root), *identity, *arguments], check=True, capture_output=True
        )

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    for number in range(40):
        watched.write(f"pkg{number % 4}/m{number}.py", f"m = {number}\n")
    git("add", ".")
    git("rm", "-q", "a.py")
    git("commit", "-qm", "two")
    for branch in ("main", "other", "main", "other"):
        git("checkout", "-q", branch)
    assert wait_until(watched.equals_fresh_scan)
    assert len(watched.live.tree.files) == 41
    git("checkout", "-q", "main")
    assert wait_until(lambda: watched.equals_fresh_scan() and len(watched.live.tree.files) == 2)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_complaint25_without_inotify_watches_the_tree_is_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def exhausted(self: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Observer, "start", exhausted)
    (tmp_path / "a.py").write_text("a = 1\n")
    made = Watched(tmp_path)
    with made.live:
        assert made.live.polling
        time.sleep(0.3)
        made.write("sub/b.py", "b = 1\n")
        (tmp_path / "a.py").unlink()
        assert made.becomes({"sub/b.py": "b = 1\n"})
    assert len(made.warnings) == 1
    assert "polled" in made.warnings[0]


def test_complaint25_more_folders_than_watches_is_seen_before_it_hurts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "limit"
    limit.write_text("4\n")
    monkeypatch.setattr("agentforge.memory.watch._INOTIFY_LIMIT", limit)
    for number in range(5):
        (tmp_path / "root" / f"d{number}").mkdir(parents=True)
    made = Watched(tmp_path / "root")
    with made.live:
        assert made.live.polling
    assert len(made.warnings) == 1


def test_complaint25_huge_files_submodules_and_looping_links(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_bytes(b"x=[" + b"1," * 2_500_000 + b"]")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    (tmp_path / "sub" / "inner.py").write_text("x = 1\n")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "dangling.py").symlink_to("nowhere")
    (tmp_path / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "env" / "site.py").write_text("x = 1\n")
    made = Watched(tmp_path)
    started = time.monotonic()
    with made.live:
        assert list(made.live.tree.files) == ["latin.py"]
        assert "more than" in made.live.skipped["huge.py"]
        made.write("sub/inner.py", "x = 2\n")
        (tmp_path / "other.py").symlink_to("latin.py")
        made.write("last.py", "x = 1\n")
        assert wait_until(lambda: "last.py" in made.live.tree.files)
        assert sorted(made.live.tree.files) == ["last.py", "latin.py"]
    assert time.monotonic() - started < 5
    assert made.warnings == []


def test_after_a_burst_that_may_have_lost_events_everything_is_read_again(watched: Watched) -> None:
    """The kernel's queue overflows silently; here its events are dropped by us."""
    watched.live._overflow = 50
    matters = watched.live._matters
    watched.live._matters = lambda path, directory: path == "a.py" and matters(path, directory)  # type: ignore[method-assign]
    for number in range(60):
        watched.write(f"sub/lost{number}.py", "x = 1\n")
    watched.write("a.py", "a = 2\n")
    assert wait_until(watched.equals_fresh_scan)
    assert len(watched.live.tree.files) == 62


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    with Watched(tmp_path).live:
        assert threading.active_count() > before
    assert wait_until(lambda: threading.active_count() == before)


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="not a directory"):
        LiveTree(tmp_path / "nowhere", lambda paths: None, lambda text: None).start()


def test_the_root_may_vanish(watched: Watched) -> None:
    subprocess.run(["rm", "-r", str(watched.root)], check=True)
    assert wait_until(lambda: not watched.live.tree.files)
