"""A node of a workflow: what it does, and the contract under which it does it (design, section 4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from agentforge.core.base import Frozen
from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, ExitCode
from agentforge.core.events import EventBase
from agentforge.core.state import RunState

Delta = Mapping[str, Any]
"""What a node changes in the state, field by field."""


class NoOptions(Frozen):
    """A node without parameters."""


class Share(Frozen):
    """A stage's part of what is left of the run's limits, each between 0 and 1."""

    time: float = 1.0
    tokens: float = 1.0
    """Of tokens, money and calls."""


class EngineContext(Protocol):
    """What the engine itself needs of its surroundings."""

    def emit(self, event: EventBase) -> None: ...

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, None without one."""

    def for_node(self, name: str, options: Frozen) -> Self:
        """The same surroundings as one node sees them."""

    def has_model(self) -> bool: ...

    def spend(self) -> Spend:
        """What the run has used so far."""

    def stage(self, share: Share) -> AbstractContextManager[None]:
        """Hold what happens inside to a share of what is left of the run's limits."""


ContextT = TypeVar("ContextT", bound=EngineContext)


@dataclass(frozen=True)
class Node(Generic[ContextT]):
    """A step with its contract.

    `reads` and `writes` are fields of the state. `needs` are those that must have been written on every
    way to it. `options` is the model of its parameters, which a workflow file may set. `once`: its result
    depends on task and base alone, so that a later stage of a cascade does not run it again.
    """

    name: str
    run: Callable[[Any, ContextT], Awaitable[Delta]]
    reads: frozenset[str]
    writes: frozenset[str]
    needs: frozenset[str] = frozenset()
    asks_model: bool = False
    options: type[Frozen] = NoOptions
    once: bool = False


def node(
    name: str,
    run: Callable[[Any, ContextT], Awaitable[Delta]],
    reads: str,
    writes: str,
    *,
    needs: str = "",
    asks_model: bool = False,
    options: type[Frozen] = NoOptions,
    once: bool = False,
) -> Node[ContextT]:
    """One row of a module's table `NODES`; fields are separated by blanks."""
    fields = [frozenset(names.split()) for names in (reads, writes, needs)]
    return Node(name, run, fields[0], fields[1], fields[2], asks_model, options, once)


class UndeclaredAccessError(AgentForgeError):
    """A node touched a field outside its contract: a defect in the node, not in the input."""

    exit_code = ExitCode.DEFECT


class StateView:
    """The state as one node sees it: a field it did not declare cannot be read."""

    def __init__(self, state: RunState, node: str, reads: frozenset[str]) -> None:
        self._state, self._node, self._reads = state, node, reads

    def __getattr__(self, field: str) -> Any:
        if field not in self._reads:
            raise UndeclaredAccessError(f"node {self._node!r} reads {field!r} without declaring it")
        return getattr(self._state, field)
