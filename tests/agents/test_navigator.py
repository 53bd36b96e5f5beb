"""What the navigator's answers mean."""

from __future__ import annotations

import pytest

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
