"""The engine over small graphs of nodes that do what a test, or chance, tells them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge.core.base import Frozen
from agentforge.core.chat import Spend
from agentforge.core.errors import AgentForgeError, ConfigError, LimitReached
from agentforge.core.events import EventBase, NodeStarted, StageFinished
from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.patch import Candidate, Patch
from agentforge.core.redact import Redactor
from agentforge.core.report import TestReport
from agentforge.core.state import Edit, Judged, RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.orchestrator import wiring
from agentforge.orchestrator.clock import LiveClock
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.eventlog import EventLog
from agentforge.orchestrator.node import Node, Share, node
from agentforge.orchestrator.workflow import Workflow
from agentforge.orchestrator.workflow_load import load_workflow, shipped_workflows

TASK = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text="x"))
REPORT = TestReport(outcomes={}, collected=0)


class NodeOptions(Frozen):
    text: str = "plain"


@dataclass
class Surroundings:
    """The engine's surroundings, with real event log; `shares` are the stages' shares as they came."""

    events: list[EventBase] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    options: Frozen = field(default_factory=Frozen)
    model: bool = True

    def __post_init__(self) -> None:
        self.log = EventLog(LiveClock(), Redactor(), lambda line, last: None, self.events.append)

    def emit(self, event: EventBase) -> None:
        self.log.emit(event)

    def remaining_s(self) -> float | None:
        return None

    def for_node(self, name: str, options: Frozen) -> Self:
        self.options = options
        return self

    def has_model(self) -> bool:
        return self.model

    def spend(self) -> Spend:
        return Spend()

    def stage(self, share: Share) -> AbstractContextManager[None]:
        self.shares.append(share)
        return nullcontext()

    def started(self) -> list[str]:
        return [event.node for event in self.events if isinstance(event, NodeStarted)]


def saying(name: str, writes: str, value: Any, *, after_s: float = 0.0, reads: str = "task") -> Node[Any]:
    async def run(state: Any, context: Surroundings) -> Mapping[str, Any]:
        await asyncio.sleep(after_s)
        if isinstance(value, AgentForgeError):
            raise value
        return {writes: value}

    return node(name, run, reads, writes, options=NodeOptions)


def load(tmp_path: Path, text: str, nodes: Mapping[str, Node[Any]]) -> Workflow:
    path = tmp_path / "w.yaml"
    path.write_text(text)
    return load_workflow("w", nodes, wiring.PREDICATES, path)


def table(*nodes: Node[Any]) -> dict[str, Node[Any]]:
    return {entry.name: entry for entry in nodes}


async def run(
    workflow: Workflow, nodes: Mapping[str, Node[Any]], surroundings: Surroundings, **state: Any
) -> RunState:
    opening = RunState(task=TASK, base_commit="0" * 40, **state)
    return await execute(workflow, opening, nodes, wiring.PREDICATES, surroundings, lambda _: None)


FORK = """
name: w
start: both
nodes: {both: {parallel: [slow, fast]}}
edges: [{from: both, to: end}]
"""


async def test_branches_run_at_once_and_tell_in_the_declared_order(tmp_path: Path) -> None:
    nodes = table(
        saying("slow", "explanation", "s", after_s=0.2), saying("fast", "episode", "f", after_s=0.2)
    )
    surroundings = Surroundings()
    loop = asyncio.get_running_loop()
    before = loop.time()
    final = await run(load(tmp_path, FORK, nodes), nodes, surroundings)
    assert loop.time() - before < 0.38
    assert (final.explanation, final.episode) == ("s", "f")
    told = [(event.type, getattr(event, "node", ""), event.seq) for event in surroundings.events]
    assert told == [
        ("node_started", "slow", 1),
        ("node_finished", "slow", 2),
        ("node_started", "fast", 3),
        ("node_finished", "fast", 4),
    ]


async def test_a_failing_branch_lets_the_other_end_and_is_raised(tmp_path: Path) -> None:
    nodes = table(
        saying("slow", "explanation", "s", after_s=0.05), saying("fast", "episode", AgentForgeError("broken"))
    )
    surroundings = Surroundings()
    with pytest.raises(AgentForgeError, match="broken"):
        await run(load(tmp_path, FORK, nodes), nodes, surroundings)
    assert surroundings.started() == ["slow", "fast"]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (("explanation", "task"), ("explanation", "task"), "both write 'explanation'"),
        (("explanation", "task"), ("episode", "explanation"), "reads 'explanation', the other writes it"),
    ],
)
def test_branches_that_meet_in_a_field_are_refused(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str], says: str
) -> None:
    nodes = table(
        saying("slow", first[0], "s", reads=first[1]), saying("fast", second[0], "f", reads=second[1])
    )
    with pytest.raises(ConfigError, match=says):
        load(tmp_path, FORK, nodes)


NESTED = """
name: w
start: one
rounds: {outer}
loops: {{inner: {{budget: {inner}, within: main}}}}
edges:
  - {{from: one, to: two}}
  - {{from: two, to: two, loop: inner}}
  - {{from: two, to: one, loop: true}}
  - {{from: two, to: end}}
