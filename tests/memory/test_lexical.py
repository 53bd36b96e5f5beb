from __future__ import annotations

import random

import bm25s
import numpy as np
import pytest

from agentforge.memory.facts import FactsCache, Vocabulary, blob_id, index_files
from agentforge.memory.lexical import Bm25, LexicalIndex, query_weights
from tests.memory.conftest import make_tree


def test_bm25_equals_the_library() -> None:
    generator = random.Random(7)
    documents = [[generator.randrange(40) for _ in range(generator.randrange(1, 30))] for _ in range(60)]
    oracle = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    oracle.index((documents, {str(token): token for token in range(40)}), show_progress=False)
    ours = Bm25([np.array(document, np.int32) for document in documents], 40)
    for query in ([3], [1, 5, 39], list(range(40))):
        expected = oracle.get_scores([str(token) for token in query])
        assert ours.scores(dict.fromkeys(query, 1.0)) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_bm25_of_nothing() -> None:
    assert Bm25([], 0).scores({0: 1.0}).shape == (0,)
    assert Bm25([np.array([], np.int32)], 3).scores({1: 1.0}).tolist() == [0.0]


def test_tokens_learnt_after_the_index_score_nothing() -> None:
    assert Bm25([np.array([0], np.int32)], 1).scores({0: 1.0, 9: 1.0})[0] > 0


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
    files = tuple(index_files(tree, cache))
    assert [file.path for file in files] == ["a.py", "copy.py"]
    assert cache.computed == 1
    assert LexicalIndex(files, cache).definitions == {"alpha": [0, 1]}
