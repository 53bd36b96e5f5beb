"""What a run comes to, for whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, ExitCode
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.patch import Patch
from agentforge.core.report import TestReport
from agentforge.core.state import RunState


@dataclass(frozen=True)
class RunResult:
    """`patch` is what was verified, or the unverified patch where no test could show more; else None.

    `outcome`: verified, unverified, no_patch, limit, model, environment, usage, interrupted, dry_run.
    `replay_matches`: for replays, whether the events equal the recorded ones; `difference` says where not.
    """

    run_id: str
    run_dir: Path
    outcome: str
    exit_code: int
    summary: str
    workflow: str
    base_commit: str
    hint: str = ""
    patch: Patch | None = None
    decision: GateDecision | None = None
    baseline: TestReport | None = None
    report: TestReport | None = None
    spend: Spend = field(default_factory=Spend)
    repository_root: Path | None = None
    duration_s: float = 0.0
    replay_matches: bool | None = None
    difference: str = ""


@dataclass(frozen=True)
class Ending:
    """How a run ended, in a word, a code and a sentence."""

    outcome: str
    exit_code: ExitCode
    summary: str
    hint: str = ""


_OUTCOMES = {
    ExitCode.USAGE: "usage",
    ExitCode.ENVIRONMENT: "environment",
    ExitCode.MODEL: "model",
    ExitCode.LIMIT: "limit",
}


def ending_of_error(error: AgentForgeError) -> Ending:
    outcome = _OUTCOMES.get(error.exit_code, "no_patch")
    return Ending(outcome, error.exit_code, error.what, error.hint)


def interrupted() -> Ending:
    return Ending("interrupted", ExitCode.INTERRUPTED, "interrupted before a patch was verified")


def ending_of_state(state: RunState, *, critic_is_gate: bool) -> Ending:
    """The verdict of the best candidate; a critic with a veto may turn it down, never up."""
    if state.best is None:
        return Ending(
            "no_patch", ExitCode.NO_VERIFIED_PATCH, _nothing_found(state), _nothing_found_hint(state)
        )
    decision = state.best.decision
    if decision.verdict is Verdict.REFUSED:
        return Ending(
            "no_patch", ExitCode.NO_VERIFIED_PATCH, _refusal(state), "the report shows the best attempt"
        )
    if critic_is_gate and state.critic is not None and state.critic.verdict == "fail":
        why = "; ".join(state.critic.reasons) or "no reason given"
        return Ending("no_patch", ExitCode.NO_VERIFIED_PATCH, f"the critic vetoed the patch: {why}")
    if decision.verdict is Verdict.UNVERIFIED:
        text = f"a patch was made that breaks no test, but {decision.reasons[-1].text}"
        return Ending(
            "unverified", ExitCode.UNVERIFIED, text, "name a failing test with --test-id to verify it"
        )
    flipped, kept = len(decision.fail_to_pass), len(decision.pass_to_pass)
    text = f"{flipped} target {_tests(flipped)} now pass{'es' if flipped == 1 else ''}, {kept} still pass"
    return Ending("verified", ExitCode.VERIFIED, f"{text} (tests that ran: {decision.scope})")


def _tests(count: int) -> str:
    return "test" if count == 1 else "tests"


def _nothing_found(state: RunState) -> str:
    if not state.targets:
        return "no test shows the bug, and no patch was made"
    return "no candidate could be made that applies"


def _nothing_found_hint(state: RunState) -> str:
    if not state.targets:
        return "add an example with its expected result to the issue, or name a failing test with --test-id"
    return "configure a model (--model, --base-url), or raise the limits"


def _refusal(state: RunState) -> str:
    assert state.best is not None
    reasons = state.best.decision.reasons
    first = f"{reasons[0].test_id}: {reasons[0].text}" if reasons and reasons[0].test_id else reasons[0].text
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"no candidate passed the gate; the best one: {first}{more}"
