"""What a run remembers, what a later run is shown of it, and that none of it can fail a repair."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.chat import Usage
from agentforge.core.errors import LimitReached
from agentforge.core.retrieval import Episode
from agentforge.core.task import Limits, RepositoryRef
from agentforge.memory.open import open_episodes, open_insights
from agentforge.models.ledger import Ledger
from agentforge.orchestrator.metering import MemoryMeter
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.service import past_commits
from agentforge.repo.intake import open_repository
from tests.orchestrator.conftest import ISSUE
from tests.orchestrator.test_five_agents import WRONG, script
from tests.support.embedding_server import EmbeddingServer
from tests.support.model_server import ScriptedModel, failure

Fix = Callable[..., Any]
LESSON = "Where shares must add up, the remainder of the division has to be handed out."
PATCH = "--- a/pay/tip.py\n+++ b/pay/tip.py\n@@ -1 +1,2 @@\n-    return [tip // n] * n\n+    left = tip % n\n"


def earlier(number: int) -> Episode:
    return Episode(
        id="",
        repository=f"repo{number}",
        issue=f"split number {number} loses money: the shares only add up to {number} cents",
        patch=PATCH.replace("tip", f"tip{number}"),
        failures=("AssertionError",),
    )


def remember(home: Path, count: int = 2) -> None:
    episodes, insights = open_episodes(home), open_insights(home)
    for number in range(count):
        episodes.store(earlier(number))
    insights.refresh(episodes.list())


@pytest.mark.docker
async def test_a_fix_with_its_failed_attempts_is_shown_to_the_next_similar_run(
    shop: Path, configure: Fix, fix: Fix
) -> None:
    with ScriptedModel(script() | {"planner": script()["planner"] * 2, "coder": [WRONG] * 2}) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff", retries=1)
        first = await fix(shop, settings)
        assert first.result.outcome == "verified", first.result.summary
        second = await fix(shop, settings, ISSUE + " It happens for 100 cents, too.")
        planners = [
            body["messages"][-1]["content"] for body in server.requests if body["_agent"] == "planner"
        ]
        again = await replay_run(second.result.run_id, settings, lambda event: None)
    (kept,) = open_episodes(settings.data_home).list()
    assert kept.summary == "split drops the remainder"
    assert kept.plan == "S1: hand out the remainder of split"
    assert kept.failures == ("AssertionError",)
    assert kept.tests == first.result.decision.fail_to_pass
    assert (kept.workflow, kept.base) == ("agentforge", first.result.base_commit)
    (attempt,) = kept.attempts
    assert "+    return [share + 1] * people" in attempt.patch
    assert any("test_money.py::test_even" in test for test in attempt.tests)
    assert "Attempts that failed" not in planners[0]
    assert "+    return [share + 1] * people" in planners[1].partition("Attempts that failed")[2]
    assert "+    left = cents - share * people" in planners[1].partition("Earlier fixes")[2]
    (told,) = second.of_type("context_retrieved")
    assert (told.episodes, told.warnings) == ((kept.id,), 1)
    assert again.replay_matches, again.difference


@pytest.mark.docker
async def test_lessons_are_shown_reweighted_and_distilled_and_the_replay_is_the_same(
    shop: Path, configure: Fix, fix: Fix
) -> None:
    answers = script(distiller=[json.dumps({"lesson": LESSON})])
    with ScriptedModel(answers) as server, EmbeddingServer() as vectors:
        settings = configure(
            model__base_url=server.base_url,
            model__edit_format="diff",
            memory__embedding_base_url=vectors.url,
            memory__embedding_dimension=3,
        )
        episodes = open_episodes(settings.data_home, settings.memory)
        for number in range(2):
            episodes.store(earlier(number))
        # The counted lesson of these two is about an exception that the issue names.
        open_insights(settings.data_home, settings.memory).refresh(episodes.list())
        sent = len(vectors.requests)
        run = await fix(shop, settings, ISSUE + " AssertionError: 9 != 10")
        assert run.result.outcome == "verified", run.result.summary
        assert len(vectors.requests) > sent
        calls = [body["_agent"] for body in server.requests]
        planner = next(body for body in server.requests if body["_agent"] == "planner")
        before = len(vectors.requests), len(server.requests)
        again = await replay_run(run.result.run_id, settings, lambda event: None)
        assert (len(vectors.requests), len(server.requests)) == before
        lessons = open_insights(settings.data_home, settings.memory).list()
    assert calls[-1] == "distiller"
    assert "AssertionError was fixed by" in planner["messages"][-1]["content"]
    (learned,) = run.of_type("insight_learned")
    assert learned.lesson == LESSON
    assert len(learned.episodes) == 3
    by_words = {lesson.lesson: lesson for lesson in lessons}
    assert set(by_words[LESSON].episodes) == set(learned.episodes)
    assert [lesson.helped for lesson in lessons if lesson.edit and lesson.helped] == [1]
    assert run.result.spend.calls == len(calls)
    assert run.result.spend.unpriced_calls > len(calls)  # the embeddings, whose price nobody told
    assert again.replay_matches, again.difference


@pytest.mark.docker
async def test_complaint24_a_broken_memory_and_a_failing_distiller_fail_no_repair(
    shop: Path, configure: Fix, fix: Fix
) -> None:
    with ScriptedModel(script(distiller=[failure(400, "no")])) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        remember(settings.data_home, 3)
        run = await fix(shop, settings)
        assert run.result.outcome == "verified", run.result.summary
        assert any("no lesson was distilled" in note.text for note in run.of_type("notice"))
    (settings.data_home / "memory" / "chroma.sqlite3").write_bytes(b"not a database" * 100)
    with ScriptedModel(script()) as server:
        settings = configure(model__base_url=server.base_url, model__edit_format="diff")
        run = await fix(shop, settings)
        again = await replay_run(run.result.run_id, settings, lambda event: None)
    assert run.result.outcome == "verified", run.result.summary
    warnings = [note.text for note in run.of_type("notice") if "memory (" in note.text]
    assert len(warnings) == 1
    assert not run.of_type("episode_stored")
    assert again.replay_matches, again.difference


def test_the_ranking_may_read_ancestors_of_the_base(shop: Path, configure: Fix, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    intake = open_repository(RepositoryRef(source=str(shop)), scratch)
    read = past_commits(intake, configure())
    assert read is not None
    (commit,) = read()
    assert (commit.id, commit.message.strip()) == (intake.base_commit, "base")
    assert "shop/money.py" in commit.paths
    none = past_commits(intake, configure(memory__history=0))
    assert none is not None
    assert none() == ()


def test_embeddings_are_no_model_calls_and_may_not_eat_the_limits() -> None:
    ledger = Ledger(Limits(max_calls=1, max_tokens=1000))
    meter = MemoryMeter(ledger)
    meter.reserve("vectors", 40).settle(Usage(prompt_tokens=60, completion_tokens=0))
    with pytest.raises(LimitReached, match="10%"):
        meter.reserve("vectors", 50)
    meter.reserve("vectors", 40).release()
    assert [charge.prompt_tokens for charge in meter.drain()] == [60]
    assert meter.drain() == ()
    assert (ledger.spend.calls, ledger.spend.prompt_tokens) == (0, 60)
    ledger.reserve("model", 10, 10).release()
