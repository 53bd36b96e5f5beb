"""Accepting a repair: strict improvement by rank *and* by set inclusion, and what a rollback restores.

The paper's order alone accepts a repair that fixes two tests and breaks one (its regression rate is
2/55); here nothing that passed may be lost (design, section 3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agentforge.core.gate import Verdict
from agentforge.core.paths import file_of_test
from agentforge.core.report import Cause, TestReport
from agentforge.core.responsibility import AcceptanceRank, Construction, Snapshot
from agentforge.core.state import Judged, Standing


class Comparison(NamedTuple):
    """Two programs over the tests that both ran: their ranks, and what the second lost."""

    initial: AcceptanceRank
    candidate: AcceptanceRank
    lost: tuple[str, ...]
    passed_before: int

    @property
    def improves(self) -> bool:
        """d = accept (AuditCoder, D), with set inclusion on top."""
        return expected_decision(self.initial, self.candidate, self.lost)

    @property
    def reason(self) -> str:
        if self.lost:
            more = f" and {len(self.lost) - 1} more" if len(self.lost) > 1 else ""
            return f"{self.lost[0]}{more} passed before and does not now"
        if self.candidate.key > self.initial.key:
            return f"rank {self.candidate.key} over {self.initial.key}, and nothing was lost"
        return f"rank {self.candidate.key} is no improvement on {self.initial.key}"


def expected_decision(initial: AcceptanceRank, candidate: AcceptanceRank, lost: Iterable[str]) -> bool:
    return candidate.key > initial.key and not tuple(lost)


def compare(standing: Standing, judged: Judged, construction: Construction) -> Comparison:
    """`judged`, built as `construction`, against the program that stands."""
    before, after = standing.judged.report, judged.report
    common = _files(before) & _files(after)
    was, now = _passed(before, common), _passed(after, common)
    inner_was = frozenset(standing.construction.internal_passed)
    inner_now = frozenset(construction.internal_passed)
    initial, candidate = (
        _rank(standing.judged, was, standing.construction),
        _rank(judged, now, construction),
    )
    # The nodes' own checks were made up before any code: a full pass of the gate refutes one that it fails.
    inner_lost = frozenset() if candidate.full else inner_was - inner_now
    return Comparison(initial, candidate, tuple(sorted((was - now) | inner_lost)), len(was))


def _files(report: TestReport) -> frozenset[str]:
    """Files whose tests ran; a run without outcomes counts for all it was asked for: nothing."""
    return frozenset(file_of_test(test) for test in report.outcomes)


def _passed(report: TestReport, files: frozenset[str]) -> frozenset[str]:
    return frozenset(test for test in report.passed if file_of_test(test) in files)


def _rank(judged: Judged, external: frozenset[str], construction: Construction) -> AcceptanceRank:
    return AcceptanceRank(
        full=judged.decision.verdict is Verdict.VERIFIED,
        external=len(external),
        internal=len(construction.internal_passed),
        external_clean=int(judged.report.cause is Cause.OK),
        internal_clean=int(construction.internal_clean),
    )


def snapshot(standing: Standing) -> Snapshot:
    """ξ of a program: its code, its node snippets, its test results (AuditCoder, D: rollback integrity)."""
    judged = standing.judged
    results = {test: outcome.value for test, outcome in judged.report.outcomes.items()}
    code = {
        path: None if entry is None else [entry.mode, sha256(entry.data)]
        for path, entry in judged.candidate.changes.items()
    }
    snippets = {item.node: bundle_digest(item.code) for item in standing.construction.implementations}
    return Snapshot(code=_digest(code), snippets=_digest(snippets), results=_digest(results))


def bundle_digest(code: Mapping[str, bytes]) -> str:
    """SHA-256 of a node's units and their bytes; "" for a node without code."""
    return _digest({unit: sha256(data) for unit, data in code.items()}) if code else ""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode())