"""


@pytest.mark.parametrize(("outer", "inner"), [(0, 0), (2, 0), (0, 3), (2, 3)])
async def test_a_loop_within_another_begins_anew_at_its_turns(tmp_path: Path, outer: int, inner: int) -> None:
    nodes = table(saying("one", "explanation", "x"), saying("two", "episode", "y"))
    workflow = load(tmp_path, NESTED.format(outer=outer, inner=inner), nodes)
    surroundings = Surroundings()
    final = await run(workflow, nodes, surroundings, budget=outer)
    assert Counter(surroundings.started()) == {"one": outer + 1, "two": (outer + 1) * (inner + 1)}
    assert final.turn == outer + (outer + 1) * inner


async def test_one_node_under_two_names_has_each_name_s_own_options(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    async def say(state: Any, context: Surroundings) -> Mapping[str, Any]:
        assert isinstance(context.options, NodeOptions)
        seen.append((context.events[-1].node, context.options.text))  # type: ignore[attr-defined]
        return {"explanation": context.options.text}

    nodes = table(node("say", say, "task", "explanation", options=NodeOptions))
    text = """
name: w
start: say
options: {text: common}
nodes: {again: {use: say, with: {text: own}}}
edges: [{from: say, to: again}, {from: again, to: end}]
"""
    await run(load(tmp_path, text, nodes), nodes, Surroundings())
    assert seen == [("say", "common"), ("again", "own")]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("options: {colour: red}", "w.yaml:4: option 'colour' has no effect"),
        ("loops: {mend: 3}", "w.yaml:4: loop 'mend' has no effect"),
        ("nodes: {other: {use: say}}", "w.yaml:4: node 'other' has no effect"),
        ("shared: [explanation]", "w.yaml:4: `shared: explanation` has no effect"),
        ("rounds: 2", "w.yaml:4: `rounds` has no effect"),
        ("nodes: {say: {with: {colour: red}}}", "w.yaml:4: option 'colour' of node 'say'"),
        ("name: again", "w.yaml:4: `name` is set twice"),
    ],
)
def test_eg12_what_has_no_effect_is_an_error_with_its_line(tmp_path: Path, lines: str, says: str) -> None:
    nodes = table(saying("say", "explanation", "x"))
    text = f"name: w\nstart: say\nedges: [{{from: say, to: end}}]\n{lines}\n"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, nodes)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("no-planner", "plan"),
        ("no-tester", "synthesize"),
        ("no-debugger", "debug"),
        ("no-critic", "critic"),
        ("no-facts", "facts"),
        ("no-explore", "explore"),
    ],
)
def test_eg13_eg14_an_ablation_is_its_base_without_one_node_and_says_so(name: str, gone: str) -> None:
    base = load_workflow("agentforge", wiring.NODES, wiring.PREDICATES)
    without = load_workflow(name, wiring.NODES, wiring.PREDICATES)
    assert base.node_names - without.node_names == {gone}
    assert without.node_names < base.node_names
    assert without.hash != base.hash
    assert without.file.extends == "agentforge"
    assert without.file.without == (gone,)


@pytest.mark.parametrize("name", ["no-explore", "agentcoder"])
def test_without_a_detour_the_run_goes_on_as_if_it_had_not_been_taken(name: str) -> None:
    """A near miss that is not searched around is debugged, and does not end the run."""
    ways = [
        (edge.target, edge.when)
        for edge in load_workflow(name, wiring.NODES, wiring.PREDICATES).edges["gate"]
    ]
    assert ways[1:] == [("debug", "not_stuck"), ("explain", None)]


def test_hashes_tell_every_shipped_condition_apart() -> None:
    loaded = [load_workflow(name, wiring.NODES, wiring.PREDICATES) for name in shipped_workflows()]
    assert len({workflow.hash for workflow in loaded}) == len(loaded)
    assert all(workflow.name == name for workflow, name in zip(loaded, shipped_workflows(), strict=True))


CASCADE = """
name: w
stages:
  - {workflow: search, time: 1, tokens: 0}
  - {workflow: retry, time: 3, tokens: 1, rounds: 1}
  - {workflow: oneshot, time: 4, tokens: 3}
