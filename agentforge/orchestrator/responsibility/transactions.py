"""Closing a repair: decide, restore or hand on, and write it down (AuditCoder, Algorithm 1, lines 33-45)."""

from __future__ import annotations

from typing import NamedTuple

from agentforge.core.responsibility import (
    AcceptanceRank,
    CodeDelta,
    Construction,
    Fallback,
    Locus,
    Proposal,
    Responsibility,
    Transaction,
)
from agentforge.core.state import Judged, Standing
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.acceptance import (
    Comparison,
    bundle_digest,
    compare,
    sha256,
    snapshot,
)
from agentforge.orchestrator.responsibility.metrics import ccr
from agentforge.orchestrator.responsibility.ownership import bundles, crossed
from agentforge.orchestrator.responsibility.units import changed_units


class ClosedTransaction(NamedTuple):
    entry: Transaction
    standing: Standing


class ClosedFallback(NamedTuple):
    entry: Fallback
    standing: Standing


def close_transaction(
    standing: Standing,
    proposal: Proposal,
    judged: Judged | None,
    locus: Locus,
    number: int,
    base: Tree,
) -> ClosedTransaction:
    """What stands afterwards, and h. A candidate that changed frozen code is never accepted."""
    compared = _compared(standing, proposal, judged)
    before = base.with_changes(standing.judged.candidate.changes)
    after = before if judged is None or compared is None else base.with_changes(judged.candidate.changes)
    made = proposal.construction or standing.construction
    border = crossed(made, locus.frozen, before, after)
    accepted = compared is not None and compared.improves and not border
    then = standing
    if accepted:
        assert judged is not None
        then = Standing(judged=judged, construction=made)
    kept = after if accepted else before
    paths = {*standing.judged.candidate.changes, *(judged.candidate.changes if judged else ())}
    measured = ccr(_files(before, paths), _files(kept, paths))
    entry = Transaction(
        number=number,
        round=proposal.round,
        standing=standing.judged.candidate.id,
        locus=locus,
        graph_delta=_graph_delta(standing.construction, made),
        code_delta=_code_delta(made, before, after),
        evidence=tuple(item for item in made.evidence if item.node in locus.region),
        candidate=judged.candidate.id if judged is not None and compared is not None else "",
        initial_rank=compared.initial if compared else _rank_alone(standing),
        candidate_rank=compared.candidate if compared else None,
        lost=compared.lost if compared else (),
        accepted=accepted,
        reason=_reason(proposal, compared, border),
        rollback="NotApplicable" if accepted else "Restored",
        initial=snapshot(standing),
        final=snapshot(then),
        frozen_code=_frozen(made, locus, before, after),
        exceptions=standing.construction.exceptions,
        passed_before=compared.passed_before if compared else 0,
        changed_lines=measured.hits,
        lines=measured.total,
    )
    return ClosedTransaction(entry, then)


def _compared(standing: Standing, proposal: Proposal, judged: Judged | None) -> Comparison | None:
    """None where nothing new was executed in this round."""
    if judged is None or proposal.construction is None or judged.candidate.round != proposal.round:
        return None
    return compare(standing, judged, proposal.construction)


def _rank_alone(standing: Standing) -> AcceptanceRank:
    return compare(standing, standing.judged, standing.construction).initial


def _reason(proposal: Proposal, compared: Comparison | None, border: tuple[str, ...]) -> str:
    if border:
        return f"the candidate changes frozen code: {', '.join(border[:3])}"
    if compared is None:
        return proposal.refused or "the edit left nothing that could be executed"
    return compared.reason


def _graph_delta(
    before: Construction, after: Construction
) -> tuple[tuple[Responsibility, Responsibility], ...]:
    return tuple(
        (old, new) for old, new in zip(before.graph.nodes, after.graph.nodes, strict=True) if old != new
    )


def _code_delta(made: Construction, before: Tree, after: Tree) -> tuple[CodeDelta, ...]:
    old = _by_unit(made, before)
    new = _by_unit(made, after)
    return tuple(
        CodeDelta(
            unit=unit,
            node=(new.get(unit) or old[unit])[0],
            before=sha256(old[unit][1]) if unit in old else "",
            after=sha256(new[unit][1]) if unit in new else "",
        )
        for unit in changed_units(
            {unit: code for unit, (_, code) in old.items()}, {unit: code for unit, (_, code) in new.items()}
        )
    )


def _by_unit(made: Construction, tree: Tree) -> dict[str, tuple[str, bytes]]:
    code = bundles(made.graph, made.ownership, tree)
    return {unit: (name, data) for name, owned in code.items() for unit, data in owned.items()}


def _frozen(made: Construction, locus: Locus, before: Tree, after: Tree) -> dict[str, tuple[str, str]]:
    old, new = bundles(made.graph, made.ownership, before), bundles(made.graph, made.ownership, after)
    owners = [name for name in locus.frozen if name in old or name in new]
    return {name: (bundle_digest(old.get(name, {})), bundle_digest(new.get(name, {}))) for name in owners}


def _files(tree: Tree, paths: set[str]) -> dict[str, bytes]:
    return {path: tree.read(path).data for path in sorted(paths) if tree.kind(path) == "file"}


def close_fallback(
    standing: Standing, proposal: Proposal, judged: Judged | None, round_: int
) -> ClosedFallback:
    """A global fallback is kept by the same order, and counted apart."""
    compared = _compared(standing, proposal, judged)
    accepted = compared is not None and compared.improves
    changed: tuple[str, ...] = ()
    then = standing
    if proposal.construction is not None:
        ownership = proposal.construction.ownership
        before = {u: c for i in standing.construction.implementations for u, c in i.code.items()}
        after = {u: c for i in proposal.construction.implementations for u, c in i.code.items()}
        changed = tuple(f"{unit} ({ownership.get(unit, '?')})" for unit in changed_units(before, after))
    if accepted:
        assert judged is not None
        assert proposal.construction is not None
        then = Standing(judged=judged, construction=proposal.construction)
    entry = Fallback(
        round=round_,
        candidate=judged.candidate.id if judged is not None and compared is not None else "",
        accepted=accepted,
        reason=_reason(proposal, compared, ()),
        changed=changed,
    )
    return ClosedFallback(entry, then)
