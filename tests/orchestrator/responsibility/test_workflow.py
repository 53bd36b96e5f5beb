"""AuditCoder on a real small repository, with a scripted model over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.core.errors import ExitCode
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.responsibility.check import check, read_stored
from agentforge.orchestrator.store import RunStore
from tests.support.model_server import ScriptedModel

pytestmark = pytest.mark.docker

GRAPH = {
    "explanation": "split and with_tax are parts of their own",
    "nodes": [
        {"id": "S0", "parent": "", "leaf": False, "goal": "amounts in cents"},
        {
            "id": "S1",
            "parent": "S0",
            "leaf": True,
            "goal": "hand out the remainder",
            "category": "math",
            "files": ["shop/money.py"],
            "symbols": ["split"],
            "inputs": {"cents": "task", "people": "task"},
            "outputs": ["shares"],
            "contract": {"name": "split", "args": ["cents", "people"], "returns": "list[int]"},
            "budget": "O(n)",
            "checks": ["sum(split(10, 3)) == 10"],
        },
        {
            "id": "S2",
            "parent": "S0",
            "leaf": True,
            "goal": "add the tax, rounded half up",
            "files": ["shop/money.py"],
            "symbols": ["with_tax"],
            "inputs": {"cents": "task"},
            "contract": {"name": "with_tax", "args": ["cents", "percent"], "returns": "int"},
            "checks": ["with_tax(50, 1) == 51"],
        },
    ],
    "order": ["S1", "S2"],
}
ISSUE = (
    "split loses money: splitting 10 cents among 3 people gives shares that only add up to 9 cents; "
    "with_tax does not round half up.\n\n"
    "```python\n>>> split(10, 3)\n[4, 3, 3]\n>>> with_tax(50, 1)\n51\n```\n"
)


def function(name: str, body: str) -> str:
    return f"shop/money.py\n```python\ndef {name}:\n    {body}\n```\n"


SPLIT = function(
    "split(cents, people)",
    "share = cents // people\n    left = cents - share * people\n"
    "    return [share + 1] * left + [share] * (people - left)",
)
SPLIT_WRONG = function("split(cents, people)", "share = cents // people + 1\n    return [share] * people")
TAX = function("with_tax(cents, percent)", "return cents + (cents * percent + 50) // 100")
TAX_RAISES = function("with_tax(cents, percent)", "return cents + cents.rounded(percent)")
TAX_BREAKS = function("with_tax(cents, percent)", "return cents")


async def audited(
    fix: Any, configure: Any, shop: Any, retries: int = 2, workflow: str = "auditcoder", **answers: Any
) -> Any:
    replies = {"planner": [json.dumps(GRAPH)], "coder": [SPLIT, TAX], **answers}
    with ScriptedModel(replies) as server:
        settings = configure(
            model__base_url=server.base_url, model__edit_format="symbol", workflow=workflow, retries=retries
        )
        run = await fix(shop, settings, ISSUE)
        asked = [body["_agent"] for body in server.requests]
    store = RunStore(settings.data_home)
    record = store.open("last")
    findings = check(read_stored(record, store))
    assert [f for f in findings if not f.holds] == []
    return run, asked, json.loads((run.result.run_dir / "audit.json").read_text()), settings


async def test_each_hunk_has_the_responsibility_that_was_committed_before_it(
    shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    run, asked, audit, settings = await audited(fix, configure, shop)
    assert run.result.outcome == "verified", run.result.summary
    assert asked == ["planner", "coder", "coder"]
    assert {hunk["unit"].rpartition("::")[2]: hunk["responsibility"] for hunk in audit["hunks"]} == {
        "split": "S1",
        "with_tax": "S2",
    }
    assert audit["metrics"]["dctc"] == {"hits": 2, "total": 2, "value": 1.0}
    assert audit["metrics"]["cscr"] == {"hits": 2, "total": 2, "value": 1.0}
    again = await replay_run("last", settings, lambda event: None)
    assert again.replay_matches, again.difference


async def test_a_traceback_selects_its_node_and_the_other_stays_frozen(
    shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    run, asked, audit, settings = await audited(
        fix, configure, shop, coder=[SPLIT, TAX_RAISES], debugger=[TAX]
    )
    assert run.result.outcome == "verified", run.result.summary
    assert asked == ["planner", "coder", "coder", "debugger"]
    (entry,) = audit["transactions"]
    assert (entry["locus"]["node"], entry["locus"]["rule"], entry["locus"]["confidence"]) == (
        "S2",
        "R1",
        "high",
    )
    assert entry["locus"]["frozen"] == ["S0", "S1"]
    assert entry["accepted"]
    before, after = entry["frozen_code"]["S1"]
    assert before == after != ""
    again = await replay_run("last", settings, lambda event: None)
    assert again.replay_matches, again.difference


async def test_a_local_rejection_selects_its_node(
    shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    run, _, audit, _ = await audited(fix, configure, shop, coder=[SPLIT_WRONG, TAX], debugger=[SPLIT])
    assert run.result.outcome == "verified", run.result.summary
    (entry,) = audit["transactions"]
    assert (entry["locus"]["node"], entry["locus"]["rule"], entry["locus"]["confidence"]) == (
        "S1",
        "R3",
        "medium",
    )


async def test_a_repair_that_loses_a_test_is_rolled_back(
    shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    run, asked, audit, _ = await audited(
        fix,
        configure,
        shop,
        coder=[SPLIT, TAX_RAISES],
        debugger=[TAX_BREAKS, TAX_RAISES.replace("rounded", "up"), TAX],
    )
    assert [entry["accepted"] for entry in audit["transactions"]][-1] is False
    assert all(e["initial"] == e["final"] for e in audit["transactions"] if not e["accepted"])
    assert run.result.exit_code == ExitCode.NO_VERIFIED_PATCH
    assert asked.count("debugger") == 2


async def test_an_answer_that_crosses_the_border_is_refused(
    shop: Any, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    crossing = TAX + "\n" + SPLIT_WRONG
    run, _, audit, _ = await audited(
        fix, configure, shop, coder=[SPLIT, TAX_RAISES], debugger=[crossing, TAX], retries=2
    )
    first, second = audit["transactions"]
    assert not first["accepted"]
    assert "frozen" in first["reason"]
    assert second["accepted"]
    assert run.result.outcome == "verified"
