"""What the navigator's answers mean, and which plans count as the same."""

from __future__ import annotations

import pytest

from agentforge.agents.clusters import clusters
from agentforge.agents.navigator import Course, Proposed, parse_choice, parse_course, parse_plans


@pytest.mark.parametrize(
    ("text", "plans"),
    [
        (
            '{"plans": [{"plan": "round\\n it", "steps": ["a", ""], "files": ["m.py"]}, {}, 7]}',
            (Proposed(plan="round it", steps=("a",), files=("m.py",)),),
        ),
        ('[{"plan": "one"}, {"plan": "two"}]', (Proposed(plan="one"), Proposed(plan="two"))),
        ('```json\n{"plan": "alone", "steps": "a\\nb"}\n```', (Proposed(plan="alone", steps=("a", "b")),)),
        ('{"plans": "none"}', ()),
        ("I would round it.", ()),
    ],
)
def test_plans_are_read_leniently(text: str, plans: tuple[Proposed, ...]) -> None:
    assert parse_plans(text) == plans


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ('{"reason": "it is right", "choice": 2}', 1),
        ('{"choice": "1"}', 0),
        ('{"choice": 0}', None),
        ('{"choice": 4}', None),
        ('{"choice": true}', None),
        ("the second", None),
    ],
)
def test_a_choice_names_a_plan_that_there_is(text: str, index: int | None) -> None:
    assert parse_choice(text, 3) == index


@pytest.mark.parametrize(
    ("text", "course"),
    [
        ('{"cause": "c", "action": "Repair", "strategy": "swap\\n them"}', Course("repair", "swap them")),
        ('{"strategy": "swap them"}', Course("repair", "swap them")),
        ('{"action": "turn", "strategy": "x"}', Course("turn")),
        ('{"action": "rest"}', None),
        ("turn", None),
    ],
)
def test_a_course_is_a_repair_or_a_turn(text: str, course: Course | None) -> None:
    assert parse_course(text) == course


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
