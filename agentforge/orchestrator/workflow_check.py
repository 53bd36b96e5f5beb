"""What can be wrong with a workflow, all of it found at load: each problem with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from pydantic import ValidationError

from agentforge.core.base import Frozen
from agentforge.core.state import RunState
from agentforge.orchestrator.node import Node
from agentforge.orchestrator.workflow import END, MAIN, WorkflowFile

Loc = tuple[str | int, ...]
Problem = tuple[Loc, str]
Nodes = Mapping[str, Node[Any]]


def problems_of(file: WorkflowFile, nodes: Nodes, predicates: frozenset[str]) -> Iterator[Problem]:
    """Everything that is wrong with `file`; the graph is looked at only where its names are known."""
    if file.stages:
        yield from _stage_problems(file)
        return
    if not file.start or not file.edges:
        yield (), "needs `start` and `edges`, or `stages`"
        return
    names = [*_unknown_names(file, nodes, predicates)]
    yield from names
    yield from _loops(file)
    if not names:
        graph = _Graph(file, nodes)
        yield from graph.problems()


def _stage_problems(file: WorkflowFile) -> Iterator[Problem]:
    for name in ("start", "edges", "nodes", "loops", "options", "rounds", "shared"):
        if getattr(file, name):
            yield (name,), f"`{name}` has no effect beside `stages`"
    names = [stage.name or stage.workflow for stage in file.stages]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("stages", number), f"two stages are called {name!r}; give one a `name`"


def resolved_options(node: Node[Any], file: WorkflowFile, name: str) -> Frozen:
    """The parameters of one use of `node`: its own before the file's. Raises `ValidationError`."""
    own = file.nodes[name].given if name in file.nodes else {}
    common = {key: value for key, value in file.options.items() if key in node.options.model_fields}
    return node.options.model_validate({**common, **own})


def _unknown_names(file: WorkflowFile, nodes: Nodes, predicates: frozenset[str]) -> Iterator[Problem]:
    names = {*nodes, *file.nodes}
    for name, use in file.nodes.items():
        yield from _use_problems(name, use.use, use.parallel, file, nodes)
    if file.start not in nodes and file.start not in file.nodes:
        yield ("start",), f"unknown node {file.start!r}; {_near(file.start, names)}"
    for number, edge in enumerate(file.edges):
        for key, name in (("from", edge.source), ("to", edge.target)):
            if name not in nodes and name not in file.nodes and (name != END or key == "from"):
                yield ("edges", number, key), f"unknown node {name!r}; {_near(name, names)}"
        if edge.when is not None and edge.when not in predicates:
            where = f"{edge.source} -> {edge.target}"
            near = _near(edge.when, predicates)
            yield ("edges", number, "when"), f"unknown predicate {edge.when!r} on {where}; {near}"
        if edge.loop and edge.loop != MAIN and edge.loop not in file.loops:
            yield ("edges", number, "loop"), f"loop {edge.loop!r} has no budget under `loops`"


def _near(name: str, known: Iterable[str]) -> str:
    """What may have been meant; everything there is where nothing comes close."""
    close = get_close_matches(name, known, 2, 0.6)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(sorted(known))}"


def _use_problems(
    name: str, use: str | None, parallel: tuple[tuple[str, ...], ...], file: WorkflowFile, nodes: Nodes
) -> Iterator[Problem]:
    place: Loc = ("nodes", name)
    if name == END:
        yield place, f"{END!r} is the end of every workflow, not a node"
    if parallel and use is not None:
        yield place, "`use` and `parallel` exclude each other"
    if parallel and len(parallel) < 2:
        yield (*place, "parallel"), "one branch alone is not parallel"
    if not parallel and (use or name) not in nodes:
        yield place, f"unknown node {use or name!r}; {_near(use or name, nodes)}"
    for number, branch in enumerate(parallel):
        for member in branch:
            if member not in nodes and (member not in file.nodes or file.nodes[member].parallel):
                yield (*place, "parallel", number), f"unknown node {member!r} in a branch"


def _loops(file: WorkflowFile) -> Iterator[Problem]:
    turned = {edge.loop for edge in file.edges}
    for name, loop in file.loops.items():
        if name == MAIN:
            yield ("loops", name), "the budget of the main loop is `rounds`"
        elif name not in turned:
            yield ("loops", name), f"loop {name!r} has no effect: no edge says `loop: {name}`"
        if loop.within is not None and loop.within != MAIN and loop.within not in file.loops:
            yield ("loops", name), f"loop {name!r} is within {loop.within!r}, which is no loop"
        elif name in _outer(name, file):
            yield ("loops", name), f"loop {name!r} is within itself"
    if file.rounds and MAIN not in turned:
        yield ("rounds",), "`rounds` has no effect: no edge says `loop: true`"


