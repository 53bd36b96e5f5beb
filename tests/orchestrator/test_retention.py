"""Old records go, with the base trees that nothing needs; what may still be at work stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge.core.errors import RecordError
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.retention import removable, remove_runs, unneeded_trees
from agentforge.orchestrator.store import RunStore

NOW = datetime(2030, 6, 15, 12, tzinfo=UTC)


def make(store: RunStore, days_ago: float, *, outcome: str | None = "verified", text: bytes = b"x") -> str:
    created = NOW - timedelta(days=days_ago)
    tree = Tree({"a.py": TreeFile(text)})
    store.keep_tree(tree)
    writer = store.create(created)
    writer.write_manifest({"created": created.isoformat(), "outcome": outcome, "base": {"tree": tree.digest}})
    writer.close()
    return writer.run_id


def doomed(store: RunStore, *, keep: int | None = None, older_than_days: float | None = None) -> list[str]:
    found = removable(store.list(), NOW, keep=keep, older_than_days=older_than_days)
    return [summary.run_id for summary in found]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path)


def test_keep_and_age_are_both_respected(store: RunStore) -> None:
    old, middle, new = make(store, 30), make(store, 10), make(store, 1)
    assert doomed(store, keep=2) == [old]
    assert doomed(store, older_than_days=5) == [middle, old]
    assert doomed(store, keep=2, older_than_days=5) == [old]
    assert doomed(store, keep=0) == [new, middle, old]


def test_a_run_that_may_be_at_work_stays(store: RunStore) -> None:
    make(store, 0.5, outcome=None)
    dead = make(store, 3, outcome=None)
    assert doomed(store, keep=0) == [dead]


def test_a_damaged_record_is_dated_by_its_name(store: RunStore) -> None:
    run_id = make(store, 30)
    (store.runs / run_id / "run.json").write_text("{")
    assert doomed(store, older_than_days=29) == [run_id]
    assert doomed(store, older_than_days=31) == []


def test_trees_go_with_the_last_run_that_needs_them(store: RunStore) -> None:
    first, second, other = make(store, 3), make(store, 2), make(store, 1, text=b"y")
    assert unneeded_trees(store) == []
    assert unneeded_trees(store, without=[first]) == []
    assert len(unneeded_trees(store, without=[first, second])) == 1
    remove_runs(store, [first, second])
    assert [summary.run_id for summary in store.list()] == [other]
    assert len(unneeded_trees(store)) == 1


def test_an_unknown_run_is_an_error(store: RunStore) -> None:
    with pytest.raises(RecordError):
        remove_runs(store, ["nothing"])
