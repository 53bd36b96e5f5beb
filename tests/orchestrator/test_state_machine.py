"""Every shipped workflow, node by node, with outcomes that chance decides: the engine alone keeps order."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentforge.core.errors import AgentForgeError, LimitReached
from agentforge.core.events import NodeFinished, StageFinished, StageStarted
from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.patch import Candidate, Patch
from agentforge.core.plan import Plan, Step
from agentforge.core.relay import Handoff, Turn
from agentforge.core.report import Outcome, TestFailure, TestReport
from agentforge.core.responsibility import Locus
from agentforge.core.retrieval import FailedAttempt, Retrieved
from agentforge.core.state import (
    FRESH_AT_STAGE,
    Edit,
    Judged,
    Navigation,
    ReactStep,
    RunState,
    Simulation,
    Standing,
)
from agentforge.core.tree import TreeFile
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.node import Node, StateView, UndeclaredAccessError
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import MAIN, Workflow
from agentforge.orchestrator.workflow_load import load_workflow, shipped_workflows
from tests.orchestrator.test_engine import TASK, Surroundings

ENGINE_FIELDS = {"round", "rounds", "turn", "stage", "budget"}
REPORT = TestReport(outcomes={"t::a": Outcome.FAILED}, collected=1)
NO_IMPORT = TestFailure(exception="ImportError", message="")
BOILERPLATE = TestReport(outcomes={"t::a": Outcome.FAILED}, collected=1, failures={"t::a": NO_IMPORT})
CHANGES = {"m.py": TreeFile(b"x = 1\n")}
CANDIDATE = Candidate(id="c", patch=Patch(diff=b"", files=()), changes=CHANGES, origin="chance")
PLAN = Plan(explanation="", steps=(Step(id="s", description="do it"),))
COURSES = ("", "repair", "turn")


FORKED = Path(__file__).parent / "workflows" / "forked.yaml"


@functools.cache
def loaded(name: str) -> Workflow:
    return load_workflow(name, NODES, PREDICATES, FORKED if name == "forked" else None)


def judged(passed: int, verdict: Verdict) -> Judged:
    rank = Rank(verdict is Verdict.VERIFIED, passed, 0, True, 0)
    decision = GateDecision(verdict=verdict, rank=rank)
    return Judged(candidate=CANDIDATE, baseline=REPORT, report=BOILERPLATE, decision=decision)


def values(draw: Any, state: RunState) -> dict[str, Any]:
    """A value for every field that a predicate reads, all drawn alike."""
    yes = draw(st.booleans())
    edit = Edit(round=state.round, origin="chance", changes=CHANGES if yes else None)
    new = judged(draw(st.integers(0, 3)), draw(st.sampled_from(list(Verdict))))
    better = state.best is None or new.decision.rank > state.best.decision.rank
    handoff = Handoff(sender="a", receiver="b") if yes else None
    turn = Turn(step=len(state.turns) + 1, specialist="a", draft="write_code", handoff=handoff)
    return {
        "candidate": CANDIDATE if yes else None,
        "relay_code": CANDIDATE if yes else None,
        "relay_judged": new if yes else None,
        "report": REPORT,
        "decision": new.decision,
        "best": new if better else state.best,
        "stuck": yes,
        "simulation": Simulation(round=state.round, critique="no" if yes else ""),
        "navigation": Navigation(
            plans=(PLAN,), taken=(0,) if yes else (), action=draw(st.sampled_from(COURSES))
        ),
        "found": (edit,) * draw(st.integers(0, 3)),
        "repair": edit,
        "optimised": edit,
        "locus": Locus(kind="node", node="S1", rule="R1", region=("S1",)) if yes else Locus(kind="none"),
        "standing": Standing.model_construct(judged=new) if yes else None,
        "turns": (*state.turns, turn),
        "techniques": (f"note {draw(st.integers(0, 9))}",),
        "retrieved": Retrieved(warnings=(FailedAttempt(patch=f"{draw(st.integers(0, 9))}"),)),
        "react": (*state.react, ReactStep(tool="finish" if yes else "read_file")),
        "explanation": f"after {state.turn}",
    }


@dataclass
class Waiting:
    """A node that has begun and whose outcome is still open."""

    use: str
    node: Node[Any]
    state: RunState
    outcome: asyncio.Future[Mapping[str, Any]]


class Runs(RuleBasedStateMachine):
    """One run; each rule decides how one waiting node ends."""

    name: str

    @initialize(budget=st.integers(0, 3))
    def begin(self, budget: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._start(budget)

    @precondition(lambda self: not self.waiting)
    @rule(budget=st.integers(0, 3))
    def another_run_begins(self, budget: int) -> None:
        self._check_end()
        self._start(budget)

    def _start(self, budget: int) -> None:
        self.workflow = loaded(self.name)
        self.surroundings, self.waiting = Surroundings(), list[Waiting]()
        rounds = self.workflow.file.rounds
        opening = RunState(
            task=TASK, base_commit="0" * 40, budget=budget if rounds is None else rounds, retries=budget
        )
        self.states = [opening]
        self.turns_at: dict[str, list[int]] = defaultdict(list)
        self.nodes_run = Counter[str]()
        self.forbidden = ""
        self.written: dict[str, Any] = {}
        """What nodes wrote since the last state was made of it."""
        self.seen_events = self.seen_states = 0
        table = {name: self._stand_in(real) for name, real in NODES.items()}
        work = execute(self.workflow, opening, table, PREDICATES, self.surroundings, self.states.append)
        self.run = self.loop.create_task(work)
        self._until_it_waits()

    def _stand_in(self, real: Node[Any]) -> Node[Any]:
        async def run(view: StateView, context: Surroundings) -> Mapping[str, Any]:
            use, state = view._node, view._state
            self.turns_at[use].append(state.turn)
            self.nodes_run[real.name] += 1
            outcome: asyncio.Future[Mapping[str, Any]] = self.loop.create_future()
            self.waiting.append(Waiting(use, real, state, outcome))
            return await outcome

        return Node(
            real.name, run, real.reads, real.writes, real.needs, real.asks_model, real.options, real.once
        )

    def _until_it_waits(self) -> None:
        for _ in range(20):
            self.loop.run_until_complete(asyncio.sleep(0))
            if self.waiting or self.run.done():
                return
        raise AssertionError("the engine neither waits for a node nor ends")

    def _one(self, data: Any) -> Waiting:
        """Of branches at once, any may be first."""
        return self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))

    at_work = precondition(lambda self: bool(self.waiting))

    @at_work
    @rule(data=st.data())
    def a_node_ends(self, data: Any) -> None:
        waiting = self._one(data)
        drawn = values(data.draw, waiting.state)
        delta = {name: drawn[name] for name in waiting.node.writes & drawn.keys()}
        known = len(self.states)
        self.written |= delta
        waiting.outcome.set_result(delta)
        self._until_it_waits()
        if len(self.states) > known:  # of branches at once, all have ended: nobody's work may be lost
            current = self.states[known]
            assert all(getattr(current, name) == value for name, value in self.written.items())
            self.written = {}

    @at_work
    @rule(data=st.data())
    def a_node_brings_nothing(self, data: Any) -> None:
        self._one(data).outcome.set_result({})
        self._until_it_waits()

    @precondition(lambda self: bool(self.waiting) and len(self.states) > 4)
    @rule(data=st.data(), defect=st.booleans())
    def a_node_fails(self, data: Any, defect: bool) -> None:
        """By a limit, which may end a stage only, or by writing what it did not declare."""
        waiting = self._one(data)
        undeclared = sorted({"plan", "best", "episode"} - waiting.node.writes)
        if defect and undeclared:
            self.forbidden = undeclared[0]
            waiting.outcome.set_result({self.forbidden: "smuggled"})
        else:
            waiting.outcome.set_exception(LimitReached("tokens", "used up"))
        self._until_it_waits()

    @invariant()
    def the_best_is_never_lost(self) -> None:
        ranks = [state.best.decision.rank if state.best else None for state in self._states()]
        known = [rank for rank in ranks if rank is not None]
        assert known == sorted(known)
        assert None not in ranks[len(ranks) - len(known) :]

    @invariant()
    def counters_are_right(self) -> None:
        """Nothing runs twice without a turn in between, and no loop turns more often than it may."""
        for use, turns in getattr(self, "turns_at", {}).items():
            assert turns == sorted(set(turns)), use
        for state in self._states()[-1:]:
            graph = self._graph(state.stage)
            for name in (MAIN, *state.rounds):
                assert graph.turns(name, state) <= graph.budget(name, state)
            assert state.turn >= state.round

    @invariant()
    def a_field_changes_only_by_who_declared_it(self) -> None:
        states = self._states()
        events = self.surroundings.events if states else []
        finished = [event for event in events[self.seen_events :] if isinstance(event, NodeFinished)]
        entered = any(isinstance(event, StageStarted) for event in events) and bool(self.workflow.stages)
        allowed = ENGINE_FIELDS | {name for event in finished for name in event.writes}
        if entered:
            allowed |= set(FRESH_AT_STAGE)
        for before, after in zip(states[self.seen_states :], states[self.seen_states + 1 :], strict=False):
            assert _changed(before, after) <= allowed
        if states:
            self.seen_events, self.seen_states = len(events), len(states) - 1

    @invariant()
    def what_holds_for_the_whole_run_is_done_once(self) -> None:
        if self._states() and self.workflow.stages:
            assert all(count == 1 for name, count in self.nodes_run.items() if NODES[name].once)

    def _states(self) -> list[RunState]:
        return getattr(self, "states", [])

    def _graph(self, stage: str) -> Workflow:
        found = [entry.workflow for entry in self.workflow.stages if entry.name == stage]
        return found[0] if found else self.workflow

    def teardown(self) -> None:
        """Left alone, the run comes to its end within what its loops allow."""
        if not self._states():
            return
        try:
            self._go_to_the_end()
            self._check_end()
        finally:
            self.run.cancel()
            with suppress(asyncio.CancelledError, AgentForgeError):
                self.loop.run_until_complete(self.run)
            self.loop.close()

    def _go_to_the_end(self) -> None:
        graphs = [stage.workflow for stage in self.workflow.stages] or [self.workflow]
        most = sum(len(graph.uses) * (2 + _turns(graph, self.states[0])) for graph in graphs)
        steps = 0
        while not self.run.done():
            assert steps <= most, "the run does not end"
            for waiting in tuple(self.waiting):
                waiting.outcome.set_result({})
            self.waiting.clear()
            self._until_it_waits()
            steps += 1

    def _check_end(self) -> None:
        with suppress(AgentForgeError):
            final = self.run.result()
            assert final.verified == any(state.verified for state in self.states)
        error = self.run.exception()
        assert error is None or isinstance(error, LimitReached | UndeclaredAccessError)
        assert bool(self.forbidden) == isinstance(error, UndeclaredAccessError)
        ended = [event for event in self.surroundings.events if isinstance(event, StageFinished)]
        assert not any(event.solved for event in ended[:-1])


def _changed(before: RunState, after: RunState) -> set[str]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in RunState.model_fields}
    return {name for name, (was, now) in pairs.items() if was is not now and was != now}


def _turns(graph: Workflow, opening: RunState) -> int:
    """Most turns of all loops together."""
    inner = [graph.budget(name, opening) for name in graph.file.loops]
    most = max(opening.budget, graph.file.rounds or 0, 5)
    for budget in inner:
        most = (most + 1) * (budget + 1)
    return most


@pytest.mark.parametrize("name", [*shipped_workflows(), "forked"])
def test_a_workflow_whatever_its_nodes_do(name: str) -> None:
    chosen = settings(
        max_examples=2, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(type("RunsOfOne", (Runs,), {"name": name}), settings=chosen)
