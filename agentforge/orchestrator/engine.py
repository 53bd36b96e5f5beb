"""The workflow engine: a frozen state in, deltas out (design, section 4; ExecuGraph, 3.2).

The engine owns rounds, deadlines and the event log; nodes own none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from agentforge.core.errors import AgentForgeError, LimitReached
from agentforge.core.events import EventBase, NodeFinished, NodeStarted
from agentforge.core.state import RunState
from agentforge.orchestrator.workflow import END, Predicate, Workflow

Delta = Mapping[str, Any]


class EngineContext(Protocol):
    """What the engine itself needs of its surroundings."""

    def emit(self, event: EventBase) -> None: ...

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, None without one."""


ContextT = TypeVar("ContextT", bound=EngineContext)


class StateView:
    """The state as one node sees it: a field it did not declare cannot be read."""

    def __init__(self, state: RunState, node: str, reads: frozenset[str]) -> None:
        self._state, self._node, self._reads = state, node, reads

    def __getattr__(self, field: str) -> Any:
        if field not in self._reads:
            raise UndeclaredAccessError(f"node {self._node!r} reads {field!r} without declaring it")
        return getattr(self._state, field)


class UndeclaredAccessError(AgentForgeError):
    """A node touched a field outside its contract: a defect in the node, not in the input."""


@dataclass(frozen=True)
class Node(Generic[ContextT]):
    """A step with its contract: which fields of the state it reads and which it alone writes."""

    name: str
    run: Callable[[Any, ContextT], Awaitable[Delta]]
    reads: frozenset[str]
    writes: frozenset[str]


async def execute(
    workflow: Workflow,
    state: RunState,
    nodes: Mapping[str, Node[ContextT]],
    predicates: Mapping[str, Predicate],
    context: ContextT,
    on_state: Callable[[RunState], None],
) -> RunState:
    """Run `workflow` from its start to its end; `on_state` sees every state as it becomes current.

    Terminates: every cycle passes a loop edge, a loop edge needs a round, and rounds are finite.
    """
    name = workflow.file.start
    while name != END:
        _check_deadline(context)
        state = await _step(nodes[name], state, context)
        on_state(state)
        edge = workflow.next_edge(name, state, predicates)
        if edge.loop:
            state = state.model_copy(update={"round": state.round + 1})
        name = edge.target
    return state


async def _step(node: Node[ContextT], state: RunState, context: ContextT) -> RunState:
    context.emit(NodeStarted(node=node.name, round=state.round))
    delta = await node.run(StateView(state, node.name, node.reads), context)
    undeclared = delta.keys() - node.writes
    if undeclared:
        raise UndeclaredAccessError(f"node {node.name!r} writes {sorted(undeclared)} without declaring it")
    context.emit(NodeFinished(node=node.name, round=state.round, writes=tuple(sorted(delta))))
    return state.model_copy(update=dict(delta))


def _check_deadline(context: EngineContext) -> None:
    remaining = context.remaining_s()
    if remaining is not None and remaining <= 0:
        raise LimitReached("time", "the time limit of the run is used up", hint="raise --time-limit")
