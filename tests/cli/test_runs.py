"""`agentforge runs` over real records."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.chat import Spend
from agentforge.core.events import Notice, RunFinished, RunStarted
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator import replay
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.store import RunStore

from .conftest import Ended

Cli = Callable[..., Ended]
DIFF = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n+\x1b[2Jb\xff\r\n"


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "data")


def record(store: RunStore, *, days_ago: float = 0, patch: bytes | None = DIFF, **changes: Any) -> str:
    """A finished run as the engine writes one."""
    created = datetime.now(UTC) - timedelta(days=days_ago)
    tree = Tree({"x": TreeFile(b"a")})
    store.keep_tree(tree)
    writer = store.create(created)
    manifest = {
        "created": created.isoformat(), "outcome": "verified", "exit_code": 0, "summary": "1 test passes",
        "issue_title": "Sum is wrong \x1b[2J", "workflow": {"name": "search"},
        "task": {"repository": {"source": "/repo"}}, "base": {"tree": tree.digest},
        "spend": Spend(calls=2, cost_usd=0.5).model_dump(mode="json"),
    }  # fmt: skip
    writer.write_manifest(manifest | changes)
    events = (
        RunStarted(seq=1, run_id=writer.run_id, workflow="search", workflow_hash="h", repository="/repo",
                   base="b" * 40, issue_title="Sum is wrong"),
        Notice(seq=2, text="look \x07 here"),
        RunFinished(seq=3, outcome="verified", exit_code=0, summary="ok", spend=Spend()),
    )  # fmt: skip
    for event in events:
        writer.append_event(event.model_dump_json().encode(), last=event.type == "run_finished")
    if patch is not None:
        writer.write_file("patch.diff", patch)
    writer.close()
    return writer.run_id


def test_list_shows_newest_first_and_nothing_is_obeyed(cli: Cli, store: RunStore) -> None:
    old, new = record(store, days_ago=2), record(store)
    ended = cli("runs", "list")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["RUN", "OUTCOME", "WORKFLOW", "COST", "ISSUE"]
    assert [line.split()[0] for line in lines[1:]] == [new, old]
    assert "$0.5000" in lines[1]
    assert "\x1b" not in ended.out
    assert "␛[2J" in lines[1]


def test_list_as_json_and_with_a_limit(cli: Cli, store: RunStore) -> None:
    record(store, days_ago=1)
    new = record(store)
    document = json.loads(cli("runs", "list", "--json", "--limit", "1").out)
    assert [entry["run_id"] for entry in document] == [new]
    assert document[0]["outcome"] == "verified"


def test_list_without_runs(cli: Cli) -> None:
    assert cli("runs", "list").code == 0
    assert json.loads(cli("runs", "list", "--json").out) == []


def test_show_tells_the_story_and_neutralises_it(cli: Cli, store: RunStore) -> None:
    run_id = record(store)
    ended = cli("runs", "show", "last")
    assert ended.code == 0, ended.err
    assert f"{run_id}: Sum is wrong" in ended.out
    assert "look ␇ here" in ended.out
    assert "+␛[2Jb" in ended.out
    assert "verified: 1 test passes" in ended.out
    assert "\x1b" not in ended.out


def test_show_as_json(cli: Cli, store: RunStore) -> None:
    run_id = record(store)
    document = json.loads(cli("runs", "show", run_id[:-2], "--json").out)
    assert document["run_id"] == run_id
    assert [event["type"] for event in document["events"]] == ["run_started", "notice", "run_finished"]
    assert document["manifest"]["outcome"] == "verified"


def test_show_diff_is_the_patch_byte_for_byte(
    clean_env: dict[str, str], store: RunStore, process: Cli
) -> None:
    record(store, patch=DIFF.replace(b"\xff", b"").replace(b"\r", b""))
    assert process("runs", "show", "last", "--diff").out.encode() == DIFF.replace(b"\xff", b"").replace(
        b"\r", b""
    )


def test_a_run_without_a_patch_says_so(cli: Cli, store: RunStore) -> None:
    record(store, patch=None)
    cli("runs", "show", "last", "--diff").assert_one_clear_line(1, "has no patch")


def test_an_unfinished_run_is_shown_as_such(cli: Cli, store: RunStore) -> None:
    record(store, outcome=None, summary=None, spend=None)
    assert "unfinished" in cli("runs", "list").out
    assert "unfinished" in cli("runs", "show", "last").out


@pytest.mark.parametrize("command", ["show", "replay"])
def test_an_unknown_run_is_one_line(process: Cli, command: str) -> None:
    process("runs", command, "nope").assert_one_clear_line(3, "nope", "runs list")


def test_a_damaged_record_is_one_line(cli: Cli, store: RunStore) -> None:
    run_id = record(store)
    (store.runs / run_id / "run.json").write_text("{")
    cli("runs", "show", run_id).assert_one_clear_line(3, "run.json")
    assert "damaged" in cli("runs", "list").out


@pytest.mark.parametrize(
    "odd",
    [
        {"created": 5}, {"task": None}, {"task": []}, {"spend": "much"}, {"workflow": "search"},
        {"schema": "x"}, {"exit_code": "zero"}, {"base": 3},
    ],
)  # fmt: skip
def test_one_odd_record_does_not_hide_the_others(cli: Cli, store: RunStore, odd: dict[str, Any]) -> None:
    good = record(store)
    bad = record(store, **odd)
    ended = cli("runs", "list", "--json")
    assert ended.code == 0, ended.err
    outcomes = {entry["run_id"]: entry["outcome"] for entry in json.loads(ended.out)}
    assert outcomes[good] == "verified"
    assert outcomes[bad] == ("verified" if "base" in odd else "damaged")
    assert cli("runs", "gc", "--keep", "9", "--dry-run").code == 0
    assert cli("runs", "show", bad).code in (0, 3)


@pytest.mark.parametrize(("same", "code"), [(True, 0), (False, 1)])
def test_replay_says_whether_the_events_are_the_same(
    cli: Cli, store: RunStore, monkeypatch: pytest.MonkeyPatch, same: bool, code: int
) -> None:
    run_id = record(store)

    async def replayed(reference: str, settings: Any, listener: Any) -> RunResult:
        listener(Notice(text="again"))
        return RunResult(
            run_id=run_id, run_dir=store.runs / run_id, outcome="verified", exit_code=0, summary="",
            workflow="w", base_commit="b", replay_matches=same, difference="" if same else "event 2 differs",
        )  # fmt: skip

    monkeypatch.setattr(replay, "replay_run", replayed)
    ended = cli("runs", "replay", run_id, "--no-stream")
    assert ended.code == code
    assert ("same events" in ended.out) is same
    assert ("event 2 differs" in ended.err) is not same
    document = json.loads(cli("runs", "replay", run_id, "--json").out)
    assert document["same"] is same


def test_gc_removes_what_was_asked_and_says_so_before(cli: Cli, store: RunStore) -> None:
    old, new = record(store, days_ago=9), record(store)
    assert json.loads(cli("runs", "gc", "--older-than", "5", "--dry-run", "--json").out)["removed"] == [old]
    assert len(store.list()) == 2
    assert cli("runs", "gc", "--older-than", "5").out.split() == [old]
    assert [summary.run_id for summary in store.list()] == [new]
    assert len(list(store.trees.iterdir())) == 1
    assert cli("runs", "gc", "--keep", "0").code == 0
    assert list(store.trees.iterdir()) == []


def test_gc_without_a_rule_is_a_usage_error(cli: Cli) -> None:
    cli("runs", "gc").assert_one_clear_line(2, "--keep", "--older-than")
