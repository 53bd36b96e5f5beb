"""The view of a batch: plain lines, and the live region with bar, outcomes, cost, time left and workers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from agentforge.cli.batchview import LiveBatch, PlainBatch
from agentforge.config.settings import Settings
from agentforge.core.events import Event, ModelCallStarted, NodeStarted, Notice
from agentforge.evaluation.bench.protocol import BenchTask, SuiteSpec, TrialSpec
from agentforge.evaluation.trials import TrialRow

EVIL = "\x1b]0;owned\x07[bold]x[/bold]"
PLANNED = [(f"t{number}", 0) for number in range(4)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def spec(task: str, *, resumes: bool = False) -> TrialSpec:
    return TrialSpec(
        suite=SuiteSpec(name="s"), task=BenchTask(id=task), trial=0, seed=0, run_id="r", folder=Path("x"),
        settings=Settings(), resumes=resumes,
    )  # fmt: skip


def row(task: str, **changes: Any) -> TrialRow:
    values = {"run": "b", "problem": task, "passed": True, "cost_usd": 0.02, "calls": 2, "run_id": task}
    return TrialRow.model_validate(values | changes)


def play(view: PlainBatch | LiveBatch, clock: Clock) -> None:
    view.opened(Path("out"), PLANNED, [row("t0")], 2)
    view.phase("checking the machine")
    view.started(0, spec("t1"))
    view.started(1, spec("t2", resumes=True))
    clock.now = 30.0
    event: Event = Notice(level="warning", text=f"odd {EVIL}")
    view.event(1, event)
    view.event(1, NodeStarted(node="code"))
    view.finished(0, row("t1", passed=False, error_class="wrong_answer"))


def test_plain_lines_name_worker_outcome_cost_and_time_left() -> None:
    out, clock = io.StringIO(), Clock()
    play(PlainBatch(out, clock), clock)
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("4 trials in out, 1 done already, 2 workers")
    assert "worker 1  starts t1" in lines[2]
    assert "worker 2  goes on with t2" in lines[3]
    assert "\x1b" not in out.getvalue()
    assert "t1: wrong_answer, 2 calls, 0 tokens, $0.0200" in lines[-1]
    # Two are left, two workers, 30 s for the one that was timed.
    assert "[2 of 4, 1 passed, $0.0400, 30.0 s left]" in lines[-1]


def test_a_spoiled_trial_says_why_and_is_not_done() -> None:
    out, clock = io.StringIO(), Clock()
    view = PlainBatch(out, clock)
    view.opened(Path("out"), PLANNED, [], 1)
    view.started(0, spec("t1"))
    view.finished(0, row("t1", passed=False, status="infra", summary="no engine answers"))
    last = out.getvalue().splitlines()[-1]
    assert "t1: infra" in last
    assert "(no engine answers)" in last
    assert "[0 of 4" in last


def test_the_live_region_shows_bar_outcomes_cost_and_what_each_worker_does() -> None:
    clock = Clock()
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    view = LiveBatch(console, clock)
    play(view, clock)
    clock.now = 42.0
    view.finished(0, row("t3", passed=False, status="infra", summary="no engine answers"))
    view.event(1, ModelCallStarted(call=1, agent="coder", model=EVIL))
    console.print(view)
    shown = out.getvalue()
    assert "━\n" in shown or "━ " in shown
    assert "2 of 4 trials · 1 passed · $0.0600 · 42.0 s · about 30.0 s left" in shown
    assert "passed        1" in shown
    assert "wrong_answer  1" in shown
    assert "▸ 2 t2 42.0 s" in shown
    assert "\nt3: no engine answers\n" in shown
    assert "t1" not in shown.split("▸", 1)[1], "its worker is done with it"
    assert "\x1b]0" not in shown
    assert "[bold]" in shown, "text from elsewhere is never markup"


def test_a_row_of_a_judge_in_batch_costs_nothing_more() -> None:
    out, clock = io.StringIO(), Clock()
    view = PlainBatch(out, clock)
    view.opened(Path("out"), PLANNED, [], 1)
    view.started(0, spec("t1"))
    view.finished(0, row("t1", passed=False, status="ungraded"))
    view.finished(None, row("t1"))
    assert "batch     t1: passed" in out.getvalue()
    assert out.getvalue().count("$0.0400") == 0
