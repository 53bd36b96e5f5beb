"""Golden traces and call counts of AuditCoder, its ablations and its baselines, with scripted answers."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.events import Event, NodeStarted
from agentforge.core.state import RunState
from agentforge.orchestrator.responsibility.check import Stored, check
from agentforge.orchestrator.responsibility.record import audit_record
from tests.orchestrator.responsibility.test_random_runs import BASE, FUNCTIONS, run_with, written

GRAPH = {
    "explanation": "one function each",
    "nodes": [
        {"id": "S0", "parent": "", "leaf": False, "goal": "all"},
        {"id": "S1", "parent": "S0", "leaf": False, "goal": "two of them"},
        *(
            {
                "id": f"S1_{n}" if n < 2 else f"S{n}",
                "parent": "S1" if n < 2 else "S0",
                "leaf": True,
                "goal": name,
                "category": "math",
                "files": ["m.py"],
                "symbols": [name],
                "inputs": {"x": "task"},
                "checks": [f"{name}() == 'ok'"],
                "contract": {"name": name, "args": []},
            }
            for n, name in enumerate(FUNCTIONS)
        ),
    ],
}
PLAN = {
    "explanation": "step by step",
    "steps": [
        {"id": f"s{n}", "agent": "coder", "description": name, "files": ["m.py"], "symbols": [name]}
        for n, name in enumerate(FUNCTIONS)
    ],
}


def code(*pairs: tuple[str, str]) -> str:
    return "m.py\n```python\n" + "\n\n".join(written(name, how) for name, how in pairs) + "```\n"


ALL = code(*((name, "ok") for name in FUNCTIONS))
GOOD = [code((name, "ok")) for name in FUNCTIONS]
RAISING = [*GOOD[:3], code(("f3", "raises"))]
WRONG = [*GOOD[:3], code(("f3", "bad"))]


class Script:
    """Answers by agent, in order; keeps what was asked."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = {agent: deque(texts) for agent, texts in answers.items()}
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, sink: Any = None) -> Completion:
        self.requests.append(request)
        return Completion(text=self.answers[request.agent].popleft(), model="scripted")

    @property
    def asked(self) -> str:
        """First letters: p(lanner), c(oder), d(ebugger), t(ester)."""
        return "".join(request.agent[0] for request in self.requests)


def trace(
    workflow: str, retries: int = 3, **answers: list[str]
) -> tuple[RunState, list[Event], Script, list[str]]:
    script = Script(**({"planner": [json.dumps(GRAPH)]} | answers))
    states, events = asyncio.run(run_with(script, workflow, retries))
    nodes = [event.node for event in events if isinstance(event, NodeStarted)]
    return states[-1], events, script, nodes


HEAD = ["environment", "baseline", "reproduce", "retrieve", "decompose", "implement"]
JUDGE = ["apply", "synthesize", "execute", "gate", "settle"]


def test_golden_trace_of_a_program_that_is_right_at_once() -> None:
    final, _, script, nodes = trace("auditcoder", coder=GOOD)
    assert nodes == [*HEAD, *JUDGE, "explain", "store"]
    assert (script.asked, final.verified, final.round) == ("pcccc", True, 0)


def test_golden_trace_of_a_located_repair() -> None:
    final, _, script, nodes = trace("auditcoder", coder=RAISING, debugger=[code(("f3", "ok"))])
    assert nodes == [*HEAD, *JUDGE, "locate", "mend", *JUDGE, "explain", "store"]
    assert (script.asked, final.verified) == ("pccccd", True)
    assert [(t.locus.rule, t.locus.region, t.accepted) for t in final.history] == [("R1", ("S3",), True)]


def test_golden_trace_of_an_abstention_and_its_fallback() -> None:
    """Two functions outside any branch are wrong, and no check says so: nothing tells them apart."""
    graph = {**GRAPH, "nodes": [{**node, "checks": []} for node in GRAPH["nodes"]]}
    coder = [code((name, "bad" if name in ("f2", "f3") else "ok")) for name in FUNCTIONS]
    answers = {"planner": [json.dumps(graph)], "coder": coder}
    final, events, script, nodes = trace("auditcoder", **answers, debugger=[ALL])
    assert nodes == [*HEAD, *JUDGE, "locate", "fallback", *JUDGE, "explain", "store"]
    assert script.asked == "pccccd"
    assert final.verified
    assert not final.history, "a fallback is no localized repair"
    assert [entry.accepted for entry in final.fallbacks] == [True]
    assert "transaction_closed" not in {event.type for event in events}
    stopped, _, without, nodes = trace("auditcoder-no-fallback", **answers)
    assert nodes == [*HEAD, *JUDGE, "locate", "explain"]
    assert (without.asked, stopped.verified, stopped.fallbacks) == ("pcccc", False, ())


