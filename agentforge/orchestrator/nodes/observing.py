"""Nodes that use the search engine beside a model: facts on the failure, a search around a near miss."""

from __future__ import annotations

from pydantic import Field

from agentforge.core.base import Frozen
from agentforge.core.events import Explored, FactsFound
from agentforge.core.facts import Facts
from agentforge.core.gate import ReasonKind, Verdict
from agentforge.core.patch import Candidate
from agentforge.core.state import Edit, RunState
from agentforge.core.tree import Changes, Tree
from agentforge.models.factory import build_redactor
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import matching
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.protected import protected_paths
from agentforge.orchestrator.workflow import Predicate
from agentforge.search.engine import SearchEngine, SearchOutcome
from agentforge.search.facts import facts_of

_FAILING = (ReasonKind.TARGET_NOT_PASSING, ReasonKind.BROKEN)
NO_TARGET = "no failing test shows the bug"


class FactsOptions(Frozen):
    """`lines`: most suspicious statements that are kept; `tests`: failing tests whose values are looked at.

    `asked`: the facts are what the run is for; then every test that fails on the base is a target where
    neither user nor issue name one.
    """

    lines: int = Field(default=8, ge=0, le=200)
    tests: int = Field(default=2, ge=0, le=10)
    asked: bool = False


async def find_facts(state: RunState, context: RunContext) -> Delta:
    """Observe the failing tests on the base; what they show is told to planner, coder and debugger."""
    options = context.options_as(FactsOptions)
    targets = state.targets or (_all_failing(state) if options.asked else ())
    if not targets or _single_command(state):
        why = NO_TARGET if not targets else "--test gives one command, and single tests are needed"
        if not options.asked:
            return {"facts": None}
        facts = Facts(reasons=(why,), asked=True)
    else:
        facts = await _observed(state, context, targets, options)
    context.emit(FactsFound(facts=facts))
    return {"facts": facts}


def _all_failing(state: RunState) -> tuple[str, ...]:
    return tuple(sorted(state.baseline.failed)) if state.baseline is not None else ()


def _single_command(state: RunState) -> bool:
    assert state.environment is not None
    return state.environment.framework == "command"


async def _observed(
    state: RunState, context: RunContext, targets: tuple[str, ...], options: FactsOptions
) -> Facts:
    assert state.environment is not None
    protected = protected_paths(state, context.workspace.tree)
    engine = SearchEngine(context.sandbox, context.settings.search, context.emit, context.clock, protected)
    diagnosis = await engine.diagnose(
        state.environment,
        context.workspace.tree,
        state.task.issue,
        targets,
        state.generated,
        state.baseline,
        context.deadline,
        explain=options.tests,
    )
    return facts_of(
        diagnosis,
        lines=options.lines,
        clean=build_redactor(context.settings).text,
        symbols=state.retrieved.symbols,
        asked=options.asked,
    )


# Exploring


class ExploreOptions(Frozen):
    """`most_failing`: a candidate that fails more tests (targets, or such that passed) is no near miss. The
    search ends after `candidates` edits or `time_s` seconds."""

    most_failing: int = Field(default=3, ge=1)
    candidates: int = Field(default=1500, ge=1)
    time_s: float = Field(default=20.0, gt=0)


async def explore(state: RunState, context: RunContext) -> Delta:
    """Search for one more edit on top of the best candidate, where it fails only a few target tests."""
    assert state.best is not None
    best, options = state.best.candidate, context.options_as(ExploreOptions)
    failing = failing_tests(state)
    nothing: Delta = {"nearby": None, "explored": (*state.explored, best.id)}
    if not 0 < len(failing) <= options.most_failing or _single_command(state):
        return nothing
    tree = context.workspace.tree.with_changes(best.changes)
    outcome = await _searched(state, context, tree, failing, options)
    found = outcome.plausible[0] if outcome.plausible else None
    context.emit(
        Explored(
            candidate=best.id,
            failing=failing,
            tried=outcome.tried,
            plausible=len(outcome.plausible),
            found=found.text if found else "",
            reasons=outcome.reasons,
        )
    )
    if found is None:
        return nothing
    edit = Edit(
        round=state.round,
        origin="explorer",
        edit_format=found.edit.operator,
        changes=on_top(best, found.changes, context.workspace.tree),
    )
    return {**nothing, "nearby": edit}


async def _searched(
    state: RunState, context: RunContext, tree: Tree, failing: tuple[str, ...], options: ExploreOptions
) -> SearchOutcome:
    assert state.environment is not None
    limits = context.settings.search.model_copy(
        update={"max_candidates": options.candidates, "time_limit_s": options.time_s}
    )
    protected = protected_paths(state, context.workspace.tree)
    engine = SearchEngine(context.sandbox, limits, context.emit, context.clock, protected)
    end = context.clock.monotonic() + options.time_s
    if context.deadline is not None:
        end = min(end, context.deadline)
    generated = [test.model_copy(update={"test_ids": ()}) for test in state.generated]
    return await engine.repair(state.environment, tree, state.task.issue, failing, generated, None, end)


def failing_tests(state: RunState) -> tuple[str, ...]:
    """Targets that the best candidate fails, and tests that it broke; empty where more is wrong with it."""
    assert state.best is not None
    report, reasons = state.best.report, state.best.decision.reasons
    if any(reason.kind not in _FAILING for reason in reasons):
        return ()
    wanted = [*state.targets, *(reason.test_id for reason in reasons)]
    ids = {test for target in wanted for test in matching(target, report.outcomes)}
    return tuple(sorted(ids & report.failed))


def on_top(best: Candidate, more: Changes, base: Tree) -> Changes:
    """The changes of the candidate and `more`, which is relative to it, relative to the base."""
    both = {**best.changes, **more}
    return {path: file for path, file in both.items() if base.files.get(path) != file}


def near_miss(state: RunState) -> bool:
    """After a round of the debugger, the best candidate is refused and was not searched around yet."""
    best = state.best
    return (
        best is not None
        and best.decision.verdict is Verdict.REFUSED
        and state.repair is not None
        and best.candidate.id not in state.explored
    )


def found_nearby(state: RunState) -> bool:
    """The search around the best candidate found an edit in this round."""
    return state.nearby is not None and state.nearby.round == state.round


PREDICATES: tuple[Predicate, ...] = (near_miss, found_nearby)

NODES: tuple[Node[RunContext], ...] = (
    node(
        "facts",
        find_facts,
        "task environment existing targets baseline generated retrieved",
        "facts",
        needs="environment",
        options=FactsOptions,
        once=True,
    ),
    node(
        "explore",
        explore,
        "task environment existing targets baseline generated best explored round stage",
        "nearby explored",
        needs="environment",
        options=ExploreOptions,
    ),
)
