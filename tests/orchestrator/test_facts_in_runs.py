"""Facts and exploring in whole runs: prompts with and without them, a near miss that becomes verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.replay import replay_run
from tests.orchestrator.conftest import SHOP, make_repository
from tests.orchestrator.test_five_agents import PASS
from tests.support.model_server import Body, ScriptedModel

pytestmark = pytest.mark.docker

TEST = "tests/test_money.py"
FILES = SHOP | {
    TEST: SHOP[TEST]
    + "\n\ndef test_rest():\n    assert split(10, 3) == [4, 3, 3]\n\n\n"
    + "def test_more():\n    assert split(5, 2) == [3, 2]\n"
}
TARGETS = (f"{TEST}::test_rest", f"{TEST}::test_more")
PLAN = json.dumps(
    {
        "explanation": "split drops the remainder",
        "steps": [
            {"id": "S1", "agent": "coder", "description": "hand it out", "files": ["shop/money.py"]},
        ],
    }
)
WRONG = (
    "```python\ndef split(cents, people):\n    share = cents // people\n    return [share + 1] * people\n```"
)
NEAR = """```python
def split(cents, people):
    share = cents // people
    left = cents - share * people
    return [share + 1] * left + [share] * (people + left)
```"""


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "bank", FILES)


def scripted(**changes: Any) -> Callable[[Body], str]:
    replies = {"planner": PLAN, "coder": WRONG, "debugger": NEAR, "critic": PASS} | changes
    return lambda body: str(replies[str(body["_agent"])])


async def test_facts_are_in_the_prompts_and_an_ablation_takes_them_out(
    bank: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    prompts: dict[str, list[str]] = {}
    for workflow in ("retry", "retry-no-facts"):
        with ScriptedModel(scripted()) as server:
            settings = configure(
                model__base_url=server.base_url, model__edit_format="symbol", workflow=workflow, retries=1
            )
            run = await fix(bank, settings, target_tests=TARGETS)
            prompts[workflow] = [body["messages"][-1]["content"] for body in server.requests]
            again = await replay_run(run.result.run_id, settings, lambda event: None)
            assert again.replay_matches, again.difference
        assert len(run.of_type("facts_found")) == (workflow == "retry")
    assert len(prompts["retry"]) == len(prompts["retry-no-facts"]) == 2, "coder, then debugger"
    for with_facts, without in zip(*prompts.values(), strict=True):
        assert "Suspicious lines, most suspicious first" in with_facts
        assert "shop/money.py:12  return [share] * people  (2 / 1)" in with_facts
        assert "split(cents=10, people=3) returned [3, 3, 3]; at its end share=3" in with_facts
        assert "Suspicious" not in without
        assert "returned [3, 3, 3]" not in without


async def test_a_near_miss_is_searched_around_and_becomes_verified(
    bank: Path, configure: Callable[..., Any], fix: Callable[..., Any], tmp_path: Path
) -> None:
    patient = tmp_path / "patient.yaml"  # for a busy machine
    patient.write_text("name: patient\nextends: agentforge\nnodes: { explore: { with: { time_s: 150 } } }\n")
    with ScriptedModel(scripted()) as server:
        settings = configure(
            model__base_url=server.base_url, model__edit_format="symbol", workflow=str(patient), retries=1
        )
        run = await fix(bank, settings, target_tests=TARGETS)
        asked = [str(body["_agent"]) for body in server.requests]
        planned = server.requests[0]["messages"][-1]["content"]
        again = await replay_run(run.result.run_id, settings, lambda event: None)
    assert run.result.outcome == "verified", run.result.summary
    assert asked == ["planner", "coder", "debugger", "critic"]
    assert "Observed when the tests run on this code" in planned
    (told,) = run.of_type("explored")
    assert (told.candidate, told.failing, bool(told.found)) == ("c1", tuple(sorted(TARGETS)), True)
    assert [event.origin for event in run.of_type("patch_proposed")] == ["coder", "debugger", "explorer"]
    decided = [(event.candidate, event.decision.verdict.value) for event in run.of_type("gate_decided")]
    assert decided == [("c0", "refused"), ("c1", "refused"), ("x1", "verified")]
    assert b"[share] * (people - left)" in run.result.patch.diff
    assert again.replay_matches, again.difference
