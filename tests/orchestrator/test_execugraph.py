"""ExecuGraph and its conditions: routing by eq. 1 and 2, call counts, golden traces (ExecuGraph, 3.2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.core.gate import GateDecision, Rank, Verdict
from agentforge.core.problem import Example, Problem
from agentforge.core.state import Edit, RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.orchestrator.solve import Solution, solve_problem
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow
from agentforge.orchestrator.workflow_load import load_workflow
from tests.orchestrator.responsibility.test_traces import ALL, RAISING, trace
from tests.orchestrator.responsibility.test_traces import PLAN as STEPS
from tests.support.model_server import ScriptedModel

ADD = Problem(
    id="add",
    title="add",
    statement="Return the sum of the two numbers a and b.",
    entry_point="add",
    stub="def add(a, b):\n    raise NotImplementedError\n",
    examples=(Example(call="add(1, 2)", expected="3"), Example(call="add(0, 0)", expected="0")),
)
STRATEGY = json.dumps(
    {
        "problem_class": "arithmetic",
        "strategy": "add them with the plus sign",
        "pseudocode": ["return a + b"],
        "time": "O(1)",
        "space": "O(1)",
        "edge_cases": ["both zero"],
    }
)
REVIEW = '{"invariants": ["commutative"], "potential_failures": ["a sign is wrong"], "severity": "medium"}'
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```"
WRONG = "```python\ndef add(a, b):\n    return a - b\n```"
FASTER = "```python\ndef add(a, b):\n    return b + a\n```"
TASK = RepairTask(repository=RepositoryRef(source="."), issue=Issue(text="x"))


def workflow(name: str) -> Workflow:
    return load_workflow(name, NODES, PREDICATES)


def decision(verdict: Verdict) -> GateDecision:
    return GateDecision(verdict=verdict, rank=Rank(verdict is Verdict.VERIFIED, 0, 0, True, 0))


def rho(state: RunState, *, enable_opt: bool) -> str:
    """Eq. 2 as it is written, over eq. 1; "opt" only while nothing was optimised."""
    passed = state.decision is not None and state.decision.verdict is Verdict.VERIFIED
    if passed and state.optimised is None and enable_opt:
        return "optimise"
    if passed or state.round >= state.budget:
        return "account"
    return "generate"


@given(
    passed=st.booleans(),
    optimized=st.booleans(),
    enable_opt=st.booleans(),
    retries=st.integers(0, 5),
    budget=st.integers(0, 5),
)
def test_routing_after_an_evaluation_is_eq_2(
    passed: bool, optimized: bool, enable_opt: bool, retries: int, budget: int
) -> None:
    state = RunState(
        task=TASK,
        base_commit="0" * 40,
        round=retries,
        budget=budget,
        decision=decision(Verdict.VERIFIED if passed else Verdict.REFUSED),
        optimised=Edit(round=0, origin="optimizer") if optimized else None,
    )
    graph = workflow("execugraph" if enable_opt else "execugraph-no-optimizer")
    assert graph.next_edge("gate", state, PREDICATES).target == rho(state, enable_opt=enable_opt)


def test_eg14_every_condition_has_its_own_name_and_hash_and_lacks_what_it_says() -> None:
    missing = {
        "execugraph-rag": set(),
        "execugraph": {"techniques"},
        "execugraph-no-planner": {"techniques", "outline"},
        "execugraph-no-reviewer": {"techniques", "review"},
        "execugraph-no-optimizer": {"techniques", "optimise"},
        "execugraph-oneshot": {"techniques", "outline", "review", "optimise"},
        "execugraph-retry": {"techniques", "outline", "review", "optimise"},
    }
    whole = workflow("execugraph-rag").node_names
    graphs = {name: workflow(name) for name in missing}
    assert {name: whole - graph.node_names for name, graph in graphs.items()} == missing
    assert len({graph.hash for graph in graphs.values()}) == len(graphs)
    budgets = {name: workflow(f"execugraph-{name}").file.rounds for name in ("b0", "b1", "b3", "oneshot")}
    assert budgets == {"b0": 0, "b1": 1, "b3": 3, "oneshot": 0}


class Solved:
    def __init__(self, solution: Solution, events: list[Any], requests: list[dict[str, Any]]) -> None:
        self.solution, self.events, self.requests = solution, events, requests
        self.asked = [body["_agent"] for body in requests]
        self.trace = [event.node for event in events if event.type == "node_started"]

    def prompt(self, agent: str, number: int = 0) -> str:
        found = [body for body in self.requests if body["_agent"] == agent]
        return str(found[number]["messages"][-1]["content"])


Run = Callable[..., Any]


@pytest.fixture
def run(configure: Callable[..., Any]) -> Run:
    async def solve(name: str, problem: Problem = ADD, **replies: Any) -> Solved:
        script = {"planner": [STRATEGY], "reviewer": [REVIEW] * 9, "explainer": ["It adds."]} | replies
        with ScriptedModel(script) as server:
            settings = configure(
                workflow=name,
                model__base_url=server.base_url,
                model__edit_format="symbol",
                memory__enabled=False,
            )
            events: list[Any] = []
            solution = await solve_problem(problem, settings, listener=events.append)
        return Solved(solution, events, server.requests)

    return solve


HEAD = ["environment", "baseline", "reproduce", "retrieve", "outline", "cases", "generate", "apply", "review"]
HEAD += ["execute", "gate"]


@pytest.mark.docker
async def test_golden_trace_wrong_then_right_then_optimised(run: Run) -> None:
    done = await run("execugraph", coder=[WRONG, RIGHT], optimizer=[FASTER])
    assert done.trace == [
        *HEAD, "generate", "apply", "review", "execute", "gate",
        "optimise", "reapply", "revalidate", "regate", "account",
    ]  # fmt: skip
    assert done.asked == ["planner", "coder", "reviewer", "coder", "reviewer", "optimizer", "explainer"]
    assert done.solution.run.outcome == "verified"
    # EG-R7, EG-28: code and evaluation are both the optimised one's.
    state = done.solution.run.state
    assert done.solution.program == "def add(a, b):\n    return b + a\n"
    assert state.best.candidate.origin == "optimizer"
    assert state.best.decision is state.decision
    # EG-19, EG-20: what a regeneration is told; EG-13: the review is used, and gates nothing.
    again = done.prompt("coder", 1)
    for words in ("add(1, 2)", "expected: 3", "got:      -1", "return a - b", "a sign is wrong"):
        assert words in again
    assert "add them with the plus sign" in done.prompt("coder", 0)
    assert "Refused before" in done.prompt("explainer")
    assert done.solution.explanation.startswith("It adds.")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("name", "budget"), [("execugraph-oneshot", 0), ("execugraph-b1", 1), ("execugraph-retry", 2)]
)
async def test_eg01_a_budget_of_b_means_b_regenerations_and_b_plus_1_generations(
    run: Run, name: str, budget: int
) -> None:
    done = await run(name, coder=lambda body: WRONG)
    assert done.asked.count("coder") == budget + 1
    assert done.trace.count("generate") == budget + 1
    assert done.solution.run.state.round == budget
    assert done.solution.run.outcome == "no_patch"
    assert done.trace[-1] == "account", "the explainer is always last"
    assert done.solution.program is not None, "what was tried is there to be judged"


OPTIMISED = ["optimise", "reapply", "revalidate", "regate"]
ABLATIONS = {
    "execugraph-no-planner": ({"outline"}, ["coder", "reviewer", "optimizer", "explainer"]),
    "execugraph-no-reviewer": ({"review"}, ["planner", "coder", "optimizer", "explainer"]),
    "execugraph-no-optimizer": ({*OPTIMISED}, ["planner", "coder", "reviewer", "explainer"]),
    "execugraph-oneshot": ({"outline", "review", *OPTIMISED}, ["coder", "explainer"]),
}


@pytest.mark.docker
@pytest.mark.parametrize("name", sorted(ABLATIONS))
async def test_golden_trace_of_an_ablation_is_the_whole_without_its_nodes(run: Run, name: str) -> None:
    missing, asked = ABLATIONS[name]
    done = await run(name, coder=[RIGHT], optimizer=[FASTER])
    whole = [*HEAD, *OPTIMISED, "account"]
    assert done.trace == [node for node in whole if node not in missing]
    assert done.asked == asked
    assert done.solution.run.outcome == "verified"


@pytest.mark.docker
async def test_eg28_an_optimisation_that_breaks_something_is_dropped_and_noted(run: Run) -> None:
    done = await run("execugraph", coder=[RIGHT], optimizer=[WRONG])
    assert done.solution.run.outcome == "verified"
    assert done.solution.program == "def add(a, b):\n    return a + b\n"
    assert any("no longer passes" in event.text for event in done.events if event.type == "notice")
    assert done.trace.count("generate") == 1, "the success branch has no cycle"


@pytest.mark.docker
async def test_eg12_technique_retrieval_changes_the_planners_prompt_and_no_other(run: Run) -> None:
    problem = ADD.model_copy(update={"statement": "Shortest path in a weighted graph: the sum of a and b."})
    off = await run("execugraph", problem, coder=[RIGHT], optimizer=[FASTER])
    on = await run("execugraph-rag", problem, coder=[RIGHT], optimizer=[FASTER])
    assert "Techniques that may help" in on.prompt("planner")
    assert "Techniques that may help" not in off.prompt("planner")
    assert on.prompt("coder") == off.prompt("coder")


@pytest.mark.docker
async def test_eg11_without_given_tests_the_models_own_cases_decide(run: Run) -> None:
    problem = ADD.model_copy(update={"examples": ()})
    cases = '[{"call": "add(2, 3)", "expected": "5", "description": "small {braces}"}]'
    done = await run("execugraph-retry", problem, coder=[WRONG, RIGHT], tester=[cases])
    assert done.solution.run.outcome == "verified"
    assert done.solution.test_source == "model"
    assert "assert expected == add(2, 3)" in done.solution.tests["tests/test_cases.py"]
    assert "add(2, 3)" in done.prompt("coder", 1)


@pytest.mark.docker
async def test_with_no_test_at_all_the_smoke_test_is_said_to_be_poor_evidence(run: Run) -> None:
    problem = ADD.model_copy(update={"examples": ()})
    done = await run("execugraph-oneshot", problem, coder=[RIGHT], tester=["none", "no"])
    assert done.solution.run.outcome == "unverified"
    assert done.solution.test_poor
    assert any("test-poor" in event.text for event in done.events if event.type == "notice")


@pytest.mark.docker
async def test_a_repair_of_a_repository_is_minimised_and_explained(
    shop: Path, configure: Callable[..., Any], fix: Callable[..., Any]
) -> None:
    plan = {
        "explanation": "split drops the remainder",
        "steps": [{"id": "S1", "agent": "coder", "description": "hand it out", "files": ["shop/money.py"]}],
    }
    whole = (shop / "shop/money.py").read_text()
    tax = whole.replace("percent // 100", "percent // 50 // 2")
    both = tax.replace(
        "    return [share] * people\n",
        "    left = cents - share * people\n    return [share + 1] * left + [share] * (people - left)\n",
    )
    answer = f"shop/money.py\n```python\n{both}```"
    script = {
        "planner": [json.dumps(plan)], "coder": [answer], "reviewer": [REVIEW], "explainer": ["Shares."],
    }  # fmt: skip
    issue = "split(10, 3) loses money\n\n>>> from shop.money import split\n>>> sum(split(10, 3))\n10\n"
    with ScriptedModel(script) as server:
        settings = configure(
            workflow="execugraph", model__base_url=server.base_url, model__edit_format="diff"
        )
        done = await fix(shop, settings, issue)
    assert done.result.outcome == "verified", done.result.summary
    assert b"percent" not in done.result.patch.diff.split(b"@@", 2)[2].split(b"\n", 1)[1]
    assert b"left = cents" in done.result.patch.diff
    assert done.result.state.best.candidate.origin == "optimizer"


def test_eg13_the_review_changes_what_a_regeneration_is_told_and_decides_nothing() -> None:
    """Its ablation is no copy of the whole: the prompt differs; and no way through the graph does."""
    plan = json.dumps({**STEPS, "steps": STEPS["steps"][:1]})
    answers = {"planner": [plan], "coder": [RAISING[3], ALL], "explainer": ["So."], "reviewer": [REVIEW] * 2}
    (with_it, _, script, nodes), (without, _, plain, fewer) = (
        trace(name, **answers) for name in ("execugraph", "execugraph-no-reviewer")
    )
    assert [node for node in nodes if node != "review"] == fewer
    assert with_it.verified
    assert without.verified
    first, again = (request for request in script.requests if request.agent == "coder")
    plain_first, plain_again = (request for request in plain.requests if request.agent == "coder")
    assert first == plain_first
    assert "A reviewer expects failures here: a sign is wrong" in again.messages[-1].content
    assert "A reviewer" not in plain_again.messages[-1].content
