"""Executing base and candidate over the same tests, related ones first (AgentForge, III-A eq. 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentforge.core.events import TestsFinished, TestsStarted
from agentforge.core.gate import Verdict
from agentforge.core.patch import Candidate, GeneratedTest
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import decide, matching
from agentforge.orchestrator.selection import related_test_files, test_file_of

# The worse of two outcomes of one test counts: a test that passes only sometimes proves nothing.
_SEVERITY = (
    Outcome.PASSED,
    Outcome.XFAILED,
    Outcome.SKIPPED,
    Outcome.XPASSED,
    Outcome.FAILED,
    Outcome.ERROR,
)


@dataclass(frozen=True)
class Trial:
    """Both reports over the same tests."""

    base: TestReport
    candidate: TestReport


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
) -> Trial:
    """Target and related tests first; the whole suite only for a candidate that survives them."""
    tree = with_generated(context.workspace.tree.with_changes(candidate.changes), generated)
    wide = context.settings.tests_scope == "all" and baseline is not None and baseline.cause is Cause.OK
    request = related_request(context, candidate, generated, targets, tree)
    if not request.targets or environment.framework == "command":
        return await _whole_suite(context, environment, tree, candidate, baseline if wide else None)
    request, base = await _near_base(context, environment, generated, targets, tree, request)
    report = await run(context, environment, tree, request, candidate.id)
    near = Trial(only_admitted(base, generated), only_admitted(report, generated))
    if not wide or decide(near.base, near.candidate, targets).verdict is Verdict.REFUSED:
        return near
    assert baseline is not None
    if baseline.outcomes.keys() <= near.base.outcomes.keys():
        # The related tests are the whole suite: a second run would only repeat the first.
        return Trial(near.base, near.candidate.model_copy(update={"scope": "all"}))
    far = await _whole_suite(context, environment, tree, candidate, baseline)
    whole = only_admitted(far.candidate, generated)
    return Trial(merge(near.base, far.base), merge(near.candidate, whole))


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
    narrow = _target_files(targets, generated, tree)
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
    return Trial(base, await run(context, environment, tree, request, candidate.id))


def only_admitted(report: TestReport, generated: Sequence[GeneratedTest]) -> TestReport:
    """The report without those tests of generated files that were not admitted as evidence."""
    admitted = {made.path: made.test_ids for made in generated}
    kept = {
        test: outcome
        for test, outcome in report.outcomes.items()
        if test_file_of(test) not in admitted
        or any(matching(name, (test,)) for name in admitted[test_file_of(test)])
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
    files = dict.fromkeys([*_target_files(targets, generated, tree), *near])
    return TestRequest(targets=tuple(files), timeout_s=context.settings.sandbox.timeout_s, scope="related")


def _target_files(targets: Sequence[str], generated: Sequence[GeneratedTest], tree: Tree) -> tuple[str, ...]:
    wanted = [test_file_of(target) for target in targets] + [made.path for made in generated]
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