@pytest.mark.parametrize("budget", [0, 1, 2, 3])
def test_eg01_af12_budget_b_means_b_repairs_after_the_first_program(budget: int) -> None:
    wrong = [code(("f3", how)) for how in ("bad", "wrong", "bad", "wrong")]
    final, _, script, nodes = trace("auditcoder", budget, coder=RAISING, debugger=[*wrong, ALL])
    assert script.asked.count("d") == budget == len(final.history) + len(final.fallbacks)
    assert nodes.count("gate") <= budget + 1
    assert final.round == budget


@pytest.mark.parametrize(
    ("workflow", "asked", "nodes"),
    [
        ("auditcoder-algorithm-agents", "pcccc", [*HEAD, *JUDGE, "explain"]),
        ("auditcoder-task-plan", "pcccc", [*HEAD, *JUDGE, "explain"]),
        (
            "auditcoder-no-local-checks",
            "pccccd",
            [*HEAD, *JUDGE, "locate", "mend", *JUDGE, "explain", "store"],
        ),
        ("auditcoder-paper-locator", "pccccd", [*HEAD, *JUDGE, "locate", "mend", *JUDGE, "explain", "store"]),
        ("auditcoder-no-replan", "pccccd", [*HEAD, *JUDGE, "locate", "mend", *JUDGE, "explain", "store"]),
    ],
)
def test_golden_traces_of_the_ablations_eg14(workflow: str, asked: str, nodes: list[str]) -> None:
    """Each condition does what its name says (and is recorded under it)."""
    final, events, script, visited = trace(workflow, coder=RAISING, debugger=[code(("f3", "ok"))])
    assert (script.asked, visited) == (asked, nodes)
    local = [event for event in events if event.type == "tests_started" and event.scope == "local"]
    off = workflow in ("auditcoder-no-local-checks", "auditcoder-task-plan")
    assert bool(local) is not off
    told = script.requests[1].messages[-1].content
    assert ("exact integer arithmetic" in told) is (workflow != "auditcoder-task-plan")
    assert final.verified is workflow.endswith(("checks", "locator", "replan"))


def test_one_unit_asks_no_planner_and_owns_everything() -> None:
    final, _, script, nodes = trace("auditcoder-one-unit", coder=[ALL])
    assert nodes == [*HEAD, *JUDGE, "explain", "store"]
    assert script.asked == "c"
    assert final.responsibilities is not None
    assert final.responsibilities.ids == ("S0",)
    assert final.verified


def test_the_papers_locator_abstains_where_only_coverage_tells() -> None:
    graph = {**GRAPH, "nodes": [{**node, "checks": []} for node in GRAPH["nodes"]]}
    answers = {"planner": [json.dumps(graph)], "coder": WRONG, "debugger": [ALL]}
    paper, _, _, _ = trace("auditcoder-paper-locator", **answers)
    ours, _, _, _ = trace("auditcoder", **{**answers, "debugger": [code(("f3", "ok"))]})
    assert (len(paper.history), len(paper.fallbacks)) == (0, 1)
    assert [t.locus.rule for t in ours.history] == ["coverage"]
    assert ours.verified


def test_a_branch_is_replanned_only_where_the_condition_says_so() -> None:
    coder = [code(("f0", "raises")), code(("f1", "raises")), *GOOD[2:]]
    replan = json.dumps(
        {"nodes": [{"id": "S1_0", "hints": ["look at f0"]}, {"id": "S9", "goal": "smuggled"}]}
    )
    mended = [code(("f0", "ok")), code(("f1", "ok"))]
    with_plan = {"planner": [json.dumps(GRAPH), replan], "coder": coder, "debugger": mended}
    final, _, script, _ = trace("auditcoder", **with_plan)
    assert script.asked == "pccccpdd"
    (entry,) = final.history
    assert (entry.locus.kind, entry.locus.node, entry.locus.frozen) == ("branch", "S1", ("S0", "S2", "S3"))
    assert [(old.id, new.hints) for old, new in entry.graph_delta] == [("S1_0", ("look at f0",))]
    assert "look at f0" in script.requests[-2].messages[-1].content
    kept, _, plain, _ = trace("auditcoder-no-replan", coder=coder, debugger=mended)
    assert plain.asked == "pccccdd"
    assert kept.history[0].graph_delta == ()


@pytest.mark.parametrize(
    ("workflow", "answers", "asked"),
    [
        ("direct-retry", {"coder": [RAISING[3]], "debugger": [GOOD[0], ALL]}, "cd"),
        ("step-by-step", {"planner": [json.dumps(PLAN)], "coder": RAISING}, "pcccc"),
        ("agentcoder", {"coder": [RAISING[3]], "debugger": [GOOD[0], ALL]}, "cdd"),
        ("oneshot", {"coder": [ALL]}, "c"),
        ("cot", {"planner": [json.dumps(PLAN)], "coder": [ALL]}, "pc"),
        ("cot-retry", {"planner": [json.dumps(PLAN)], "coder": [RAISING[3]], "debugger": [GOOD[0]]}, "pcd"),
        ("framework", {"coder": [code(*((name, "raises") for name in FUNCTIONS)), ALL]}, "cc"),
    ],
)
def test_call_counts_of_the_baselines(workflow: str, answers: dict[str, list[str]], asked: str) -> None:
    _, _, script, _ = trace(workflow, **answers)
    assert script.asked == asked


