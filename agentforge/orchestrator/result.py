"""What a run comes to, for whoever asked for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agentforge.core.base import Frozen
from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, EnvironmentFault, ExitCode, LimitReached
from agentforge.core.facts import Facts
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.patch import Patch
from agentforge.core.paths import file_of_test
from agentforge.core.report import Cause, TestReport
from agentforge.core.state import CriticVerdict, RunState
from agentforge.orchestrator.gate import matching


@dataclass(frozen=True)
class RunResult:
    """`patch` is what was verified (even where the run was interrupted later), or the unverified patch
    where nothing could show more; else None.

    `outcome`: verified, unverified, no_patch, localized, limit, model, environment, usage, interrupted,
    defect, dry_run.
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
    state: RunState | None = None
    """What the run knew at its end: its best candidate, even a refused one, is there."""
    fault: str = ""
    """What ended the run, where it did not come to its own end; see `Ending`."""


@dataclass(frozen=True)
class Ending:
    """How a run ended, in a word, a code and a sentence; `with_patch`: the best patch is its result.

    `fault`: the limit that was reached ("cost", "tokens", "calls", "time"), or the error's class name.
    """

    outcome: str
    exit_code: ExitCode
    summary: str
    hint: str = ""
    with_patch: bool = False
    fault: str = ""


class Cut(Frozen):
    """An end that came from outside the run's own course, after the event with number `after`.

    A replay cannot come to such an end by itself: it stops there and repeats it. `kind`: "time",
    "interrupted", or "fault"; `what` and `hint` tell it.
    """

    after: int
    kind: Literal["time", "interrupted", "fault"]
    what: str = ""
    hint: str = ""


_MISSING = re.compile(r"No module named '(?P<module>[A-Za-z0-9_]+)")
_OUTCOMES = {
    ExitCode.DEFECT: "defect",
    ExitCode.USAGE: "usage",
    ExitCode.ENVIRONMENT: "environment",
    ExitCode.MODEL: "model",
    ExitCode.LIMIT: "limit",
}


def ending_of_error(error: AgentForgeError) -> Ending:
    outcome = _OUTCOMES.get(error.exit_code, "no_patch")
    fault = error.limit if isinstance(error, LimitReached) else type(error).__name__
    return Ending(outcome, error.exit_code, error.what, error.hint, fault=fault)


def ending_after(state: RunState, error: AgentForgeError, critic_mode: str) -> Ending:
    """A patch that was verified before something else failed stays verified."""
    return ending_of_state(state, critic_mode) if state.verified else ending_of_error(error)


def interrupted(state: RunState, critic_mode: str) -> Ending:
    """Interrupted stays interrupted; a patch that was verified before is kept, not applied."""
    reached = ending_of_state(state, critic_mode)
    if not (state.verified and reached.with_patch):
        return Ending("interrupted", ExitCode.INTERRUPTED, "interrupted before a patch was verified")
    text = f"interrupted; before that: {reached.summary}; the patch is kept and was not applied"
    return Ending("interrupted", ExitCode.INTERRUPTED, text, with_patch=True)


def error_of_cut(cut: Cut) -> AgentForgeError:
    """The error that `cut` stands for; not for "interrupted"."""
    if cut.kind == "time":
        return LimitReached("time", cut.what, hint="raise --time-limit")
    return EnvironmentFault(cut.what, hint=cut.hint)


def held_back(critic: CriticVerdict | None, critic_mode: str) -> bool:
    """Whether a critic with a veto keeps the patch back: everything but a clear pass does."""
    return critic_mode == "gate" and (critic is None or critic.verdict != "pass")


