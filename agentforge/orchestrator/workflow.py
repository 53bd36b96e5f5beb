"""Workflows as data: nodes, guarded edges and limits, checked when loaded (design, section 4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import Field, ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError
from agentforge.core.state import RunState

END = "end"
Predicate = Callable[[RunState], bool]


class Edge(Frozen):
    """From one node to the next. `when` names a predicate; `loop` edges start a new round."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    when: str | None = None
    loop: bool = False


class WorkflowFile(Frozen):
    """The YAML file as written."""

    name: str
    description: str = ""
    needs_model: bool = True
    rounds: int | None = Field(default=None, ge=0)
    """Loop budget; absent: `retries` of the settings."""
    start: str
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class Workflow:
    """A checked workflow. `hash` identifies the resolved graph; runs with other hashes are not pooled."""

    file: WorkflowFile
    edges: Mapping[str, tuple[Edge, ...]]

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def hash(self) -> str:
        graph = json.dumps(self.file.model_dump(by_alias=True), sort_keys=True)
        return hashlib.sha256(graph.encode()).hexdigest()[:16]

    def next_edge(self, node: str, state: RunState, predicates: Mapping[str, Predicate]) -> Edge:
        """The first edge out of `node` whose guard holds; a loop edge only while rounds are left."""
        for edge in self.edges[node]:
            if edge.loop and state.round >= state.budget:
                continue
            if edge.when is None or predicates[edge.when](state):
                return edge
        raise ConfigError(
            f"workflow {self.name}: no way on from node {node!r}", hint="add an edge without `when`"
        )


def load_workflow(
    name: str,
    nodes: Mapping[str, tuple[str, ...]],
    predicates: Iterable[str],
    source: Path | None = None,
    *,
    needs: Mapping[str, frozenset[str]] = MappingProxyType({}),
    asks_model: frozenset[str] = frozenset(),
) -> Workflow:
    """Read and check a workflow; `nodes` maps every known node to the fields it writes, `needs` to those
    that must have been written before it; `asks_model` are the nodes that cannot do without a model.

    Raises `ConfigError` naming the file and what is wrong with it.
    """
    data = _read(name, source)
    try:
        file = WorkflowFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"workflow {name}: {place}: {first['msg']}") from None
    workflow = check_workflow(file, nodes, predicates)
    for problem in (*_unwritten(file, nodes, needs), *_without_model(file, asks_model)):
        raise ConfigError(f"workflow {file.name}: {problem}")
    return workflow


def check_workflow(
    file: WorkflowFile, nodes: Mapping[str, tuple[str, ...]], predicates: Iterable[str]
) -> Workflow:
    """Check the graph. Raises `ConfigError` naming the first thing wrong with it."""
    problems = list(_problems(file, nodes, frozenset(predicates)))
    if problems:
        raise ConfigError(f"workflow {file.name}: {problems[0]}")
    grouped: dict[str, tuple[Edge, ...]] = {}
    for edge in file.edges:
        grouped[edge.source] = (*grouped.get(edge.source, ()), edge)
    return Workflow(file, grouped)


def shipped_workflows() -> tuple[str, ...]:
    """Names of the workflows inside the package."""
    folder = resources.files("agentforge") / "configs" / "workflows"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def _read(name: str, source: Path | None) -> Any:
    shipped = shipped_workflows()
    if source is None and name in shipped:
        text = (resources.files("agentforge") / "configs" / "workflows" / f"{name}.yaml").read_text("utf-8")
    else:
        path = source or Path(name)
        if path.suffix not in {".yaml", ".yml"} or not path.is_file():
            raise ConfigError(
                f"unknown workflow {name!r}", hint=f"one of: {', '.join(shipped)}, or a YAML file"
            )
        text = _file_text(path)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(
            f"workflow {name}:{line} is not valid YAML", hint=getattr(error, "problem", "")
        ) from None


def _file_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"workflow {path}: is not UTF-8 text", hint="convert it with iconv") from None
    except OSError as error:
        raise ConfigError(f"workflow {path}: cannot be read: {error.strerror}") from None


def _problems(
    file: WorkflowFile, nodes: Mapping[str, tuple[str, ...]], predicates: frozenset[str]
) -> Iterable[str]:
    used = {edge.source for edge in file.edges} | {edge.target for edge in file.edges} | {file.start}
    for name in sorted(used - nodes.keys() - {END}):
        yield f"unknown node {name!r}; known: {', '.join(sorted(nodes))}"
    for edge in file.edges:
        if edge.when is not None and edge.when not in predicates:
            yield f"unknown predicate {edge.when!r} on {edge.source} -> {edge.target}"
    for name in sorted(used - {END}):
        outgoing = [edge for edge in file.edges if edge.source == name]
        if not any(edge.when is None and not edge.loop for edge in outgoing):
            yield f"node {name!r} needs a last edge without `when` and without `loop`"
    yield from _unreachable(file, used)
    yield from _cycles_without_loop(file)
    yield from _double_writers(used, nodes)


def _reached(file: WorkflowFile, closed: frozenset[str] = frozenset()) -> set[str]:
    """Every node to which a way leads from the start, none through (but perhaps to) a `closed` one."""
    seen: set[str] = set()
    todo = [file.start]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [edge.target for edge in file.edges if edge.source == node and node not in closed]
    return seen


def _unwritten(
    file: WorkflowFile, nodes: Mapping[str, tuple[str, ...]], needs: Mapping[str, frozenset[str]]
) -> Iterable[str]:
    """Nodes that can be reached although nothing wrote what they need."""
    for field in sorted(frozenset().union(*needs.values())):
        writers = frozenset(name for name, writes in nodes.items() if field in writes)
        for name in sorted(_reached(file, writers)):
            if field in needs.get(name, ()):
                yield f"node {name!r} needs {field!r}, and a way leads to it on which no node writes that"


def _without_model(file: WorkflowFile, asks_model: frozenset[str]) -> Iterable[str]:
    if not file.needs_model:
        for name in sorted(_reached(file) & asks_model):
            yield f"node {name!r} asks a model, and the workflow says `needs_model: false`"


def _unreachable(file: WorkflowFile, used: set[str]) -> Iterable[str]:
    seen = _reached(file)
    for name in sorted(used - seen - {END}):
        yield f"node {name!r} cannot be reached from {file.start!r}"
    if END not in seen:
        yield f"{END!r} cannot be reached from {file.start!r}"


def _cycles_without_loop(file: WorkflowFile) -> Iterable[str]:
    """Every cycle must pass a `loop` edge, so that the budget bounds it (ExecuGraph, 3.2)."""
    following: dict[str, list[str]] = {}
    for edge in file.edges:
        if not edge.loop:
            following.setdefault(edge.source, []).append(edge.target)
    done: set[str] = set()

    def cyclic(node: str, path: tuple[str, ...]) -> str | None:
        if node in path:
            return node
        if node in done:
            return None
        found = next(
            (hit for after in following.get(node, ()) if (hit := cyclic(after, (*path, node)))), None
        )
        done.add(node)
        return found

    if name := cyclic(file.start, ()):
        yield f"the cycle through {name!r} has no edge marked `loop: true`"


def _double_writers(used: set[str], nodes: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    owner: dict[str, str] = {}
    for name in sorted(used & nodes.keys()):
        for field in nodes[name]:
            if field in owner:
                yield f"{owner[field]!r} and {name!r} both write {field!r}"
            owner[field] = name
