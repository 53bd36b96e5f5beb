"""Trial rows are read strictly, and rows that must not be pooled are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import ConfigError
from agentforge.evaluation.contrast import compare
from agentforge.evaluation.trials import PoolingRefused, TrialRow, read_rows


def row(**changes: Any) -> dict[str, Any]:
    return {"run": "a", "problem": "p", "trial": 0, "passed": True, "condition": "SO", **changes}


def rows(*records: dict[str, Any]) -> list[TrialRow]:
    return [TrialRow.model_validate(record) for record in records]


def refusal(*records: dict[str, Any]) -> str:
    with pytest.raises(PoolingRefused) as refused:
        compare(rows(*records))
    return str(refused.value)


def test_eg16_duplicate_lines_are_refused_and_the_first_is_named() -> None:
    told = refusal(row(), row(seed=3), row(trial=1))
    assert "1 duplicate rows (first: run a, problem p, trial 0)" in told


def test_eg14_eg15_a_run_that_mixes_conditions_or_models_is_refused() -> None:
    assert "run a mixes 2 values of condition: MF, SO" in refusal(row(), row(trial=1, condition="MF"))
    assert "of model: big, small" in refusal(row(model="big"), row(trial=1, model="small"))
    assert "of config_hash" in refusal(row(config_hash="1"), row(trial=1, config_hash="2"))
    assert "of retry_budget" in refusal(row(retry_budget=1), row(trial=1, retry_budget=2))


def test_eg16_two_harness_versions_are_refused_within_and_between_runs() -> None:
    assert "of harness: 4.1, 5.0" in refusal(row(harness="4.1"), row(trial=1, harness="5.0"))
    between = refusal(row(harness="4.1"), row(run="b", harness="5.0"))
    assert "different harness versions (a: 4.1, b: 5.0)" in between


def test_rows_that_contradict_themselves_are_refused() -> None:
    assert "passed with 3 of 5 tests" in refusal(row(tests_passed=3, tests_total=5))
    assert "6 of 5 tests passed" in refusal(row(passed=False, tests_passed=6, tests_total=5))
    assert "in several categories: dp, graph" in refusal(row(category="dp"), row(run="b", category="graph"))


def test_every_reason_is_told_at_once() -> None:
    told = refusal(row(), row(), row(trial=1, condition="MF"))
    assert "duplicate" in told
    assert "mixes" in told


def test_runs_with_other_problems_are_paired_over_the_shared_ones_and_the_rest_is_named() -> None:
    paired = compare(rows(row(), row(problem="q", passed=False), row(run="b"), row(run="b", problem="r")))
    contrast = paired["paired"]["a->b"]
    assert contrast["n"] == 1
    assert contrast["unpaired_problems"] == ["q", "r"]


def test_eg18_runs_without_a_shared_problem_give_no_test() -> None:
    paired = compare(rows(row(), row(run="b", problem="q")))["paired"]
    assert paired["a->b"] == {"n": 0, "unpaired_problems": ["p", "q"]}


def test_af40_harness_failures_stay_in_the_denominator_and_are_counted_apart() -> None:
    summary = compare(rows(row(), row(problem="q", passed=False, error_class="harness_error")))["runs"]["a"]
    assert summary["pass_rate"] == 0.5
    assert summary["harness_failures"] == 1


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    assert compare(rows(row(cost_usd=0.5), row(trial=1)))["runs"]["a"]["cost_usd_total"] is None
    assert (
        compare(rows(row(cost_usd=0.5), row(trial=1, cost_usd=0.25)))["runs"]["a"]["cost_usd_total"] == 0.75
    )


def test_agent_failures_are_held_against_independence() -> None:
    told = compare(
        rows(
            row(agents={"planner": True, "coder": False}, passed=False),
            row(trial=1, agents={"planner": False, "coder": True}, passed=False),
        )
    )["runs"]["a"]
    assert told["agent_failure_rates"] == {"planner": 0.5, "coder": 0.5}
    assert told["all_agents_succeed"] == {"observed": 0.0, "if_independent": 0.25, "n": 2}


def test_a_torn_last_line_is_left_out_and_a_broken_one_inside_is_not(tmp_path: Path) -> None:
    good = json.dumps(row())
    torn = tmp_path / "torn.jsonl"
    torn.write_text(good + "\n" + good[:20])
    assert len(read_rows(torn)) == 1
    torn.write_text(good[:20] + "\n" + good + "\n")
    with pytest.raises(ConfigError, match="line 1 is not valid JSON"):
        read_rows(torn)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (row(passed=1), "passed"),
        (row(wallclock=float("inf")), "wallclock"),
        (row(tokens_in=-1), "tokens_in"),
        ({"run": "a", "passed": True}, "problem"),
        ("text", "row"),
    ],
)
def test_a_wrong_row_is_named_with_its_place_and_field(tmp_path: Path, record: Any, told: str) -> None:
    source = tmp_path / "rows.json"
    source.write_text(json.dumps([row(), record]))
    with pytest.raises(ConfigError, match=f"row 2: {told}"):
        read_rows(source)


def test_a_batch_folder_is_read_through_its_rows(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").write_text(json.dumps(row()) + "\n")
    assert read_rows(tmp_path)[0].problem == "p"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rows(tmp_path / "absent.json")