"""


def judged(number: int, rank: int, *, verified: bool) -> Judged:
    candidate = Candidate(id=f"c{number}", patch=Patch(diff=b"", files=()), changes={}, origin="chance")
    decision = GateDecision(
        verdict=Verdict.VERIFIED if verified else Verdict.REFUSED, rank=Rank(verified, rank, 0, True, 0)
    )
    return Judged(candidate=candidate, baseline=REPORT, report=REPORT, decision=decision)


class Chance:
    """Stands in for every node of the real table: writes, of what it may write, what chance draws."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.made = 0
        self.ranks: list[int] = []

    def table(self) -> dict[str, Node[Any]]:
        return {name: self._node(real) for name, real in wiring.NODES.items()}

    def _node(self, real: Node[Any]) -> Node[Any]:
        async def run(state: Any, context: Any) -> Mapping[str, Any]:
            if self.draw(st.integers(0, 60)) == 0:
                raise LimitReached("tokens", "used up")
            return self._delta(real, state)

        return Node(
            real.name, run, real.reads, real.writes, real.needs, real.asks_model, real.options, real.once
        )

    def _delta(self, real: Node[Any], state: Any) -> dict[str, Any]:
        drawn: dict[str, Any] = {}
        if "stuck" in real.writes:
            drawn["stuck"] = self.draw(st.booleans())
        if real.name in {"apply", "pick"}:
            drawn["candidate"] = (
                judged(self.made, 0, verified=False).candidate if self.draw(st.booleans()) else None
            )
        if real.name == "search":
            drawn["found"] = tuple(
                Edit(round=n, origin="search") for n in range(self.draw(st.integers(0, 4)))
            )
        if real.name == "execute":
            drawn["report"] = REPORT
        if real.name == "gate":
            self.made += 1
            rank = self.draw(st.integers(0, 3))
            new = judged(self.made, rank, verified=rank == 3 and self.draw(st.booleans()))
            self.ranks.append(new.decision.rank)  # type: ignore[arg-type]
            better = state.best is None or new.decision.rank > state.best.decision.rank
            drawn["best"] = new if better else state.best
            drawn["decision"] = new.decision
        return drawn


@given(data=st.data(), budget=st.integers(0, 4))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", ["agentforge", "retry", "search", "no-debugger", "no-critic", "oneshot"])
def test_af12_random_outcomes_end_within_the_budget_and_lose_no_best(
    name: str, data: Any, budget: int
) -> None:
    workflow = load_workflow(name, wiring.NODES, wiring.PREDICATES)
    rounds = workflow.file.rounds
    budget = budget if rounds is None else rounds
    final, states, chance, surroundings = _random_run(workflow, data, budget=budget)
    started = Counter(surroundings.started())
    assert started["gate"] <= started["apply"] + started["pick"] <= budget + 1
    assert started["code"] + started["debug"] <= budget + 1
    assert started["debug"] <= budget
    _best_only_grows(states)
    assert final.round <= budget
    if chance.ranks and final.best is not None:
        assert final.best.decision.rank == max(chance.ranks)


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_stages_keep_best_and_end_when_it_is_verified(tmp_path: Path, data: Any) -> None:
    workflow = load(tmp_path, CASCADE, wiring.NODES)
    final, states, _, surroundings = _random_run(workflow, data, budget=3)
    _best_only_grows(states)
    ended = [event for event in surroundings.events if isinstance(event, StageFinished)]
    assert all(not event.solved for event in ended[:-1])
    assert Counter(surroundings.started())["environment"] <= len(workflow.stages)
    if final.verified and ended:
        assert ended[-1].solved or len(ended) < len(workflow.stages)
    turns = [state.turn for state in states]
    assert turns == sorted(turns)


def _random_run(
    workflow: Workflow, data: Any, budget: int
) -> tuple[RunState, list[RunState], Chance, Surroundings]:
    chance, surroundings, states = Chance(data.draw), Surroundings(), []
    opening = RunState(task=TASK, base_commit="0" * 40, budget=budget, retries=budget)
    work = execute(workflow, opening, chance.table(), wiring.PREDICATES, surroundings, states.append)
    try:
        final = asyncio.run(work)
    except LimitReached:
        final = states[-1] if states else opening
    return final, states, chance, surroundings


def _best_only_grows(states: list[RunState]) -> None:
    ranks = [state.best.decision.rank if state.best else None for state in states]
    seen = [rank for rank in ranks if rank is not None]
    assert seen == sorted(seen)
    assert None not in ranks[len(ranks) - len(seen) :]


def test_a_stage_s_share_is_its_weight_among_those_that_are_left(tmp_path: Path) -> None:
    workflow = load(tmp_path, CASCADE, wiring.NODES)
    assert [(stage.share.time, stage.share.tokens) for stage in workflow.stages] == [
        (1 / 8, 0.0),
        (3 / 7, 1 / 4),
        (1.0, 1.0),
    ]
