"""Nodes of PairCoder: the navigator proposes, chooses and steers, the driver writes (MARS, 4.2 and F)."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from agentforge.agents.clusters import clusters
from agentforge.agents.coder import EditContext
from agentforge.agents.debugger import Debugger, Failing
from agentforge.agents.failures import describe_failures
from agentforge.agents.navigator import TEMPERATURE, Executed, Navigator, Proposed
from agentforge.agents.planner import fallback_plan
from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError
from agentforge.core.events import PlanMade
from agentforge.core.plan import Plan, Step
from agentforge.core.problem import Problem
from agentforge.core.state import Navigation, RunState
from agentforge.core.tree import Tree
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import (
    edit_of,
    live_model,
    on_refused,
    start_rung,
    texts,
    told_facts,
)
from agentforge.orchestrator.nodes.coding import problem_step
from agentforge.orchestrator.workflow import Predicate

NO_STRATEGY = "The change so far is not accepted. Correct it so that the failing tests pass."


class ProposeOptions(Frozen):
    """How often the navigator is asked for plans (each answer a call), and how many plans are kept."""

    draws: int = Field(default=5, ge=1, le=15)
    keep: int = Field(default=3, ge=1, le=15)


async def propose(state: RunState, context: RunContext) -> Delta:
    """Many plans; of each cluster of them the most central one is kept."""
    options = context.options_as(ProposeOptions)
    proposed = await _drawn(state, context, options.draws)
    groups = clusters([plan.text for plan in proposed], options.keep)
    if groups:
        sizes = ", ".join(str(len(group)) for group in groups)
        context.notice(f"{len(proposed)} plans were proposed; clusters of {sizes}")
    else:
        context.notice("none of the navigator's answers held a usable plan", warning=True)
    kept = tuple(_as_plan(proposed[group[0]], state, context) for group in groups)
    return {"navigation": Navigation(plans=kept or (_plain_plan(state, context),))}


async def _drawn(state: RunState, context: RunContext, draws: int) -> list[Proposed]:
    navigator = Navigator.create(live_model(context), context.settings)
    own = context.settings.agents.get("planner")
    temperature = None if own is not None and own.temperature is not None else TEMPERATURE
    found: list[Proposed] = []
    for draw in range(draws):
        found += await navigator.propose(
            state.task.issue,
            state.retrieved,
            context.workspace.tree,
            facts=told_facts(state),
            temperature=temperature,
            attempt=draw,
        )
    return found


def _as_plan(proposed: Proposed, state: RunState, context: RunContext) -> Plan:
    """One step for the driver; of its files those that exist."""
    problem: Problem | None = state.task.problem
    if problem is not None:
        return Plan(explanation=proposed.text, steps=(problem_step(problem, proposed.text),))
    step = Step(
        id="drive",
        description=proposed.text,
        files=tuple(_existing(proposed.files, context.workspace.tree)),
        symbols=proposed.symbols,
    )
    return Plan(explanation=proposed.text, steps=(step,))


def _existing(paths: Iterable[str], tree: Tree) -> Iterable[str]:
    return (path for path in dict.fromkeys(paths) if path in tree.files)


def _plain_plan(state: RunState, context: RunContext) -> Plan:
    problem: Problem | None = state.task.problem
    if problem is not None:
        return Plan(explanation="", steps=(problem_step(problem),), fallback=True)
    return fallback_plan(state.retrieved, context.workspace.tree, "The navigator gave no usable plan.")


async def choose(state: RunState, context: RunContext) -> Delta:
    """The navigator's choice among the plans that are left; the largest cluster's where it makes none."""
    navigation: Navigation = state.navigation or Navigation()
    left = navigation.left
    if not left:
        raise ConfigError(
            f"workflow {context.workflow}: `choose` was reached with no plan left",
            hint="let `plans_left` guard every way to it but the one from `propose`",
        )
    chosen: int | None = 0
    if len(left) > 1:
        navigator = Navigator.create(live_model(context), context.settings)
        told = [navigation.plans[index].explanation for index in left]
        chosen = await navigator.choose(state.task.issue, told, attempt=state.round)
    if chosen is None:
        context.notice("the navigator chose none of its plans; the first is taken", warning=True)
    index = left[chosen or 0]
    plan = navigation.plans[index]
    context.emit(PlanMade(plan=plan))
    taken = {"taken": (*navigation.taken, index), "since": len(state.attempts), "action": "", "strategy": ""}
    return {"plan": plan, "navigation": navigation.model_copy(update=taken)}


async def steer(state: RunState, context: RunContext) -> Delta:
    """Where to go after a refusal. The same failure twice under one plan is a dead end: no one is asked."""
    navigation: Navigation = state.navigation or Navigation()
    assert state.candidate is not None
    assert state.report is not None
    if _dead_end(state, navigation.since):
        context.notice("dead end: this plan's program fails as an earlier one of it did")
        return {"navigation": navigation.model_copy(update={"action": "turn", "strategy": ""})}
    executed = Executed(
        plan=state.plan.explanation if state.plan is not None else "",
        diff=state.candidate.patch.text,
        failures=describe_failures(state.report, _wanted(state)),
        left=len(navigation.left),
    )
    navigator = Navigator.create(live_model(context), context.settings)
    course = await navigator.steer(state.task.issue, executed, attempt=state.round)
    if course is None:
        context.notice("the navigator's direction was not usable; the driver repairs", warning=True)
    action, strategy = course or ("repair", "")
    return {"navigation": navigation.model_copy(update={"action": action, "strategy": strategy})}


def _dead_end(state: RunState, since: int) -> bool:
    signatures = [attempt.signature for attempt in state.attempts[since:]]
    return signatures[-1] in signatures[:-1] if signatures else False


def _wanted(state: RunState) -> tuple[str, ...]:
    reasons = state.decision.reasons if state.decision is not None else ()
    return tuple(reason.test_id for reason in reasons if reason.test_id)


async def drive(state: RunState, context: RunContext) -> Delta:
    """The driver repairs the last program as the navigator directs."""
    assert state.candidate is not None
    assert state.report is not None
    strategy = state.navigation.strategy if state.navigation is not None else ""
    base, patch = context.workspace.tree, state.candidate.patch
    result = await Debugger.create(live_model(context), context.settings).repair(
        Step(id="drive", agent="debugger", description=strategy or NO_STRATEGY, files=patch.files),
        EditContext(issue=state.task.issue, retrieved=state.retrieved, facts=told_facts(state)),
        Failing(base.with_changes(state.candidate.changes), patch.text, state.report, _wanted(state)),
        base,
        start_rung(context, "debugger"),
        on_refused(context, "debugger", state.round),
        attempt=state.round,
    )
    return {"repair": edit_of("debugger", state.round, result, result.changes, texts(result))}


def repair_directed(state: RunState) -> bool:
    """The navigator wants the present program repaired."""
    return state.navigation is not None and state.navigation.action == "repair"


def plans_left(state: RunState) -> bool:
    """A plan of the navigator's was not carried out yet."""
    return state.navigation is not None and bool(state.navigation.left)


PREDICATES: tuple[Predicate, ...] = (repair_directed, plans_left)

_EXECUTED = "task navigation candidate report decision round"

NODES: tuple[Node[RunContext], ...] = (
    node("propose", propose, "task retrieved facts", "navigation", asks_model=True, options=ProposeOptions),
    node(
        "choose",
        choose,
        "task navigation attempts round",
        "plan navigation",
        asks_model=True,
        needs="navigation",
    ),
    node("steer", steer, f"{_EXECUTED} plan attempts", "navigation", asks_model=True, needs="navigation"),
    node("drive", drive, f"{_EXECUTED} retrieved facts", "repair", asks_model=True, needs="navigation"),
)
