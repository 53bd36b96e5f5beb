"""The relay over random answers through the real workflows, in a sandbox that reads: no Docker is needed."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.events import Event
from agentforge.core.state import RunState
from agentforge.orchestrator import relay
from tests.orchestrator.responsibility.test_random_runs import FUNCTIONS, run_with, written

STEPS = 8


class RandomSpecialists:
    """Answers by chance: useful, useless, malformed, out of order, or against the rules."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kinds: list[str] = []
        self.prompts: list[str] = []

    async def complete(self, request: ModelRequest, sink: Any = None) -> Completion:
        system = request.messages[0].content
        kind = request.agent
        if kind == "specialist":
            marks = (("assess", "Be selective"), ("probe", '"can_start"'), ("check", "self_check_action"))
            kind = next((name for name, mark in marks if mark in system), "draft")
        self.kinds.append(kind)
        self.prompts.append("\n".join(message.content for message in request.messages))
        text = (
            "I would rather not." if self.chance.random() < 0.08 else getattr(self, f"_{kind}", self._draft)()
        )
        return Completion(text=text, model="random", finish_reason="stop")

    def _assess(self) -> str:
        able = self.chance.random() < 0.4
        confidence = self.chance.choice([0.1, 0.9, 7, "high"])
        return json.dumps({"can_solve": able, "is_relevant_to_specialty": able, "confidence": confidence})

    def _probe(self) -> str:
        start = self.chance.random() < 0.5
        return json.dumps({"can_start": start, "start_confidence": self.chance.random()})

    def _draft(self) -> str:
        action = self.chance.choices(["write_code", "no_change"], [5, 1])[0]
        head = {"action": action, "new_code": "", "stop": self.chance.random() < 0.2, "confidence": 1}
        return f"{json.dumps(head)}\n\n{self._code()}"

    def _check(self) -> str:
        action = self.chance.choices(["keep_code", "repair_code", "no_change", "dance"], [3, 4, 1, 1])[0]
        names = ["numbers", "text_parsing", "web_http", "nobody", None]
        head = {
            "self_check_action": action,
            "new_code": "",
            "stop": self.chance.random() < 0.1,
            "next_agent": self.chance.choice(names),
            "resolved_subtasks": self.chance.choice([[], ["one"]]),
            "unresolved_subtasks": self.chance.choice([[], ["one", "two"]]),
        }
        return f"{json.dumps(head)}\n\n{self._code()}"

    def _code(self) -> str:
        names = self.chance.sample(FUNCTIONS, self.chance.choice([1, 1, 2]))
        how = self.chance.choices(["ok", "bad", "raises"], [4, 2, 1], k=len(names))
        parts = "\n\n".join(written(name, said) for name, said in zip(names, how, strict=True))
        return f"m.py\n```python\n{parts}```\n"


def relay_of(workflow: str, seed: int) -> tuple[RandomSpecialists, list[RunState], list[Event]]:
    model = RandomSpecialists(random.Random(seed))
    states, events = asyncio.run(run_with(model, workflow, 3))
    return model, states, events


@given(
    seed=st.integers(0, 10**9),
    workflow=st.sampled_from(["mars", "mars", "relay", "mars-no-rag", "mars-generalists", "mars-base-relay"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_ma_r7_every_invariant_of_the_relay_holds_on_random_runs(seed: int, workflow: str) -> None:
    model, states, events = relay_of(workflow, seed)
    final = states[-1]
    assert final.team is not None
    turns = final.turns
    assert 1 <= len(turns) <= STEPS
    assert set(relay.used(turns)) <= set(final.team.names)
    assert relay.streak(turns) <= relay.STOP_AT
    assert workflow == "relay" or len(turns) <= len(final.team.names)
    assert [turn.step for turn in turns] == list(range(1, len(turns) + 1))
    assert all(turn.handoff is not None for turn in turns[:-1])
    _calls(model, final, workflow)
    _only_grows(states)
    _nothing_is_lost(states)
    assert sum(event.type == "relay_turn" for event in events) == len(turns)


def _calls(model: RandomSpecialists, final: RunState, workflow: str) -> None:
    """B regenerations, B + 1 generations; two calls a turn, never a third."""
    turns = len(final.turns)
    assert final.team is not None
    assert model.kinds.count("assess") == final.team.asked
    assert model.kinds.count("probe") == len(final.team.seats)
    assert model.kinds.count("draft") == turns == final.round + 1
    assert model.kinds.count("check") == (0 if workflow == "mars-base-relay" else turns)
    assert model.kinds.count("fixer") <= 1


def _only_grows(states: list[RunState]) -> None:
    for before, after in itertools.pairwise(states):
        assert after.turns[: len(before.turns)] == before.turns
        assert before.team in (None, after.team)


def _nothing_is_lost(states: list[RunState]) -> None:
    """The rank of the best only grows, and the code that is handed on passes all that the best passes."""
    ranks = [state.best.decision.rank for state in states if state.best]
    assert ranks == sorted(ranks)
    for before, after in itertools.pairwise(states):
        if len(after.turns) > len(before.turns) and after.best is not None:
            assert after.relay_judged is not None
            assert not relay.lost_tests(after.best, after.relay_judged, after.targets)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_ensemble_asks_each_once_and_the_manager_once(seed: int) -> None:
    model, states, _ = relay_of("mars-ensemble", seed)
    team = states[-1].team
    assert team is not None
    assert model.kinds.count("draft") == len(team.seats)
    assert model.kinds.count("manager") == bool(states[-1].answers)
    assert model.kinds.count("check") == 0


def test_eg12_notes_on_and_off_change_the_prompts() -> None:
    """Without retrieval no prompt has a note; with it the matching ones are there."""
    shown = {}
    for workflow in ("mars", "mars-no-rag"):
        model = RandomSpecialists(random.Random(3))
        asyncio.run(run_with(model, workflow, 3, issue="sum of number shares loses the rounding remainder"))
        shown[workflow] = model.prompts
        assert model.kinds[:11] == ["assess"] * 11
    noted = [any("Notes of your field" in prompt for prompt in prompts) for prompts in shown.values()]
    assert noted == [True, False]
    assert any("Division and remainders" in prompt for prompt in shown["mars"])
    assert shown["mars"][:11] != shown["mars-no-rag"][:11]


def test_generalists_have_no_topic() -> None:
    _, states, _ = relay_of("mars-generalists", 5)
    team = states[-1].team
    assert team is not None
    assert (team.pool, team.asked) == ("generalists", 3)


def test_the_same_answers_give_the_same_relay() -> None:
    first, second = (relay_of("relay", 7)[1][-1] for _ in range(2))
    assert first.turns == second.turns
    assert first.team == second.team
