"""The reviewer's question wants one thing, and an answer without a verdict has none."""

from __future__ import annotations

import json

import pytest

from agentforge.agents.prompts import render
from agentforge.agents.reviewer import parse_review

FULL = {"invariants": ["sorted"], "potential_failures": ["an empty list"], "severity": "High"}


def test_eg27_the_prompt_asks_for_one_form_only() -> None:
    messages = render("reviewer", issue="It is slow.", diff="-a\n+b\n")
    said = "\n".join(message.content for message in messages)
    assert said.count('"severity"') == 1
    assert "LOGIC_" not in said
    assert "only advises" in said


@pytest.mark.parametrize(
    "text", ["", "LOGIC_OK", "severity: low", '{"severity": "fatal"}', '{"potential_failures": ["x"]}', "[1]"]
)
def test_eg27_what_cannot_be_read_is_unparsed_and_no_low_severity(text: str) -> None:
    review = parse_review(text)
    assert (review.severity, review.potential_failures) == ("unparsed", ())


def test_the_schema_is_read_wherever_it_stands() -> None:
    review = parse_review(f"LOGIC_FAIL\n```json\n{json.dumps(FULL)}\n```\nThat is all.")
    assert (review.severity, review.invariants) == ("high", ("sorted",))
    assert review.potential_failures == ("an empty list",)
