"""Evidence to responsibility: rules R1 to R4 in fixed priority, abstaining where nothing decides
(AuditCoder, 3.3), with one rule of ours between R3 and R4: test coverage.

R1 a traceback frame in owned code; R2 a timeout or memory failure and the narrowest node that budget,
probes and loops support; R3 a rejected local check that is compatible with the failure; coverage the
one node whose lines the failing tests ran and the passing ones did not; R4 abstention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentforge.core.paths import is_test_path
from agentforge.core.report import Cause, TestFailure, TestReport
from agentforge.core.responsibility import Confidence, Construction, Evidence, Locus, Rule
from agentforge.orchestrator.responsibility.complexity import exceeds_budget, has_loop
from agentforge.orchestrator.responsibility.graph import common_branch, upstream
from agentforge.orchestrator.responsibility.ownership import owner_of

MARGIN = 0.05
"""How far the most suspicious node must lead for coverage to decide."""
RESOURCE = (Cause.TIMEOUT, Cause.OOM, Cause.PIDS)
ALL_RULES: tuple[Rule, ...] = ("R1", "R2", "R3", "coverage")

UnitAt = Callable[[str, int], str | None]
"""The unit of a line of the failing program; None where there is none."""


@dataclass(frozen=True)
class Failure:
    """What the locator may look at. `failing` are the tests that matter; `ran` are node -> score by
    coverage, and `reached` the nodes that a failing test ran (None: coverage was not taken)."""

    construction: Construction
    report: TestReport
    failing: tuple[str, ...]
    unit_at: UnitAt
    scores: Mapping[str, float] = field(default_factory=dict)
    reached: frozenset[str] | None = None
    rules: tuple[Rule, ...] = ALL_RULES


class Finding(NamedTuple):
    """Nodes that a rule names; several mean a branch. `by` explains."""

    nodes: tuple[str, ...]
    confidence: Confidence
    by: tuple[str, ...]


def locate(failure: Failure) -> Locus:
    """The first rule that decides, as a locus without its region; abstention otherwise."""
    reasons: list[str] = []
    for rule in failure.rules:
        finding = _RULES[rule](failure)
        if finding is None:
            continue
        locus = _locus(failure.construction, rule, finding)
        if locus is not None:
            return locus
        reasons.append(f"{rule}: {', '.join(finding.nodes)} cannot be told apart: {'; '.join(finding.by)}")
    return Locus(evidence=tuple(reasons) or ("no rule found evidence for one responsibility",))


def _locus(construction: Construction, rule: Rule, finding: Finding) -> Locus | None:
    """A node, or the branch that holds all of them; None where only the whole graph would."""
    nodes = tuple(dict.fromkeys(finding.nodes))
    alone = len(nodes) == 1
    chosen = nodes[0] if alone else common_branch(construction.graph, nodes)
    if not chosen:
        return None
    implementation = construction.of(chosen)
    executor = implementation.executor if implementation else ""
    return Locus(
        node=chosen,
        executor=executor,
        kind="node" if alone else "branch",
        rule=rule,
        confidence=finding.confidence,
        evidence=finding.by,
    )


def _by_traceback(failure: Failure) -> Finding | None:
    """R1: the innermost frame in owned code, of every failing test that has one.

    Only medium where code that nobody answers for lies further in: the fault may be there.
    """
    found: dict[str, list[str]] = {}
    direct = True
    for test in failure.failing:
        frame = _owned_frame(failure, failure.report.failures.get(test))
        if frame is not None:
            found.setdefault(frame.node, []).append(f"{test}: {frame.said}")
            direct = direct and frame.innermost
    if not found:
        return None
    by = tuple(text for texts in found.values() for text in texts)
    return Finding(tuple(found), "high" if direct else "medium", by)


class _Frame(NamedTuple):
    node: str
    said: str
    innermost: bool


def _owned_frame(failure: Failure, seen: TestFailure | None) -> _Frame | None:
    if seen is None:
        return None
    frames = [frame for frame in reversed(seen.frames) if not is_test_path(frame[0])]
    for depth, (path, line, function) in enumerate(frames):
        node = _owner(failure.construction, failure.unit_at(path, line))
        if node is not None:
            said = f"{seen.exception or 'the failure'} was raised under {path}:{line} in {function}"
            return _Frame(node, said, innermost=depth == 0)
    return None


def _owner(construction: Construction, unit: str | None) -> str | None:
    return None if unit is None else owner_of(construction.graph, construction.ownership, unit)


def _by_resource(failure: Failure) -> Finding | None:
    """R2: a probe that ran out of its resource, else the one node whose loops pass its budget."""
    if failure.report.cause not in RESOURCE and not _timed_out(failure):
        return None
    probes = _rejecting(failure.construction, ("resource",))
    if probes:
        texts = tuple(entry.text for entry in probes)
        return Finding(_narrowest(failure, (entry.node for entry in probes)), "medium", texts)
    suspects = tuple(
        item.node
        for item in failure.construction.implementations
        if _compatible(failure, item.node)
        and exceeds_budget(item.code, failure.construction.graph.node(item.node).budget)
    )
    if suspects:
        said = tuple(f"{name}: its loops are nested deeper than its budget allows" for name in suspects)
        return Finding(_narrowest(failure, suspects), "medium", said)
    looping = tuple(
        item.node
        for item in failure.construction.implementations
        if _compatible(failure, item.node) and has_loop(item.code)
    )
    if len(looping) == 1:
        return Finding(
            looping, "low", (f"{looping[0]}: the only code with a loop that the failure can be in",)
        )
    return None


def _timed_out(failure: Failure) -> bool:
    """Whether a failing test itself was ended for its time."""
    seen = (failure.report.failures.get(test) for test in failure.failing)
    return any(item is not None and "timeout" in item.exception.lower() for item in seen)


def _by_local_rejection(failure: Failure) -> Finding | None:
    """R3: a rejected check, interface or syntax that a failing test can be explained by."""
    rejected = _rejecting(failure.construction, ("check", "signature", "syntax", "applies"))
    fitting = [entry for entry in rejected if _compatible(failure, entry.node)]
    if not fitting:
        return None
    nodes = _narrowest(failure, (entry.node for entry in fitting))
    executed = any(entry.kind == "check" for entry in fitting if entry.node in nodes)
    confidence: Confidence = "medium" if executed and failure.reached is not None else "low"
    return Finding(nodes, confidence, tuple(entry.text for entry in fitting if entry.node in nodes))


def _by_coverage(failure: Failure) -> Finding | None:
    """The one node that failing tests ran and passing ones ran clearly less.

    A node whose own checks were executed and all hold is not accused by coverage alone: where the tests are
    wrong, coverage always names somebody (measured in benchmarks/audit_localization.py).
    """
    ranked = sorted(failure.scores.items(), key=lambda item: (-item[1], item[0]))
    if not ranked or ranked[0][1] <= 0:
        return None
    if len(ranked) > 1 and ranked[0][1] - ranked[1][1] < MARGIN:
        return None
    node, score = ranked[0]
    if _cleared(failure.construction, node):
        return None
    return Finding(
        (node,), "low", (f"{node}: suspiciousness {score:.2f} by coverage, the next is clearly less",)
    )


def _cleared(construction: Construction, node: str) -> bool:
    own = [entry for entry in construction.evidence if entry.node == node and entry.kind == "check"]
    return bool(own) and all(entry.passed for entry in own)


def _rejecting(construction: Construction, kinds: Sequence[str]) -> list[Evidence]:
    return [entry for entry in construction.evidence if not entry.passed and entry.kind in kinds]


def _compatible(failure: Failure, node: str) -> bool:
    """Whether a failing test ran the node's code, where that is known."""
    return failure.reached is None or node in failure.reached


def _narrowest(failure: Failure, nodes: Iterable[str]) -> tuple[str, ...]:
    """Of nodes that depend on each other the ones at the source: a later check fails for them, too."""
    names = tuple(dict.fromkeys(nodes))
    above = {name: upstream(failure.construction.graph, name) for name in names}
    return tuple(name for name in names if not above[name].intersection(names))


_RULES: Mapping[Rule, Callable[[Failure], Finding | None]] = {
    "R1": _by_traceback,
    "R2": _by_resource,
    "R3": _by_local_rejection,
    "coverage": _by_coverage,
}
