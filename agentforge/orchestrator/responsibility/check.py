"""Every invariant of a stored run, computed anew from its events, its patch and its base.

The record is believed only where something else of the run says the same: events are numbered as they
come, the patch is what was delivered, the base tree is kept by its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import PatchError, RecordError
from agentforge.core.events import (
    Event,
    FallbackClosed,
    GateDecided,
    ModelCallStarted,
    PatchProposed,
    PlanMade,
    ResponsibilitiesCommitted,
    StageStarted,
    TransactionClosed,
)
from agentforge.core.responsibility import Construction, Fallback, Graph, Responsibility, Transaction
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.acceptance import bundle_digest, expected_decision
from agentforge.orchestrator.responsibility.graph import structural_problems
from agentforge.orchestrator.responsibility.hunks import changed_lines, changed_runs
from agentforge.orchestrator.responsibility.ownership import bundles, declared_owner
from agentforge.orchestrator.responsibility.planned import graph_of_plan
from agentforge.orchestrator.store import RunRecord, RunStore
from agentforge.repo.patch import apply_answer


class Finding(Frozen):
    """One invariant: whether it holds, and what was looked at or found."""

    name: str
    holds: bool
    text: str


@dataclass(frozen=True)
class Stored:
    """A run as it lies on the disk."""

    audit: Mapping[str, Any]
    events: tuple[Event, ...]
    patch: bytes | None
    base: Tree

    @cached_property
    def graph(self) -> Graph:
        """As the run committed it, not as the record tells; a graph of later deltas is checked apart."""
        for event in self.events:
            if isinstance(event, ResponsibilitiesCommitted):
                return event.graph
        plan = next((event.plan for event in self.events if isinstance(event, PlanMade)), None)
        return graph_of_plan(plan)

    @cached_property
    def transactions(self) -> tuple[Transaction, ...]:
        return tuple(event.transaction for event in self.events if isinstance(event, TransactionClosed))

    @cached_property
    def fallbacks(self) -> tuple[Fallback, ...]:
        return tuple(event.fallback for event in self.events if isinstance(event, FallbackClosed))

    @cached_property
    def diffs(self) -> dict[str, str]:
        """Candidate -> its diff as recorded."""
        return {event.candidate: event.diff for event in self.events if isinstance(event, PatchProposed)}

    def tree_of(self, candidate: str) -> Tree | None:
        """The program that a candidate is; None where its recorded diff cannot be applied any more."""
        if candidate not in self.diffs:
            return None
        return patched(self.base, self.diffs[candidate].encode("utf-8", "surrogateescape"))


def patched(base: Tree, diff: bytes) -> Tree | None:
    try:
        return base.with_changes(apply_answer(diff, base).changes)
    except PatchError:
        return None


def read_stored(record: RunRecord, store: RunStore) -> Stored:
    """Raises `RecordError` where something is missing."""
    digest = str((record.manifest.get("base") or {}).get("tree", ""))
    return Stored(record.audit(), tuple(record.events()), record.patch(), store.load_tree(digest))


def check(stored: Stored) -> tuple[Finding, ...]:
    """Every invariant, in a fixed order. Raises `RecordError` where audit.json is of another shape."""
    try:
        return tuple(_finding(name, list(rule(stored))) for name, rule in _RULES.items())
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise RecordError(f"audit.json is odd: {error!r:.200}") from None


def _finding(name: str, problems: list[str]) -> Finding:
    return Finding(name=name, holds=not problems, text="; ".join(problems[:5]))


def _identity(stored: Stored) -> Iterator[str]:
    """Pre-code identity: ids are committed before any code of their stage, and never change or are used
    twice; code of earlier stages is told to be adopted."""
    ids = list(stored.graph.ids)
    recorded = [entry["id"] for entry in stored.audit["responsibilities"]]
    if recorded != ids:
        yield f"the record has the ids {recorded}, the run committed {ids}"
    kinds = (ResponsibilitiesCommitted, PlanMade)
    committed = next((event.seq for event in stored.events if isinstance(event, kinds)), 0)
    earlier = [e.candidate for e in stored.events if isinstance(e, PatchProposed) and e.seq < committed]
    if earlier != stored.audit["committed"]["adopted"]:
        yield f"the record does not say that {earlier} are older than the ids"
    stage = next((e.seq for e in reversed(stored.events) if _opens(e) and e.seq < committed), 0)
    code = (event.seq for event in stored.events if _writes_code(event) and event.seq > stage)
    first = next(code, None)
    if committed and first is not None and committed > first:
        yield f"event {first} wrote code before the ids were committed by event {committed}"
    later = [e for e in stored.events if isinstance(e, ResponsibilitiesCommitted)][1:]
    if later:
        yield f"the ids were committed again by event {later[0].seq}"


def _opens(event: Event) -> bool:
    """What an earlier stage wrote is adopted, and told as such."""
    return isinstance(event, StageStarted)


def _writes_code(event: Event) -> bool:
    if isinstance(event, ModelCallStarted):
        return event.agent in ("coder", "debugger")
    return isinstance(event, PatchProposed)


def _graph(stored: Stored) -> Iterator[str]:
    yield from structural_problems(stored.graph)
    for entry in stored.transactions:
        for before, after in entry.graph_delta:
            if _boundary(before) != _boundary(after):
                yield f"transaction {entry.number} changed the boundary of {before.id}"
            if before.id not in entry.locus.region:
                yield f"transaction {entry.number} changed {before.id}, which it had frozen"


def _boundary(node: Responsibility) -> tuple[object, ...]:
    """What a graph delta may not touch: identity, place, and what is owned."""
    return (node.id, node.parent, node.leaf, node.files, node.symbols, node.depends_on)


def _hunks(stored: Stored) -> Iterator[str]:
    """Every changed line of the patch lies in exactly one hunk of the record."""
    if stored.patch is None:
        return
    result = stored.audit["result"]
    if hashlib.sha256(stored.patch).hexdigest() != result["patch_sha256"]:
        yield "patch.diff is not the patch of the record"
        return
    tree = patched(stored.base, stored.patch)
    if tree is None:
        yield "patch.diff does not apply to the base"
        return
    runs = changed_runs(stored.patch, stored.base, tree)
    recorded = stored.audit["hunks"]
    wanted = [
        (run.path, run.unit, [_sign(line.new) + _text(line.text) for line in run.lines]) for run in runs
    ]
    have = [(entry["file"], entry["unit"], entry["text"]) for entry in recorded]
    if wanted != have:
        yield f"the record has {len(have)} hunks that are not the {len(wanted)} of patch.diff"
    lines = sum(1 for _ in changed_lines(stored.patch))
    if lines != sum(len(run.lines) for run in runs):
        yield "a changed line lies in no hunk"


def _sign(new: int) -> str:
    return "+" if new else "-"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _owners(stored: Stored) -> Iterator[str]:
    """µ is a function onto committed ids; a hunk whose owner did not claim it is owned by registration or
    is an integration exception."""
    ids = set(stored.graph.ids)
    exceptions = {entry["region"] for entry in stored.audit["exceptions"]}
    for entry in stored.audit["hunks"]:
        unit, owner = entry["unit"], entry["responsibility"]
        if owner not in ids:
            yield f"hunk {entry['number']} ({unit}) has no owner among the committed ids: {owner!r}"
        if stored.audit["ownership"].get(unit) != owner:
            yield f"hunk {entry['number']}: the ownership map gives {unit} to another"
        claimed = declared_owner(stored.graph, unit)
        if claimed is not None and claimed != owner and unit not in exceptions:
            yield f"hunk {entry['number']}: {claimed} claims {unit}, and {owner} owns it without an exception"
        if (unit in exceptions) != (entry["exception"] is not None):
            yield f"hunk {entry['number']} and the list of exceptions do not agree on {unit}"


def _widened(stored: Stored) -> Iterator[str]:
    """An integration exception that was known widens the transactions on its two nodes."""
    for entry in stored.transactions:
        region = set(entry.locus.region)
        for crossing in entry.exceptions:
            pair = {crossing.by, crossing.owner} & set(stored.graph.ids)
            if pair & region and not pair <= region:
                yield f"transaction {entry.number} did not widen for {crossing.region}"


def _decisions(stored: Stored) -> Iterator[str]:
    """Accepted exactly where the rank improved and nothing was lost."""
    for entry in stored.transactions:
        rank = entry.candidate_rank
        wanted = rank is not None and expected_decision(entry.initial_rank, rank, entry.lost)
        if entry.accepted != wanted:
            done = "accepted" if entry.accepted else "rejected"
            yield f"transaction {entry.number} was {done} against its ranks"


def _rollbacks(stored: Stored) -> Iterator[str]:
    for entry in stored.transactions:
        if entry.accepted == (entry.rollback == "Restored"):
            yield f"transaction {entry.number}: decision and rollback status do not fit"
        if not entry.accepted and entry.initial != entry.final:
            yield f"transaction {entry.number} was rolled back, but the snapshots differ"


def _frozen(stored: Stored) -> Iterator[str]:
    """Frozen code is the same, byte for byte: as recorded, and computed anew from the candidates' diffs."""
    for entry in stored.transactions:
        ids = set(stored.graph.ids)
        if set(entry.locus.region) | set(entry.locus.frozen) != ids or set(entry.locus.region) & set(
            entry.locus.frozen
        ):
            yield f"transaction {entry.number}: region and complement do not part the nodes"
        for node, (before, after) in entry.frozen_code.items():
            if before != after:
                yield f"transaction {entry.number} changed the frozen code of {node}"
        yield from _frozen_anew(stored, entry)


