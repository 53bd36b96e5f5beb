from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from agentforge.core.retrieval import Commit
from agentforge.memory.history import MAX_FILES, History, read_commits

PATHS = {"a.py": 0, "b.py": 1, "c.py": 2}


def git_in(folder: Path) -> object:
    def git(*arguments: str) -> bytes:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
        command = ["git", "-C", str(folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    return git


def test_commits_are_the_ancestors_of_the_base_and_nothing_later(tmp_path: Path) -> None:
    git = git_in(tmp_path)
    git("init", "-q", "-b", "main")  # type: ignore[operator]
    for number, name in enumerate(("a.py", "späte datei.py", "c.py")):
        (tmp_path / name).write_text(f"x = {number}\n")
        git("add", ".")  # type: ignore[operator]
        git("commit", "-qm", f"Change {number}\n\nIn two\nlines")  # type: ignore[operator]
    commits = read_commits(git, "HEAD~1", 10)  # type: ignore[arg-type]
    assert [commit.paths for commit in commits] == [("späte datei.py",), ("a.py",)]
    assert commits[0].message.startswith("Change 1\n\nIn two\nlines")
    assert commits[0].time > 1_000_000_000
    assert len(read_commits(git, "HEAD", 1)) == 1  # type: ignore[arg-type]
    assert read_commits(git, "HEAD", 0) == ()  # type: ignore[arg-type]


def test_files_that_changed_under_such_words_gain() -> None:
    history = History(
        [
            Commit(id="3", time=3, message="Fix the port of urls", paths=("b.py", "tests/test_b.py")),
            Commit(id="2", time=2, message="Draw legends", paths=("a.py", "b.py")),
            Commit(id="1", time=1, message="Fix urls", paths=("c.py", "a.py", "gone.py")),
        ]
    )
    found = history.signals("the port of a url is lost", "port lost", PATHS, 4)
    for name in ("similar commits", "most similar commit", "commit words"):
        scores = found[name]
        assert scores.shape == (4,)
        assert int(np.argmax(scores)) == 1, name
        assert scores[3] == 0
    assert found["often changed"][1] > found["often changed"][2] > 0


def test_sweeps_and_an_empty_past_say_nothing() -> None:
    paths = [f"f{number}.py" for number in range(MAX_FILES)]
    sweep = Commit(id="1", time=1, message="port", paths=(*paths, "a.py"))
    for history in (History([sweep]), History([]), History([Commit(id="2", time=1, message="port")])):
        found = history.signals("port", "port", PATHS, 3)
        assert not any(scores.any() for scores in found.values())
