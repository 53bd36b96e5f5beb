"""The table of nodes: which fields of the state each reads and which it alone writes."""

from __future__ import annotations

from collections.abc import Mapping

from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.engine import Node
from agentforge.orchestrator.nodes import agentic, evidence, remembering, searching, targets


def _node(name: str, run: object, reads: str, writes: str) -> Node[RunContext]:
    return Node(name, run, frozenset(reads.split()), frozenset(writes.split()))  # type: ignore[arg-type]


_PROTECTED = "task existing baseline environment"
_JUDGED = "best decision report compared candidate"

NODES: Mapping[str, Node[RunContext]] = {
    node.name: node
    for node in (
        _node("environment", evidence.prepare_environment, "task", "environment"),
        _node("baseline", evidence.run_baseline, "task environment", "baseline"),
        _node("reproduce", targets.reproduce_issue, "task environment baseline", "reproduced existing"),
        _node("retrieve", remembering.retrieve, "task", "retrieved"),
        _node("plan", agentic.make_plan, "task retrieved", "plan"),
        _node("code", agentic.write_code, "task plan retrieved round baseline targets", "draft"),
        _node("apply", evidence.apply_edit, "draft repair round " + _PROTECTED, "candidate"),
        _node(
            "synthesize",
            targets.synthesize_tests,
            "task plan retrieved targets synthesized environment",
            "synthesized",
        ),
        _node(
            "execute",
            evidence.execute_candidate,
            "candidate environment generated targets baseline",
            "trials compared report",
        ),
        _node(
            "gate",
            evidence.judge,
            "candidate trials report compared targets baseline best attempts round",
            "decision best attempts",
        ),
        _node("debug", agentic.debug, f"task retrieved attempts round {_JUDGED}", "repair stuck"),
        _node("critic", agentic.criticise, "task best", "critic"),
        _node("explain", agentic.explain_result, "best plan", "explanation"),
        _node(
            "store",
            remembering.store_episode,
            "task best plan critic verified base_commit attempts retrieved",
            "episode",
        ),
        _node(
            "search",
            searching.search_edits,
            "task environment existing targets baseline generated",
            "found search_reasons",
        ),
        _node("pick", evidence.pick_edit, "found round " + _PROTECTED, "candidate"),
    )
}

WRITES: Mapping[str, tuple[str, ...]] = {name: tuple(sorted(node.writes)) for name, node in NODES.items()}

NEEDS: Mapping[str, frozenset[str]] = {
    "baseline": frozenset({"environment"}),
    "reproduce": frozenset({"environment"}),
    "synthesize": frozenset({"environment"}),
    "search": frozenset({"environment"}),
    "execute": frozenset({"environment", "candidate"}),
    "gate": frozenset({"candidate", "trials"}),
}
"""What a node cannot do without: another node must have written it on every way there."""

ASKS_MODEL = frozenset({"plan", "code", "synthesize", "debug", "critic"})
