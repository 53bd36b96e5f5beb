"""The cascade against a scripted model: stages in order, their shares in the record, abstention."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow_load import load_workflow
from tests.orchestrator.test_mars import RIGHT, WORSE, bank, check, draft, run, script, turns

__all__ = ["bank"]

STAGES = ["search", "retry", "bounded-repair", "relay", "abstain"]


def test_the_shipped_cascade_has_its_stages_in_order_of_cost() -> None:
    workflow = load_workflow("cascade", NODES, PREDICATES)
    assert [stage.name for stage in workflow.stages] == STAGES
    assert not workflow.stages[0].workflow.file.needs_model
    assert not workflow.stages[-1].workflow.file.needs_model


@pytest.mark.docker
async def test_what_the_relay_solves_is_counted_for_the_relay(
    bank: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    replies = script(
        ("Numbers",), [draft(RIGHT), check()], coder=lambda body: WORSE, debugger=lambda body: WORSE
    )
    replies |= {"planner": lambda body: "{}"}
    done = await run(bank, configure, fix, replies, "cascade", search__max_candidates=5)
    assert done.result.outcome == "verified", done.result.summary
    ended = done.of_type("stage_finished")
    assert [event.stage for event in ended] == STAGES[:4]
    assert [event.solved for event in ended] == [False, False, False, True]
    assert ended[0].spend.calls == 0
    assert sum(event.spend.calls for event in ended) == len(done.asked)
    manifest = json.loads((done.result.run_dir / "run.json").read_text())
    shares = [(share["stage"], share["solved"], share["spend"]["calls"]) for share in manifest["stages"]]
    assert shares == [(event.stage, event.solved, event.spend.calls) for event in ended]
    assert turns(done)[-1].stopped == "accepted"
    assert not done.of_type("abstained")


@pytest.mark.docker
async def test_a_cascade_without_a_patch_says_what_was_learned(
    bank: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    replies = script(
        ("Numbers",),
        [draft(WORSE), check(known_risks="the remainder is lost", stop=True)],
        coder=lambda body: WORSE,
        debugger=lambda body: WORSE,
        planner=lambda body: "{}",
    )
    done = await run(bank, configure, fix, replies, "cascade", search__max_candidates=5)
    assert done.result.exit_code == 1
    assert [event.stage for event in done.of_type("stage_finished")] == STAGES
    (told,) = done.of_type("abstained")
    text = "\n".join(told.learned)
    assert "tests/test_split.py::test_nothing_is_lost" in text
    assert "shop/money.py" in text
    assert "Search:" in text
    report = (done.result.run_dir / "report.md").read_text()
    assert "## What was learned" in report
    assert told.learned[0] in report
