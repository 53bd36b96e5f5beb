from __future__ import annotations

import numpy as np
import pytest

from agentforge.core.tree import TreeFile
from agentforge.memory.facts import FactsCache, Vocabulary, blob_id
from agentforge.memory.lexical import LexicalIndex, query_weights
from tests.memory.conftest import make_tree


def test_repeated_query_words_count_by_their_logarithm() -> None:
    vocabulary = Vocabulary()
    vocabulary.learn(["alpha", "beta"])
    weights = query_weights(vocabulary, [("alpha alpha alpha beta unknown", 1.0)])
    assert weights[0] == pytest.approx(1 + np.log(3))
    assert weights[1] == pytest.approx(1.0)


def test_blob_id_is_gits() -> None:
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_index_holds_source_files_only_and_computes_each_content_once() -> None:
    cache = FactsCache()
    tree = make_tree({"a.py": "def alpha(): pass\n", "copy.py": "def alpha(): pass\n", "b.txt": "alpha"})
    index = LexicalIndex.of(tree, cache)
    assert [file.path for file in index.files] == ["a.py", "copy.py"]
    assert cache.computed == 1
    assert index.definitions("alpha") == [0, 1]


def test_an_edit_leaves_the_first_part_alone_and_its_old_text_dead() -> None:
    tree = make_tree({"a.py": "def alpha(): pass\n", "b.py": "from a import alpha\n\n\ndef beta(): pass\n"})
    first = LexicalIndex.of(tree, FactsCache())
    edited = tree.with_changes({"a.py": TreeFile(b"def gamma(): pass\n"), "c.py": TreeFile(b"import b\n")})
    second = first.updated(edited)
    assert second.definitions("alpha") == []
    (gamma,) = second.definitions("gamma")
    assert second.files[second.symbol(gamma).file].path == "a.py"
    assert second.symbol_count == 3, "gamma, the head of b, beta; nothing in c is worth a symbol"
    assert {second.files[n].path for n in second.importers_of(second.modules["b"])} == {"c.py"}
    assert {second.files[n].path for n in second.imported_by(second.modules["b"])} == {"a.py"}
    assert first.definitions("alpha") == [0], "an index never changes"


def test_a_large_change_makes_a_new_first_part() -> None:
    before = make_tree({f"m{n}.py": f"def f{n}(): pass\n" for n in range(300)})
    after = make_tree({f"k{n}.py": f"def g{n}(): pass\n" for n in range(300)})
    index = LexicalIndex.of(before, FactsCache()).updated(after)
    assert len(index.files) == index.symbol_count == 300
