"""Nodes that ask agents: plan, debug, criticise, explain; and what all nodes that write code share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentforge.agents import deadlock
from agentforge.agents.coder import EditContext
from agentforge.agents.critic import Critic
from agentforge.agents.debugger import Debugger, Failing
from agentforge.agents.explainer import explain
from agentforge.agents.failures import describe_failures
from agentforge.agents.ladder import EditResult, Refusal
from agentforge.agents.planner import Planner
from agentforge.config.settings import EditFormat
from agentforge.core.errors import ConfigError
from agentforge.core.events import (
    CriticDecided,
    DeadlockDetected,
    Explained,
    PatchRefused,
    PlanMade,
)
from agentforge.core.facts import Facts
from agentforge.core.plan import Step
from agentforge.core.ports import Model
from agentforge.core.report import Cause
from agentforge.core.state import CriticVerdict, Edit, Judged, RunState
from agentforge.core.tree import TreeFile
from agentforge.models.profiles import starting_format
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import matching
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.result import held_back


def live_model(context: RunContext) -> Model:
    assert context.model is not None, "the workflow was checked to have a model"
    return context.model


async def make_plan(state: RunState, context: RunContext, objection: str = "") -> Delta:
    """The planner's ordered steps, or our plain fallback plan. `objection` is against an earlier one."""
    planner = Planner.create(live_model(context), context.settings)
    issue = state.task.issue
    if objection:
        issue = issue.model_copy(update={"text": f"{issue.text}\n\nAn earlier plan was refused: {objection}"})
    plan = await planner.plan(
        issue,
        state.retrieved,
        context.workspace.tree,
        facts=told_facts(state),
        on_problem=lambda text: context.notice(f"the plan was not usable: {text}", warning=True),
    )
    context.emit(PlanMade(plan=plan))
    return {"plan": plan}


def seen_failing(state: RunState) -> str:
    """How the target tests fail on the base, in words; empty where they were not run."""
    if state.baseline is None:
        return ""
    failing = [test for target in state.targets for test in matching(target, state.baseline.failed)]
    seen = state.baseline.model_copy(
        update={"outcomes": {test: state.baseline.outcomes[test] for test in failing}, "cause": Cause.OK}
    )
    return describe_failures(seen, failing) if failing else ""


def told_facts(state: RunState) -> Facts | None:
    """What prompts are told of the failing tests; None where nothing was observed."""
    return state.facts if state.facts is not None and state.facts.suspects else None


async def debug(state: RunState, context: RunContext) -> Delta:
    """The debugger mends the better of the last and the best candidate (AgentForge, III-D eq. 9)."""
    if state.best is None:
        raise ConfigError(
            f"workflow {context.workflow}: `debug` was reached before a candidate was judged",
            hint="let `gate` come first on every way to it",
        )
    basis = _basis(state)
    decision = deadlock.next_strategy(_tries(state))
    if decision.deadlock:
        context.emit(DeadlockDetected(signature=decision.signature, strategy=decision.strategy.value))
    if decision.strategy is deadlock.Strategy.STOP:
        return {"repair": None, "stuck": True}
    base = context.workspace.tree
    patch = basis.candidate.patch
    result = await Debugger.create(live_model(context), context.settings).repair(
        Step(id="repair", agent="debugger", description=_what_is_wrong(basis), files=patch.files),
        EditContext(issue=state.task.issue, retrieved=state.retrieved, facts=told_facts(state)),
        Failing(
            tree=base.with_changes(basis.candidate.changes),
            diff=patch.text,
            report=basis.report,
            wanted=tuple(reason.test_id for reason in basis.decision.reasons if reason.test_id),
        ),
        base,
        start_rung(context, "debugger"),
        on_refused(context, "debugger", state.round),
        decision=decision,
        attempt=state.round,
    )
    return {"repair": edit_of("debugger", state.round, result, result.changes, texts(result))}


def _tries(state: RunState) -> list[deadlock.Attempt]:
    """The executed candidates; a round that brought none repeats the last of them."""
    tries = [deadlock.Attempt(signature=item.signature, places=item.places) for item in state.attempts]
    empty_rounds = state.round - 1 - state.attempts[-1].round
    return tries + tries[-1:] * empty_rounds


def _basis(state: RunState) -> Judged:
    """The last executed candidate, unless an earlier one passed more."""
    assert state.best is not None
    if state.candidate is None or state.report is None or state.decision is None:
        return state.best
    if state.best.decision.rank[:4] > state.decision.rank[:4]:
        return state.best
    assert state.compared is not None
    return Judged(
        candidate=state.candidate, baseline=state.compared, report=state.report, decision=state.decision
    )


def _what_is_wrong(judged: Judged) -> str:
    reasons = "; ".join(f"{item.test_id} {item.text}".strip() for item in judged.decision.reasons[:10])
    return f"The change so far is not accepted: {reasons}. Correct it so that the issue is resolved."


async def criticise(state: RunState, context: RunContext) -> Delta:
    """The critic's opinion of the best candidate; it may veto, never pass (AgentForge, III-D eq. 10)."""
    if state.best is None or context.settings.critic == "off":
        return {"critic": None}
    critic = Critic.create(live_model(context), context.settings)
    critique = await critic.judge(state.task.issue, state.best.candidate.patch, state.best.decision)
    verdict = CriticVerdict(verdict=critique.verdict, reasons=critique.reasons)
    veto = held_back(verdict, context.settings.critic)
    context.emit(CriticDecided(verdict=critique.verdict, reasons=critique.reasons, veto=veto))
    return {"critic": verdict}


async def explain_result(state: RunState, context: RunContext) -> Delta:
    """What was done and on which evidence, from the record alone."""
    if state.best is None:
        return {"explanation": ""}
    text = explain(state.plan, state.best.candidate.patch, state.best.decision)
    context.emit(Explained(text=text))
    return {"explanation": text}


def start_rung(context: RunContext, agent: str) -> EditFormat:
    settings = context.settings
    own = settings.agents.get(agent)  # type: ignore[call-overload]
    return starting_format(
        own.model if own and own.model else settings.model.name, settings.model.edit_format
    )


def on_refused(context: RunContext, origin: str, round_: int) -> Callable[[Refusal], None]:
    def report(refusal: Refusal) -> None:
        context.emit(
            PatchRefused(
                origin=origin,
                round=round_,
                edit_format=refusal.edit_format,
                reason=refusal.reason.value,
                text=refusal.text,
            )
        )

    return report


def texts(result: EditResult) -> list[str]:
    return [f"{item.edit_format}: {item.reason.value}: {item.text}" for item in result.refusals]


def edit_of(
    origin: str,
    round_: int,
    result: EditResult | None,
    changes: Mapping[str, TreeFile | None] | None,
    refusals: list[str],
) -> Edit:
    return Edit(
        round=round_,
        origin=origin,
        edit_format=(result.edit_format or "") if result is not None else "",
        changes=None if changes is None else dict(changes),
        refusals=tuple(refusals),
    )


NODES: tuple[Node[RunContext], ...] = (
    node("plan", make_plan, "task retrieved facts", "plan", asks_model=True, once=True),
    node(
        "debug",
        debug,
        "task retrieved facts attempts round best decision report compared candidate",
        "repair stuck",
        asks_model=True,
    ),
    node("critic", criticise, "task best", "critic", asks_model=True),
    node("explain", explain_result, "best plan", "explanation"),
)
