"""What a person sees of a running repair: every event in words, nothing obeyed, nothing as markup."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import typing
from datetime import UTC, datetime

import pytest
from rich.console import Console

from agentforge.cli.view import LiveView, PlainView, tail_lines
from agentforge.cli.words import describe, money, plural, spent
from agentforge.core import events
from agentforge.core.chat import Spend, Usage
from agentforge.core.facts import Facts
from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import GeneratedTest
from agentforge.core.plan import Plan, Step
from agentforge.core.relay import Contract, Handoff, Seat, Team, Turn
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.responsibility import (
    AcceptanceRank,
    Fallback,
    Graph,
    Locus,
    Responsibility,
    Snapshot,
    Transaction,
)

EVIL = "\x1b]0;owned\x07[bold]x[/bold]\u202e"
REPORT = TestReport(
    outcomes={"t::a": Outcome.PASSED, "t::b": Outcome.FAILED}, collected=2, exit_code=1, duration_s=1.5
)
REFUSED = GateDecision(
    verdict=Verdict.REFUSED,
    rank=Rank(False, 0, 1, True, -2),
    reasons=(GateReason(kind=ReasonKind.BROKEN, test_id="t::b", text=f"passed on the base {EVIL}"),),
)
SEAT = Seat(specialist="numbers", eligible=True, reasoning=f"mine {EVIL}")
SNAPSHOT = Snapshot(code="c", snippets="s", results="r")
STEP = Step(id="s1", description="do", files=("a.py",))
ALL_EVENTS: list[events.Event] = [
    events.RunStarted(
        run_id="r1",
        workflow="agentforge",
        workflow_hash="h",
        repository=f"/repo{EVIL}",
        base="a" * 40,
        issue_title=f"title {EVIL}",
        models={"coder": "m1"},
    ),
    events.NodeStarted(node="plan"),
    events.NodeFinished(node="plan", writes=("plan",)),
    events.ModelCallStarted(call=1, agent="coder", model="m1"),
    events.Token(call=1, agent="coder", text=f"def f(): {EVIL}"),
    events.StreamReset(call=1, agent="coder", reason=f"connection lost {EVIL}"),
    events.ModelCallFinished(
        call=1,
        agent="coder",
        model="m1",
        finish_reason="length",
        usage=Usage(),
        cost_usd=None,
        spend=Spend(calls=1, completion_tokens=7, unpriced_calls=1),
    ),
    events.ContextRetrieved(symbols=(("a.py", "f", 1, 9),), episodes=("e1",)),
    events.PlanMade(plan=Plan(explanation=f"why {EVIL}", steps=(STEP,))),
    events.PatchProposed(
        candidate="c1",
        origin="coder",
        round=0,
        edit_format="diff",
        diff="…",
        files=("a.py",),
        added=1,
        removed=2,
    ),
    events.PatchRefused(
        origin="coder", round=0, edit_format="diff", reason="no_match", text=f"closest {EVIL}"
    ),
    events.TestsSynthesized(
        accepted=(GeneratedTest(path="t.py", code=b"", test_ids=("t.py::x",), reason="r"),),
        discarded=(("t.py::y", f"always green {EVIL}"),),
    ),
    events.TestsStarted(subject="base", scope="all", targets=1),
    events.TestsFinished(subject="c1", report=REPORT),
    events.GateDecided(candidate="c1", decision=REFUSED),
    events.DeadlockDetected(signature=f"same {EVIL}", strategy="wider context"),
    events.CriticDecided(verdict="fail", reasons=(f"no {EVIL}",), veto=True),
    events.SearchProgress(stage=f"edits {EVIL}", tried=10, plausible=1, total=40),
    events.Explained(text=f"because {EVIL}\n\nof this"),
    events.EpisodeStored(episode="e2"),
    events.Notice(level="warning", text=f"careful {EVIL}", hint="do this"),
    events.RunFinished(outcome="verified", exit_code=0, summary="ok", spend=Spend()),
]
ALL_EVENTS += [
    events.RunResumed(after=3),
    events.StageStarted(stage="search", workflow="search"),
    events.StageFinished(
        stage="relay", workflow="mars", solved=True, reason=f"limit {EVIL}", spend=Spend(calls=2)
    ),
    events.TeamFormed(
        team=Team(
            pool="p",
            pool_hash="h",
            seats=(SEAT,),
            contract=Contract(specialist="numbers", owned_subproblem=f"sum {EVIL}"),
            asked=11,
        ),
        assessed=(SEAT,),
    ),
    events.RelayTurn(
        turn=Turn(
            step=1,
            specialist="numbers",
            draft="write_code",
            repair="rejected",
            handoff=Handoff(sender="numbers", receiver="text"),
        )
    ),
    events.Abstained(learned=(f"nothing {EVIL}",)),
    events.FactsFound(facts=Facts(targets=("t::a",), reasons=(f"no {EVIL}",))),
    events.Explored(candidate="c1", failing=("t::a",), tried=9, plausible=1, found=f"a.py:1 {EVIL}"),
    events.ResponsibilitiesCommitted(
        graph=Graph(explanation=f"e {EVIL}", nodes=(Responsibility(id="S1", goal="g"),), order=("S1",))
    ),
    events.NodeVerified(responsibility="S1", units=("a.py::f",)),
    events.Localized(locus=Locus(evidence=(f"none {EVIL}",))),
    events.TransactionClosed(
        transaction=Transaction(
            number=1,
            round=1,
            standing="c0",
            locus=Locus(),
            initial_rank=AcceptanceRank(
                full=False, external=0, internal=0, external_clean=1, internal_clean=1
            ),
            accepted=False,
            reason=f"no {EVIL}",
            rollback="Restored",
            initial=SNAPSHOT,
            final=SNAPSHOT,
        )
    ),
    events.FallbackClosed(fallback=Fallback(round=1, accepted=False, reason=f"no {EVIL}")),
    events.InsightLearned(insight="i1", lesson=f"look {EVIL}", episodes=("e1", "e2")),
]
SILENT = {events.Token, events.RunFinished}


def plain(*, verbose: bool = True) -> tuple[PlainView, io.StringIO]:
    out = io.StringIO()
    return PlainView(out, verbose=verbose, clock=lambda: 0.0), out


def live(width: int = 80) -> tuple[LiveView, Console]:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False, markup=False)
    return LiveView(console, clock=lambda: 0.0), console


def drawn(view: LiveView, width: int = 80) -> str:
    console = Console(file=io.StringIO(), force_terminal=False, width=width)
    console.print(view.__rich__())
    return typing.cast(io.StringIO, console.file).getvalue()


def test_every_kind_of_event_is_shown_or_deliberately_silent() -> None:
    kinds = set(typing.get_args(typing.get_args(events.Event)[0]))
    assert {type(event) for event in ALL_EVENTS} == kinds
    for event in ALL_EVENTS:
        assert bool(describe(event)) is (type(event) not in SILENT), type(event)


def test_plain_lines_obey_nothing() -> None:
    view, out = plain()
    for event in ALL_EVENTS:
        view(event)
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
    assert all(line.startswith("[") for line in text.splitlines())


def test_the_live_view_obeys_nothing_but_its_own_colours() -> None:
    view, console = live()
    for event in ALL_EVENTS:
        view(event)
        console.print(view)
    text = typing.cast(io.StringIO, console.file).getvalue()
    assert "\x1b]" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text


def test_lanes_tail_and_cost_follow_the_events() -> None:
    view, _ = live()
    view(events.ModelCallStarted(call=1, agent="coder", model="m1"))
    assert "coder" in drawn(view)
    assert "waits for m1" in drawn(view)
    view(events.Token(call=1, agent="coder", text="def solve():\n    ret"))
    view(events.Token(call=1, agent="coder", text="urn 1"))
    assert "│ def solve():" in drawn(view)
    assert "│     return 1" in drawn(view)
    view(events.StreamReset(call=1, agent="coder", reason="lost"))
    assert "return 1" not in drawn(view)
    view(events.Token(call=1, agent="coder", text="anew"))
    spend = Spend(calls=2, prompt_tokens=1000, completion_tokens=234, cost_usd=0.5)
    view(events.ModelCallFinished(call=1, agent="coder", model="m1", finish_reason="stop", usage=Usage(),
                                  cost_usd=0.5, spend=spend))  # fmt: skip
    assert "anew" not in drawn(view)
    assert "$0.5000 · 2 calls · 1,234 tokens" in drawn(view)
    view(events.TestsStarted(subject="c1", scope="all", targets=1))
    assert "running on c1" in drawn(view)
    view(events.TestsFinished(subject="c1", report=REPORT))
    assert "running on c1" not in drawn(view)


def test_calls_at_once_have_a_lane_each_and_their_tokens_are_not_mixed() -> None:
    view, _ = live()
    for call, step in ((1, "s1"), (2, "s2")):
        view(events.ModelCallStarted(call=call, agent="coder", model="m1", step=step))
    view(events.Token(call=1, agent="coder", text="first = "))
    view(events.Token(call=2, agent="coder", text="second = 2"))
    view(events.Token(call=1, agent="coder", text="1"))
    assert "│ first = 1" in drawn(view)
    assert "second" not in drawn(view)
    assert drawn(view).count("writes") == 2
    view(events.ModelCallFinished(call=1, agent="coder", model="m1", finish_reason="stop", usage=Usage(),
                                  cost_usd=0.5, spend=Spend()))  # fmt: skip
    assert "│ second = 2" in drawn(view)
    assert "coder s2" in drawn(view)
    assert "coder s1" not in drawn(view)
    view(events.NodeFinished(node="code"))
    assert "coder" not in drawn(view)


def test_the_tail_is_bounded_in_lines_and_width() -> None:
    lines = tail_lines("\n".join(f"{n} " + "x" * 500 for n in range(50)), 40)
    assert len(lines) == 6
    assert max(map(len, lines)) <= 40
    view, _ = live(40)
    view(events.Token(call=1, agent="coder", text="y" * 100_000))
    assert max(map(len, drawn(view, 40).splitlines())) <= 40


@pytest.mark.parametrize(
    ("spend", "said"),
    [
        (Spend(), "no model calls"),
        (Spend(calls=2, unpriced_calls=2), "price unknown"),
        (Spend(calls=2, cost_usd=0.25), "$0.2500"),
        (Spend(calls=3, cost_usd=0.25, unpriced_calls=1), "$0.2500 and 1 call of unknown price"),
    ],
)
def test_an_unknown_price_is_said_as_such(spend: Spend, said: str) -> None:
    assert money(spend) == said
    assert spent(spend).startswith(said)


def test_details_need_verbose_and_a_search_stage_is_said_once() -> None:
    view, out = plain(verbose=False)
    view(events.NodeStarted(node="plan"))
    for tried in range(5):
        view(events.SearchProgress(stage="edits", tried=tried + 1, total=9))
    assert len(out.getvalue().splitlines()) == 1
    assert "node" not in out.getvalue()


def test_a_bad_end_of_a_test_run_is_named() -> None:
    report = TestReport(cause=Cause.OOM, cause_detail="512 MB used up")
    (line,) = describe(events.TestsFinished(subject="c1", report=report))
    assert "no tests (oom: 512 MB used up)" in line.text
    assert line.style == "red"


def test_plural() -> None:
    assert (plural(1, "call"), plural(1200, "call")) == ("1 call", "1,200 calls")


def test_time_is_not_needed_to_show_an_event() -> None:
    view, out = plain()
    view(events.Notice(text="x", time=datetime(2020, 1, 1, tzinfo=UTC)))
    assert "note" in out.getvalue()


@pytest.mark.parametrize(("stream", "is_live"), [(True, True), (False, False)])
def test_live_on_a_terminal_plain_with_no_stream(stream: bool, is_live: bool) -> None:
    code = (
        "import time; from agentforge.cli.view import watching; from agentforge.core.events import Token\n"
        f"with watching(stream={stream}) as see:\n"
        "    see(Token(call=1, agent='coder', text='streamed'))\n"
        "    time.sleep(0.4)\n"
    )
    assert ("streamed" in _on_a_terminal(code)) is is_live


def _on_a_terminal(code: str) -> str:
    """stderr of `code`, run with a pseudo-terminal there."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True, timeout=60, env=env)
    os.close(theirs)
    data = b""
    try:
        while chunk := os.read(ours, 65536):
            data += chunk
    except OSError:
        pass  # Linux says EIO when the other side is closed
    finally:
        os.close(ours)
    return data.decode()
