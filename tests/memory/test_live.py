"""The live index of a directory: what a server or `index watch` holds open."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.core.errors import RepositoryError
from agentforge.memory.facts import FactsCache
from agentforge.memory.factstore import DiskFacts
from agentforge.memory.live import LiveIndex
from agentforge.memory.repo_index import RepositoryIndex


def test_a_query_sees_the_saved_file_and_only_its_new_text(tmp_path: Path) -> None:
    root, told = tmp_path / "project", []
    root.mkdir()
    (root / "shop.py").write_text("def old_price(): return 1\n")
    index = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path / "index")))
    with LiveIndex(root, index, told.append, lambda paths, count: told.append(count)) as live:
        assert [one.name for one in live.search("`old_price` is wrong")] == ["old_price"]
        (root / "shop.py").write_text("def new_price(): return 2\n\ndef tax(): return 3\n")
        assert live.wait_for_edit(0, 20)
        assert [file.path for file in live.files("`new_price` is wrong")] == ["shop.py"]
        found = live.search("`new_price` is wrong, not `old_price`")
        assert found[0].name == "new_price"
        assert "old_price" not in "".join(one.text for one in found)
        assert (live.symbols, live.edits) == (2, 1)
        assert not live.wait_for_edit(1, 0.05)
    assert told == [2]


def test_edits_that_settled_need_no_splitting_in_the_next_process(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("a = 1\n")
    first = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path / "index")))
    with LiveIndex(root, first, print) as live:
        (root / "b.py").write_text("b = 1\n")
        assert live.wait_for_edit(0, 20)
    again = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path / "index")))
    with LiveIndex(root, again, print):
        assert again.computed == 0


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError), LiveIndex(tmp_path / "gone", RepositoryIndex(), print):
        pass
