"""A simulation says that a plan holds, or what is wrong with it; anything else says nothing."""

from __future__ import annotations

import pytest

from agentforge.agents.simulator import parse_simulation


@pytest.mark.parametrize(
    ("text", "critique"),
    [
        ('{"trace": ["x"], "verdict": "holds", "critique": ""}', ""),
        (
            '```json\n{"verdict": "Revise", "critique": "step 2\\n  drops the rest"}\n```',
            "step 2 drops the rest",
        ),
        ('{"verdict": "revise"}', "the simulation does not reach the expected results"),
        ('{"verdict": "perhaps"}', None),
        ("it holds", None),
        ("[]", None),
    ],
)
def test_a_verdict_and_nothing_else_decides(text: str, critique: str | None) -> None:
    assert parse_simulation(text) == critique
