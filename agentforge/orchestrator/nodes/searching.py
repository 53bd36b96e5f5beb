"""The node that repairs by search, without a model."""

from __future__ import annotations

from agentforge.core.errors import UsageError
from agentforge.core.state import Edit, RunState
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.protected import protected_paths
from agentforge.search.engine import RankedEdit, SearchEngine

MAX_PLAUSIBLE = 6
"""How many plausible edits are handed to the gate, best first."""


async def search_edits(state: RunState, context: RunContext) -> Delta:
    """Plausible edits, best first; the gate judges them afresh one after the other."""
    if not state.targets:
        context.notice(
            "no test shows the bug, so there is nothing to search for",
            hint="add an example and its expected result to the issue, or name a failing test (--test-id)",
            warning=True,
        )
        return {"found": ()}
    assert state.environment is not None
    if state.environment.framework == "command":
        raise UsageError(
            "the search engine needs single tests, and --test gives one command",
            hint="name a failing pytest test with --test-id, or configure a model",
        )
    protected = protected_paths(state, context.workspace.tree)
    engine = SearchEngine(context.sandbox, context.settings.search, context.emit, context.clock, protected)
    outcome = await engine.repair(
        state.environment,
        context.workspace.tree,
        state.task.issue,
        state.targets,
        state.generated,
        state.baseline,
        context.deadline,
        refused=tuple(edit.changes or {} for edit in state.found),
        guards=state.broken,
    )
    for reason in outcome.reasons:
        context.notice(f"search: {reason}")
    context.notice(f"search: {outcome.tried} candidates tried, {len(outcome.plausible)} plausible")
    _show_alternatives(context, outcome.plausible)
    known = len(state.found)
    new = (_edit(known + number, edit) for number, edit in enumerate(outcome.plausible[:MAX_PLAUSIBLE]))
    return {
        "found": (*state.found, *new),
        "watched": state.broken,
        "search_reasons": tuple(outcome.reasons),
    }


def _show_alternatives(context: RunContext, plausible: tuple[RankedEdit, ...]) -> None:
    """Several edits that pass the same tests: the tests do not tell them apart, a person may."""
    if len(plausible) < 2:
        return
    context.notice(
        f"{len(plausible)} edits pass these tests, so look at the choice; they are tried in this order:",
        hint="one more example in the issue tells them apart",
        warning=True,
    )
    for edit in plausible[:MAX_PLAUSIBLE]:
        context.notice(f"search: {edit.text}")


def _edit(number: int, ranked: RankedEdit) -> Edit:
    return Edit(round=number, origin="search", edit_format=ranked.edit.operator, changes=dict(ranked.changes))


NODES: tuple[Node[RunContext], ...] = (
    node(
        "search",
        search_edits,
        "task environment existing targets baseline generated found broken",
        "found watched search_reasons",
        needs="environment",
    ),
)