def _outer(name: str, file: WorkflowFile) -> list[str]:
    """The loops around `name`, innermost first; ends with the first that comes twice."""
    seen: list[str] = []
    loop = file.loops[name].within
    while loop is not None and loop in file.loops and loop not in seen:
        seen.append(loop)
        loop = file.loops[loop].within
    return seen


class _Graph:
    """A file whose every name is known."""

    def __init__(self, file: WorkflowFile, nodes: Nodes) -> None:
        self.file, self.nodes = file, nodes
        targets = {edge.target for edge in file.edges} - {END}
        self.vertices = sorted({edge.source for edge in file.edges} | targets | {file.start})

    def problems(self) -> Iterator[Problem]:
        yield from self._ways_on()
        yield from self._unreachable()
        yield from self._cycles()
        yield from self._branches()
        yield from self._writers()
        yield from self._unwritten()
        yield from self._without_model()
        yield from self._options()

    def node(self, name: str) -> Node[Any]:
        use = self.file.nodes.get(name)
        return self.nodes[use.use if use is not None and use.use else name]

    def members(self, vertex: str) -> list[str]:
        """The nodes behind one vertex: all of a parallel group, else itself."""
        use = self.file.nodes.get(vertex)
        return [name for branch in use.parallel for name in branch] if use and use.parallel else [vertex]

    def writes(self, vertex: str) -> frozenset[str]:
        return frozenset().union(*(self.node(name).writes for name in self.members(vertex)))

    def place(self, vertex: str) -> Loc:
        """Where the file first speaks of it."""
        if vertex in self.file.nodes:
            return ("nodes", vertex)
        spoken = (
            ("edges", number, key)
            for number, edge in enumerate(self.file.edges)
            for key, name in (("from", edge.source), ("to", edge.target))
            if name == vertex
        )
        return next(spoken, ("start",))

    def _ways_on(self) -> Iterator[Problem]:
        for name in self.vertices:
            sure = False
            for number, edge in enumerate(self.file.edges):
                if edge.source != name:
                    continue
                if sure:
                    yield (
                        ("edges", number),
                        f"{name} -> {edge.target} is never taken: an edge before it always is",
                    )
                sure = sure or (edge.when is None and not edge.loop)
            if not sure:
                yield self.place(name), f"node {name!r} needs a last edge without `when` and without `loop`"

    def _reached(self, closed: frozenset[str] = frozenset()) -> set[str]:
        """Every vertex to which a way leads from the start, none through (but perhaps to) a `closed` one."""
        seen: set[str] = set()
        todo = [self.file.start]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += [
                    edge.target for edge in self.file.edges if edge.source == name and name not in closed
                ]
        return seen

    def _unreachable(self) -> Iterator[Problem]:
        seen = self._reached()
        for name in self.vertices:
            if name not in seen:
                yield self.place(name), f"node {name!r} cannot be reached from {self.file.start!r}"
        if END not in seen:
            yield ("start",), f"{END!r} cannot be reached from {self.file.start!r}"
        used = set(self.vertices).union(*(self.members(vertex) for vertex in self.vertices))
        for name in self.file.nodes.keys() - used:
            yield ("nodes", name), f"node {name!r} has no effect: no edge leads to it"

    def _cycles(self) -> Iterator[Problem]:
        """Every cycle must turn a loop, so that a budget bounds it (ExecuGraph, 3.2)."""
        following: dict[str, list[str]] = {}
        for edge in self.file.edges:
            if not edge.loop:
                following.setdefault(edge.source, []).append(edge.target)
        done: set[str] = set()

        def cyclic(name: str, path: tuple[str, ...]) -> str | None:
            if name in path:
                return name
            if name in done:
                return None
            after = (hit for target in following.get(name, ()) if (hit := cyclic(target, (*path, name))))
            found = next(after, None)
            done.add(name)
            return found

        if name := cyclic(self.file.start, ()):
            yield self.place(name), f"the cycle through {name!r} has no edge marked `loop: true`"

    def _branches(self) -> Iterator[Problem]:
        for group, use in self.file.nodes.items():
            for (one, first), (other, second) in combinations(enumerate(use.parallel), 2):
                yield from self._conflict((group, one, other), first, second)

    def _conflict(
        self, at: tuple[str, int, int], first: Iterable[str], second: Iterable[str]
    ) -> Iterator[Problem]:
        group, one, other = at
        place = ("nodes", group, "parallel", other)
        if self._asks(first) and self._asks(second):
            text = (
                f"branches {one + 1} and {other + 1} of {group!r} both ask a model, whose calls have an order"
            )
            yield place, text
        written = [self._touched(branch, "writes") for branch in (first, second)]
        read = [self._touched(branch, "reads") for branch in (first, second)]
        for name in sorted(written[0] & written[1]):
            yield place, f"branches {one + 1} and {other + 1} of {group!r} both write {name!r}"
        for name in sorted((written[0] & read[1]) | (written[1] & read[0])):
            yield (
                place,
                f"one of branches {one + 1} and {other + 1} of {group!r} reads {name!r}, the other writes it",
            )

    def _asks(self, branch: Iterable[str]) -> bool:
        return any(self.node(name).asks_model for name in branch)

    def _touched(self, branch: Iterable[str], how: str) -> frozenset[str]:
        found: frozenset[str] = frozenset().union(*(getattr(self.node(name), how) for name in branch))
        return found | frozenset({"reproduced", "synthesized"} if found & {"generated", "targets"} else ())

    def _writers(self) -> Iterator[Problem]:
        """A field has one writing implementation, unless the file says that it is shared."""
        writers: dict[str, dict[str, str]] = {}
        for vertex in self.vertices:
            for name in self.members(vertex):
                for field in self.node(name).writes:
                    writers.setdefault(field, {}).setdefault(self.node(name).name, name)
        for field, by in sorted(writers.items()):
            names = sorted(by.values())
            if len(names) > 1 and field not in self.file.shared:
                text = f"{names[0]!r} and {names[1]!r} both write {field!r} (`shared: [{field}]` allows it)"
                yield self.place(names[1]), text
        for number, field in enumerate(self.file.shared):
            if field not in RunState.model_fields:
                yield ("shared", number), f"{field!r} is no field of the state"
            elif len(writers.get(field, ())) < 2:
                yield ("shared", number), f"`shared: {field}` has no effect: no two nodes write it"

    def _unwritten(self) -> Iterator[Problem]:
        """Nodes that can be reached although nothing wrote what they need."""
        for field in sorted({field for vertex in self.vertices for field in self._needs(vertex)}):
            writers = frozenset(vertex for vertex in self.vertices if field in self.writes(vertex))
            for vertex in sorted(self._reached(writers) - {END}):
                if field in self._needs(vertex):
                    text = (
                        f"node {vertex!r} needs {field!r}, and a way leads to it on which no node writes that"
                    )
                    yield self.place(vertex), text

    def _needs(self, vertex: str) -> frozenset[str]:
        use = self.file.nodes.get(vertex)
        needed: set[str] = set()
        for branch in use.parallel if use is not None and use.parallel else ((vertex,),):
            written: set[str] = set()
            for name in branch:
                needed |= self.node(name).needs - written
                written |= self.node(name).writes
        return frozenset(needed)

    def _without_model(self) -> Iterator[Problem]:
        if self.file.needs_model:
            return
        for vertex in self.vertices:
            for name in self.members(vertex):
                if self.node(name).asks_model:
                    text = f"node {name!r} asks a model, and the workflow says `needs_model: false`"
                    yield self.place(vertex), text

    def _options(self) -> Iterator[Problem]:
        taken: set[str] = set()
        for vertex in self.vertices:
            for name in self.members(vertex):
                taken |= self.node(name).options.model_fields.keys()
                yield from self._bad_options(name)
        for key in self.file.options.keys() - taken:
            yield ("options", key), f"option {key!r} has no effect: no node of this workflow has it"

    def _bad_options(self, name: str) -> Iterator[Problem]:
        node, own = self.node(name), self.file.nodes[name].given if name in self.file.nodes else {}
        try:
            resolved_options(node, self.file, name)
        except ValidationError as error:
            for entry in error.errors():
                key = str(entry["loc"][0]) if entry["loc"] else ""
                place: Loc = ("nodes", name, "with", key) if key in own else ("options", key)
                known = ", ".join(sorted(node.options.model_fields)) or "none"
                yield place, f"option {key!r} of node {name!r}: {entry['msg']}; its options: {known}"