def test_as_a_stage_bounded_repair_starts_from_the_best_candidate_so_far(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("name: two\nstages: [{ workflow: retry, rounds: 1 }, { workflow: bounded-repair }]\n")
    three = code(*((name, "ok") for name in FUNCTIONS[:3]), ("f3", "raises"))
    worse = code(("f2", "bad"), ("f1", "bad"))
    final, events, script, _ = trace(str(file), coder=[three], debugger=[worse, code(("f3", "ok"))])
    assert script.asked == "cdpd"
    (entry,) = final.history
    assert (entry.standing, entry.locus.region, entry.accepted) == ("retry-c0", ("S3",), True)
    assert final.verified
    assert final.best is not None
    audit = json.loads(json.dumps(audit_record(final, events, BASE)))
    findings = check(Stored(audit, tuple(events), final.best.candidate.patch.diff, BASE))
    assert [finding for finding in findings if not finding.holds] == []


REVISE = json.dumps({"verdict": "revise", "critique": "f3 is forgotten"})
HOLDS = json.dumps({"verdict": "holds"})


def test_ma_r11_codesim_simulates_each_plan_debugs_twice_and_plans_anew() -> None:
    """Two rounds of plan, program and two repairs within B = 5; a doubted plan is revised once."""
    plan = json.dumps({**PLAN, "steps": PLAN["steps"][:1]})
    repairs = [*GOOD[:3], code(("f3", "bad"))]
    final, _, script, nodes = trace(
        "codesim", planner=[plan, REVISE, plan, plan, HOLDS], coder=[RAISING[3]] * 2, debugger=repairs
    )
    attempt = ["code", "apply", "execute", "gate", *["debug", "apply", "execute", "gate"] * 2]
    plans = ["sketch", "simulate", "revise", *attempt, "sketch", "simulate", *attempt]
    assert nodes[4:] == [*plans, "explain"]
    assert script.asked == "pppcdd" + "ppcdd"
    assert (final.round, final.verified) == (5, False)
    revised = script.requests[2].messages[-1].content
    assert "f3 is forgotten" in revised
    assert "f3 is forgotten" not in script.requests[6].messages[-1].content


def _plans(*approaches: str) -> str:
    return json.dumps({"plans": [{"plan": text, "files": ["m.py", "gone.py"]} for text in approaches]})


def test_ma_r11_paircoder_clusters_chooses_repairs_and_turns_to_another_plan() -> None:
    """Five draws, one plan of each cluster; a failure that comes again is a dead end, told by nobody."""
    draws = [
        _plans("rewrite f3 alone", "compute the sum of tables"),
        "no plan",
        *[_plans("rewrite f3 alone")] * 3,
    ]
    repair = json.dumps({"action": "repair", "strategy": "f3 must say ok"})
    turn = json.dumps({"action": "turn"})
    final, events, script, nodes = trace(
        "paircoder",
        planner=[*draws, json.dumps({"choice": 2}), repair, turn, turn],
        coder=[RAISING[3], ALL.replace('"ok"', '"bad"')],
        debugger=[GOOD[0], code(("f1", "wrong"))],
    )
    judge = ["apply", "execute", "gate"]
    plan = ["choose", "code", *judge, "steer", "drive", *judge, "steer"]
    assert nodes[4:] == ["propose", *plan, *plan, "explain"]
    assert script.asked == "ppppp" + "p" + "c" + "pd" + "p" + "c" + "pd"
    assert (final.round, final.verified) == (4, False)
    assert final.navigation is not None
    assert (final.navigation.taken, final.navigation.left) == ((1, 0), ())
    told = [request.messages[-1].content for request in script.requests]
    assert "compute the sum of tables" in told[6]
    assert "f3 must say ok" in told[8]
    assert "rewrite f3 alone" in told[10]
    warm = [request.temperature == 0.8 for request in script.requests]
    assert warm == [True] * 5 + [False] * (len(warm) - 5)
    assert len({request.seed for request in script.requests[:5]}) == 5
    made = [event.plan for event in events if event.type == "plan_made"]
    assert [plan.steps[0].files for plan in made] == [("m.py",)] * 2
    assert "dead end" in " ".join(event.text for event in events if event.type == "notice")


@pytest.mark.parametrize("answer", ["I cannot.", json.dumps({"plans": []})])
def test_ma_r11_paircoder_without_a_plan_still_drives(answer: str) -> None:
    final, _, script, _ = trace("paircoder", planner=[answer] * 6, coder=[RAISING[3]], debugger=[ALL])
    assert script.asked == "pppppcpd"
    assert final.verified
    assert final.plan is not None
    assert final.plan.fallback
