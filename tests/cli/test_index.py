"""`agentforge index`, over a real directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.memory.factstore import FORMAT

from .conftest import Ended

Cli = Callable[..., Ended]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(tmp_path / "home"))
    repo = tmp_path / "repo"
    (repo / "app").mkdir(parents=True)
    (repo / "app" / "urls.py").write_text("def parse_url(text):\n    return text\n")
    (repo / "app" / "other.py").write_text("def draw():\n    pass\n")
    (repo / "generated.py").write_text("def parse_url(): pass\n")
    (repo / ".gitignore").write_text("generated.py\n")
    return repo


def test_search_ranks_files_and_symbols_with_reasons(cli: Cli, repo: Path) -> None:
    ended = cli("index", "search", "--repo", str(repo), "--issue", "`parse_url` is wrong", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["files"][0]["path"] == "app/urls.py"
    assert document["files"][0]["why"]["names defined here"] > 0
    symbol = document["symbols"][0]
    assert (symbol["name"], symbol["start_line"], symbol["end_line"]) == ("parse_url", 1, 2)
    table = cli("index", "search", "--repo", str(repo), "--issue", "`parse_url` is wrong", "-k", "1").out
    assert "app/urls.py:1-2" in table
    assert "generated.py" not in table


def test_the_issue_may_come_from_a_file(cli: Cli, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "issue.txt").write_text("draw() does nothing")
    ended = cli("index", "search", "--repo", str(repo), "--issue", f"@{tmp_path}/issue.txt", "--json")
    assert json.loads(ended.out)["symbols"][0]["name"] == "draw"


def test_build_embeds_everything_and_status_counts(cli: Cli, repo: Path) -> None:
    before = json.loads(cli("index", "status", "--repo", str(repo), "--json").out)
    assert before == {"files": 2, "symbols": 2, "embedded": 0, "stored": 0}
    built = json.loads(cli("index", "build", "--repo", str(repo), "--json").out)
    assert built == {"files": 2, "symbols": 2, "embedded": 2, "stored": 2}
    assert "2 of them with a stored vector" in cli("index", "status", "--repo", str(repo)).out


def test_bad_input_is_one_clear_line(cli: Cli, repo: Path) -> None:
    cli("index", "status", "--repo", "nowhere").assert_one_clear_line(3, "not a directory")
    cli("index", "search", "--repo", str(repo), "--issue", " ").assert_one_clear_line(2, "issue is empty")
    cli("index", "search", "--repo", str(repo), "--issue", "@none").assert_one_clear_line(2, "cannot be read")


def test_a_corrupt_cache_costs_time_only(cli: Cli, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "index").mkdir(parents=True)
    (tmp_path / "home" / "index" / "facts.sqlite3").write_bytes(b"garbage" * 999)
    ended = cli("index", "search", "--repo", str(repo), "--issue", "`parse_url`", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["symbols"][0]["name"] == "parse_url"
    assert ended.err.count("warning: the index cache is not used") == 1


def test_watch_says_what_changed_until_it_is_interrupted(repo: Path) -> None:
    watcher = subprocess.Popen(
        [sys.executable, "-m", "agentforge.cli.main", "index", "watch", "--repo", str(repo), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert watcher.stdout is not None
    try:
        assert json.loads(watcher.stdout.readline())["symbols"] == 2
        (repo / "app" / "new.py").write_text("def fresh(): pass\n")
        report = json.loads(watcher.stdout.readline())
        assert (report["changed"], report["symbols"]) == (["app/new.py"], 3)
        watcher.send_signal(signal.SIGINT)
        _, errors = watcher.communicate(timeout=20)
    finally:
        watcher.kill()
    assert watcher.returncode == 130
    assert errors.strip() == "interrupted"


def test_ctrl_c_in_a_large_tree_leaves_what_was_read_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big, home = tmp_path / "big", tmp_path / "home"
    for folder in range(30):
        (big / f"p{folder}").mkdir(parents=True)
        for number in range(100):
            text = f"class Thing{number}:\n    def load_{number}(self, path):\n        return path\n\n" * 12
            (big / f"p{folder}" / f"m{number}.py").write_text(f"X = '{folder}.{number}'\n{text}")
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(home))
    command = [sys.executable, "-m", "agentforge.cli.main", "index", "search", "--repo", str(big)]
    command += ["--issue", "load_77 loses its path", "--json"]
    facts = home / "index" / "facts.sqlite3"
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (_rows_in(facts) or first.poll() is not None):
            time.sleep(0.02)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=30)
    finally:
        first.kill()
    kept = _rows_in(facts)
    assert (first.returncode, errors.strip()) == (130, "interrupted")
    assert 500 <= kept < 3000
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["files"][0]["path"].endswith("/m77.py")
    assert _rows_in(facts) == 3000


def _rows_in(facts: Path) -> int:
    if not facts.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(facts, timeout=5)) as connection:
            return int(connection.execute(f"SELECT count(*) FROM facts{FORMAT}").fetchone()[0])
    except sqlite3.OperationalError:  # not yet made
        return 0
