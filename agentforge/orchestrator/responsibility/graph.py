"""The task graph: what makes it valid, and the regions a repair may take (AuditCoder, 3.1, 3.4 and D)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentforge.core.responsibility import Graph, Responsibility

MAX_DEPTH = 3
MAX_CHILDREN = 5
MAX_NODES = 16


def graph_problems(graph: Graph) -> tuple[str, ...]:
    """What is wrong with a graph, in words a model can act on; empty for a valid one.

    GraphValid (AuditCoder, D): nonempty unique ids, a resolvable root, valid references, acyclic parents,
    no duplicate in the order, the order being the leaves; and ours: acyclic dependencies, depth and width.
    """
    return tuple(dict.fromkeys((*structural_problems(graph), *_shape_problems(graph))))


def structural_problems(graph: Graph) -> tuple[str, ...]:
    """GraphValid alone, which the graph-integrity rate counts."""
    problems = [*_id_problems(graph), *_reference_problems(graph), *_order_problems(graph)]
    if not problems and _cyclic({node.id: ((node.parent,) if node.parent else ()) for node in graph.nodes}):
        problems.append("the parents form a cycle")
    return tuple(problems)


def _id_problems(graph: Graph) -> Iterator[str]:
    ids = graph.ids
    if not ids:
        yield "there is no node"
    for identifier in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"the id {identifier} is used more than once"


def _reference_problems(graph: Graph) -> Iterator[str]:
    known = set(graph.ids)
    roots = [node.id for node in graph.nodes if not node.parent]
    if graph.nodes and len(roots) != 1:
        yield f"there must be one root (a node without parent); there are {len(roots)}"
    for node in graph.nodes:
        if node.parent and node.parent not in known:
            yield f"{node.id}: its parent {node.parent} does not exist"
        for name in node.depends_on:
            if name not in known:
                yield f"{node.id}: it depends on {name}, which does not exist"
        for name, source in node.provenance.items():
            origin = source.partition(".")[0]
            if source not in ("task", "local") and origin not in known:
                yield f'{node.id}: input {name} comes from {source}; give "task", "local" or "ID.output"'


def _order_problems(graph: Graph) -> Iterator[str]:
    leaves = [node.id for node in graph.nodes if node.leaf]
    for identifier in sorted({name for name in graph.order if graph.order.count(name) > 1}):
        yield f"the order names {identifier} twice"
    if set(graph.order) != set(leaves):
        yield f"the order must name the leaves and nothing else: {', '.join(sorted(leaves))}"


def _shape_problems(graph: Graph) -> Iterator[str]:
    if structural_problems(graph):
        return
    needs = {node.id: node.depends_on for node in graph.nodes}
    if _cyclic(needs):
        yield "the dependencies form a cycle"
    else:
        yield from _late_dependencies(graph)
    parents = {node.parent for node in graph.nodes if node.parent}
    for node in graph.nodes:
        if node.leaf and node.id in parents:
            yield f"{node.id} is a leaf and has children"
    if len(graph.nodes) > MAX_NODES:
        yield f"there are {len(graph.nodes)} nodes; give at most {MAX_NODES}"
    for node in graph.nodes:
        if len(children(graph, node.id)) > MAX_CHILDREN:
            yield f"{node.id} has more than {MAX_CHILDREN} children"
        if len(ancestors(graph, node.id)) > MAX_DEPTH:
            yield f"{node.id} lies deeper than {MAX_DEPTH} levels under the root"
    yield from ownership_problems(graph)


def _late_dependencies(graph: Graph) -> Iterator[str]:
    place = {name: number for number, name in enumerate(graph.order)}
    for node in graph.nodes:
        for name in node.depends_on:
            if place.get(name, -1) > place.get(node.id, len(place)):
                yield f"{node.id} comes before {name}, on which it depends"


def ownership_problems(graph: Graph) -> Iterator[str]:
    """Code that two nodes claim in the same words: the map would not be a function (AuditCoder, B.3)."""
    claims: dict[str, str] = {}
    for node in graph.nodes:
        if not node.owns_code:
            continue
        for claim in claims_of(node):
            if claim in claims:
                yield f"{claims[claim]} and {node.id} both own {claim}"
            claims.setdefault(claim, node.id)


def claims_of(node: Responsibility) -> tuple[str, ...]:
    """What a node declares to own: units, or whole files where it names no symbol."""
    if not node.symbols:
        return node.files
    if len(node.files) == 1:
        return tuple(f"{node.files[0]}::{symbol_name(symbol)}" for symbol in node.symbols)
    return tuple(dict.fromkeys(_qualified(symbol, node.files) for symbol in node.symbols))


def _qualified(symbol: str, files: tuple[str, ...]) -> str:
    path, found, name = symbol.partition("::")
    return f"{path}::{symbol_name(name)}" if found and path in files else f"*::{symbol_name(symbol)}"


def symbol_name(symbol: str) -> str:
    """ "path::A::f()" and "A.f" alike as "A.f"."""
    text = symbol.strip().removesuffix("()")
    parts = [part for part in text.split("::") if part and not part.endswith((".py", ".pyi"))]
    return ".".join(parts)


def _cyclic(edges: dict[str, tuple[str, ...]]) -> bool:
    done: set[str] = set()
    waiting = dict(edges)
    while waiting:
        free = [name for name, needs in waiting.items() if done.issuperset(set(needs) & edges.keys())]
        if not free:
            return True
        for name in free:
            done.add(name)
            del waiting[name]
    return False


def children(graph: Graph, identifier: str) -> tuple[str, ...]:
    return tuple(node.id for node in graph.nodes if node.parent == identifier)


def ancestors(graph: Graph, identifier: str) -> tuple[str, ...]:
    """From the parent up to the root."""
    found: list[str] = []
    node = graph.node(identifier)
    while node.parent and node.parent not in found:
        found.append(node.parent)
        node = graph.node(node.parent)
    return tuple(found)


def subtree(graph: Graph, identifier: str) -> tuple[str, ...]:
    """The node and all below it, in the graph's own order."""
    return tuple(n.id for n in graph.nodes if n.id == identifier or identifier in ancestors(graph, n.id))


