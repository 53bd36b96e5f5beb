"""Executing base and candidate over the same tests, related ones first (AgentForge, III-A eq. 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agentforge.core.events import TestsFinished, TestsStarted
from agentforge.core.gate import Verdict
from agentforge.core.patch import Candidate, GeneratedTest
from agentforge.core.paths import file_of_test
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.state import Trial
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.flaky import without_flaky
from agentforge.orchestrator.gate import decide_trials, matching
from agentforge.orchestrator.selection import related_test_files

# The worse of two outcomes of one test counts: a test that passes only sometimes proves nothing.
_SEVERITY = (
    Outcome.PASSED,
    Outcome.XFAILED,
    Outcome.SKIPPED,
    Outcome.XPASSED,
    Outcome.FAILED,
    Outcome.ERROR,
)


def with_generated(tree: Tree, generated: Iterable[GeneratedTest]) -> Tree:
    """The tree plus the tests written for this run; they are executed, never part of a patch."""
    return tree.with_changes({made.path: TreeFile(made.code) for made in generated})


async def run_base(
    context: RunContext, environment: Environment, generated: Sequence[GeneratedTest], request: TestRequest
) -> TestReport:
    """Report on the base for `request`, executed once per run."""
    tree = with_generated(context.workspace.tree, generated)
    key = (tree.digest, request)
    if key not in context.base_reports:
        context.base_reports[key] = await run(context, environment, tree, request, "base")
    return context.base_reports[key]


async def run(
    context: RunContext, environment: Environment, tree: Tree, request: TestRequest, subject: str
) -> TestReport:
    context.emit(TestsStarted(subject=subject, scope=request.scope, targets=len(request.targets)))
    report = await context.sandbox.run_tests(environment, tree, request)
    report = report.model_copy(update={"scope": request.scope})
    context.emit(TestsFinished(subject=subject, report=report))
    return report


async def try_candidate(
    context: RunContext,
    environment: Environment,
    candidate: Candidate,
    generated: Sequence[GeneratedTest],
    targets: Sequence[str],
    baseline: TestReport | None,
) -> tuple[Trial, ...]:
    """Target and related tests first, the whole suite for what survives them, the targets once more.

    Each pair is judged for itself: a test that passed on the base in one of them must pass in that one.
    """
    tree = with_generated(context.workspace.tree.with_changes(candidate.changes), generated)
    wide = context.settings.tests_scope == "all" and baseline is not None and baseline.cause is Cause.OK
    request = related_request(context, candidate, generated, targets, tree)
    if not request.targets or environment.framework == "command":
        return (await _whole_suite(context, environment, tree, candidate, baseline if wide else None),)
    request, base = await _near_base(context, environment, generated, targets, tree, request)
    base = only_admitted(base, generated)
    report = await run(context, environment, tree, request, candidate.id)
    near = Trial(base=base, candidate=only_admitted(report, generated))
    near = await _steady(context, environment, generated, near)
    if decide_trials([near], targets, seen=_seen(baseline)).verdict is Verdict.REFUSED:
        return (near,)
    if wide and baseline is not None and not baseline.outcomes.keys() <= base.outcomes.keys():
        far = await _whole_suite(context, environment, tree, candidate, baseline)
        return (near, far.model_copy(update={"candidate": only_admitted(far.candidate, generated)}))
    scope = "all" if wide else request.scope
    again = replace(request, targets=target_files(targets, generated, tree), scope=scope)
    if not again.targets:
        return (near,)
    # What ran once may have passed by chance.
    second = only_admitted(await run(context, environment, tree, again, candidate.id), generated)
    return (near, Trial(base=restricted(base, second), candidate=second))


def restricted(report: TestReport, other: TestReport) -> TestReport:
    """`report` over the files that `other` ran, so that the two can be compared."""
    files = {file_of_test(test) for test in other.outcomes}
    kept = {test: outcome for test, outcome in report.outcomes.items() if file_of_test(test) in files}
    return report.model_copy(update={"outcomes": kept, "collected": len(kept)})


def _seen(baseline: TestReport | None) -> tuple[TestReport, ...]:
    return () if baseline is None else (baseline,)


async def _near_base(
    context: RunContext,
    environment: Environment,
    generated: Sequence[GeneratedTest],
    targets: Sequence[str],
    tree: Tree,
    request: TestRequest,
) -> tuple[TestRequest, TestReport]:
    """The base over the related tests; over the targets alone where those do not end in time."""
    base = await run_base(context, environment, generated, request)
    narrow = target_files(targets, generated, tree)
    if base.cause is Cause.OK or not narrow or narrow == request.targets:
        return request, base
    context.notice(
        f"related tests are no evidence here: on the base they ended with {base.cause}; only targets are run",
        hint="--sandbox-timeout gives them longer",
        warning=True,
    )
    request = replace(request, targets=narrow, scope="targets")
    return request, await run_base(context, environment, generated, request)


async def _whole_suite(
    context: RunContext,
    environment: Environment,
    tree: Tree,
    candidate: Candidate,
    baseline: TestReport | None,
) -> Trial:
    request = suite_request(context)
    base = baseline or await run_base(context, environment, (), request)
    report = await run(context, environment, tree, request, candidate.id)
    return await _steady(context, environment, (), Trial(base=base, candidate=report))


async def _steady(
    context: RunContext, environment: Environment, generated: Sequence[GeneratedTest], trial: Trial
) -> Trial:
    """The trial without the tests that fail now and then on the base."""
    if environment.framework == "command":
        return trial  # its one test is no file that could run again by itself

    async def again(request: TestRequest) -> TestReport:
        return await run_base(context, environment, generated, request)

    def notice(text: str) -> None:
        context.notice(text, warning=True)

    return await without_flaky(trial, again, notice, context.settings.sandbox.timeout_s)


def only_admitted(report: TestReport, generated: Sequence[GeneratedTest]) -> TestReport:
    """The report without those tests of generated files that were not admitted as evidence."""
    admitted = {made.path: made.test_ids for made in generated}
    kept = {
        test: outcome
        for test, outcome in report.outcomes.items()
        if file_of_test(test) not in admitted
        or any(matching(name, (test,)) for name in admitted[file_of_test(test)])
    }
    return report.model_copy(update={"outcomes": kept, "collected": len(kept)})


def suite_request(context: RunContext) -> TestRequest:
    return TestRequest(timeout_s=context.settings.sandbox.suite_timeout_s, scope="all")


def related_request(
    context: RunContext,
    candidate: Candidate,
    generated: Sequence[GeneratedTest],
    targets: Sequence[str],
    tree: Tree,
) -> TestRequest:
    """Files of the targets, of the generated tests and of the tests related to the touched modules.

    Whole files, not single ids: an id that does not exist on one side would end pytest at once.
    """
    near = related_test_files(candidate.changes, context.workspace.tree)
    files = dict.fromkeys([*target_files(targets, generated, tree), *near])
    return TestRequest(targets=tuple(files), timeout_s=context.settings.sandbox.timeout_s, scope="related")


def target_files(targets: Sequence[str], generated: Sequence[GeneratedTest], tree: Tree) -> tuple[str, ...]:
    """The files of the target tests and of those written for this run, as far as `tree` has them."""
    wanted = [file_of_test(target) for target in targets] + [made.path for made in generated]
    return tuple(dict.fromkeys(path for path in wanted if tree.kind(path) in {"file", "directory"}))


def merge(first: TestReport, second: TestReport) -> TestReport:
    """One report of two runs: the worse outcome per test, the wider scope, the worse cause."""
    outcomes = _worst(first.outcomes, second.outcomes)
    cause, detail = (
        (second.cause, second.cause_detail)
        if second.cause is not Cause.OK
        else (first.cause, first.cause_detail)
    )
    return second.model_copy(
        update={
            "outcomes": outcomes,
            "failures": {**second.failures, **first.failures},
            "collected": len(outcomes),
            "duration_s": first.duration_s + second.duration_s,
            "cause": cause,
            "cause_detail": detail,
        }
    )


def _worst(first: Mapping[str, Outcome], second: Mapping[str, Outcome]) -> dict[str, Outcome]:
    merged = dict(first)
    for test, outcome in second.items():
        before = merged.get(test, outcome)
        merged[test] = max(before, outcome, key=_SEVERITY.index)
    return merged
