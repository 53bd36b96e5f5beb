"""The end of a repair, for people and for programs."""

from __future__ import annotations

import io
import json
import typing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentforge.cli.summary import changed_outcomes, diff_text, result_document, show_result
from agentforge.core.chat import Spend
from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import Patch
from agentforge.core.report import Outcome, TestReport
from agentforge.orchestrator.result import RunResult

DIFF = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
BEFORE = TestReport(outcomes={"t::bug": Outcome.FAILED, "t::ok": Outcome.PASSED}, collected=2)
AFTER = TestReport(outcomes={"t::bug": Outcome.PASSED, "t::ok": Outcome.PASSED}, collected=2)


def result(**changes: Any) -> RunResult:
    decision = GateDecision(
        verdict=Verdict.VERIFIED,
        rank=Rank(True, 1, 1, True, -2),
        fail_to_pass=("t::bug",),
        pass_to_pass=("t::ok",),
    )
    values: dict[str, Any] = {
        "run_id": "r1",
        "run_dir": Path("/data/runs/r1"),
        "outcome": "verified",
        "exit_code": 0,
        "summary": "done",
        "workflow": "search",
        "base_commit": "a" * 40,
        "patch": Patch(diff=DIFF, files=("a.py",), added=1, removed=1),
        "decision": decision,
        "baseline": BEFORE,
        "report": AFTER,
        "repository_root": Path("/home/me/my repo"),
        "duration_s": 12.34,
        "spend": Spend(),
    }
    return RunResult(**(values | changes))


def shown(run: RunResult, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False)
    show_result(console, run, **({"show_diff": True} | options))
    return typing.cast(io.StringIO, console.file).getvalue()


def test_a_verified_result_shows_verdict_diff_tests_cost_record_and_next_command() -> None:
    text = shown(result())
    assert "VERIFIED done" in text
    assert "+x = 2" in text
    assert [line.split() for line in text.splitlines() if "t::bug" in line] == [
        ["t::bug", "failed", "passed"]
    ]
    assert "1 passed, 1 failed" in text
    assert "no model calls · 12.3 s · workflow search" in text
    assert "/data/runs/r1" in text
    assert "patch apply --repo '/home/me/my repo' --answer /data/runs/r1/patch.diff" in text


def test_an_applied_result_names_the_place_and_the_record() -> None:
    text = shown(result(), applied_to="branch fix-1 (abc)", show_diff=False)
    assert "given to branch fix-1 (abc)" in text
    assert "agentforge runs show r1" in text
    assert "+x = 2" not in text


def test_a_refused_result_says_why_by_test() -> None:
    reasons = (GateReason(kind=ReasonKind.BROKEN, test_id="t::ok", text="passed on the base, now failed"),)
    decision = GateDecision(verdict=Verdict.REFUSED, rank=Rank(False, 0, 0, True, 0), reasons=reasons)
    text = shown(result(outcome="no_patch", patch=None, decision=decision, hint="try --retries 5"))
    assert "NO VERIFIED PATCH" in text
    assert "hint: try --retries 5" in text
    assert "- t::ok: passed on the base, now failed" in text


@pytest.mark.parametrize("outcome", ["usage", "environment", "model", "limit"])
def test_a_failure_is_told_as_an_error_with_its_hint(outcome: str) -> None:
    run = result(
        outcome=outcome, summary="no engine answers", hint="start it", patch=None, decision=None,
        baseline=None, report=None,
    )  # fmt: skip
    assert shown(run).startswith("error: no engine answers\nhint: start it\n")


def test_a_dry_run_has_no_record() -> None:
    assert "record" not in shown(
        result(outcome="dry_run", patch=None, baseline=None, report=None, decision=None)
    )


def test_hostile_content_is_shown_not_obeyed() -> None:
    evil = DIFF + b"+\x1b[2Jy\xe2\x80\xae\r\n"
    text = shown(result(summary="\x1b[2J", patch=Patch(diff=evil, files=("a.py",))))
    assert "\x1b" not in text
    assert "␛[2Jy<U+202E>␍" in text


def test_markup_in_a_test_id_stays_text() -> None:
    after = TestReport(outcomes={"t::p[red]": Outcome.FAILED}, collected=1)
    assert "t::p[red]" in shown(result(report=after))


def test_a_long_diff_is_cut_and_says_so() -> None:
    text = diff_text("\n".join(f"+{n}" for n in range(10)), limit=4).plain
    assert text.endswith("+3\n… 6 more lines")


def test_new_and_gone_tests_are_changes() -> None:
    new = TestReport(outcomes={"t::new": Outcome.PASSED})
    assert changed_outcomes(BEFORE, new) == [
        ("t::bug", "failed", "-"), ("t::new", "-", "passed"), ("t::ok", "passed", "-"),
    ]  # fmt: skip


def test_the_document_is_json_and_complete() -> None:
    document = json.loads(json.dumps(result_document(result(), models={"coder": "m"}, applied_to="x")))
    assert document["outcome"] == "verified"
    assert document["exit_code"] == 0
    assert document["verdict"] == "verified"
    assert document["patch"] == DIFF.decode()
    assert document["files"] == ["a.py"]
    assert document["fail_to_pass"] == ["t::bug"]
    assert document["tests"]["before"] == {"cause": "ok", "collected": 2, "failed": 1, "passed": 1}
    assert document["tests"]["after"]["passed"] == 2
    assert document["models"] == {"coder": "m"}
    assert document["applied_to"] == "x"
    assert document["calls"] == 0
    assert document["cost_usd"] == 0


def test_an_unknown_price_is_null_in_the_document() -> None:
    document = result_document(result(spend=Spend(calls=2, unpriced_calls=1, cost_usd=0.1)), models={})
    assert document["cost_usd"] is None
    assert document["unpriced_calls"] == 1
