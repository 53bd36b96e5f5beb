from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentforge.core.retrieval import Commit
from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.facts import FactsCache
from agentforge.memory.factstore import DiskFacts
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.store import VectorStore
from tests.memory.conftest import make_tree

FILES = {
    "a.py": "def alpha_beta():\n    return 'first version'\n",
    "b.py": "def gamma():\n    pass\n\n\ndef delta():\n    pass\n",
}


def test_an_unchanged_file_is_neither_split_nor_embedded_again(store: VectorStore) -> None:
    index = RepositoryIndex(store)
    status = index.build(make_tree(FILES))
    assert (status.files, status.symbols, status.embedded, status.stored) == (2, 3, 3, 3)
    embedded: list[int] = []
    embed = store.embedder.embed
    store.embedder.embed = lambda texts: (embedded.append(len(texts)), embed(texts))[1]  # type: ignore[method-assign]
    moved = make_tree({"moved/b.py": FILES["b.py"], "a.py": FILES["a.py"] + "\n\ndef new(): pass\n"})
    assert index.build(moved).embedded == 4
    assert sum(embedded) == 2, "only the two symbols of the file that changed"
    assert index.computed == 3


def test_switching_branches_and_back_embeds_and_splits_nothing_again(
    store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, branch = make_tree(FILES), make_tree({**FILES, "a.py": "def other(): pass\n", "c.py": "c = 1\n"})
    index = RepositoryIndex(store)
    for tree in (main, branch):
        index.build(tree)
    split = index.computed
    embedded: list[str] = []
    embed = store.embedder.embed
    monkeypatch.setattr(store.embedder, "embed", lambda texts: (embedded.extend(texts), embed(texts))[1])
    for tree in (main, branch, main):
        status = index.build(make_tree({path: tree.files[path].data.decode() for path in tree.paths()}))
        assert status.embedded == status.symbols
    assert (embedded, index.computed) == ([], split)


def test_vectors_survive_into_a_new_index(store: VectorStore) -> None:
    RepositoryIndex(store).build(make_tree(FILES))
    assert RepositoryIndex(store).status(make_tree(FILES)).embedded == 3


def test_a_query_compares_vectors_and_says_so(store: VectorStore) -> None:
    index = RepositoryIndex(store)
    found = index.search("alpha beta fails", make_tree(FILES))
    assert found[0].name == "alpha_beta"
    assert any(why.startswith("vectors") for why in found[0].why)
    assert not store.exists(), "what is made offline in microseconds is not written for one query"


def test_af19_after_an_edit_a_query_returns_only_the_new_text(store: VectorStore) -> None:
    """Edit, rename, delete; the vectors of the old text are still stored and must not come back."""
    index = RepositoryIndex(store)
    index.build(make_tree(FILES))
    edited = make_tree({"renamed.py": "def alpha_beta():\n    return 'second version'\n"})
    found = index.search("alpha_beta gamma delta version", edited, k=20)
    assert {symbol.path for symbol in found} == {"renamed.py"}
    assert "second version" in found[0].text
    assert not any("first version" in symbol.text for symbol in found)


def test_af18_a_symbol_is_never_cut(store: VectorStore) -> None:
    body = "".join(f"    step_{n} = {n}  # unusual_word\n" for n in range(300))
    found = RepositoryIndex(store).search(
        "unusual_word", make_tree({"a.py": f"def long_one():\n{body}"}), k=1
    )
    assert len(found[0].text.splitlines()) == 301


def test_links_submodules_and_binaries_are_not_indexed(store: VectorStore) -> None:
    tree = Tree(
        {
            "link.py": TreeFile(b"../../etc/passwd", "120000"),
            "bin.py": TreeFile(b"\0\1\2"),
            "latin.py": TreeFile("def größe(): 'é'\n".encode("latin-1")),
        },
        frozenset({"sub"}),
    )
    assert [file.path for _, file in RepositoryIndex().open(tree).index.living()] == ["latin.py"]


def test_a_thousand_files_are_indexed_in_time() -> None:
    files = {
        f"pkg{n // 50}/module_{n}.py": "".join(
            f"class Thing{n}_{m}:\n    def method_{m}(self, value_{m}):\n        return value_{m} + {m}\n\n"
            for m in range(30)
        )
        for n in range(1000)
    }
    started = time.process_time()
    search = RepositoryIndex().open(make_tree(files))
    assert time.process_time() - started < 20
    assert search.search("Thing700_12 fails")[0].path == "pkg14/module_700.py"


def test_facts_outlive_the_process_and_a_damaged_row_is_computed_again(tmp_path: Path) -> None:
    tree = make_tree(FILES)
    first = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    expected = first.search("alpha_beta gamma", tree)
    again = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    assert again.search("alpha_beta gamma", tree) == expected
    assert (first.computed, again.computed) == (2, 0)
    with sqlite3.connect(tmp_path / "facts.sqlite3") as connection:
        connection.execute("UPDATE facts2 SET data = substr(data, 1, 40)")
    connection.close()
    third = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    assert third.search("alpha_beta gamma", tree) == expected
    assert third.computed == 2


def test_an_interrupted_build_keeps_what_it_did(tmp_path: Path) -> None:
    tree = make_tree({f"m{n}.py": f"def f{n}(): pass\n" for n in range(50)})

    def interrupt(done: int, total: int) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path))).open(tree, interrupt)
    again = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    assert again.search("`f49`", tree)[0].name == "f49"
    assert again.computed == 20


