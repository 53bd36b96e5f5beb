"""The whole loop against a scripted model that speaks the real protocol over real HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import ExitCode
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.store import RunStore
from tests.support.model_server import Reply, ScriptedModel, failure

pytestmark = pytest.mark.docker

PLAN = json.dumps(
    {
        "explanation": "split drops the remainder",
        "steps": [
            {
                "id": "S1",
                "agent": "coder",
                "description": "hand out the remainder of split",
                "files": ["shop/money.py"],
                "symbols": ["split"],
            }
        ],
    }
)
WRONG = """Here is the change:

```diff
--- a/shop/money.py
+++ b/shop/money.py
@@ -10,4 +10,4 @@
     \"\"\"Equal shares; the first ones take what is left over.\"\"\"
     share = cents // people
-    return [share] * people
+    return [share + 1] * people
```
"""
RIGHT = """```diff
--- a/shop/money.py
+++ b/shop/money.py
@@ -9,4 +9,5 @@
     \"\"\"Equal shares; the first ones take what is left over.\"\"\"
     share = cents // people
-    return [share + 1] * people
+    left = cents - share * people
+    return [share + 1] * left + [share] * (people - left)
```
"""
TESTS = """```python
from shop.money import split


def test_nothing_is_lost():
    assert sum(split(10, 3)) == 10


def test_is_a_list():
    assert isinstance(split(10, 5), list)
```
"""
PASS = '{"verdict": "PASS", "reasons": ["the remainder is handed out"]}'


def script(**changes: Any) -> dict[str, Any]:
    replies: dict[str, Any] = {
        "planner": [PLAN],
        "coder": [WRONG],
        "tester": [TESTS],
        "debugger": [RIGHT],
        "critic": [PASS],
    }
    return replies | changes


async def test_first_diff_wrong_then_debugged_criticised_and_verified(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
        asked = [body["_agent"] for body in server.requests]
    assert run.result.outcome == "verified", run.result.summary
    assert run.result.exit_code == ExitCode.VERIFIED
    assert asked == ["planner", "coder", "tester", "debugger", "critic"]
    assert [event.decision.verdict.value for event in run.of_type("gate_decided")] == ["refused", "verified"]
    tokens = "".join(event.text for event in run.of_type("token") if event.agent == "coder")
    assert tokens == WRONG
    (made,) = [event for event in run.of_type("tests_synthesized") if event.accepted]
    assert [test.rpartition("::")[2] for test in made.accepted[0].test_ids] == ["test_nothing_is_lost"]
    assert any("always green" in why for _, why in made.discarded)
    applies(shop, run.result.patch.diff)
    assert b"test_agentforge" not in run.result.patch.diff


async def test_the_same_run_replayed_from_its_record_gives_the_same_events(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
        before = len(server.requests)
        shutil.rmtree(shop)
        shown: list[Any] = []
        again = await replay_run(run.result.run_id, settings, shown.append)
        assert len(server.requests) == before
    assert again.replay_matches, again.difference
    assert again.patch == run.result.patch
    durable = [event for event in run.events if event.seq and event.type != "token"]
    assert [event for event in shown if event.type != "token"] == durable


async def test_a_record_that_was_changed_is_noticed_by_the_replay(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(coder=[RIGHT.replace("share + 1] * people", "share] * people", 1)])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
    assert run.result.outcome == "verified", run.result.summary
    events = run.result.run_dir / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"split drops", b"split keeps"))
    again = await replay_run(run.result.run_id, settings, lambda event: None)
    assert not again.replay_matches
    assert "split keeps" in again.difference


async def test_only_verified_fixes_are_remembered_af15(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(debugger=[WRONG] * 20)) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", retries=1)
        run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.NO_VERIFIED_PATCH
    assert not run.of_type("episode_stored")
    assert run.result.patch is None
    assert not (run.result.run_dir / "patch.diff").exists()


async def test_a_verified_patch_survives_a_critic_that_cannot_answer(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(critic=[failure(400, "no")])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
    assert run.result.outcome == "verified"
    assert run.of_type("critic_decided")[0].verdict == "unparsed"


async def test_a_critic_as_gate_vetoes_but_an_advisory_one_does_not(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    fail = '{"verdict": "FAIL", "reasons": ["hard to read"]}'
    outcomes = {}
    for mode in ("advisory", "gate"):
        with ScriptedModel(script(critic=[fail])) as server:
            settings = configure(model__base_url=server.base_url, model__edit_format="diff", critic=mode)
            outcomes[mode] = (await fix(shop, settings)).result
    assert outcomes["advisory"].outcome == "verified"
    assert outcomes["gate"].outcome == "no_patch"
    assert "hard to read" in outcomes["gate"].summary


async def test_without_any_test_that_shows_the_bug_the_patch_is_unverified(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    right = RIGHT.replace("share + 1] * people", "share] * people", 1)
    green = "```python\ndef test_nothing():\n    assert True\n```"
    with ScriptedModel(script(coder=[right], tester=[green])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.UNVERIFIED
    assert run.result.patch is not None
    assert not run.of_type("episode_stored")


async def test_a_model_that_refuses_ends_the_run_with_its_own_code_and_a_record(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel([failure(401, "bad key")]) as server:
        settings = configure(model__base_url=server.base_url)
        run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.MODEL
    assert RunStore(settings.data_home).open("last").manifest["outcome"] == "model"


async def test_a_call_limit_ends_the_run_with_its_own_code(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", limits__max_calls=2)
        run = await fix(shop, settings)
        assert len(server.requests) == 2
    assert run.result.exit_code == ExitCode.LIMIT


async def test_a_time_limit_ends_the_run_with_its_own_code(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    with ScriptedModel(script(planner=[Reply(PLAN, delay_s=5.0)])) as server:
        settings = configure(model__base_url=server.base_url, limits__time_limit_s=6)
        run = await fix(shop, settings)
    assert run.result.exit_code == ExitCode.LIMIT
    assert "time limit" in run.result.summary


async def test_a_repeated_failure_at_the_same_place_changes_the_strategy_and_stops(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    def same_again(body: dict[str, Any]) -> str:
        body = "    share = cents // people + 1\n    return [share] * people\n"
        return f"```python\ndef split(cents, people):\n{body}```"

    with ScriptedModel(script(debugger=same_again, coder=same_again)) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="symbol", retries=10)
        run = await fix(shop, settings)
    strategies = [event.strategy for event in run.of_type("deadlock_detected")]
    assert run.result.exit_code == ExitCode.NO_VERIFIED_PATCH
    assert strategies == ["wider_context", "other_place", "higher_temperature", "stop"]


def applies(repository: Path, diff: bytes) -> None:
    """The patch applies strictly to the user's repository, which is as it was."""
    git = ["git", "-C", str(repository)]
    status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    assert status.stdout == b""
    subprocess.run([*git, "apply", "--check", "-"], input=diff, check=True)
