"""The workflow engine: a frozen state in, deltas out (design, section 4; ExecuGraph, 3.2).

The engine owns rounds, budgets, deadlines, stages and the event log; nodes own none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, LimitReached
from agentforge.core.events import EventBase, NodeFinished, NodeStarted, Notice, StageFinished, StageStarted
from agentforge.core.state import FRESH_AT_STAGE, RunState
from agentforge.orchestrator.eventlog import holding
from agentforge.orchestrator.node import ContextT, Node, StateView, UndeclaredAccessError
from agentforge.orchestrator.workflow import END, Predicate, Stage, Use, Workflow

OnState = Callable[[RunState], None]


async def execute(
    workflow: Workflow,
    state: RunState,
    nodes: Mapping[str, Node[ContextT]],
    predicates: Mapping[str, Predicate],
    context: ContextT,
    on_state: OnState,
) -> RunState:
    """Run `workflow` from its start to its end; `on_state` sees every state as it becomes current.

    Terminates: every cycle turns a loop, a loop has a budget, and a loop that begins anew does so only at
    a turn of another one. Raises what nodes raise, and `LimitReached`.
    """
    engine = _Engine(nodes, predicates, on_state)
    if workflow.stages:
        return await engine.cascade(workflow, state, context)
    return await engine.walk(workflow, state, context)


class _Engine(Generic[ContextT]):
    def __init__(
        self, nodes: Mapping[str, Node[ContextT]], predicates: Mapping[str, Predicate], on_state: OnState
    ) -> None:
        self.nodes, self.predicates, self.on_state = nodes, predicates, on_state
        self.ran: set[str] = set()
        """Nodes whose result holds for the whole run and is there."""

    async def cascade(self, workflow: Workflow, state: RunState, context: ContextT) -> RunState:
        """One stage after another over one state, until a patch is verified; `best` is never lost."""
        for number, stage in enumerate(workflow.stages):
            if state.verified:
                break
            if stage.workflow.file.needs_model and not context.has_model():
                context.emit(Notice(text=f"stage {stage.name} is left out: it needs a model"))
                continue
            last = number == len(workflow.stages) - 1
            state = await self._stage(stage, state, context, last)
        return state

    async def _stage(self, stage: Stage, state: RunState, context: ContextT, last: bool) -> RunState:
        """A stage ends, too, where its share of the limits is used up; only the last one ends the run so.

        What ends the run ends no stage: a run that is resumed goes on in the middle of it.
        """
        state = entered(stage, state)
        self.on_state(state)
        before, reason = context.spend(), ""
        context.emit(StageStarted(stage=stage.name, workflow=stage.workflow.name))
        reached = _Latest(state, self.on_state)
        engine = _Engine(self.nodes, self.predicates, reached.keep)
        engine.ran = self.ran
        try:
            with context.stage(stage.share):
                await engine.walk(stage.workflow, state, context)
        except LimitReached as error:
            if last:
                raise
            reason = error.what
        context.emit(_finished(stage, reached.state, before, context.spend(), reason))
        return reached.state

    async def walk(self, workflow: Workflow, state: RunState, context: ContextT) -> RunState:
        name = workflow.file.start
        while name != END:
            _check_deadline(context)
            branches = workflow.branches(name)
            if len(branches) == 1:
                state = await self._chain(workflow, branches[0], state, context)
            else:
                state = await self._fork(workflow, branches, state, context)
            self.on_state(state)
            edge = workflow.next_edge(name, state, self.predicates)
            if edge.loop:
                state = workflow.turn(edge.loop, state)
            name = edge.target
        return state

    async def _chain(
        self, workflow: Workflow, names: Sequence[str], state: RunState, context: ContextT
    ) -> RunState:
        for name in names:
            state = await self._step(workflow.uses[name], state, context)
        return state

    async def _fork(
        self, workflow: Workflow, branches: Sequence[Sequence[str]], state: RunState, context: ContextT
    ) -> RunState:
        """Branches at once, each on the state before the fork; events and deltas in the declared order.

        Where one fails the others end first, and the first one's error, as declared, is raised.
        """
        runs = [self._branch(workflow, names, state, context) for names in branches]
        joined, failed = state, None
        for names, (events, outcome) in zip(branches, await asyncio.gather(*runs), strict=True):
            for event in events:
                context.emit(event)
            if isinstance(outcome, AgentForgeError):
                failed = failed or outcome
                continue
            written = {field for name in names for field in self.nodes[workflow.uses[name].node].writes}
            joined = joined.model_copy(update={field: getattr(outcome, field) for field in written})
        if failed is not None:
            raise failed
        return joined

    async def _branch(
        self, workflow: Workflow, names: Sequence[str], state: RunState, context: ContextT
    ) -> tuple[list[EventBase], RunState | AgentForgeError]:
        with holding() as events:
            try:
                return events, await self._chain(workflow, names, state, context)
            except AgentForgeError as error:
                return events, error

    async def _step(self, use: Use, state: RunState, context: ContextT) -> RunState:
        node = self.nodes[use.node]
        if node.name in self.ran:
            return state
        context.emit(NodeStarted(node=use.name, round=state.round))
        delta = await node.run(
            StateView(state, use.name, node.reads), context.for_node(use.name, use.options)
        )
        undeclared = delta.keys() - node.writes
        if undeclared:
            raise UndeclaredAccessError(f"node {use.name!r} writes {sorted(undeclared)} without declaring it")
        context.emit(NodeFinished(node=use.name, round=state.round, writes=tuple(sorted(delta))))
        if node.once and state.stage:
            self.ran.add(node.name)
        return state.model_copy(update=dict(delta))


class _Latest:
    """The last state that was current, for whoever must go on after an error."""

    def __init__(self, state: RunState, on_state: OnState) -> None:
        self.state, self._on_state = state, on_state

    def keep(self, state: RunState) -> None:
        self.state = state
        self._on_state(state)


def entered(stage: Stage, state: RunState) -> RunState:
    """The state at the start of a stage: counters and what one round makes begin anew, the rest is kept."""
    rounds = stage.rounds if stage.rounds is not None else stage.workflow.file.rounds
    fresh = {
        name: RunState.model_fields[name].get_default(call_default_factory=True) for name in FRESH_AT_STAGE
    }
    budget = state.retries if rounds is None else rounds
    return state.model_copy(update={**fresh, "stage": stage.name, "budget": budget, "turn": state.turn + 1})


def _finished(stage: Stage, state: RunState, before: Spend, after: Spend, reason: str) -> StageFinished:
    return StageFinished(
        stage=stage.name,
        workflow=stage.workflow.name,
        solved=state.verified,
        reason=reason,
        spend=Spend(
            calls=after.calls - before.calls,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens,
            completion_tokens=after.completion_tokens - before.completion_tokens,
            cost_usd=after.cost_usd - before.cost_usd,
            unpriced_calls=after.unpriced_calls - before.unpriced_calls,
        ),
    )


def _check_deadline(context: ContextT) -> None:
    remaining = context.remaining_s()
    if remaining is not None and remaining <= 0:
        raise LimitReached("time", "the time limit of the run is used up", hint="raise --time-limit")
