"""audit.json: for every changed line of a result who is responsible, why, on which evidence, and how it
came about (docs/audit.md has the schema)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentforge.core.errors import PatchError
from agentforge.core.events import Event, GateDecided, PatchProposed, PlanMade, ResponsibilitiesCommitted
from agentforge.core.responsibility import Construction, Evidence, IntegrationException
from agentforge.core.state import Judged, RunState
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.acceptance import sha256
from agentforge.orchestrator.responsibility.hunks import ChangedRun, changed_runs
from agentforge.orchestrator.responsibility.planned import construction_of_patch, graph_of_plan
from agentforge.orchestrator.responsibility.summary import metrics_of
from agentforge.repo.patch import apply_answer

AUDIT_SCHEMA = 2
SHOWN_TESTS = 20
"""How many tests that kept passing are named; the gate's decision has all of them."""


@dataclass(frozen=True)
class Proposed:
    """One candidate of the run, as its events tell: what it changed and what the gate said."""

    candidate: str
    origin: str
    round: int
    seq: int
    verdict: str
    runs: tuple[ChangedRun, ...]


@dataclass(frozen=True)
class Audit:
    """What is known of a run at its end: its state, its events so far, its base."""

    state: RunState
    events: Sequence[Event]
    base: Tree

    @cached_property
    def best(self) -> Judged | None:
        return self.state.best

    @cached_property
    def patched(self) -> Tree:
        return self.base if self.best is None else self.base.with_changes(self.best.candidate.changes)

    @cached_property
    def runs(self) -> tuple[ChangedRun, ...]:
        if self.best is None:
            return ()
        return changed_runs(self.best.candidate.patch.diff, self.base, self.patched)

    @cached_property
    def source(self) -> str:
        """Where the responsibilities come from: "graph", "plan" or "task"."""
        if self.state.responsibilities is not None:
            return "graph"
        return "plan" if self.state.plan is not None else "task"

    @cached_property
    def construction(self) -> Construction:
        """The program of the result and its owners; a graph that was committed stands before any plan."""
        state = self.state
        standing = state.standing
        best = self.best.candidate if self.best else None
        if standing is not None and best is not None and standing.judged.candidate.id == best.id:
            return standing.construction
        origin = best.origin if best else ""
        graph = state.responsibilities or graph_of_plan(state.plan)
        units = dict.fromkeys(run.unit for run in self.runs)
        return construction_of_patch(graph, origin, units, self.patched, self._evidence_by_node())

    def _evidence_by_node(self) -> Iterator[Evidence]:
        if self.state.construction is not None:
            yield from self.state.construction.evidence

    @cached_property
    def proposed(self) -> tuple[Proposed, ...]:
        """Every candidate, in order."""
        verdicts = {
            event.candidate: event.decision.verdict.value
            for event in self.events
            if isinstance(event, GateDecided)
        }
        return tuple(
            Proposed(
                candidate=event.candidate,
                origin=event.origin,
                round=event.round,
                seq=event.seq,
                verdict=verdicts.get(event.candidate, "not judged"),
                runs=runs_of_text(event.diff, self.base),
            )
            for event in self.events
            if isinstance(event, PatchProposed)
        )


def runs_of_text(diff: str, base: Tree) -> tuple[ChangedRun, ...]:
    """The runs of a recorded diff; none where it cannot be applied any more (binary, redacted)."""
    data = diff.encode("utf-8", "surrogateescape")
    try:
        patched = base.with_changes(apply_answer(data, base).changes)
    except PatchError:
        return ()
    return changed_runs(data, base, patched)


def audit_record(state: RunState, events: Iterable[Event], base: Tree) -> dict[str, Any]:
    """The whole record as JSON values."""
    audit = Audit(state, tuple(events), base)
    return {
        "schema": AUDIT_SCHEMA,
        "base": state.base_commit,
        "source": audit.source,
        "committed": _committed(audit),
        "responsibilities": _responsibilities(audit),
        "order": list(audit.construction.graph.order),
        "ownership": dict(sorted(audit.construction.ownership.items())),
        "exceptions": [entry.model_dump(mode="json") for entry in audit.construction.exceptions],
        "hunks": [_hunk(audit, number, run) for number, run in enumerate(audit.runs, 1)],
        "candidates": [_candidate(item) for item in audit.proposed],
        "transactions": [entry.model_dump(mode="json") for entry in state.history],
        "fallbacks": [entry.model_dump(mode="json") for entry in state.fallbacks],
        "metrics": metrics_of(audit.state, audit.construction),
        "tests_written": [
            {"path": made.path, "ids": list(made.test_ids), "reason": made.reason} for made in state.generated
        ],
        "attempts": [attempt.model_dump(mode="json") for attempt in state.attempts],
        "result": _result(audit),
        "critic": state.critic.model_dump(mode="json") if state.critic else None,
    }


def _committed(audit: Audit) -> dict[str, Any]:
    """The event by which the ids came to be, before any code; 0 where there is none (no plan was made).

    `adopted`: candidates of earlier stages, whose code is older than the ids and was taken over by them.
    """
    kinds = ResponsibilitiesCommitted if audit.source == "graph" else PlanMade
    seq = next((event.seq for event in audit.events if isinstance(event, kinds)), 0)
    earlier = [item.candidate for item in audit.proposed if item.seq < seq]
    return {"seq": seq, "ids": list(audit.construction.graph.ids), "adopted": earlier}


