"""Nodes of CodeSIM: plan, simulate, revise, then code and debug (MARS, appendix C, figure 14)."""

from __future__ import annotations

from agentforge.agents.simulator import Simulator
from agentforge.agents.strategist import Objection
from agentforge.core.plan import Plan
from agentforge.core.state import RunState, Simulation
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import live_model
from agentforge.orchestrator.nodes.synthesis import plan_in_words
from agentforge.orchestrator.workflow import Predicate

DEBUGGING = 2
"""Repairs of one plan's program before the next plan is made."""


async def sketch(state: RunState, context: RunContext) -> Delta:
    """A plan, anew at each attempt."""
    return await plan_in_words(state, context, attempt=state.round)


async def simulate(state: RunState, context: RunContext) -> Delta:
    """The plan on the task's examples, by hand. An answer that cannot be used leaves the plan as it is."""
    simulator = Simulator.create(live_model(context), context.settings)
    critique = await simulator.criticise(state.task.issue, _told(state.plan), attempt=state.round)
    if critique is None:
        context.notice("the simulation of the plan was not usable", warning=True)
    elif critique:
        context.notice(f"the plan is to be revised: {critique}")
    return {"simulation": Simulation(round=state.round, critique=critique or "")}


async def revise(state: RunState, context: RunContext) -> Delta:
    """The plan again, with what its simulation found; not simulated a second time (figure 14)."""
    assert state.simulation is not None
    objection = Objection(_told(state.plan), state.simulation.critique)
    return await plan_in_words(state, context, objection, attempt=state.round)


def _told(plan: Plan | None) -> str:
    if plan is None:
        return ""
    steps = [f"{number}. {step.description}" for number, step in enumerate(plan.steps, 1)]
    return "\n".join([plan.explanation, *(steps if len(steps) > 1 else ())])


def plan_doubted(state: RunState) -> bool:
    """The simulation asked for a revision."""
    return state.simulation is not None and bool(state.simulation.critique)


def worth_debugging(state: RunState) -> bool:
    """The program of the present plan may be repaired once more."""
    return state.simulation is not None and state.round - state.simulation.round < DEBUGGING


PREDICATES: tuple[Predicate, ...] = (plan_doubted, worth_debugging)

_PLANNING = "task retrieved facts techniques round"

NODES: tuple[Node[RunContext], ...] = (
    node("sketch", sketch, _PLANNING, "plan", asks_model=True),
    node("simulate", simulate, "task plan round", "simulation", asks_model=True, needs="plan"),
    node(
        "revise",
        revise,
        f"{_PLANNING} plan simulation",
        "plan",
        asks_model=True,
        needs="plan simulation",
    ),
)
