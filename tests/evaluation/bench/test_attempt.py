"""What of a run goes into a row: whose fault an end is, who did his part, what was paid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge.core import events
from agentforge.core.chat import Spend, Usage
from agentforge.core.errors import LimitReached, UsageError
from agentforge.core.plan import Plan, Step
from agentforge.core.problem import Problem
from agentforge.evaluation.bench.attempt import Ran, Witness, measured, paid, status_of
from agentforge.evaluation.bench.problems import judged_program
from agentforge.models.errors import (
    ConnectionFailedError,
    ContextLengthError,
    EmptyAnswerError,
    RateLimitedError,
)
from agentforge.orchestrator.result import RunResult, ending_of_error


def run(error: Exception | None = None, **changes: Any) -> RunResult:
    values: dict[str, Any] = {"outcome": "verified", "exit_code": 0, "summary": "s"}
    if error is not None:
        ending = ending_of_error(error)  # type: ignore[arg-type]
        values = {
            "outcome": ending.outcome,
            "exit_code": int(ending.exit_code),
            "summary": ending.summary,
            "fault": ending.fault,
        }
    return RunResult(run_id="r", run_dir=Path(), workflow="retry", base_commit="b", **(values | changes))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectionFailedError("gone"), "infra"),
        (RateLimitedError("slow down"), "infra"),
        (UsageError("no such model"), "infra"),
        # These come again however often one asks: leaving them out would flatter the model.
        (ContextLengthError("too long"), "final"),
        (EmptyAnswerError("nothing"), "final"),
        (LimitReached("time", "up"), "final"),
        (LimitReached("cost", "up"), "final"),
    ],
)
def test_af40_only_what_is_no_fault_of_the_candidate_is_left_out(error: Exception, status: str) -> None:
    assert status_of(run(error)) == status


def called(agent: str) -> events.ModelCallFinished:
    return events.ModelCallFinished(
        call=1, agent=agent, model="served", finish_reason="stop", usage=Usage(), cost_usd=None, spend=Spend()
    )


def test_agents_did_their_part_or_failed_at_it_and_the_endpoint_names_the_model() -> None:
    heard: list[events.Event] = []
    witness = Witness(heard.append)
    refused = events.PatchRefused(
        origin="debugger", round=1, edit_format="diff", reason="no_match", text="not there"
    )
    proposed = events.PatchProposed(
        candidate="c0", origin="coder", round=0, edit_format="diff", diff="", files=()
    )
    plan = events.PlanMade(
        plan=Plan(explanation="e", steps=(Step(id="s1", description="do", files=("a.py",)),))
    )
    said = (
        called("planner"), plan, called("coder"), proposed, called("debugger"), refused, called("tester"),
        events.TestsSynthesized(), called("critic"), events.CriticDecided(verdict="unparsed"),
        called("coder"),
    )  # fmt: skip
    for event in said:
        witness(event)
    assert heard == list(said)
    assert witness.models == {"served"}
    assert witness.agents == {
        "coder": True, "critic": False, "debugger": False, "planner": True, "tester": False,
    }  # fmt: skip
    row = measured(Ran(run(spend=Spend(calls=6, unpriced_calls=6)), witness))
    assert row["extra"]["calls_by_agent"]["coder"] == 2
    assert row["extra"]["model_reported"] == "served"
    assert row["cost_usd"] is None, "an unknown price is not zero"


def test_a_run_that_was_gone_on_with_took_the_time_of_all_its_processes() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    witness = Witness(lambda event: None)
    for second, event in (
        (0, called("coder")), (40, called("coder")), (5000, events.RunResumed(after=1)),
        (5010, called("coder")), (9000, events.RunResumed(after=1)), (9003, called("coder")),
    ):  # fmt: skip
        witness(event.model_copy(update={"time": start + timedelta(seconds=second)}))
    assert witness.earlier_s == 50
    assert measured(Ran(run(duration_s=3.5), witness))["wallclock"] == 53.5


def test_a_run_without_a_record_was_not_paid_for(tmp_path: Path) -> None:
    assert paid(tmp_path, "nothing") == (0.0, 0, 0, 0)


def test_eg25_humaneval_runs_behind_its_prompt() -> None:
    prompt = 'from typing import List\n\n\ndef helper():\n    return 1\n\n\ndef f(x: List):\n    """Doc."""\n'
    problem = Problem(
        id="HumanEval/1", title="t", statement="s", entry_point="f", source="humaneval",
        stub=f"{prompt}    raise NotImplementedError\n",
    )  # fmt: skip
    bare = "def f(x: List):\n    return helper()\n"
    names: dict[str, Any] = {}
    exec(judged_program(problem, bare) or "", names)
    assert names["f"]([]) == 1
    assert judged_program(problem, None) is None
    other = problem.model_copy(update={"source": "mbpp"})
    assert judged_program(other, bare) == bare
    future = "from __future__ import annotations\n" + bare
    assert judged_program(problem, future) == future
