"""Reading workflow files: YAML with line numbers, what they extend, the workflows of their stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from agentforge.core.errors import ConfigError
from agentforge.orchestrator.node import Node, Share
from agentforge.orchestrator.workflow import Edge, Stage, StageFile, Use, Workflow, WorkflowFile
from agentforge.orchestrator.workflow_check import Loc, Problem, problems_of, resolved_options

MAX_DEPTH = 8
"""How deep workflows may extend and contain one another."""


@dataclass(frozen=True)
class Source:
    """Where a workflow was read, for complaints that name file and line."""

    file: str
    lines: Mapping[Loc, int] = field(default_factory=dict)

    def complaint(self, problem: Problem) -> str:
        loc, text = problem
        while loc and loc not in self.lines:
            loc = loc[:-1]
        line = self.lines.get(loc)
        return f"{self.file}:{line}: {text}" if line is not None else f"{self.file}: {text}"


class WorkflowError(ConfigError):
    """A workflow file that cannot be used; `complaints` (`file:line: …`) are all that is wrong with it."""

    def __init__(self, complaints: Iterable[str], *, hint: str = "") -> None:
        self.complaints = tuple(complaints)
        super().__init__("\n".join(self.complaints), hint=hint)


def shipped_workflows() -> tuple[str, ...]:
    """Names of the workflows inside the package."""
    folder = resources.files("agentforge") / "configs" / "workflows"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_workflow(
    name: str,
    nodes: Mapping[str, Node[Any]],
    predicates: Iterable[str],
    source: Path | None = None,
) -> Workflow:
    """Read and check a workflow: a shipped name, or the path of a file. Raises `WorkflowError`."""
    file, where = read_workflow(name, source)
    return build_workflow(file, nodes, predicates, where)


def build_workflow(
    file: WorkflowFile, nodes: Mapping[str, Node[Any]], predicates: Iterable[str], where: Source | None = None
) -> Workflow:
    """The workflow of a resolved file. Raises `WorkflowError` with everything that is wrong with it."""
    where = where or Source(f"workflow {file.name}")
    known = frozenset(predicates)
    problems = sorted(problems_of(file, nodes, known), key=lambda problem: where.complaint(problem))
    if problems:
        raise WorkflowError(dict.fromkeys(where.complaint(problem) for problem in problems))
    grouped: dict[str, tuple[Edge, ...]] = {}
    for edge in file.edges:
        grouped[edge.source] = (*grouped.get(edge.source, ()), edge)
    stages = tuple(_stages(file, nodes, known))
    return Workflow(file, grouped, _uses(file, nodes), stages)


def _uses(file: WorkflowFile, nodes: Mapping[str, Node[Any]]) -> dict[str, Use]:
    members = {name for use in file.nodes.values() for branch in use.parallel for name in branch}
    vertices = {edge.source for edge in file.edges}
    groups = {name for name, use in file.nodes.items() if use.parallel}
    uses = {}
    for name in sorted((members | vertices) - groups):
        own = file.nodes.get(name)
        node = nodes[own.use if own is not None and own.use else name]
        uses[name] = Use(name, node.name, resolved_options(node, file, name))
    return uses


def _stages(
    file: WorkflowFile, nodes: Mapping[str, Node[Any]], predicates: frozenset[str]
) -> Iterable[Stage]:
    for number, stage in enumerate(file.stages):
        assert stage.graph is not None
        left = file.stages[number:]
        share = Share(
            time=_part(stage.time, [other.time for other in left]),
            tokens=_part(stage.tokens, [other.tokens for other in left]),
        )
        inner = build_workflow(stage.graph, nodes, predicates)
        yield Stage(stage.name or stage.workflow, inner, share, stage.rounds)


def _part(weight: float, left: list[float]) -> float:
    return weight / sum(left) if sum(left) > 0 else 0.0


def read_workflow(name: str, source: Path | None = None, depth: int = 0) -> tuple[WorkflowFile, Source]:
    """The file with what it extends and contains filled in. Raises `WorkflowError`."""
    file_name, text = _text(name, source)
    data, where = _parsed(file_name, text)
    if depth > MAX_DEPTH:
        raise WorkflowError([where.complaint((("extends",), "extends or contains itself"))])
    try:
        file = WorkflowFile.model_validate(data)
    except ValidationError as error:
        raise WorkflowError(where.complaint(_problem(entry)) for entry in error.errors()) from None
    if file.extends is not None:
        file = _extended(file, read_workflow(file.extends, depth=depth + 1)[0], where)
    elif file.without:
        raise WorkflowError([where.complaint((("without",), "`without` has no effect without `extends`"))])
    stages = tuple(_with_graph(stage, depth) for stage in file.stages)
    return file.model_copy(update={"stages": stages}), where


def _problem(entry: Any) -> Problem:
    loc = tuple(part for part in entry["loc"] if part != "[key]")
    text = str(entry["msg"]).removeprefix("Value error, ")
    return loc, f"{'.'.join(str(part) for part in loc)}: {text}"


def _with_graph(stage: StageFile, depth: int) -> StageFile:
    return stage.model_copy(update={"graph": read_workflow(stage.workflow, depth=depth + 1)[0]})


def _extended(file: WorkflowFile, base: WorkflowFile, where: Source) -> WorkflowFile:
    """`base` without the nodes that `file` takes out, and with what it sets."""
    own = file.model_fields_set
    if misplaced := sorted(own & {"edges", "start", "stages"}):
        problems = [
            ((name,), f"`{name}` cannot be changed by a file that extends another") for name in misplaced
        ]
        raise WorkflowError(where.complaint(problem) for problem in problems)
    plain = {name: getattr(file, name) for name in own & {"needs_model", "rounds", "shared"}}
    for name in file.without:
        base = _spliced(base, name, where)
    merged = {name: {**getattr(base, name), **getattr(file, name)} for name in ("loops", "nodes", "options")}
    own_words = {"name": file.name, "description": file.description or base.description}
    origin = {"extends": file.extends, "without": file.without}
    return base.model_copy(update={**plain, **merged, **own_words, **origin})


def _spliced(file: WorkflowFile, name: str, where: Source) -> WorkflowFile:
    """The graph without a node: what led to it leads to what always follows it; its loop edges go, and
    those of a detour, after which all goes on as it would have without it."""
    after = next(
        (edge.target for edge in file.edges if edge.source == name and not edge.when and not edge.loop), None
    )
    if after is None:
        raise WorkflowError(
            [where.complaint((("without",), f"{file.name} has no node {name!r} to take out"))]
        )
    gone = [edge for edge in file.edges if edge.target == name and (edge.loop or _is_detour(edge, file))]
    kept = [edge for edge in file.edges if edge.source != name and edge not in gone]
    edges = tuple(edge.model_copy(update={"target": after}) if edge.target == name else edge for edge in kept)
    nodes = {own: use for own, use in file.nodes.items() if own != name}
    start = after if file.start == name else file.start
    turned = {edge.loop for edge in edges}
    loops = {own: loop for own, loop in file.loops.items() if own in turned}
    return file.model_copy(update={"edges": edges, "start": start, "nodes": nodes, "loops": loops})


def _is_detour(edge: Edge, file: WorkflowFile) -> bool:
    """Whether the ways on from an edge's target end with those that its source has left without it."""
    ways = [one for one in file.edges if one.source == edge.source]
    left = [(one.target, one.when, one.loop) for one in ways[ways.index(edge) + 1 :]]
    on = [(one.target, one.when, one.loop) for one in file.edges if one.source == edge.target]
    return bool(left) and on[-len(left) :] == left


