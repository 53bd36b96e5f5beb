from __future__ import annotations

import asyncio
import time
from pathlib import Path

import filelock
import pytest

from agentforge.config.settings import MemorySettings
from agentforge.core.ports import Retriever
from agentforge.core.retrieval import Episode, Retrieved
from agentforge.core.task import Issue
from agentforge.memory.retriever import MemoryRetriever
from agentforge.memory.store import DATABASE, LOCK
from tests.memory.conftest import make_tree

TREE = make_tree({"urls.py": "def parse_url(text):\n    return text\n", "other.py": "x = 1\n"})
ISSUE = Issue(title="parse_url drops the port", text="`parse_url` drops the port")
FIX = Episode(
    id="", repository="owner/name", issue="parse_url drops the port", patch="diff", summary="kept it"
)


def make(home: Path, warnings: list[str], *, enabled: bool = True, timeout_s: float = 5) -> MemoryRetriever:
    return MemoryRetriever(MemorySettings(enabled=enabled), home, warnings.append, timeout_s=timeout_s)


async def test_both_memories_feed_the_planner(tmp_path: Path) -> None:
    warnings: list[str] = []
    retriever: Retriever = make(tmp_path, warnings)
    first = await retriever.retrieve(ISSUE, TREE)
    assert (first.symbols[0].name, first.episodes) == ("parse_url", ())
    await retriever.store(FIX)
    second = await make(tmp_path, warnings).retrieve(ISSUE, TREE, k=1)
    assert [one.summary for one in second.episodes] == ["kept it"]
    assert len(second.symbols) == 1
    assert warnings == []


@pytest.mark.parametrize(("part", "name"), [("memory", DATABASE), ("index", "facts.sqlite3")])
async def test_complaint24_a_corrupt_store_is_one_warning_and_no_failure(
    tmp_path: Path, part: str, name: str
) -> None:
    (tmp_path / part).mkdir()
    (tmp_path / part / name).write_bytes(b"not a database" * 999)
    warnings: list[str] = []
    retriever = make(tmp_path, warnings)
    for _ in range(2):
        await retriever.store(FIX)
        found = await retriever.retrieve(ISSUE, TREE)
        assert found.symbols[0].name == "parse_url"
        assert len(found.episodes) == (0 if part == "memory" else 1)
    assert len(warnings) == 1
    assert "not a database" in warnings[0]
    assert (tmp_path / part / name).read_bytes() == b"not a database" * 999


async def test_a_locked_store_is_waited_for_once(tmp_path: Path) -> None:
    await make(tmp_path, []).store(FIX)
    warnings: list[str] = []
    retriever = make(tmp_path, warnings, timeout_s=0.3)
    with filelock.FileLock(tmp_path / "memory" / LOCK):
        assert (await retriever.retrieve(ISSUE, TREE)).episodes == ()
    assert len(warnings) == 1
    assert "locked" in warnings[0]
    assert len((await retriever.retrieve(ISSUE, TREE)).episodes) == 1


async def test_a_data_home_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    found = await make(tmp_path / "file", warnings).retrieve(ISSUE, TREE)
    assert found.symbols
    assert len(warnings) >= 1


async def test_disabled_memory_reads_and_writes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    retriever = make(home, [], enabled=False)
    await retriever.store(FIX)
    assert await retriever.retrieve(ISSUE, TREE) == Retrieved()
    assert not await asyncio.to_thread(home.exists)


async def test_the_event_loop_goes_on_while_memory_works(tmp_path: Path) -> None:
    tree = make_tree({f"m{n}.py": "def f(x):\n    return x\n" * 100 for n in range(150)})
    task = asyncio.create_task(make(tmp_path, []).retrieve(ISSUE, tree))
    longest, last = 0.0, time.monotonic()
    while not task.done():
        await asyncio.sleep(0.01)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert longest < 0.8
