"""The ownership map µ: every registered unit of code has exactly one responsibility (AuditCoder, 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agentforge.core.paths import is_test_path
from agentforge.core.responsibility import Construction, Graph, IntegrationException, Responsibility
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.graph import claims_of
from agentforge.orchestrator.responsibility.units import changed_units, path_of, units_in


def declared_owner(graph: Graph, unit: str) -> str | None:
    """The node that claims `unit`: by its name, by its class, or by its file, the nearest claim first."""
    best: tuple[int, str] | None = None
    for node in graph.nodes:
        if node.owns_code:
            strength = _claim(node, unit)
            if strength and (best is None or strength > best[0]):
                best = (strength, node.id)
    return best[1] if best else None


def _claim(node: Responsibility, unit: str) -> int:
    """How directly `node` claims `unit`: 0 not at all, 1 its file, more for each part of its name."""
    path, _, name = unit.partition("::")
    if path not in node.files:
        return 0
    if not node.symbols:
        return 1
    strength = 0
    for claim in claims_of(node):
        where, _, claimed = claim.partition("::")
        if where in (path, "*") and claimed and (name == claimed or name.startswith(claimed + ".")):
            strength = max(strength, 2 + claimed.count("."))
    return strength


class Registration(NamedTuple):
    """What an edit by one node did: units it registered, and borders it crossed."""

    ownership: Mapping[str, str]
    exceptions: tuple[IntegrationException, ...]


def register(
    graph: Graph, ownership: Mapping[str, str], node: str, before: Tree, after: Tree, paths: Iterable[str]
) -> Registration:
    """`ownership` after `node` turned `before` into `after` (RegisterOwnedUnits, Algorithm 1).

    A changed unit that nobody owns becomes the node's. One that another node owns stays that node's, and
    the edit is recorded as an integration exception.
    """
    touched = sorted(set(paths))
    owned = dict(ownership)
    exceptions: list[IntegrationException] = []
    for unit in changed_units(units_in(before, touched), units_in(after, touched)):
        owner = owned.get(unit) or declared_owner(graph, unit) or node
        owned[unit] = owner
        if owner != node:
            why = f"the edit of {node} changes {unit}, which {owner} is responsible for"
            exceptions.append(IntegrationException(by=node, owner=owner, region=unit, rationale=why))
    return Registration(owned, tuple(exceptions))


def owner_of(graph: Graph, ownership: Mapping[str, str], unit: str) -> str | None:
    """µ(unit): as registered, else as declared; None where nobody owns it."""
    return ownership.get(unit) or declared_owner(graph, unit)


def ownership_over(graph: Graph, ownership: Mapping[str, str], tree: Tree) -> dict[str, str]:
    """µ over every unit of the files that nodes declare or registered, as `tree` holds them."""
    paths = {path for node in graph.nodes for path in node.files} | {path_of(unit) for unit in ownership}
    files = [path for path in paths if tree.kind(path) == "file" and not is_test_path(path)]
    owners = {unit: owner_of(graph, ownership, unit) for unit in units_in(tree, files)}
    return {unit: owner for unit, owner in owners.items() if owner is not None}


def bundles(graph: Graph, ownership: Mapping[str, str], tree: Tree) -> dict[str, dict[str, bytes]]:
    """c of every node that owns code: unit -> bytes in `tree`; a registered unit that is gone is left out."""
    found: dict[str, dict[str, bytes]] = {name: {} for name in graph.owners}
    code = units_in(tree, {path_of(unit) for unit in ownership_over(graph, ownership, tree)})
    for unit, owner in ownership_over(graph, ownership, tree).items():
        found.setdefault(owner, {})[unit] = code[unit]
    return found


def crossed(construction: Construction, frozen: Iterable[str], before: Tree, after: Tree) -> tuple[str, ...]:
    """Units of `frozen` nodes whose bytes differ: the preservation invariant fails for them.

    Compared byte by byte over everything that the frozen nodes own before or after.
    """
    kept = set(frozen)
    one = bundles(construction.graph, construction.ownership, before)
    other = bundles(construction.graph, construction.ownership, after)
    return tuple(
        unit
        for node in sorted(kept)
        for unit in sorted(one.get(node, {}).keys() | other.get(node, {}).keys())
        if one.get(node, {}).get(unit) != other.get(node, {}).get(unit)
    )
