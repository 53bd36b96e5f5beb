"""`agentforge memory`, against a real store in a tmp data home."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.core.retrieval import Episode
from agentforge.memory.open import open_episodes, open_insights

from .conftest import Ended

Cli = Callable[..., Ended]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(home))
    return home


def remember(home: Path, issue: str, repository: str = "owner/name", day: str = "2025-03-01") -> str:
    episode = Episode(
        id="",
        repository=repository,
        issue=issue,
        patch="--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n",
        tests=("test_x.py::test_port",),
        created=f"{day}T00:00:00+00:00",
    )
    return open_episodes(home).store(episode).id


def test_an_empty_memory_is_no_error(cli: Cli, home: Path) -> None:
    assert cli("memory", "list").out == "no episodes\n"
    assert json.loads(cli("memory", "list", "--json").out) == []
    assert json.loads(cli("memory", "search", "port", "--json").out) == []
    assert json.loads(cli("memory", "stats", "--json").out)["episodes"] == 0
    assert not home.exists()


def test_list_show_and_search(cli: Cli, home: Path) -> None:
    port = remember(home, "parse_url drops the port\nmore text")
    remember(home, "legend colours are wrong", "other/name")
    listed = cli("memory", "list")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()[1:]].count(port) == 1
    assert "parse_url drops the port" in listed.out
    only = json.loads(cli("memory", "list", "--repo", "other/name", "--json").out)
    assert [one["issue"] for one in only] == ["legend colours are wrong"]
    shown = cli("memory", "show", port[:6])
    assert "+b" in shown.out
    assert "fixed: test_x.py::test_port" in shown.out
    assert json.loads(cli("memory", "show", port, "--json").out)["id"] == port
    found = json.loads(cli("memory", "search", "the port of a url", "-k", "1", "--json").out)
    assert [one["id"] for one in found] == [port]


def test_stats_and_forget_count_exactly(cli: Cli, home: Path) -> None:
    first = remember(home, "one failure", day="2024-01-01")
    remember(home, "another failure", "other/name")
    remember(home, "a third failure", day="2025-05-01")
    stats = json.loads(cli("memory", "stats", "--json").out)
    assert (stats["episodes"], stats["repositories"]) == (3, {"owner/name": 2, "other/name": 1})
    assert cli("memory", "forget", first).out == "forgot 1 episode\n"
    assert json.loads(cli("memory", "forget", "--repo", "other/name", "--json").out) == {"forgotten": 1}
    assert json.loads(cli("memory", "forget", "--before", "2025-01-01", "--json").out) == {"forgotten": 0}
    assert json.loads(cli("memory", "forget", "--before", "2025-05-02", "--json").out) == {"forgotten": 1}
    assert cli("memory", "stats").out.startswith("0 episodes")


def test_bad_input_is_one_clear_line(cli: Cli, home: Path) -> None:
    cli("memory", "show", "abc").assert_one_clear_line(2, "no episode has the id")
    cli("memory", "forget").assert_one_clear_line(2, "say what to forget")
    cli("memory", "forget", "abc", "--repo", "x").assert_one_clear_line(2, "say what to forget")
    cli("memory", "forget", "--before", "soon").assert_one_clear_line(2, "is not a date")
    cli("memory", "search", " ").assert_one_clear_line(2, "is empty")


def test_a_corrupt_store_is_one_clear_line_and_stays(cli: Cli, home: Path) -> None:
    (home / "memory").mkdir(parents=True)
    database = home / "memory" / "chroma.sqlite3"
    database.write_bytes(b"not a database" * 999)
    for command in (["list"], ["stats"], ["search", "x"], ["show", "x"], ["forget", "x"]):
        cli("memory", *command).assert_one_clear_line(3, "cannot be used", "nothing was deleted")
    assert database.read_bytes() == b"not a database" * 999


def test_what_others_wrote_is_harmless_on_a_terminal(cli: Cli, home: Path) -> None:
    stored = remember(home, "bad \x1b[2J title")
    for command in (["list"], ["show", stored], ["search", "bad title"]):
        assert "\x1b" not in cli("memory", *command).out


def fail(home: Path, issue: str, patch_line: str) -> str:
    patch = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n+if {patch_line} is None:\n+    return None\n x\n"
    episode = Episode(id="", repository="owner/name", issue=issue, patch=patch, failures=("TypeError",))
    stored = open_episodes(home).store(episode)
    open_insights(home).refresh(open_episodes(home).list())
    return stored.id


def test_insights_are_listed_shown_and_retracted(cli: Cli, home: Path) -> None:
    first = fail(home, "parse fails with a TypeError", "text")
    fail(home, "draw fails with a TypeError", "figure")
    (insight,) = json.loads(cli("memory", "list", "--kind", "insight", "--json").out)
    assert insight["lesson"] == (
        "TypeError was fixed by adding a check before the value is used in 2 of 2 verified repairs"
    )
    assert "TypeError was fixed" in cli("memory", "list", "--kind", "insight").out
    assert first in cli("memory", "show", insight["id"]).out
    assert json.loads(cli("memory", "stats", "--json").out)["insights"] == 1
    assert cli("memory", "retract", insight["id"], "--reason", "too broad").out.startswith("retracted")
    assert json.loads(cli("memory", "stats", "--json").out)["insights"] == 0
    assert cli("memory", "retract", first, "--reason", "broke drawing").code == 0
    assert "broke drawing" in cli("memory", "show", first).out
    assert json.loads(cli("memory", "search", "parse TypeError", "--json").out)[0]["id"] != first
    assert cli("memory", "list", "--kind", "insight").out == "no insights\n"
    cli("memory", "list", "--kind", "insight", "--repo", "x").assert_one_clear_line(2, "no repository")


def test_an_export_makes_the_same_memory_elsewhere(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(home, "one failure", day="2024-01-01")
    fail(home, "parse fails with a TypeError", "text")
    fail(home, "draw fails with a TypeError", "figure")
    assert "exported 4 entries" in cli("memory", "export", str(tmp_path / "all.jsonl")).err
    before = json.loads(cli("memory", "list", "--json").out)
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(tmp_path / "other"))
    done = json.loads(cli("memory", "import", str(tmp_path / "all.jsonl"), "--json").out)
    assert (done["episodes"], done["merged"], done["insights"], done["refused"]) == (3, 0, 1, [])
    assert json.loads(cli("memory", "list", "--json").out) == before
    again = cli("memory", "import", str(tmp_path / "all.jsonl"))
    assert again.out == "imported 0 episodes and 1 insights, merged 3\n"
    assert cli("memory", "export").out == (tmp_path / "all.jsonl").read_text()
    (tmp_path / "bad").write_text("no\n")
    cli("memory", "import", str(tmp_path / "bad")).assert_one_clear_line(2, "no export of agentforge memory")
    cli("memory", "import", str(tmp_path / "none")).assert_one_clear_line(2, "cannot be read")