def error_branch(graph: Graph, identifier: str) -> str:
    """EB(z) by default: the first ancestor below the root on the way to the node; "" without one.

    (AuditCoder, 3.4: v0 -> v1 -> ... -> v, the default root is v1.) A node right under the root has none.
    """
    chain = (identifier, *ancestors(graph, identifier))
    return chain[-2] if len(chain) > 2 else ""


def common_branch(graph: Graph, nodes: Iterable[str]) -> str:
    """The deepest node, not the root, whose subtree holds all of `nodes`; "" where only the root does."""
    names = list(dict.fromkeys(nodes))
    if not names:
        return ""
    chains = [(name, *ancestors(graph, name)) for name in names]
    shared = [name for name in chains[0] if all(name in chain for chain in chains)]
    return shared[0] if shared and graph.node(shared[0]).parent else ""


def upstream(graph: Graph, identifier: str) -> frozenset[str]:
    """Everything that a node depends on, directly or not: its dependencies, sources, and for an inner
    node its children."""
    found: set[str] = set()
    todo = [identifier]
    while todo:
        name = todo.pop()
        for needed in _needs(graph, name):
            if needed not in found and needed != identifier:
                found.add(needed)
                todo.append(needed)
    return frozenset(found)


def _needs(graph: Graph, identifier: str) -> Iterator[str]:
    node = graph.node(identifier)
    known = set(graph.ids)
    yield from (name for name in node.depends_on if name in known)
    sources = (source.partition(".")[0] for source in node.provenance.values())
    yield from (name for name in sources if name in known)
    yield from children(graph, identifier)
