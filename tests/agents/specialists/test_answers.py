"""Structured answers: what decides is strict, what does not is tolerant."""

from __future__ import annotations

import json

import pytest

from agentforge.agents.specialists.answers import (
    parse_assessment,
    parse_check,
    parse_draft,
    parse_probe,
)

FENCED = "pkg/a.py\n```python\ndef f():\n    return {'action': 1}\n```\n"


def test_ma_r2_only_a_json_true_is_a_yes():
    yes = {"can_solve": True, "is_relevant_to_specialty": True, "confidence": 0.8, "reasoning": "r"}
    assert parse_assessment(json.dumps(yes)).eligible
    for field in ("can_solve", "is_relevant_to_specialty"):
        for value in ("true", 1, None, "yes"):
            assert not parse_assessment(json.dumps({**yes, field: value})).eligible
    assert not parse_assessment("I can solve this: can_solve true").eligible


@pytest.mark.parametrize("value", [7, -1, "high", True, None])
def test_a_confidence_out_of_range_counts_nothing(value):
    answer = {"can_solve": True, "is_relevant_to_specialty": True, "confidence": value}
    assert parse_assessment(json.dumps(answer)).confidence == 0.0


def test_ma_r4_the_probe_becomes_a_contract():
    answer = {
        "can_start": True,
        "start_confidence": 0.7,
        "owned_subproblem": "the recurrence",
        "what_would_you_do_first": "the state",
        "out_of_scope": ["reading"],
    }
    contract = parse_probe(json.dumps(answer), "dp")
    assert (contract.can_start, contract.start_confidence) == (True, 0.7)
    assert contract.out_of_scope == ("reading",)
    assert not parse_probe("no idea", "dp").can_start


def test_code_may_stand_in_the_object_or_behind_it():
    inside = parse_draft(json.dumps({"action": "write_code", "new_code": "x = 1\n", "stop": False}))
    behind = parse_draft('{"action": "write_code", "new_code": "", "stop": true}\n\n' + FENCED)
    fenced = parse_draft('```json\n{"action": "write_code", "new_code": ""}\n```\n' + FENCED)
    assert inside.code == "x = 1\n"
    assert behind.code.startswith("pkg/a.py\n```python")
    assert behind.stop
    assert fenced.code.startswith("pkg/a.py\n```python")
    assert parse_draft(FENCED).action == "write_code"


def test_ma_r8_no_change_has_no_code_and_write_code_has_some():
    kept = parse_draft('{"action": "no_change", "new_code": "x = 1"}')
    assert (kept.action, kept.code) == ("no_change", "")
    assert parse_draft('{"action": "write_code", "new_code": ""}').action == "unusable"
    assert parse_draft("").action == "unusable"


def check(**changes):
    answer = {"self_check_action": "keep_code", "new_code": "", "stop": False, "next_agent": "b", **changes}
    return parse_check(json.dumps(answer), "a", ("b", "c"))


def test_ma_r8_the_next_agent_is_an_available_one_or_the_fallback():
    assert check().check.next_agent == "b"
    for wrong in ("a", "zzz", None, 3, ["b"]):
        answer = check(next_agent=wrong).check
        assert answer.next_agent is None
        assert answer.problems
    assert check(stop=True).check.next_agent is None
    assert not check(stop="true").check.stop


def test_ma_r8_code_counts_for_a_repair_only():
    assert check(new_code="x").code == ""
    assert check(self_check_action="repair_code", new_code="x").code == "x"
    assert check(self_check_action="repair_code").check.action == "keep_code"
    assert check(self_check_action="rewrite everything").check.action == "keep_code"
    assert parse_check("gibberish", "a", ("b",)).check.action == "unusable"
