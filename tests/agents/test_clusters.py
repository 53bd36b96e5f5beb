"""Which plans count as the same."""

from __future__ import annotations

from agentforge.agents.clusters import clusters


def test_plans_of_one_approach_are_one_cluster_and_the_largest_comes_first() -> None:
    plans = [
        "sort the array then scan neighbours",
        "dynamic programming over prefixes with a table",
        "sort the array and scan the neighbours once",
        "sort the array, scan neighbours in order",
        "dynamic programming with a table over suffixes and prefixes",
        "breadth first search from every vertex",
    ]
    found = clusters(plans, 3)
    assert [sorted(group) for group in found] == [[0, 2, 3], [1, 4], [5]]
    same_words = clusters([*plans, *plans], 20)
    assert [sorted(group) for group in same_words] == [[0, 2, 6, 8], [1, 7], [3, 9], [4, 10], [5, 11]]


def test_clusters_of_nothing_of_one_and_of_texts_without_words() -> None:
    assert clusters([], 3) == ()
    assert clusters(["one plan"], 3) == ((0,),)
    assert [sorted(group) for group in clusters(["", "+", ""], 2)] == [[0, 1, 2]]
    assert [sorted(group) for group in clusters(["a b", "c d"], 1)] == [[0, 1]]
