"""R1 to R4, regions and acceptance on small programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentforge.core.report import Cause, TestFailure
from agentforge.core.responsibility import Evidence, IntegrationException, Locus
from agentforge.orchestrator.responsibility.acceptance import compare
from agentforge.orchestrator.responsibility.complexity import budget_degree, loop_depth
from agentforge.orchestrator.responsibility.graph import (
    common_branch,
    error_branch,
    graph_problems,
    structural_problems,
    subtree,
)
from agentforge.orchestrator.responsibility.locator import Failure, locate
from agentforge.orchestrator.responsibility.ownership import crossed, declared_owner, register
from agentforge.orchestrator.responsibility.regions import after_rejections, with_region
from agentforge.orchestrator.responsibility.units import unit_at
from tests.orchestrator.responsibility.helpers import (
    construction,
    graph,
    inner,
    judged,
    leaf,
    report,
    standing,
    tree,
)
from tests.orchestrator.responsibility.test_metrics import rank, transaction

PROGRAM = tree(
    m="def parse(s):\n    return s.split()\n\n\n"
    "def count(xs):\n    for x in xs:\n        for y in xs:\n            pass\n"
    "    return len(xs)\n\n\ndef main(s):\n    return count(parse(s))\n\n\nLIMIT = 3\n"
)
GRAPH = graph(
    inner("S0", files=("m.py",), symbols=("main",)),
    inner("S1", "S0"),
    leaf("S1_1", "S1", "parse", outputs=("xs",)),
    leaf("S1_2", "S1", "count", provenance={"xs": "S1_1.xs"}, budget="O(n)"),
)
BUILT = construction(GRAPH, PROGRAM)


def failure(
    *frames: tuple[str, int, str], cause: Cause = Cause.OK, evidence: tuple[Evidence, ...] = ()
) -> Failure:
    built = BUILT
    if evidence:
        made = tuple(
            item.model_copy(update={"evidence": tuple(e for e in evidence if e.node == item.node)})
            for item in BUILT.implementations
        )
        built = BUILT.model_copy(update={"implementations": made})
    seen = {"t.py::a": TestFailure(exception="ValueError", frames=frames)}
    result = report({"t.py::a": "failed"}, cause=cause, failures=seen)
    data = PROGRAM.read("m.py").data
    return Failure(
        built, result, ("t.py::a",), lambda path, line: unit_at(path, data, line) if path == "m.py" else None
    )


def rejected(node: str, kind: str = "check") -> Evidence:
    return Evidence(node=node, kind=kind, passed=False, text=f"{kind} of {node}")


def test_r1_takes_the_innermost_owned_frame() -> None:
    locus = locate(
        failure(("test_m.py", 1, "a"), ("m.py", 13, "main"), ("m.py", 2, "parse"), ("lib.py", 3, "x"))
    )
    assert (locus.node, locus.kind, locus.rule, locus.confidence) == ("S1_1", "node", "R1", "medium")
    direct = locate(failure(("test_m.py", 1, "a"), ("m.py", 13, "main"), ("m.py", 2, "parse")))
    assert (direct.node, direct.confidence) == ("S1_1", "high")


def test_r1_over_two_tests_that_disagree_is_their_branch() -> None:
    seen = failure(("m.py", 2, "parse"))
    failures = {**seen.report.failures, "t.py::b": TestFailure(frames=(("m.py", 6, "count"),))}
    both = replace(
        seen,
        report=report({"t.py::a": "failed", "t.py::b": "failed"}, failures=failures),
        failing=("t.py::a", "t.py::b"),
    )
    locus = locate(both)
    assert (locus.node, locus.kind) == ("S1", "branch")
    failures["t.py::b"] = TestFailure(frames=(("m.py", 13, "main"),))
    abstains = locate(
        replace(both, report=report({"t.py::a": "failed", "t.py::b": "failed"}, failures=failures))
    )
    assert abstains.abstains, "only the whole graph would hold S0 and S1_1"


def test_r2_takes_the_node_whose_loops_pass_its_budget() -> None:
    locus = locate(failure(cause=Cause.TIMEOUT))
    assert (locus.node, locus.rule, locus.confidence) == ("S1_2", "R2", "medium")
    probe = locate(failure(cause=Cause.OOM, evidence=(rejected("S1_1", "resource"),)))
    assert (probe.node, probe.rule) == ("S1_1", "R2")


def test_r2_does_not_speak_where_no_resource_ran_out() -> None:
    assert locate(failure()).abstains


def test_r3_takes_the_rejected_node_at_the_source() -> None:
    locus = locate(failure(evidence=(rejected("S1_2"), rejected("S1_1"))))
    assert (locus.node, locus.rule, locus.confidence) == ("S1_1", "R3", "low")


def test_r3_ignores_a_rejection_that_no_failing_test_can_be_explained_by() -> None:
    seen = replace(failure(evidence=(rejected("S1_2"),)), reached=frozenset({"S1_1"}))
    assert locate(seen).abstains
    locus = locate(replace(seen, reached=frozenset({"S1_2"})))
    assert (locus.node, locus.confidence) == ("S1_2", "medium")


def test_coverage_decides_only_with_a_margin() -> None:
    assert locate(replace(failure(), scores={"S1_1": 1.0, "S1_2": 0.6})).node == "S1_1"
    assert locate(replace(failure(), scores={"S1_1": 1.0, "S1_2": 0.97})).abstains
    assert locate(replace(failure(), scores={"S1_1": 1.0}, rules=("R1", "R2", "R3"))).abstains


def test_coverage_does_not_accuse_a_node_whose_own_checks_hold() -> None:
    held = rejected("S1_1").model_copy(update={"passed": True})
    assert locate(replace(failure(evidence=(held,)), scores={"S1_1": 1.0, "S1_2": 0.5})).abstains


def test_rules_follow_the_fixed_priority() -> None:
    everything = replace(
        failure(("m.py", 2, "parse"), cause=Cause.TIMEOUT, evidence=(rejected("S1_2"),)), scores={"S1_2": 1.0}
    )
    assert [
        locate(replace(everything, rules=rules)).rule
        for rules in (
            ("R1", "R2", "R3", "coverage"),
            ("R2", "R3", "coverage"),
            ("R3", "coverage"),
            ("coverage",),
            (),
        )
    ] == ["R1", "R2", "R3", "coverage", "R4"]


def test_regions_are_nodes_or_subtrees_and_their_complement() -> None:
    node = with_region(Locus(node="S1_1", kind="node", rule="R1"), BUILT)
    assert (node.region, node.frozen) == (("S1_1",), ("S0", "S1", "S1_2"))
    branch = with_region(Locus(node="S1", kind="branch", rule="R3"), BUILT)
    assert (branch.region, branch.frozen) == (("S1", "S1_1", "S1_2"), ("S0",))
    assert with_region(Locus(), BUILT).frozen == GRAPH.ids


def test_an_integration_exception_widens_the_region() -> None:
    entry = IntegrationException(by="S1_2", owner="S1_1", region="m.py::parse", rationale="x")
    widened = with_region(
        Locus(node="S1_1", kind="node", rule="R1"), BUILT.model_copy(update={"exceptions": (entry,)})
    )
    assert widened.region == ("S1_1", "S1_2")


def test_a_region_that_failed_twice_is_lifted_and_then_given_up() -> None:
    node = with_region(Locus(node="S1_1", kind="node", rule="R1", confidence="high"), BUILT)
    branch = with_region(Locus(node="S1", kind="branch", rule="R1"), BUILT)
    failed = [transaction(n, rank(False, 1), rank(False, 1), accepted=False, locus=node) for n in (1, 2)]
    assert after_rejections(node, BUILT, failed[:1]).region == ("S1_1",)
    lifted = after_rejections(node, BUILT, failed)
    assert (lifted.node, lifted.kind, lifted.confidence) == ("S1", "branch", "low")
    more = [
        *failed,
        *(transaction(n, rank(False, 1), rank(False, 1), accepted=False, locus=branch) for n in (3, 4)),
    ]
    assert after_rejections(node, BUILT, more).abstains


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": ()}, "no node"),
        ({"nodes": (*GRAPH.nodes, GRAPH.nodes[2])}, "used more than once"),
        ({"nodes": GRAPH.nodes[1:]}, "does not exist"),
        ({"order": ("S1_1",)}, "must name the leaves"),
        ({"order": ("S1_1", "S1_1", "S1_2")}, "twice"),
        (
            {
                "order": ("S1_2", "S1_1"),
                "nodes": (*GRAPH.nodes[:3], GRAPH.nodes[3].model_copy(update={"depends_on": ("S1_1",)})),
            },
            "comes before",
        ),
        ({"nodes": (*GRAPH.nodes, leaf("S9", "S1", "parse")), "order": ("S1_1", "S1_2", "S9")}, "both own"),
        (
            {"nodes": (*GRAPH.nodes, leaf("S9", "S1_1", "other")), "order": ("S1_1", "S1_2", "S9")},
            "has children",
        ),
        ({"nodes": (inner("S0", "S1"), inner("S1", "S0"), inner("S2")), "order": ()}, "cycle"),
    ],
)
def test_a_graph_that_does_not_hold_is_named(change: dict[str, object], says: str) -> None:
    assert any(says in problem for problem in graph_problems(GRAPH.model_copy(update=change)))


def test_the_graph_itself_holds() -> None:
    assert graph_problems(GRAPH) == structural_problems(GRAPH) == ()
    assert subtree(GRAPH, "S1") == ("S1", "S1_1", "S1_2")
    assert (error_branch(GRAPH, "S1_1"), error_branch(GRAPH, "S1"), error_branch(GRAPH, "S0")) == (
        "S1",
        "",
        "",
    )
    assert common_branch(GRAPH, ["S1_1", "S1_2"]) == "S1"
    assert common_branch(GRAPH, ["S1_1", "S0"]) == ""


def test_ownership_is_by_the_nearest_claim() -> None:
    g = graph(inner("S0", files=("m.py",)), leaf("S1", "S0", "A"), leaf("S2", "S0", "A.f"))
    owners = {
        unit: declared_owner(g, unit)
        for unit in ("m.py", "m.py::A", "m.py::A.f", "m.py::A.g", "m.py::h", "n.py::A")
    }
    assert owners == {
        "m.py": "S0",
        "m.py::A": "S1",
        "m.py::A.f": "S2",
        "m.py::A.g": "S1",
        "m.py::h": "S0",
        "n.py::A": None,
    }


def test_an_edit_of_anothers_code_is_an_exception_and_of_nobodys_is_registered() -> None:
    after = tree(
        m=PROGRAM.read("m.py").data.decode().replace("s.split()", "s.split(',')")
        + "\n\ndef helper():\n    pass\n"
    )
    registration = register(GRAPH, {}, "S1_2", PROGRAM, after, ["m.py"])
    assert registration.ownership == {"m.py::parse": "S1_1", "m.py::helper": "S1_2"}
    (entry,) = registration.exceptions
    assert (entry.by, entry.owner, entry.region) == ("S1_2", "S1_1", "m.py::parse")
    assert crossed(BUILT, ["S1_1"], PROGRAM, after) == ("m.py::parse",)
    assert crossed(BUILT, ["S1_2", "S0"], PROGRAM, after) == ()


def test_an_improvement_that_loses_a_test_is_none() -> None:
    before = standing(BUILT, {"t::a": "passed", "t::b": "failed", "t::c": "failed"})
    gains = compare(before, judged("c1", {"t::a": "passed", "t::b": "passed", "t::c": "failed"}), BUILT)
    loses = compare(before, judged("c2", {"t::a": "failed", "t::b": "passed", "t::c": "passed"}), BUILT)
    assert gains.improves
    assert loses.candidate.key > loses.initial.key
    assert (loses.lost, loses.improves) == (("t::a",), False)


def test_only_tests_that_both_ran_are_compared() -> None:
    before = standing(BUILT, {"a.py::t": "passed", "b.py::t": "passed"})
    near = compare(before, judged("c1", {"a.py::t": "passed"}), BUILT)
    assert (near.lost, near.initial.external, near.candidate.external) == ((), 1, 1)
    gone = compare(before, judged("c1", {"a.py::other": "passed"}), BUILT)
    assert gone.lost == ("a.py::t",)


@pytest.mark.parametrize(
    ("budget", "degree"),
    [
        ("O(1)", 0),
        ("O(log n)", 0),
        ("O(n)", 1),
        ("O(n log n)", 1),
        ("O(n^2)", 2),
        ("O(n*m)", 2),
        ("O(n + m)", 1),
        ("O(n**3)", 3),
        ("fast", None),
        ("", None),
        ("O(n sqrt(n))", 1),
        ("O(V+E)", 1),
    ],
)
def test_budgets_are_read_as_degrees(budget: str, degree: int | None) -> None:
    assert budget_degree(budget) == degree


def test_loop_depth_counts_nested_comprehensions() -> None:
    assert loop_depth({"u": b"def f(a):\n    return [x for y in a for x in y]\n"}) == 2
    assert loop_depth({"u": b"    def f(self):\n        while True:\n            pass\n"}) == 1
    assert loop_depth({"u": b"def f(:"}) == 0
