"""The gate compares sets of test ids. Each paragraph of the design, section 3, is a test here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.core.gate import ReasonKind, Verdict
from agentforge.core.patch import Patch
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.state import Trial
from agentforge.orchestrator.gate import decide, decide_trials, legacy_pass, matching

P, F, E, S, X = Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED, Outcome.XFAILED


def report(cause: Cause = Cause.OK, **outcomes: Outcome) -> TestReport:
    named = {f"tests/test_a.py::{name}": outcome for name, outcome in outcomes.items()}
    return TestReport(outcomes=named, collected=len(named), cause=cause, exit_code=0)


TARGET = "tests/test_a.py::bug"


def test_target_flips_and_nothing_breaks_is_verified() -> None:
    decision = decide(report(bug=F, other=P), report(bug=P, other=P), [TARGET])
    assert decision.verdict is Verdict.VERIFIED
    assert decision.fail_to_pass == (TARGET,)
    assert decision.pass_to_pass == ("tests/test_a.py::other",)
    assert decision.reasons == ()


@pytest.mark.parametrize("outcome", [F, E, S, X])
def test_a_target_that_does_not_pass_is_refused(outcome: Outcome) -> None:
    decision = decide(report(bug=F), report(bug=outcome), [TARGET])
    assert decision.verdict is Verdict.REFUSED
    assert decision.reasons[0].kind is ReasonKind.TARGET_NOT_PASSING
    assert decision.reasons[0].test_id == TARGET


@pytest.mark.parametrize("outcome", [F, E, S, X])
def test_a_test_that_passed_on_the_base_and_no_longer_does_is_refused(outcome: Outcome) -> None:
    decision = decide(report(bug=F, other=P), report(bug=P, other=outcome), [TARGET])
    assert decision.verdict is Verdict.REFUSED
    assert [reason.kind for reason in decision.reasons] == [ReasonKind.BROKEN]


def test_a_test_that_disappears_is_refused_though_counts_are_equal() -> None:
    decision = decide(report(bug=F, other=P), report(bug=P, another=P), [TARGET])
    assert [reason.kind for reason in decision.reasons] == [ReasonKind.DISAPPEARED]


def test_af38_an_error_in_the_target_is_not_outvoted_by_other_passes() -> None:
    decision = decide(report(bug=F, one=P, two=P), report(bug=E, one=P, two=P), [TARGET])
    assert decision.verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    "cause", [cause for cause in Cause if cause not in (Cause.OK, Cause.COLLECTION_ERROR, Cause.NO_TESTS)]
)
def test_af08_no_clean_report_never_passes(cause: Cause) -> None:
    decision = decide(report(bug=F), report(cause, bug=P), [TARGET])
    assert decision.verdict is Verdict.REFUSED
    assert decision.reasons[0].kind is ReasonKind.NO_REPORT
    assert not decision.rank.clean_exit


def test_nothing_collected_never_passes() -> None:
    assert decide(report(bug=F), report(), []).verdict is Verdict.REFUSED


def test_without_a_target_the_best_is_unverified() -> None:
    decision = decide(report(other=P), report(other=P), [])
    assert decision.verdict is Verdict.UNVERIFIED
    assert decision.reasons[0].kind is ReasonKind.NO_TARGET


def test_a_target_that_passed_on_the_base_proves_nothing() -> None:
    assert decide(report(bug=P), report(bug=P), [TARGET]).verdict is Verdict.UNVERIFIED


def test_a_target_that_did_not_run_is_refused() -> None:
    assert decide(report(other=P), report(other=P), [TARGET]).verdict is Verdict.REFUSED


def test_a_target_that_is_new_in_the_candidate_was_not_seen_to_fail() -> None:
    decision = decide(report(other=P), report(other=P, bug=P), [TARGET])
    assert decision.verdict is Verdict.UNVERIFIED
    assert decision.reasons[0].kind is ReasonKind.NOT_SEEN_FAILING


def test_a_target_whose_file_could_not_be_collected_on_the_base_was_seen_to_fail() -> None:
    base = TestReport(outcomes={"tests/test_a.py": E}, cause=Cause.COLLECTION_ERROR)
    assert decide(base, report(bug=P), [TARGET]).verdict is Verdict.VERIFIED


@pytest.mark.parametrize("outcome", [S, P])
def test_a_target_skipped_or_passing_on_the_base_was_not_seen_to_fail(outcome: Outcome) -> None:
    assert decide(report(bug=outcome), report(bug=P), [TARGET]).verdict is Verdict.UNVERIFIED


@pytest.mark.parametrize(
    "cause", [cause for cause in Cause if cause not in (Cause.OK, Cause.COLLECTION_ERROR, Cause.NO_TESTS)]
)
def test_a_base_without_a_clean_report_shows_no_failure(cause: Cause) -> None:
    assert decide(report(cause, bug=F), report(bug=P), [TARGET]).verdict is Verdict.UNVERIFIED


def test_an_expected_failure_that_passes_now_counts_as_flipped() -> None:
    decision = decide(report(bug=X), report(bug=Outcome.XPASSED), [TARGET])
    assert decision.fail_to_pass == (TARGET,)


def trial(base: TestReport, candidate: TestReport) -> Trial:
    return Trial(base=base, candidate=candidate)


def test_a_regression_in_one_execution_is_not_hidden_by_another() -> None:
    """The test passes on the base of the second pair and is too slow in the first."""
    near = trial(report(bug=F, slow=F), report(bug=P, slow=F))
    far = trial(report(bug=F, slow=P), report(bug=P, slow=F))
    assert decide_trials([near, far], [TARGET]).verdict is Verdict.REFUSED


def test_a_flaky_target_proves_nothing() -> None:
    pair = trial(report(bug=F), report(bug=P))
    assert decide_trials([pair], [TARGET], seen=[report(bug=P)]).verdict is Verdict.UNVERIFIED
    again = trial(report(bug=F), report(bug=F))
    assert decide_trials([pair, again], [TARGET]).verdict is Verdict.REFUSED


def test_a_failure_that_was_there_before_does_not_count_against() -> None:
    assert decide(report(bug=F, old=F), report(bug=P, old=F), [TARGET]).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("t.py::a", {"t.py::a", "t.py::a[1]"}),
        ("t.py::C", {"t.py::C::m"}),
        ("t.py", {"t.py::a", "t.py::a[1]", "t.py::ab", "t.py::C::m"}),
        ("d", {"d/t.py::z"}),
        ("t.p", set()),
    ],
)
def test_a_target_names_parameters_classes_files_and_folders(target: str, expected: set[str]) -> None:
    ids = {"t.py::a", "t.py::a[1]", "t.py::ab", "t.py::C::m", "d/t.py::z"}
    assert matching(target, ids) == expected


def test_rank_prefers_verified_then_targets_then_kept_then_clean_then_small() -> None:
    small, large = Patch(diff=b"", files=(), added=1), Patch(diff=b"", files=(), added=9)
    base = report(bug=F, other=P)
    verified = decide(base, report(bug=P, other=P), [TARGET], large).rank
    breaks = decide(base, report(bug=P, other=F), [TARGET], small).rank
    keeps = decide(base, report(bug=F, other=P), [TARGET], small).rank
    bigger = decide(base, report(bug=F, other=P), [TARGET], large).rank
    assert verified > breaks > keeps > bigger


def test_af_r8_the_legacy_predicate_is_as_naive_as_printed() -> None:
    assert legacy_pass("", "no tests ran")
    assert not legacy_pass("a warning", "1 passed")


outcomes = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(list(Outcome)))


@given(outcomes, outcomes, st.sets(st.sampled_from(["a", "b", "c", "d"])))
def test_verified_means_exactly_what_the_design_says(
    before: dict[str, Outcome], after: dict[str, Outcome], targets: set[str]
) -> None:
    base = TestReport(outcomes=before, collected=len(before))
    candidate = TestReport(outcomes=after, collected=len(after))
    verdict = decide(base, candidate, sorted(targets)).verdict
    was = {test for test, outcome in before.items() if outcome is P}
    failing = {test for test, outcome in before.items() if outcome in (F, E, X)}
    now = {test for test, outcome in after.items() if outcome is P}
    expected = {test for test in now ^ set(after) if before.get(test) is X and after[test] is Outcome.XPASSED}
    lawful = bool(after) and targets <= now | expected and was <= now
    assert (verdict is Verdict.VERIFIED) == (lawful and bool(targets & failing))
    assert (verdict is Verdict.REFUSED) == (not lawful)