def test_the_past_of_the_repository_helps_the_ranking() -> None:
    tree = make_tree({"a.py": "def one(): pass\n", "b.py": "def two(): pass\n", "c.py": "x = 1  # same\n"})
    index = RepositoryIndex()
    issue = "tables overflow their margin"
    assert index.search(issue, tree) == []
    index.learn_history(
        [
            Commit(id="2", time=200, message="Mend the margin of tables", paths=("b.py",)),
            Commit(id="1", time=100, message="Start", paths=("a.py", "b.py", "c.py")),
        ]
    )
    best = index.search(issue, tree)[0]
    assert best.path == "b.py"
    assert any("commit" in why for why in best.why)


NAMES = st.sampled_from(["a.py", "b.py", "sub/c.py"])
TEXTS = st.sampled_from(
    ["", "def alpha(): pass\n", "def beta(): alpha()\n", "class Gamma:\n    x = 1\n", "broken(\n"]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NAMES, st.one_of(st.none(), TEXTS)), max_size=8))
@example([("b.py", "def beta(): alpha()\n"), ("a.py", "def beta(): alpha()\n")])  # two files that tie
def test_any_sequence_of_edits_ranks_as_a_fresh_index_does(edits: list[tuple[str, str | None]]) -> None:
    index, tree = RepositoryIndex(), make_tree({"a.py": "def alpha(): pass\n"})
    for path, text in edits:
        tree = tree.with_changes({path: None if text is None else TreeFile(text.encode())})
        index.open(tree)
    issue = "`alpha` and beta fail in class Gamma of sub.c"
    assert index.search(issue, tree, 20) == RepositoryIndex().search(issue, tree, 20)
    assert index.open(tree).rank_files(issue, 20) == RepositoryIndex().open(tree).rank_files(issue, 20)


def test_the_facts_on_disk_stop_growing_and_the_oldest_go_first(tmp_path: Path) -> None:
    for start in range(0, 400, 100):
        tree = make_tree(
            {f"m{n}.py": f"def function_{n}(): return {n}\n" * 20 for n in range(start, start + 100)}
        )
        RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path, max_bytes=60_000))).open(tree)
    newest = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    newest.open(make_tree({"m399.py": "def function_399(): return 399\n" * 20}))
    oldest = RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path)))
    oldest.open(make_tree({"m0.py": "def function_0(): return 0\n" * 20}))
    assert (newest.computed, oldest.computed) == (0, 1)
    assert (tmp_path / "facts.sqlite3").stat().st_size < 150_000


def test_facts_of_another_format_go_only_for_want_of_room(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE facts1 (key TEXT PRIMARY KEY, data BLOB)")
        connection.execute("INSERT INTO facts1 VALUES ('k', zeroblob(200000))")
    connection.close()

    def tables() -> set[str]:
        with sqlite3.connect(path) as connection:
            found = {
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
            }
        connection.close()
        return found

    RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path))).open(make_tree(FILES))
    assert tables() == {"facts1", "facts2"}
    RepositoryIndex(cache=FactsCache(DiskFacts(tmp_path, max_bytes=100_000))).open(
        make_tree({"x.py": "x = 1\n"})
    )
    assert tables() == {"facts2"}
