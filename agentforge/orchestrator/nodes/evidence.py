"""Nodes that execute and judge: environment, baseline, apply, pick, execute, gate."""

from __future__ import annotations

import difflib
import functools

from agentforge.agents.deadlock import edit_places, failure_signature
from agentforge.core.errors import PatchError, UsageError
from agentforge.core.events import GateDecided, PatchProposed, PatchRefused
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.patch import Candidate
from agentforge.core.paths import file_of_test
from agentforge.core.ports import EnvironmentSpec, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.retrieval import FailedAttempt
from agentforge.core.state import Attempt, Edit, Judged, RunState
from agentforge.memory.episodes import MAX_ATTEMPT_CHARS
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import decide_trials, matching
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.protected import protected_paths, split_protected
from agentforge.orchestrator.trials import merge, run_base, suite_request, try_candidate

MAX_REASONS = 5
MAX_REASON_TESTS = 20


async def prepare_environment(state: RunState, context: RunContext) -> Delta:
    """Find or build the image in which the repository's tests run."""
    task = state.task
    spec = EnvironmentSpec(
        image=task.image,
        setup=task.setup,
        test_command=task.test_command,
        subdirectory=task.subdirectory,
        apt=task.apt,
        dockerfile=task.dockerfile,
        junit=task.junit,
    )
    environment = await context.sandbox.prepare(context.workspace.tree, spec)
    for note in environment.notes:
        context.notice(note)
    return {"environment": environment}


async def run_baseline(state: RunState, context: RunContext) -> Delta:
    """What passes and fails on the base: the whole suite, or the files of the target tests."""
    task = state.task
    if task.tests_scope == "all":
        request = suite_request(context)
    else:
        tree = context.workspace.tree
        files = dict.fromkeys(file_of_test(target) for target in task.target_tests)
        present = tuple(path for path in files if tree.kind(path) in {"file", "directory"})
        if not present:
            return {"baseline": None}
        timeout = context.settings.sandbox.timeout_s
        request = TestRequest(targets=present, timeout_s=timeout, scope="related")
    assert state.environment is not None
    report = await run_base(context, state.environment, (), request)
    _comment_on_baseline(context, report)
    _check_targets(task.target_tests, report)
    return {"baseline": report}


def _comment_on_baseline(context: RunContext, report: TestReport) -> None:
    if report.cause is Cause.NO_TESTS:
        context.notice(
            "the repository has no tests that could be collected",
            hint="name a command with --test, or a failing test with --test-id",
            warning=True,
        )
    elif report.cause is not Cause.OK:
        detail = f" ({report.cause_detail})" if report.cause_detail else ""
        context.notice(
            f"the whole suite is no evidence here: on the base it ended with {report.cause}{detail}",
            hint="only related tests will judge; --tests related says so from the start",
            warning=True,
        )


def _check_targets(targets: tuple[str, ...], report: TestReport) -> None:
    """Before anything is spent: every target names a test, and one of them fails. Raises `UsageError`."""
    if report.cause is not Cause.OK or not targets:
        return
    for target in targets:
        file = file_of_test(target)
        if not matching(target, report.outcomes) and report.outcomes.get(file) is not Outcome.ERROR:
            near = difflib.get_close_matches(target, report.outcomes, 2, 0.5)
            known = f"close: {', '.join(near)}" if near else "ids are paths from the repository's root"
            raise UsageError(f"target test {target} is not among the {report.collected} tests", hint=known)
    ids = frozenset().union(*(matching(target, report.outcomes) for target in targets))
    if ids and ids <= report.passed:
        shown = targets[0] if len(targets) == 1 else f"every one of {len(targets)} target tests"
        raise UsageError(
            f"{shown} passes on the base already, so it does not show the bug",
            hint="name a test that fails, or leave --test-id out",
        )


async def apply_edit(state: RunState, context: RunContext) -> Delta:
    """The edit of this round as a canonical patch; None where no answer could be applied."""
    made = (state.draft, state.repair, state.optimised, state.nearby)
    edits = [edit for edit in made if edit is not None and edit.round == state.round]
    if not edits or edits[-1].changes is None:
        return {"candidate": None}
    letter = {"optimizer": "o", "explorer": "x"}.get(edits[-1].origin, "c")
    return {"candidate": await make_candidate(edits[-1], _name(letter, state), state, context)}


async def pick_edit(state: RunState, context: RunContext) -> Delta:
    """The next plausible edit of the search engine."""
    if state.round >= len(state.found):
        return {"candidate": None}
    return {"candidate": await make_candidate(state.found[state.round], _name("s", state), state, context)}


def _name(letter: str, state: RunState) -> str:
    """The id of this round's candidate; rounds begin anew at each stage of a cascade, ids do not repeat."""
    return f"{state.stage}-{letter}{state.round}" if state.stage else f"{letter}{state.round}"


