"""The gate: the only judge. Compares sets of test ids, never counts (design, section 3).

It replaces the paper's pass predicate (AgentForge, III-E eq. 11), which looks for words in output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import Patch
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.state import Trial


def matching(target: str, ids: Iterable[str]) -> frozenset[str]:
    """Test ids that `target` names: itself, its parameters, or all of a class, file or folder."""
    inside = (target + "[", target + "::", target.rstrip("/") + "/")
    return frozenset(test for test in ids if test == target or test.startswith(inside))


def decide(
    base: TestReport, candidate: TestReport, targets: Sequence[str], patch: Patch | None = None
) -> GateDecision:
    """Judge one execution of `candidate` against one of `base` over the same tests."""
    return decide_trials((Trial(base=base, candidate=candidate),), targets, patch)


def decide_trials(
    trials: Sequence[Trial],
    targets: Sequence[str],
    patch: Patch | None = None,
    seen: Sequence[TestReport] = (),
) -> GateDecision:
    """Judge a candidate by all its executions; `seen` are further reports on the base.

    Verified: every execution of the candidate gave a clean report; every target passes in each, and at
    least one of them was seen to fail on the base, every time it ran there; nothing that passed on the
    base in a trial fails, is skipped or is gone in that trial. Without such a target the best possible
    verdict is UNVERIFIED.
    """
    bases = [trial.base for trial in trials] + list(seen)
    candidates = [trial.candidate for trial in trials]
    clean = [reason for report in candidates for reason in _report_reasons(report)]
    clean += [reason for trial in trials for reason in _tampering(trial.base, trial.candidate)]
    known = {test for report in (*bases, *candidates) for test in report.outcomes}
    expanded = {target: matching(target, known) for target in targets}
    wanted = frozenset().union(*expanded.values())
    passing = frozenset(test for test in wanted if _passes_always(test, bases, candidates))
    refused = [*clean, *_target_reasons(expanded, passing, candidates)]
    refused += [reason for trial in trials for reason in _broken(trial.base, trial.candidate)]
    flipped = tuple(sorted(test for test in passing if _failed_always(test, bases)))
    kept = frozenset().union(*(trial.base.passed & trial.candidate.passed for trial in trials))
    reasons = list(dict.fromkeys(refused))
    verdict = Verdict.REFUSED if reasons else Verdict.VERIFIED if flipped else Verdict.UNVERIFIED
    if verdict is Verdict.UNVERIFIED:
        reasons.append(_no_target(wanted, bases))
    rank = Rank(
        verified=verdict is Verdict.VERIFIED,
        targets_passed=len(passing),
        base_passing_kept=len(kept),
        clean_exit=not clean,
        negative_changed_lines=-(patch.changed_lines if patch else 0),
    )
    return GateDecision(
        verdict=verdict,
        rank=rank,
        reasons=tuple(reasons),
        fail_to_pass=flipped,
        pass_to_pass=tuple(sorted(kept)),
        scope=candidates[-1].scope,
    )


def _passes_always(test: str, bases: Sequence[TestReport], candidates: Sequence[TestReport]) -> bool:
    """In every execution of the candidate that ran it. An expected failure that now passes counts, too."""
    outcomes = [report.outcomes[test] for report in candidates if test in report.outcomes]
    expected_to_fail = any(report.outcomes.get(test) is Outcome.XFAILED for report in bases)
    good = {Outcome.PASSED, Outcome.XPASSED} if expected_to_fail else {Outcome.PASSED}
    return bool(outcomes) and good.issuperset(outcomes)


_SEEN_FAILING = frozenset({Outcome.FAILED, Outcome.ERROR, Outcome.XFAILED})


def _failed_always(test: str, bases: Sequence[TestReport]) -> bool:
    """Seen to fail on the base every time it ran there, by itself or as its file could not be collected."""
    file = test.split("::", 1)[0]
    outcomes = []
    for report in bases:
        if report.cause not in (Cause.OK, Cause.COLLECTION_ERROR):
            continue
        if test in report.outcomes:
            outcomes.append(report.outcomes[test])
        elif report.outcomes.get(file) is Outcome.ERROR:
            outcomes.append(Outcome.ERROR)
    return bool(outcomes) and _SEEN_FAILING.issuperset(outcomes)


def _report_reasons(report: TestReport) -> list[GateReason]:
    if report.cause is not Cause.OK:
        detail = f": {report.cause_detail}" if report.cause_detail else ""
        return [GateReason(kind=ReasonKind.NO_REPORT, text=f"the test run ended with {report.cause}{detail}")]
    if report.collected < 1:
        return [GateReason(kind=ReasonKind.NO_REPORT, text="no tests were collected")]
    return []


def _tampering(base: TestReport, candidate: TestReport) -> list[GateReason]:
    """What passes by grace of a test framework that the candidate changed proves nothing."""
    more = sorted(set(candidate.tampered) - set(base.tampered))
    text = f"the patched code replaces parts of the test framework: {', '.join(more[:5])}"
    return [GateReason(kind=ReasonKind.TAMPERED, text=text)] if more else []


def _target_reasons(
    expanded: Mapping[str, frozenset[str]], passing: frozenset[str], candidates: Sequence[TestReport]
) -> list[GateReason]:
    """Why targets do not pass; a target that names nothing did not run."""
    reasons = [_target_reason(target, "did not run") for target, ids in expanded.items() if not ids]
    for test in sorted(frozenset().union(*expanded.values()) - passing):
        outcomes = [report.outcomes[test] for report in candidates if test in report.outcomes]
        worst = next((outcome.value for outcome in outcomes if outcome is not Outcome.PASSED), "missing")
        reasons.append(_target_reason(test, worst))
    return reasons


def _target_reason(test: str, outcome: str) -> GateReason:
    text = f"target test {outcome}" if outcome == "did not run" else f"target test is {outcome}"
    return GateReason(kind=ReasonKind.TARGET_NOT_PASSING, test_id=test, text=text)


def _broken(base: TestReport, candidate: TestReport) -> list[GateReason]:
    reasons = []
    for test in sorted(base.passed - candidate.passed):
        if test in candidate.outcomes:
            text = f"passed on the base, now {candidate.outcomes[test].value}"
            reasons.append(GateReason(kind=ReasonKind.BROKEN, test_id=test, text=text))
        else:
            text = "passed on the base, now gone"
            reasons.append(GateReason(kind=ReasonKind.DISAPPEARED, test_id=test, text=text))
    return reasons


def _no_target(wanted: frozenset[str], bases: Sequence[TestReport]) -> GateReason:
    if not wanted:
        return GateReason(kind=ReasonKind.NO_TARGET, text="no test shows the bug")
    if any(wanted & report.passed for report in bases):
        text = "no target test fails on the base every time: they pass there, or are flaky"
        return GateReason(kind=ReasonKind.NO_TARGET, text=text)
    text = "no target test was seen to fail on the base: it did not run there"
    return GateReason(kind=ReasonKind.NOT_SEEN_FAILING, text=text)


def legacy_pass(stderr: str, stdout: str) -> bool:
    """The paper's predicate (AgentForge, III-E eq. 11), kept by name for comparison only; judges nothing."""
    return not stderr and "FAILED" not in stdout and "ERROR" not in stdout
