"""What a repair may change (AuditCoder, 3.4): node or branch, widened by integration exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentforge.core.responsibility import Construction, Locus, Transaction
from agentforge.orchestrator.responsibility.graph import error_branch, subtree

TRIES = 2
"""Rejected transactions on one region before it is widened, and then given up."""


def with_region(locus: Locus, construction: Construction) -> Locus:
    """`locus` with R and F: {v} or Subtree(EB(z)), closed under integration exceptions; F = V without R."""
    if locus.abstains:
        return locus.model_copy(update={"region": (), "frozen": construction.graph.ids})
    graph = construction.graph
    start = subtree(graph, locus.node) if locus.kind == "branch" else (locus.node,)
    region = expanded(start, construction)
    frozen = tuple(name for name in graph.ids if name not in region)
    return locus.model_copy(update={"region": region, "frozen": frozen})


def expanded(nodes: Iterable[str], construction: Construction) -> tuple[str, ...]:
    """The nodes and whatever shares code with one of them, in the graph's order."""
    region = set(nodes)
    while True:
        more = {
            name
            for entry in construction.exceptions
            if region & {entry.by, entry.owner}
            for name in (entry.by, entry.owner)
        }
        if more <= region:
            return tuple(name for name in construction.graph.ids if name in region)
        region |= more


def after_rejections(locus: Locus, construction: Construction, history: Sequence[Transaction]) -> Locus:
    """The locus in the light of what was tried: a region that failed twice is lifted to its branch once,
    and given up where the branch failed as often (abstention)."""
    placed = with_region(locus, construction)
    if locus.abstains or _rejected(placed, history) < TRIES:
        return placed
    branch = error_branch(construction.graph, locus.node)
    if locus.kind == "node" and branch:
        note = f"{locus.node} alone was repaired in vain {TRIES} times: its branch {branch}"
        lifted = locus.model_copy(
            update={
                "node": branch,
                "kind": "branch",
                "evidence": (*locus.evidence, note),
                "confidence": "low",
            }
        )
        placed = with_region(lifted, construction)
        if _rejected(placed, history) < TRIES:
            return placed
    note = f"repairs of {', '.join(placed.region)} were rejected {TRIES} times"
    return with_region(Locus(evidence=(*locus.evidence, note)), construction)


def _rejected(locus: Locus, history: Sequence[Transaction]) -> int:
    """Rejected transactions on this region since the last accepted one."""
    count = 0
    for entry in reversed(history):
        if entry.accepted:
            break
        count += entry.locus.region == locus.region
    return count
