"""The gate: the only judge. Compares sets of test ids, never counts (design, section 3).

It replaces the paper's pass predicate (AgentForge, III-E eq. 11), which looks for words in output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentforge.core.gate import GateDecision, GateReason, Rank, ReasonKind, Verdict
from agentforge.core.patch import Patch
from agentforge.core.report import Cause, TestReport


def matching(target: str, ids: Iterable[str]) -> frozenset[str]:
    """Test ids that `target` names: itself, its parameters, or all of a class, file or folder."""
    inside = (target + "[", target + "::", target.rstrip("/") + "/")
    return frozenset(test for test in ids if test == target or test.startswith(inside))


def decide(
    base: TestReport, candidate: TestReport, targets: Sequence[str], patch: Patch | None = None
) -> GateDecision:
    """Judge `candidate` against `base`; both ran the same tests.

    Verified: a clean report, every target passing and at least one of them not passing on the base,
    and nothing that passed on the base failing, skipped or gone. Without such a target the best
    possible verdict is UNVERIFIED.
    """
    reasons = _report_reasons(candidate) + _tampering(base, candidate)
    expanded, target_reasons = _judge_targets(base, candidate, targets)
    broken = _broken(base, candidate)
    flipped = tuple(sorted((expanded & candidate.passed) - base.passed))
    kept = tuple(sorted(base.passed & candidate.passed))
    refused = [*reasons, *target_reasons, *broken]
    verdict = Verdict.REFUSED if refused else Verdict.VERIFIED if flipped else Verdict.UNVERIFIED
    if verdict is Verdict.UNVERIFIED:
        refused.append(_no_target(targets))
    rank = Rank(
        verified=verdict is Verdict.VERIFIED,
        targets_passed=len(expanded & candidate.passed),
        base_passing_kept=len(kept),
        clean_exit=not reasons,
        negative_changed_lines=-(patch.changed_lines if patch else 0),
    )
    return GateDecision(
        verdict=verdict,
        rank=rank,
        reasons=tuple(refused),
        fail_to_pass=flipped,
        pass_to_pass=kept,
        scope=candidate.scope,
    )


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


def _judge_targets(
    base: TestReport, candidate: TestReport, targets: Sequence[str]
) -> tuple[frozenset[str], list[GateReason]]:
    expanded: set[str] = set()
    reasons: list[GateReason] = []
    known = base.outcomes.keys() | candidate.outcomes.keys()
    for target in targets:
        ids = matching(target, known)
        expanded |= ids
        if not ids:
            reasons.append(_target_reason(target, "did not run"))
        reasons += [
            _target_reason(test, _outcome(candidate, test)) for test in sorted(ids - candidate.passed)
        ]
    return frozenset(expanded), reasons


def _target_reason(test: str, outcome: str) -> GateReason:
    text = f"target test {outcome}" if outcome == "did not run" else f"target test is {outcome}"
    return GateReason(kind=ReasonKind.TARGET_NOT_PASSING, test_id=test, text=text)


def _outcome(report: TestReport, test: str) -> str:
    outcome = report.outcomes.get(test)
    return "missing" if outcome is None else outcome.value


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


def _no_target(targets: Sequence[str]) -> GateReason:
    text = "every target test already passes on the base" if targets else "no test shows the bug"
    return GateReason(kind=ReasonKind.NO_TARGET, text=text)


def legacy_pass(stderr: str, stdout: str) -> bool:
    """The paper's predicate (AgentForge, III-E eq. 11), kept by name for comparison only; judges nothing."""
    return not stderr and "FAILED" not in stdout and "ERROR" not in stdout
