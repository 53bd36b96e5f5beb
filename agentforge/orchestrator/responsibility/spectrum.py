"""Test coverage by responsibility: Ochiai (Abreu, Zoeteweij and van Gemund 2006) over owned lines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from agentforge.core.paths import is_test_path
from agentforge.core.ports import LineCoverage
from agentforge.core.responsibility import Construction
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.ownership import owner_of
from agentforge.orchestrator.responsibility.units import units_of_lines
from agentforge.search.localize import ochiai


class Spectrum(NamedTuple):
    """Score by node, and the nodes whose code a failing test ran."""

    scores: Mapping[str, float]
    reached: frozenset[str]


def node_scores(
    construction: Construction,
    tree: Tree,
    coverage: LineCoverage,
    failing: Collection[str],
    passing: Collection[str],
) -> Spectrum:
    """The most suspicious line of each node counts: a node that everything runs may hold the one line
    that only failures reach. Lines that run at import say nothing and are not in `coverage`."""
    owners = _line_owners(construction, tree, {path for lines in coverage.values() for path in lines})
    failed = _tally(coverage, failing, owners)
    passed = _tally(coverage, passing, owners)
    total = sum(test in coverage for test in failing)
    scores: dict[str, float] = {}
    for place, count in failed.items():
        score = ochiai(count, passed.get(place, 0), total)
        scores[owners[place]] = max(scores.get(owners[place], 0.0), score)
    return Spectrum(scores, frozenset(scores))


def _line_owners(
    construction: Construction, tree: Tree, paths: Collection[str]
) -> dict[tuple[str, int], str]:
    owners: dict[tuple[str, int], str] = {}
    for path in sorted(paths):
        if is_test_path(path) or tree.kind(path) != "file":
            continue
        for number, unit in enumerate(units_of_lines(path, tree.read(path).data), 1):
            owner = owner_of(construction.graph, construction.ownership, unit) if "::" in unit else None
            if owner is not None:
                owners[path, number] = owner
    return owners


def _tally(
    coverage: LineCoverage, tests: Collection[str], owners: Mapping[tuple[str, int], str]
) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = {}
    for test in tests:
        for path, lines in coverage.get(test, {}).items():
            for line in lines:
                if (path, line) in owners:
                    counts[path, line] = counts.get((path, line), 0) + 1
    return counts
