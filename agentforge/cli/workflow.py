"""`agentforge workflow`: what there is, what it does, whether a file holds, and how it looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import JsonOption, print_json, print_table
from agentforge.core.errors import EnvironmentFault, ExitCode

if TYPE_CHECKING:
    from agentforge.orchestrator.workflow import Workflow

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped workflow, or a YAML file.")]


@app.callback()
def workflow_group() -> None:
    """Workflows: list, show, check, draw."""


@app.command("list")
def list_workflows(as_json: JsonOption = False) -> None:
    """The workflows of this package; --workflow takes their names."""
    from agentforge.orchestrator.workflow_load import shipped_workflows

    found = [_load(name) for name in shipped_workflows()]
    if as_json:
        print_json([_facts(workflow) for workflow in found])
        return
    rows = ((flow.name, _needs(flow), flow.hash, flow.file.description) for flow in found)
    print_table(("WORKFLOW", "MODEL", "HASH", "WHAT IT DOES"), rows)


@app.command("show")
def show(name: Name, as_json: JsonOption = False) -> None:
    """Nodes, edges and loops as they are run: what a file extends or contains is filled in."""
    workflow = _load(name)
    if as_json:
        print_json(_facts(workflow) | {"graph": workflow.file.model_dump(mode="json", by_alias=True)})
        return
    print(f"{workflow.name}: {workflow.file.description} (model: {_needs(workflow)}, hash {workflow.hash})")
    for stage in workflow.stages:
        print(f"\nstage {stage.name}: {stage.workflow.file.description}")
        _print_edges(stage.workflow)
    _print_edges(workflow)


@app.command("check")
def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file.")]) -> None:
    """Everything that is wrong with a file, each with its line; exit code 2 where there is anything."""
    from agentforge.orchestrator.workflow_load import WorkflowError

    try:
        workflow = _load(str(file), file)
    except WorkflowError as error:
        for complaint in error.complaints:
            tell(complaint)
        raise typer.Exit(ExitCode.USAGE) from None
    print(f"{file}: workflow {workflow.name} holds (hash {workflow.hash})")


@app.command("draw")
def draw(
    name: Name,
    form: Annotated[
        Literal["mermaid", "svg"], typer.Option("--format", "-f", help="As text for a page, or as a picture.")
    ] = "mermaid",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout.")
    ] = None,
) -> None:
    """The graph as Mermaid text or as SVG."""
    from agentforge.orchestrator import drawing

    workflow = _load(name)
    text = drawing.svg(workflow) if form == "svg" else drawing.mermaid(workflow)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {output}: {error.strerror}", hint="name another file") from None


def _load(name: str, file: Path | None = None) -> Workflow:
    from agentforge.orchestrator.wiring import NODES, PREDICATES
    from agentforge.orchestrator.workflow_load import load_workflow

    return load_workflow(name, NODES, PREDICATES, file)


def _needs(workflow: Workflow) -> str:
    staged = any(stage.workflow.file.needs_model for stage in workflow.stages)
    return "used if there is one" if staged else "needed" if workflow.file.needs_model else "none"


def _facts(workflow: Workflow) -> dict[str, Any]:
    return {
        "name": workflow.name,
        "description": workflow.file.description,
        "hash": workflow.hash,
        "model": _needs(workflow),
        "nodes": sorted(workflow.node_names),
        "stages": [stage.name for stage in workflow.stages],
    }


def _print_edges(workflow: Workflow) -> None:
    from agentforge.orchestrator.drawing import edge_label

    file = workflow.file
    for edge in file.edges:
        label = edge_label(edge)
        print(f"  {edge.source} -> {edge.target}" + (f"  [{label}]" if label else ""))
    if any(edge.loop for edge in file.edges):
        rounds = "as many as --retries says" if file.rounds is None else str(file.rounds)
        print(
            f"  rounds: {rounds}" + "".join(f", {name}: {loop.budget}" for name, loop in file.loops.items())
        )
