"""Workflows as data: nodes, guarded edges, bounded loops, stages (design, section 4).

Reading and checking files: `workflow_load` and `workflow_check`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, field_validator

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError
from agentforge.core.state import RunState
from agentforge.orchestrator.node import Share

END = "end"
MAIN = "main"
"""The loop whose turns are `state.round` and whose budget is `state.budget`."""
Predicate = Callable[[RunState], bool]


class Edge(Frozen):
    """From one node to the next. `when` names a predicate; `loop` the loop that the edge turns, or ""."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    when: str | None = None
    loop: str = ""

    @field_validator("loop", mode="before")
    @classmethod
    def _true_is_the_main_loop(cls, value: Any) -> Any:
        return {True: MAIN, False: ""}.get(value, value) if isinstance(value, bool) else value


class Loop(Frozen):
    """At most `budget` turns ("retries": as many as the settings say). `within`: begins anew at each turn
    of that loop."""

    budget: int | Literal["retries"] = "retries"
    within: str | None = None

    @field_validator("budget")
    @classmethod
    def _not_negative(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 0:
            raise ValueError("a budget cannot be negative")
        return value


class NodeUse(Frozen):
    """A node under a name of the file's own: with parameters, or several at once."""

    use: str | None = None
    given: dict[str, Any] = Field(default={}, alias="with")
    parallel: tuple[tuple[str, ...], ...] = ()
    """Branches, each one node or a list of nodes that follow one another."""

    @field_validator("parallel", mode="before")
    @classmethod
    def _single_nodes(cls, value: Any) -> Any:
        return [[branch] if isinstance(branch, str) else branch for branch in value or ()]


class StageFile(Frozen):
    """One workflow of a sequence. `time` and `tokens` weigh its share of what the run has left."""

    workflow: str
    name: str = ""
    time: float = Field(default=1.0, ge=0)
    tokens: float = Field(default=1.0, ge=0)
    rounds: int | None = Field(default=None, ge=0)
    graph: WorkflowFile | None = None
    """The workflow itself, filled in at load, so that the record holds the whole graph."""


class WorkflowFile(Frozen):
    """The YAML file as written: `start` and `edges`, or `stages`, or a change of another workflow."""

    name: str
    description: str = ""
    needs_model: bool = True
    rounds: int | None = Field(default=None, ge=0)
    """Budget of the main loop; absent: `retries` of the settings."""
    loops: dict[str, Loop] = {}
    nodes: dict[str, NodeUse] = {}
    options: dict[str, Any] = {}
    """Parameters for every node that declares them."""
    shared: tuple[str, ...] = ()
    """Fields of the state that different nodes write one after another, on purpose."""
    start: str = ""
    edges: tuple[Edge, ...] = ()
    stages: tuple[StageFile, ...] = ()
    extends: str | None = None
    without: tuple[str, ...] = ()
    """Nodes of `extends` that are taken out: an ablation."""

    @field_validator("loops", mode="before")
    @classmethod
    def _plain_budgets(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: {"budget": loop} if isinstance(loop, int | str) else loop for name, loop in value.items()
        }


@dataclass(frozen=True)
class Use:
    """A name of the graph: which node it is, and its parameters."""

    name: str
    node: str
    options: Frozen


@dataclass(frozen=True)
class Stage:
    name: str
    workflow: Workflow
    share: Share
    rounds: int | None


@dataclass(frozen=True)
class Workflow:
    """A checked workflow. `hash` identifies the resolved graph; runs with other hashes are not pooled."""

    file: WorkflowFile
    edges: Mapping[str, tuple[Edge, ...]]
    uses: Mapping[str, Use]
    stages: tuple[Stage, ...] = ()

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def hash(self) -> str:
        graph = json.dumps(self.file.model_dump(mode="json", by_alias=True), sort_keys=True)
        return hashlib.sha256(graph.encode()).hexdigest()[:16]

    @property
    def node_names(self) -> frozenset[str]:
        """Implementations that may run, those of the stages too."""
        inner = (stage.workflow.node_names for stage in self.stages)
        return frozenset(use.node for use in self.uses.values()).union(*inner)

    def branches(self, name: str) -> tuple[tuple[str, ...], ...]:
        """What runs at `name`: the branches of a parallel group, or the one node."""
        use = self.file.nodes.get(name)
        return use.parallel if use is not None and use.parallel else ((name,),)

    def next_edge(self, name: str, state: RunState, predicates: Mapping[str, Predicate]) -> Edge:
        """The first edge out of `name` whose guard holds; a loop edge only while its loop has turns left."""
        for edge in self.edges[name]:
            if edge.loop and self.turns(edge.loop, state) >= self.budget(edge.loop, state):
                continue
            if edge.when is None or predicates[edge.when](state):
                return edge
        raise ConfigError(
            f"workflow {self.name}: no way on from node {name!r}", hint="add an edge without `when`"
        )

    def turns(self, loop: str, state: RunState) -> int:
        return state.round if loop == MAIN else state.rounds.get(loop, 0)

    def budget(self, loop: str, state: RunState) -> int:
        if loop == MAIN:
            return state.budget
        budget = self.file.loops[loop].budget
        return budget if isinstance(budget, int) else state.retries

    def turn(self, loop: str, state: RunState) -> RunState:
        """The state after one turn of `loop`: counted, and every loop within it begins anew."""
        rounds = {name: turns for name, turns in state.rounds.items() if name not in set(self._within(loop))}
        if loop == MAIN:
            update: dict[str, Any] = {"round": state.round + 1, "rounds": rounds}
        else:
            update = {"rounds": {**rounds, loop: self.turns(loop, state) + 1}}
        return state.model_copy(update={**update, "turn": state.turn + 1})

    def _within(self, outer: str) -> Iterator[str]:
        for name, loop in self.file.loops.items():
            if loop.within == outer:
                yield name
                yield from self._within(name)