def _text(name: str, source: Path | None) -> tuple[str, str]:
    shipped = shipped_workflows()
    if source is None and name in shipped:
        path = resources.files("agentforge") / "configs" / "workflows" / f"{name}.yaml"
        return f"{name}.yaml", path.read_text("utf-8")
    path = source or Path(name)
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        close = " or ".join(get_close_matches(name, shipped, n=3))
        meant = f"did you mean {close}? " if close else ""
        raise ConfigError(
            f"unknown workflow {name!r}",
            hint=f"{meant}`agentforge workflow list` shows all; a YAML file will do",
        )
    try:
        return str(path), path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"workflow {path}: is not UTF-8 text", hint="convert it with iconv") from None
    except OSError as error:
        raise ConfigError(f"workflow {path}: cannot be read: {error.strerror}") from None


def _parsed(file: str, text: str) -> tuple[Any, Source]:
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        lines: dict[Loc, int] = {}
        repeated: list[Problem] = []
        if root is not None:
            _walk(root, (), lines, repeated)
        where = Source(file, lines)
        if repeated:
            raise WorkflowError(where.complaint(problem) for problem in repeated)
        return yaml.safe_load(text), where
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}:{mark.line + 1}" if mark else file
        raise WorkflowError([f"{place}: is not valid YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise WorkflowError([f"{file}: is not valid YAML: {str(error).split(chr(10))[0]}"]) from None


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], repeated: list[Problem]) -> None:
    """Note the line of every key and entry below `node`."""
    lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*loc, str(key.value))
            if inner in lines:
                repeated.append((inner, f"`{key.value}` is set twice"))
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, repeated)
    elif isinstance(node, yaml.SequenceNode):
        for number, entry in enumerate(node.value):
            _walk(entry, (*loc, number), lines, repeated)
