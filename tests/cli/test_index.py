"""`agentforge index`, over a real directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