async def make_candidate(edit: Edit, name: str, state: RunState, context: RunContext) -> Candidate | None:
    tree = context.workspace.tree
    kept, dropped = split_protected(edit.changes or {}, protected_paths(state, tree))
    for path in dropped:
        context.notice(
            f"left out of the candidate: its edit of {path} (tests judge as they stood)", warning=True
        )
    if not kept:
        context.emit(_refused(edit, "tests_only", "nothing is left of the edit but changes to the tests"))
        return None
    try:
        patch = await context.workspace.make_patch(kept)
    except PatchError as error:
        context.emit(_refused(edit, error.reason.value, error.what))
        return None
    context.emit(
        PatchProposed(
            candidate=name,
            origin=edit.origin,
            round=edit.round,
            edit_format=edit.edit_format,
            diff=patch.text,
            files=patch.files,
            added=patch.added,
            removed=patch.removed,
        )
    )
    return Candidate(id=name, patch=patch, changes=kept, origin=edit.origin, round=edit.round)


def _refused(edit: Edit, reason: str, text: str) -> PatchRefused:
    return PatchRefused(
        origin=edit.origin, round=edit.round, edit_format=edit.edit_format, reason=reason, text=text
    )


async def execute_candidate(state: RunState, context: RunContext) -> Delta:
    """Run base and candidate over the same tests."""
    assert state.environment is not None
    assert state.candidate is not None
    trials = await try_candidate(
        context, state.environment, state.candidate, state.generated, state.targets, state.baseline
    )
    return {
        "trials": trials,
        "compared": functools.reduce(merge, [trial.base for trial in trials]),
        "report": functools.reduce(merge, [trial.candidate for trial in trials]),
    }


async def judge(state: RunState, context: RunContext) -> Delta:
    """The gate; and the best candidate so far, which a later one replaces only by a greater rank."""
    assert state.candidate is not None
    assert state.report is not None
    assert state.compared is not None
    seen = () if state.baseline is None else (state.baseline,)
    decision = decide_trials(state.trials, state.targets, state.candidate.patch, seen)
    context.emit(GateDecided(candidate=state.candidate.id, decision=decision))
    judged = Judged(
        candidate=state.candidate, baseline=state.compared, report=state.report, decision=decision
    )
    better = state.best is None or decision.rank > state.best.decision.rank
    if state.best is not None and state.candidate.origin == "optimizer":
        # Meant to do the same in another way: as good by the tests is good enough (ExecuGraph, 3.2).
        better = decision.rank[:-1] >= state.best.decision.rank[:-1]
        if not better:
            context.notice("optimised, it no longer passes: what passed before stands", warning=True)
    return {
        "decision": decision,
        "best": judged if better else state.best,
        "attempts": (*state.attempts, _attempt(state, decision, context)),
    }


def _attempt(state: RunState, decision: GateDecision, context: RunContext) -> Attempt:
    assert state.candidate is not None
    assert state.report is not None
    base = context.workspace.tree
    return Attempt(
        round=state.round,
        candidate=state.candidate.id,
        signature=failure_signature(state.report),
        places=edit_places(base, base.with_changes(state.candidate.changes)),
        refused=_refusal(state.candidate, decision) if decision.verdict is Verdict.REFUSED else None,
    )


def _refusal(candidate: Candidate, decision: GateDecision) -> FailedAttempt:
    """The change and the evidence against it, as memory keeps it."""
    texts = dict.fromkeys(f"{reason.kind.value}: {reason.text}".rstrip(": ") for reason in decision.reasons)
    tests = dict.fromkeys(reason.test_id for reason in decision.reasons if reason.test_id)
    return FailedAttempt(
        patch=candidate.patch.text[:MAX_ATTEMPT_CHARS],
        reason="; ".join(list(texts)[:MAX_REASONS]),
        tests=tuple(tests)[:MAX_REASON_TESTS],
    )


_PROTECTED = "task existing baseline environment"

NODES: tuple[Node[RunContext], ...] = (
    node("environment", prepare_environment, "task", "environment", once=True),
    node("baseline", run_baseline, "task environment", "baseline", needs="environment", once=True),
    node("apply", apply_edit, f"draft repair optimised nearby round stage {_PROTECTED}", "candidate"),
    node("pick", pick_edit, f"found round stage {_PROTECTED}", "candidate"),
    node(
        "execute",
        execute_candidate,
        "candidate environment generated targets baseline",
        "trials compared report",
        needs="environment candidate",
    ),
    node(
        "gate",
        judge,
        "candidate trials report compared targets baseline best attempts round",
        "decision best attempts",
        needs="candidate trials",
    ),
)
