"""Conditions on a real small repository and on a problem: golden traces, call counts, budgets, replay.

The golden file says for each condition whom it asks, in order, and which nodes it goes through.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.events import Event
from agentforge.orchestrator.replay import replay_run
from agentforge.orchestrator.solve import solve_problem
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow_load import load_workflow
from tests.orchestrator import test_execugraph as execugraph
from tests.orchestrator import test_mars as mars
from tests.orchestrator.test_ablations import DONE, READ, RUN
from tests.orchestrator.test_five_agents import PASS
from tests.orchestrator.test_mars import bank, check, draft
from tests.support.model_server import Body, ScriptedModel
from tests.support.sampling import everyday

__all__ = ["bank"]

pytestmark = pytest.mark.docker
GOLDEN = Path(__file__).parent / "traces" / "conditions.json"
CODE = {
    "repository": (mars.HALF, mars.RIGHT, "shop/money.py"),
    "problem": (
        f"solution.py\n{execugraph.WRONG}",
        f"solution.py\n{execugraph.RIGHT}",
        "solution.py",
    ),
}
STEP = {"id": "S1", "agent": "coder", "description": "do it"}


class Answers:
    """Wrong code first (right at once where `right`), right code for whoever is asked for more; where
    `relayed`, only for a specialist."""

    def __init__(self, subject: str, *, right: bool = False, relayed: bool = False) -> None:
        self.wrong, self.right, self.path = CODE[subject]
        self.codes = 0 if not right else 1
        self.tools = [READ.replace("shop/money.py", self.path), self._write(), RUN, DONE]
        self.relayed = relayed
        self.asked: list[str] = []
        self.prompt = ""

    def __call__(self, body: Body) -> str:
        self.prompt = body["messages"][-1]["content"]
        agent, system = str(body["_agent"]), body["messages"][0]["content"]
        if "by simulating it" in system:
            agent = "simulator"
        if "navigator of a pair" in system:
            marks = (("choose", "Choose the plan"), ("steer", "was executed"))
            agent = next((name for name, mark in marks if mark in system), "propose")
        if agent == "specialist":
            marks = (("assess", "Be selective"), ("probe", '"can_start"'), ("check", "self_check_action"))
            agent = next((name for name, mark in marks if mark in system), "draft")
        self.asked.append(agent)
        return str(getattr(self, f"_{agent}")())

    def _code(self) -> str:
        self.codes += 1
        return self.wrong if self.codes == 1 else self.right

    def _coder(self) -> str:
        return self.wrong if self.relayed else self._code()

    _debugger = _coder

    def _planner(self) -> str:
        strategy = json.loads(execugraph.STRATEGY)
        return json.dumps({"explanation": "as it says", "steps": [STEP | {"files": [self.path]}], **strategy})

    def _simulator(self) -> str:
        return json.dumps({"trace": ["1 + 2"], "verdict": "revise", "critique": "zero is forgotten"})

    def _propose(self) -> str:
        approaches = ("add them", "count upwards from the first", "look the sum up in a table")
        return json.dumps({"plans": [{"plan": approach} for approach in approaches]})

    def _choose(self) -> str:
        return json.dumps({"reason": "the shortest", "choice": 2})

    def _steer(self) -> str:
        return json.dumps({"cause": "a sign", "action": "repair", "strategy": "use the plus sign"})

    def _tester(self) -> str:
        return "none"

    def _critic(self) -> str:
        return PASS

    def _reviewer(self) -> str:
        return execugraph.REVIEW

    def _optimizer(self) -> str:
        return execugraph.FASTER

    def _explainer(self) -> str:
        return "That is how."

    def _assess(self) -> str:
        return json.dumps({"can_solve": True, "is_relevant_to_specialty": True, "confidence": 0.5})

    def _probe(self) -> str:
        return json.dumps({"can_start": True, "start_confidence": 0.5, "owned_subproblem": "all"})

    def _draft(self) -> str:
        return draft(self._code())

    _manager = _draft

    def _check(self) -> str:
        return check()

    def _write(self) -> str:
        head = {"thought": "write it", "tool": "write_code", "path": self.path}
        return f"{json.dumps(head)}\n{self.right.partition(chr(10))[2]}"

    def _reacter(self) -> str:
        return self.tools.pop(0)


MARS = ["mars-direct", "mars-single-rag", "mars-no-rag", "mars-generalists"]
EXECUGRAPH = ["execugraph-b0", "execugraph-b3", "execugraph-rag"]
AGENTFORGE = ["agentforge", "no-planner", "no-tester", "no-debugger", "no-critic", "single-agent"]
BASELINES = ["react", "oneshot", "retry"]
AT_ONCE = {"mars-direct", "mars-single-rag"}
"""Conditions of one answer, which is right; others of one answer show that none follows a wrong one."""


async def on_repository(workflow: str, bank: Path, configure: Any, fix: Any, answers: Answers) -> Any:
    with ScriptedModel(answers) as server:
        settings = _settings(configure, server, workflow)
        done = await fix(bank, settings, target_tests=mars.TARGETS)
    return done.result, done.events, settings


async def on_problem(workflow: str, bank: Path, configure: Any, fix: Any, answers: Answers) -> Any:
    events: list[Event] = []
    with ScriptedModel(answers) as server:
        settings = _settings(configure, server, workflow)
        solution = await solve_problem(execugraph.ADD, settings, listener=events.append)
    assert solution.program is not None or solution.run.outcome != "verified"
    return solution.run, events, settings


def _settings(configure: Any, server: ScriptedModel, workflow: str) -> Any:
    return configure(
        model__base_url=server.base_url,
        model__edit_format="symbol",
        memory__enabled=False,
        search__max_candidates=5,
        workflow=workflow,
        retries=2,
    )


CASES = [(name, subject) for subject in CODE for name in (*MARS, *EXECUGRAPH)]
CASES += [("cascade", "repository")]
CASES += [(name, "problem") for name in ("codesim", "paircoder", *AGENTFORGE, *BASELINES)]
"""On the repository these are in `test_ablations.py`."""


@pytest.mark.parametrize(("workflow", "subject"), everyday(CASES, 3))
async def test_golden_trace(
    workflow: str, subject: str, bank: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    answers = Answers(subject, right=workflow in AT_ONCE, relayed=workflow == "cascade")
    run = on_repository if subject == "repository" else on_problem
    result, events, settings = await run(workflow, bank, configure, fix, answers)
    nodes = [event.node for event in events if event.type == "node_started"]
    seen = {"outcome": result.outcome, "asked": " ".join(_counted(answers.asked)), "nodes": " ".join(nodes)}
    assert seen == json.loads(GOLDEN.read_text())[subject][workflow]
    _budget_holds(workflow, result, events, settings)
    again = await replay_run(result.run_id, settings, lambda event: None)
    assert again.replay_matches, again.difference
    assert again.patch == result.patch


def _counted(names: list[str]) -> Iterator[str]:
    """Runs of one name with their length."""
    for name, run in itertools.groupby(names):
        count = len(list(run))
        yield name if count == 1 else f"{name}*{count}"


def _budget_holds(workflow: str, result: Any, events: list[Any], settings: Any) -> None:
    """B regenerations and B + 1 generations; every call is on the ledger, once."""
    finished = [event for event in events if event.type == "model_call_finished"]
    assert [event.spend.calls for event in finished] == list(range(1, len(finished) + 1))
    manifest = json.loads((result.run_dir / "run.json").read_text())
    assert manifest["spend"]["calls"] == len(finished)
    graph = load_workflow(workflow, NODES, PREDICATES)
    if graph.stages:
        stages = manifest["stages"]
        assert sum(share["spend"]["calls"] for share in stages) == len(finished)
        return
    budget = settings.retries if graph.file.rounds is None else graph.file.rounds
    assert result.state.round <= budget
    started = [event.node for event in events if event.type == "node_started"]
    assert started.count("gate") <= budget + 1
    for name in ("code", "generate", "draft"):
        assert started.count(name) + started.count("debug") + started.count("drive") <= budget + 1
