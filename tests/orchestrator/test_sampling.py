"""K attempts: seeds differ, the gate selects, then the majority over normalised patches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import AgentSettings, Settings
from agentforge.core.chat import Spend
from agentforge.core.events import Event
from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.patch import Patch
from agentforge.core.task import Issue, Limits, RepairTask, RepositoryRef
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.sampling import attempt_settings, choose, normalised, run_samples
from agentforge.orchestrator.store import RunStore
from tests.orchestrator.conftest import ISSUE
from tests.orchestrator.test_five_agents import RIGHT
from tests.support.model_server import Body, ScriptedModel

HEAD = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n"
EXAMPLE = "```python\n>>> from shop.money import split\n>>> split(10, 3)\n[4, 3, 3]\n```\n"
FIRST_TRY = RIGHT.replace("share + 1] * people\n+", "share] * people\n+")


def patch(body: str) -> Patch:
    return Patch(diff=(HEAD + body).encode(), files=("m.py",))


def attempt(number: int, outcome: str, body: str, lines: int = 0) -> RunResult:
    verdict = Verdict.VERIFIED if outcome == "verified" else Verdict.REFUSED
    decision = GateDecision(verdict=verdict, rank=Rank(outcome == "verified", 1, 1, True, -lines))
    return RunResult(
        run_id=str(number),
        run_dir=Path(),
        outcome=outcome,
        exit_code=0,
        summary="",
        workflow="agentforge",
        base_commit="",
        patch=patch(body) if body else None,
        decision=decision,
        spend=Spend(calls=1),
    )


def test_the_gate_comes_before_the_majority() -> None:
    runs = [attempt(0, "unverified", "-a\n+b\n"), attempt(1, "unverified", "-a\n+b\n")]
    runs.append(attempt(2, "verified", "-a\n+c\n"))
    assert choose(runs).chosen == 2


def test_the_majority_of_verified_patches_wins_over_a_shorter_one() -> None:
    bodies = ["-a\n+z\n", "-a\n+b = 1\n", "-a\n+b  =  1\n+# why\n"]
    chosen = choose([attempt(n, "verified", body, lines=n) for n, body in enumerate(bodies)])
    assert (chosen.chosen, chosen.votes) == (1, 2)
    assert chosen.result.spend.calls == 3


def test_a_tie_goes_to_the_greater_rank_and_then_to_the_first() -> None:
    runs = [attempt(0, "verified", "-a\n+b\n", lines=4), attempt(1, "verified", "-a\n+c\n", lines=2)]
    assert choose(runs).chosen == 1
    assert choose([attempt(n, "no_patch", "") for n in range(2)]).chosen == 0


def test_patches_that_differ_in_more_than_spelling_stay_apart() -> None:
    assert normalised(patch("-a\n+if b:\n+    c\n")) == normalised(patch("-a\n+if b :\n+  c\n+\n"))
    assert normalised(patch("-a\n+b\n")) != normalised(patch("-a\n+c\n"))


def test_seeds_of_attempts_and_of_their_retries_never_meet() -> None:
    settings = Settings(agents={"coder": AgentSettings(seed=7)})
    later = attempt_settings(settings, 2, Limits())
    assert (settings.model.seed, later.model.seed) == (42, 2042)
    assert later.agents["coder"].seed == 2007
    assert not later.memory.learn


@pytest.mark.docker
async def test_three_attempts_with_seeds_of_their_own_share_one_limit(
    shop: Path, configure: Callable[..., Any]
) -> None:
    def answer(body: Body) -> str:
        return FIRST_TRY if body["_agent"] == "coder" else "no answer"

    events: list[Event] = []
    with ScriptedModel(answer) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", workflow="oneshot")
        settings = settings.model_copy(update={"limits": Limits(max_calls=2)})
        example = (
            ISSUE + "\n\n```python\n>>> from shop.money import split\n>>> split(10, 3)\n[4, 3, 3]\n```\n"
        )
        task = RepairTask(repository=RepositoryRef(source=str(shop)), issue=Issue(text=example))
        samples = await run_samples(task, settings, 3, listener=events.append)
        seeds = [body["seed"] for body in server.requests]
    assert seeds == [42, 1042]
    assert [run.outcome for run in samples.runs] == ["verified", "verified", "limit"]
    assert (samples.chosen, samples.votes) == (0, 2)
    assert samples.result.spend.calls == 2
    assert len(RunStore(settings.data_home).list()) == 3
    assert (samples.result.run_dir / "samples.json").is_file()
