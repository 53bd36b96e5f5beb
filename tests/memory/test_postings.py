from __future__ import annotations

import random
from collections import Counter

import bm25s
import numpy as np
import pytest

from agentforge.memory.postings import Bm25, Living, Segment, bag_up, join_bags


def segment(documents: list[list[int]]) -> Segment:
    return Segment(bag_up([Counter(document) for document in documents]))


def whole(documents: list[list[int]]) -> Bm25:
    return Bm25([Living(segment(documents), np.ones(len(documents), bool))])


def random_documents(seed: int) -> list[list[int]]:
    generator = random.Random(seed)
    return [[generator.randrange(40) for _ in range(generator.randrange(1, 30))] for _ in range(60)]


def test_bm25_equals_the_library() -> None:
    documents = random_documents(7)
    oracle = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    oracle.index((documents, {str(token): token for token in range(40)}), show_progress=False)
    ours = whole(documents)
    for query in ([3], [1, 5, 39], list(range(40))):
        expected = oracle.get_scores([str(token) for token in query])
        assert ours.scores(dict.fromkeys(query, 1.0)) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_bm25_of_nothing() -> None:
    assert Bm25([]).scores({0: 1.0}).shape == (0,)
    assert whole([[]]).scores({1: 1.0}).tolist() == [0.0]
    assert whole([[0]]).scores({}).tolist() == [0.0]


def test_unknown_tokens_score_nothing() -> None:
    assert whole([[0]]).scores({0: 1.0, 9: 1.0})[0] == whole([[0]]).scores({0: 1.0})[0] > 0


def test_several_queries_share_their_work_and_score_as_alone() -> None:
    ours = whole(random_documents(1))
    queries = [{3: 1.0, 5: 0.5}, {5: 2.0}, {}]
    for query, scores in zip(queries, ours.scores_of(queries), strict=True):
        assert scores.tolist() == pytest.approx(ours.scores(query).tolist())


def test_segments_with_dead_documents_score_as_the_living_alone_to_the_last_bit() -> None:
    documents = random_documents(3)
    alive = np.array([number % 3 != 0 for number in range(40)])
    split = Bm25([Living(segment(documents[:40]), alive), Living(segment(documents[40:]), np.ones(20, bool))])
    kept = [number for number in range(60) if number >= 40 or alive[number]]
    fresh = whole([documents[number] for number in kept])
    query = {token: 1.0 + token / 7 for token in (38, 1, 5, 12)}
    assert split.scores(query)[kept].tolist() == fresh.scores(query).tolist()
    assert not split.scores(query)[:40][~alive].any()
    assert split.frequencies([1, 5]).tolist() == fresh.frequencies([1, 5]).tolist()


def test_bags_are_joined_in_order() -> None:
    bags = join_bags([bag_up([{1: 2}, {}]), bag_up([{3: 1, 4: 5}])])
    assert (bags.ids.tolist(), bags.counts.tolist(), bags.sizes.tolist()) == ([1, 3, 4], [2, 1, 5], [1, 0, 2])
