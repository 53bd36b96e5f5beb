"""Which records of runs may go, and their removal with the base trees that nothing needs any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentforge.core.errors import RecordError
from agentforge.orchestrator.store import OwnedByAnother, RunRecord, RunStore, RunSummary, owned

ABANDONED = timedelta(days=1)
"""An unfinished run younger than this may still be at work and is never removed."""


def removable(
    summaries: Iterable[RunSummary], now: datetime, *, keep: int | None, older_than_days: float | None
) -> Iterator[RunSummary]:
    """Of `summaries` (newest first): those beyond the newest `keep` and older than that, where given."""
    for position, summary in enumerate(summaries):
        age = now - _created(summary, now)
        if summary.outcome == "unfinished" and age < ABANDONED:
            continue
        beyond = keep is None or position >= keep
        if beyond and (older_than_days is None or age > timedelta(days=older_than_days)):
            yield summary


def remove_runs(store: RunStore, run_ids: Iterable[str]) -> list[str]:
    """Remove the directories of `run_ids`; which ones went: one that a process works on stays.

    Raises `RecordError` where removing is not possible.
    """
    return [run_id for run_id in run_ids if _removed(store.open(run_id).directory)]


def _removed(directory: Path) -> bool:
    try:
        lock = owned(directory)
    except OwnedByAnother:
        return False
    try:
        shutil.rmtree(directory)
    except OSError as error:
        what = f"run {directory.name} cannot be removed: {error.strerror}: {error.filename}"
        raise RecordError(what) from None
    finally:
        lock.release()
    return True


def unneeded_trees(store: RunStore, without: Iterable[str] = ()) -> list[Path]:
    """Kept base trees that no run needs, apart from the runs `without`."""
    leaving = set(without)
    needed = {_tree_of(store, run.run_id) for run in store.list() if run.run_id not in leaving}
    kept = sorted(store.trees.glob("*.tar.gz")) if store.trees.is_dir() else []
    return [path for path in kept if path.name.removesuffix(".tar.gz") not in needed]


def _tree_of(store: RunStore, run_id: str) -> str:
    try:
        base = RunRecord(store.runs / run_id).manifest.get("base")
    except RecordError:
        return ""
    return str(base.get("tree", "")) if isinstance(base, dict) else ""


def _created(summary: RunSummary, now: datetime) -> datetime:
    """From the record, else from the id, which begins with the date; a run without either is new."""
    try:
        return datetime.fromisoformat(summary.created)
    except ValueError:
        pass
    try:
        return datetime.strptime(summary.run_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return now
