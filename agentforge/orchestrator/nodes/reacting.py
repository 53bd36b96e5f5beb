"""The ReAct baseline: one node that thinks and calls one real tool; the engine counts its steps (AF-41)."""

from __future__ import annotations

import difflib

from agentforge.agents.failures import describe_failures
from agentforge.agents.reacter import Action, Reacter
from agentforge.core.errors import PatchError
from agentforge.core.ports import TestRequest
from agentforge.core.report import TestReport
from agentforge.core.state import Edit, ReactStep, RunState
from agentforge.core.tree import Tree
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.trials import run, suite_request, target_files, with_generated
from agentforge.orchestrator.workflow import Predicate
from agentforge.repo.patch.answer import apply_answer

FENCE = "```"


async def act(state: RunState, context: RunContext) -> Delta:
    """One step: what the agent wants done is done, and what came of it is what it sees next."""
    assert context.model is not None
    base = context.workspace.tree
    tree = base if state.draft is None else base.with_changes(state.draft.changes or {})
    agent = Reacter.create(context.model, context.settings)
    left = state.budget - state.round + 1
    action = await agent.act(state.task.issue, tuple(base.paths()), state.react, left)
    tree, observation = await _observed(action, tree, state, context)
    step = ReactStep(
        tool=action.tool or "none", path=action.path, thought=action.thought, observation=observation
    )
    context.notice(f"step {len(state.react) + 1}: {step.tool} {step.path}".rstrip())
    paths = {*base.paths(), *tree.paths()}
    changes = {
        path: tree.files.get(path) for path in sorted(paths) if base.files.get(path) != tree.files.get(path)
    }
    edit = Edit(round=state.round, origin="reacter", edit_format="tools", changes=changes or None)
    return {"react": (*state.react, step), "draft": edit}


async def _observed(action: Action, tree: Tree, state: RunState, context: RunContext) -> tuple[Tree, str]:
    if action.tool == "read_file":
        return tree, _content(action.path, tree)
    if action.tool == "write_code":
        return _written(action, tree)
    if action.tool == "run_tests":
        return tree, _told(await _tested(tree, state, context))
    if action.tool == "finish":
        return tree, "done"
    return tree, "no tool was named; begin with the JSON object"


def _content(path: str, tree: Tree) -> str:
    if tree.kind(path) == "file":
        return tree.read(path).data.decode("utf-8", "replace")
    close = difflib.get_close_matches(path, tree.paths(), 3, 0.4)
    return f"there is no file {path!r}" + (f"; there is {', '.join(close)}" if close else "")


def _written(action: Action, tree: Tree) -> tuple[Tree, str]:
    at = action.answer.find(FENCE)
    if at < 0:
        return tree, "no fenced block with the change was found; nothing was written"
    try:
        applied = apply_answer(action.answer[at:], tree, target=action.path or None)
    except PatchError as error:
        return tree, f"not written: {error.what}"
    return tree.with_changes(applied.changes), f"written: {', '.join(sorted(applied.changes))}"


async def _tested(tree: Tree, state: RunState, context: RunContext) -> TestReport:
    """The target tests, or the whole suite where there are none; by the same sandbox as everything else."""
    assert state.environment is not None
    whole = with_generated(tree, state.generated)
    files = target_files(state.targets, state.generated, whole)
    request = suite_request(context)
    if files and state.environment.framework != "command":
        timeout = context.settings.sandbox.timeout_s
        request = TestRequest(targets=files, timeout_s=timeout, scope="targets")
    return await run(context, state.environment, whole, request, f"step {len(state.react) + 1}")


def _told(report: TestReport) -> str:
    counts = f"{len(report.passed)} passed, {len(report.failed)} failed, {report.collected} collected"
    failures = describe_failures(report, sorted(report.failed)) if report.failed else ""
    return f"{report.cause.value}: {counts}\n{failures}".strip()


def react_done(state: RunState) -> bool:
    """The agent said that it is done."""
    return bool(state.react) and state.react[-1].tool == "finish"


PREDICATES: tuple[Predicate, ...] = (react_done,)

NODES: tuple[Node[RunContext], ...] = (
    node(
        "act",
        act,
        "task react draft round budget environment generated targets",
        "react draft",
        needs="environment",
        asks_model=True,
    ),
)
