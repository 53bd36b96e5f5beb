"""Every node and predicate that a workflow may name: the tables of the modules, joined."""

from __future__ import annotations

from collections.abc import Mapping

from agentforge.orchestrator import predicates
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Node
from agentforge.orchestrator.nodes import (
    abstaining,
    agentic,
    auditing,
    coding,
    evidence,
    mending,
    observing,
    pairing,
    reacting,
    relaying,
    remembering,
    searching,
    simulating,
    synthesis,
    targets,
    teaming,
)
from agentforge.orchestrator.workflow import Predicate

NODES: Mapping[str, Node[RunContext]] = {
    node.name: node
    for table in (
        evidence.NODES,
        targets.NODES,
        agentic.NODES,
        coding.NODES,
        remembering.NODES,
        searching.NODES,
        observing.NODES,
        auditing.NODES,
        mending.NODES,
        teaming.NODES,
        relaying.NODES,
        reacting.NODES,
        abstaining.NODES,
        synthesis.NODES,
        simulating.NODES,
        pairing.NODES,
    )
    for node in table
}

PREDICATES: Mapping[str, Predicate] = {
    predicate.__name__: predicate
    for table in (
        predicates.PREDICATES,
        mending.PREDICATES,
        observing.PREDICATES,
        relaying.PREDICATES,
        reacting.PREDICATES,
        synthesis.PREDICATES,
        simulating.PREDICATES,
        pairing.PREDICATES,
    )
    for predicate in table
}