def _responsibilities(audit: Audit) -> list[dict[str, Any]]:
    rows = []
    construction = audit.construction
    for node in construction.graph.nodes:
        made = construction.of(node.id)
        rows.append(
            {
                **node.model_dump(mode="json"),
                "executor": made.executor if made else "",
                "owned_code": {unit: _text(code) for unit, code in (made.code if made else {}).items()},
                "code_sha256": {unit: sha256(code) for unit, code in (made.code if made else {}).items()},
                "evidence": [e.model_dump(mode="json") for e in (made.evidence if made else ())],
                "repair_history": [t.number for t in audit.state.history if node.id in t.locus.region],
            }
        )
    return rows


def _hunk(audit: Audit, number: int, run: ChangedRun) -> dict[str, Any]:
    owner = audit.construction.ownership.get(run.unit, "")
    crossing = _crossing(audit.construction.exceptions, run.unit)
    return {
        "number": number,
        "file": run.path,
        "hunk": run.hunk,
        "unit": run.unit,
        "lines": {"old": _span(line.old for line in run.lines), "new": _span(line.new for line in run.lines)},
        "text": [("+" if line.new else "-") + _text(line.text) for line in run.lines],
        "responsibility": owner,
        "exception": crossing.model_dump(mode="json") if crossing else None,
        "why": _why(audit, owner),
        "evidence": _evidence(audit, owner),
        "history": list(_history(audit, run)),
    }


def _crossing(exceptions: Iterable[IntegrationException], unit: str) -> IntegrationException | None:
    return next((entry for entry in exceptions if entry.region == unit), None)


def _span(numbers: Iterable[int]) -> list[int] | None:
    known = [number for number in numbers if number]
    return [min(known), max(known)] if known else None


def _why(audit: Audit, owner: str) -> str:
    """The commitment under which the lines were written."""
    graph = audit.construction.graph
    if owner not in graph.ids:
        return ""
    node = graph.node(owner)
    contract = node.contract
    promise = f" It promises {contract.name}({', '.join(contract.args)})" if contract.name else ""
    promise += f" -> {contract.returns}" if promise and contract.returns else ""
    return f"{node.goal}{promise}{'.' if promise else ''}"


def _evidence(audit: Audit, owner: str) -> list[dict[str, Any]]:
    """Local checks of the owner, then the tests by which the gate judged the whole patch."""
    assert audit.best is not None
    made = audit.construction.of(owner)
    local = [
        {"kind": f"local {e.kind}", "id": e.test_id, "passed": e.passed, "text": e.text}
        for e in (made.evidence if made else ())
    ]
    decision = audit.best.decision
    flipped = [
        {"kind": "fail to pass", "id": test, "passed": True, "text": "failed on the base, passes now"}
        for test in decision.fail_to_pass
    ]
    kept = len(decision.pass_to_pass)
    tests = ", ".join(decision.pass_to_pass[:SHOWN_TESTS])
    still = [{"kind": "pass to pass", "id": "", "passed": True, "text": f"{kept} still pass: {tests}"}]
    against = [
        {"kind": reason.kind.value, "id": reason.test_id, "passed": False, "text": reason.text}
        for reason in decision.reasons
    ]
    return [*local, *flipped, *(still if kept else []), *against]


def _history(audit: Audit, run: ChangedRun) -> Iterator[dict[str, Any]]:
    """Every candidate that changed the unit, what it wrote there, and what became of it."""
    assert audit.best is not None
    by_candidate = {entry.candidate: entry for entry in audit.state.history if entry.candidate}
    fallbacks = {entry.candidate for entry in audit.state.fallbacks}
    for item in audit.proposed:
        lines = [line for other in item.runs if other.unit == run.unit for line in other.lines]
        if not lines:
            continue
        transaction = by_candidate.get(item.candidate)
        yield {
            "candidate": item.candidate,
            "event": item.seq,
            "round": item.round,
            "by": item.origin,
            "verdict": item.verdict,
            "transaction": transaction.number if transaction else None,
            "decision": _decision(item, transaction, audit.best),
            "fallback": item.candidate in fallbacks,
            "text": [("+" if line.new else "-") + _text(line.text) for line in lines],
        }


def _decision(item: Proposed, transaction: Any, best: Judged) -> str:
    if item.candidate == best.candidate.id:
        return "result"
    if transaction is None:
        return "superseded"
    return "accepted" if transaction.accepted else "rolled back"


def _candidate(item: Proposed) -> dict[str, Any]:
    units = dict.fromkeys(run.unit for run in item.runs)
    return {
        "id": item.candidate,
        "origin": item.origin,
        "round": item.round,
        "event": item.seq,
        "verdict": item.verdict,
        "units": list(units),
    }


def _result(audit: Audit) -> dict[str, Any] | None:
    if audit.best is None:
        return None
    candidate = audit.best.candidate
    owners: Mapping[str, str] = audit.construction.ownership
    return {
        "candidate": candidate.id,
        "origin": candidate.origin,
        "patch_sha256": hashlib.sha256(candidate.patch.diff).hexdigest(),
        "files": [
            {
                "path": path,
                "steps": sorted({owners[run.unit] for run in audit.runs if run.path == path}),
                "origin": candidate.origin,
            }
            for path in candidate.patch.files
        ],
        "decision": audit.best.decision.model_dump(mode="json"),
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
