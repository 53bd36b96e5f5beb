"""Nodes that find the tests which show the bug: deterministic reproduction, then the tester."""

from __future__ import annotations

from agentforge.agents.admission import Admission, admit_tests
from agentforge.agents.coder import EditContext
from agentforge.agents.planner import fallback_plan
from agentforge.agents.tester import Tester, WrittenTests
from agentforge.core.errors import ModelError
from agentforge.core.events import TestsSynthesized
from agentforge.core.patch import GeneratedTest
from agentforge.core.ports import TestRequest
from agentforge.core.state import RunState
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.trials import run, with_generated
from agentforge.search.reproduce import reproduce


async def reproduce_issue(state: RunState, context: RunContext) -> Delta:
    """Tests taken from the issue's own examples, seen to fail on the base; not asked of a model.

    Where there is no example, failing tests that the issue speaks of take their place; the user's own
    target tests make both needless.
    """
    if state.task.target_tests:
        return {"reproduced": (), "existing": ()}
    assert state.environment is not None
    if state.environment.framework == "command":
        # One command, one verdict: where it fails on the base, it is what must pass.
        failing = tuple(sorted(state.baseline.failed)) if state.baseline else ()
        return {"reproduced": (), "existing": failing}
    found = await reproduce(
        context.sandbox,
        state.environment,
        context.workspace.tree,
        state.task.issue,
        state.baseline,
        timeout_s=context.settings.sandbox.timeout_s,
    )
    context.emit(TestsSynthesized(accepted=found.tests, discarded=found.discarded))
    _offer_failing_tests(state, context, known=bool(found.tests or found.existing))
    existing = () if found.tests else found.existing
    for test in existing:
        context.notice(f"target test, since it fails and the issue speaks of it: {test}")
    return {"reproduced": found.tests, "existing": existing}


def _offer_failing_tests(state: RunState, context: RunContext, *, known: bool) -> None:
    """Tests that fail now are the nearest evidence there may be: name the command that takes one."""
    failing = sorted(state.baseline.failed) if state.baseline is not None else []
    if failing and not known:
        text = (
            f"{len(failing)} tests fail now; one of them may show the bug"
            if len(failing) > 1
            else "a test fails now"
        )
        context.notice(text, hint=f"--test-id {failing[0]} makes it the target", warning=True)


async def synthesize_tests(state: RunState, context: RunContext) -> Delta:
    """The tester's suite, admitted test by test (AgentForge, III-D eq. 8); once per run.

    It is asked only where nothing else shows the bug: a test that the user or the issue gave is
    better evidence than one that a model made up.
    """
    if state.synthesized is not None or state.targets:
        return {"synthesized": state.synthesized or ()}
    assert context.model is not None
    tree = context.workspace.tree
    plan = state.plan or fallback_plan(state.retrieved, tree, "")
    tester = Tester.create(context.model, context.settings)
    edit_context = EditContext(issue=state.task.issue, retrieved=state.retrieved)
    try:
        written = await tester.write(edit_context, plan, tree)
    except ModelError as error:
        context.notice(f"no tests were written: {error.what}", hint=error.hint, warning=True)
        return {"synthesized": ()}
    made, discarded = await admit(state, context, written)
    context.emit(TestsSynthesized(accepted=made, discarded=discarded))
    return {"synthesized": made}


async def admit(
    state: RunState, context: RunContext, written: WrittenTests
) -> tuple[tuple[GeneratedTest, ...], tuple[tuple[str, str], ...]]:
    """(tests that count, what was discarded and why), by two runs on the base."""
    problems = tuple((written.path or "tester", problem) for problem in written.problems)
    if written.code is None:
        return (), problems
    assert state.environment is not None
    draft = GeneratedTest(path=written.path, code=written.code, test_ids=(), reason="")
    tree = with_generated(context.workspace.tree, [draft])
    request = TestRequest(
        targets=(written.path,), timeout_s=context.settings.sandbox.timeout_s, scope="generated"
    )
    first = await run(context, state.environment, tree, request, "base")
    again = await run(context, state.environment, tree, request, "base")
    admission = admit_tests(first, again, written.code, state.task.issue, written.path)
    return _admitted(draft, admission), (*problems, *admission.discarded, *_invented(admission))


def _admitted(draft: GeneratedTest, admission: Admission) -> tuple[GeneratedTest, ...]:
    """The tests that count: those whose expected values stand in the issue, else all that were accepted."""
    ids = admission.stated or admission.accepted
    if not ids:
        return ()
    reason = "\n".join(f"{test} {admission.reasons[test]}" for test in ids)
    return (draft.model_copy(update={"test_ids": ids, "reason": reason}),)


def _invented(admission: Admission) -> tuple[tuple[str, str], ...]:
    if not admission.stated:
        return ()
    why = "its expected value is the tester's own; others quote the issue"
    return tuple((test, why) for test in admission.accepted if test not in admission.stated)


NODES: tuple[Node[RunContext], ...] = (
    node(
        "reproduce",
        reproduce_issue,
        "task environment baseline",
        "reproduced existing",
        needs="environment",
        once=True,
    ),
    node(
        "synthesize",
        synthesize_tests,
        "task plan retrieved targets synthesized environment",
        "synthesized",
        needs="environment",
        asks_model=True,
    ),
)