def ending_of_state(state: RunState, critic_mode: str) -> Ending:
    """The verdict of the best candidate; a critic with a veto may turn it down, never up."""
    if state.facts is not None and state.facts.asked:
        return _localized(state.facts)
    if state.best is None:
        return Ending(
            "no_patch", ExitCode.NO_VERIFIED_PATCH, _nothing_found(state), _nothing_found_hint(state)
        )
    decision = state.best.decision
    if decision.verdict is Verdict.REFUSED:
        hint = _setup_hint(state) or "the report shows the best attempt"
        return Ending("no_patch", ExitCode.NO_VERIFIED_PATCH, _refusal(state), hint)
    refused = held_back(state.critic, critic_mode)
    if refused and state.critic is not None and state.critic.verdict == "fail":
        why = "; ".join(state.critic.reasons) or "no reason given"
        return Ending("no_patch", ExitCode.NO_VERIFIED_PATCH, f"the critic vetoed the patch: {why}")
    if decision.verdict is Verdict.UNVERIFIED:
        text = f"a patch was made that breaks no test, but {decision.reasons[-1].text}"
        return _unverified(text, "name a failing test with --test-id to verify it")
    if refused:
        why = "; ".join(state.critic.reasons) if state.critic is not None else "it was not asked"
        text = f"the tests accept the patch, but the critic gave no verdict: {why or 'no reason given'}"
        return _unverified(text, "look at the patch, or let the tests decide alone with --critic advisory")
    flipped, kept = len(decision.fail_to_pass), len(decision.pass_to_pass)
    text = f"{flipped} target {_tests(flipped)} now pass{'es' if flipped == 1 else ''}, {kept} still pass"
    text += f" (tests that ran: {decision.scope})"
    return Ending("verified", ExitCode.VERIFIED, text, with_patch=True)


def _localized(facts: Facts) -> Ending:
    """Facts were all that was asked for."""
    if facts.suspects:
        count, failing = len(facts.suspects), len(facts.targets)
        text = f"{count} suspicious statement{'s' if count > 1 else ''}, {failing} failing {_tests(failing)}"
        return Ending("localized", ExitCode.VERIFIED, text)
    why = facts.reasons[-1] if facts.reasons else "nothing was observed"
    hint = "name a failing test with --test-id, or give an issue with an example"
    return Ending("localized", ExitCode.NO_VERIFIED_PATCH, f"nothing to suspect: {why}", hint)


def _unverified(text: str, hint: str) -> Ending:
    return Ending("unverified", ExitCode.UNVERIFIED, text, hint, with_patch=True)


def _tests(count: int) -> str:
    return "test" if count == 1 else "tests"


def _nothing_found(state: RunState) -> str:
    """Why nothing was judged: what the tests lack, what the search said, or how the base ended."""
    missing = missing_module(state)
    if missing:
        return f"the tests cannot be imported: no module named {missing!r}"
    if state.targets and state.search_reasons:
        return f"no single edit makes the target tests pass: {state.search_reasons[-1]}"
    base = state.baseline
    if base is not None and base.cause is not Cause.OK:
        detail = f": {base.cause_detail}" if base.cause_detail else ""
        return f"no patch was made, and the tests on the base ended with {base.cause.value}{detail}"
    if not state.targets:
        return "no test shows the bug, and no patch was made"
    return "no candidate could be made that applies"


def missing_module(state: RunState) -> str:
    """The top-level module that target tests (the suite, where there are none) fail to import, or ""."""
    report = state.baseline
    if report is None:
        return ""
    concerned = frozenset(report.failures)
    if state.targets:
        found = (matching(target, report.outcomes) | {file_of_test(target)} for target in state.targets)
        concerned = frozenset().union(*found)
    failures = [report.failures[test] for test in sorted(concerned) if test in report.failures]
    texts = [failure.message for failure in failures if failure.exception == "ModuleNotFoundError"]
    if report.cause is Cause.COLLECTION_ERROR and not report.passed:
        texts.append(report.output)
    names = (_MISSING.search(text) for text in texts)
    return next((name["module"] for name in names if name), "")


def _setup_hint(state: RunState) -> str:
    missing = missing_module(state)
    return f"install what the tests import: --setup 'pip install {missing}'" if missing else ""


def _nothing_found_hint(state: RunState) -> str:
    if missing := _setup_hint(state):
        return missing
    if not state.targets:
        return "add an example with its expected result to the issue, or name a failing test with --test-id"
    return "configure a model (--model, --base-url), or raise the limits"


def _refusal(state: RunState) -> str:
    assert state.best is not None
    reasons = state.best.decision.reasons
    first = f"{reasons[0].test_id}: {reasons[0].text}" if reasons and reasons[0].test_id else reasons[0].text
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"no candidate passed the gate; the best one: {first}{more}"
