"""`agentforge bench`: any workflow over a suite, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agentforge.cli.bench_options import run_suite, with_shared_options
from agentforge.cli.swebench import swebench

app = typer.Typer(
    help="Run a workflow over a suite: swebench, quixbugs, humaneval, thirty, records.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
Checkout = Annotated[
    Path, typer.Option("--path", metavar="CHECKOUT", help="A local checkout of the public benchmark.")
]
RecordFile = Annotated[
    Path, typer.Option("--file", metavar="FILE", help="Records: .json or .jsonl, also .gz.")
]

app.command()(swebench)


@app.command()
@with_shared_options
def quixbugs(context: typer.Context, path: Checkout, **shared: Any) -> None:
    """Programs with one bug each: half of the test cases given, the other half judges."""
    _run(context, "quixbugs", {"path": str(path.expanduser().absolute())})


@app.command()
@with_shared_options
def humaneval(context: typer.Context, file: RecordFile, **shared: Any) -> None:
    """HumanEval: its official tests judge; examples of the statement are given."""
    _run(context, "humaneval", {"file": str(file.expanduser().absolute()), "name": "humaneval"})


@app.command()
@with_shared_options
def thirty(context: typer.Context, **shared: Any) -> None:
    """Our own thirty problems: dynamic programming, graphs, data structures."""
    _run(context, "thirty", {})


@app.command()
@with_shared_options
def records(context: typer.Context, file: RecordFile, **shared: Any) -> None:
    """Records of MBPP, APPS, CodeContests, ClassEval, HumanEval or our own shape."""
    _run(context, "records", {"file": str(file.expanduser().absolute())})


def _run(context: typer.Context, suite: str, options: dict[str, Any]) -> None:
    from agentforge.evaluation.bench.protocol import SuiteSpec

    raise typer.Exit(run_suite(SuiteSpec(name=suite, options=options), context.params))