def _frozen_anew(stored: Stored, entry: Transaction) -> Iterator[str]:
    before = stored.tree_of(entry.standing)
    after = stored.tree_of(entry.candidate)
    if before is None or after is None:
        return
    ownership = stored.audit["ownership"]
    construction = Construction(graph=stored.graph, ownership=ownership)
    one = bundles(construction.graph, construction.ownership, before)
    other = bundles(construction.graph, construction.ownership, after)
    for node in entry.locus.frozen:
        if bundle_digest(one.get(node, {})) != bundle_digest(other.get(node, {})):
            yield f"transaction {entry.number}: the code of {node}, frozen, differs in {entry.candidate}"


def _history(stored: Stored) -> Iterator[str]:
    """Append-only: numbered without a gap, and the record equals what the events said at the time."""
    numbers = [entry.number for entry in stored.transactions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the transactions are numbered {numbers}"
    yield from _chain(stored)
    if [entry.model_dump(mode="json") for entry in stored.transactions] != stored.audit["transactions"]:
        yield "the transactions of the record are not those of the events"
    if [entry.model_dump(mode="json") for entry in stored.fallbacks] != stored.audit["fallbacks"]:
        yield "the fallbacks of the record are not those of the events"


def _chain(stored: Stored) -> Iterator[str]:
    """Each transaction began where the last accepted repair had ended, the first at a judged candidate."""
    judged = {event.candidate for event in stored.events if isinstance(event, GateDecided)}
    stands = ""
    for event in stored.events:
        if isinstance(event, FallbackClosed) and event.fallback.accepted:
            stands = event.fallback.candidate
        if isinstance(event, TransactionClosed):
            entry = event.transaction
            if entry.standing not in judged or (stands and entry.standing != stands):
                yield f"transaction {entry.number} began at {entry.standing}, and {stands or 'nothing'} stood"
            stands = entry.candidate if entry.accepted else entry.standing


def _apart(stored: Stored) -> Iterator[str]:
    """A global fallback is never counted as a localized repair."""
    both = {entry.round for entry in stored.transactions} & {entry.round for entry in stored.fallbacks}
    for number in sorted(both):
        yield f"round {number} is both a bounded repair and a global fallback"
    for entry in stored.transactions:
        if entry.locus.abstains:
            yield f"transaction {entry.number} rests on an abstention"


def _evidence(stored: Stored) -> Iterator[str]:
    """The decision of the record is the one that the gate announced for that candidate."""
    result = stored.audit["result"]
    if result is None:
        if stored.patch is not None:
            yield "there is a patch, and the record knows of no result"
        return
    announced = [
        event.decision.model_dump(mode="json")
        for event in stored.events
        if isinstance(event, GateDecided) and event.candidate == result["candidate"]
    ]
    if result["decision"] not in announced:
        yield f"the gate announced no such decision for {result['candidate']}"


_RULES: Mapping[str, Callable[[Stored], Iterator[str]]] = {
    "ids before code": _identity,
    "graph integrity": _graph,
    "every line in one hunk": _hunks,
    "every hunk has one owner": _owners,
    "exceptions widen": _widened,
    "decisions follow the ranks": _decisions,
    "rollbacks restore": _rollbacks,
    "frozen code unchanged": _frozen,
    "history only grows": _history,
    "fallback logged apart": _apart,
    "evidence as announced": _evidence,
}
