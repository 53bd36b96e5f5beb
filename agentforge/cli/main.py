"""Entry point: the frame around all commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from agentforge import __version__
from agentforge.cli.failures import guarded
from agentforge.cli.lazy import LazyGroup, Member
from agentforge.core.errors import ExitCode


class Commands(LazyGroup):
    members = {
        "fix": Member(
            "agentforge.cli.fix", "Repair an issue: a patch that was run, with its evidence.", False
        ),
        "localize": Member(
            "agentforge.cli.localize", "Lines to suspect, and the values with which tests fail.", False
        ),
        "audit": Member(
            "agentforge.cli.audit", "Who is responsible for each line of a patch, and why.", False
        ),
        "runs": Member("agentforge.cli.runs", "Past runs: list, show, resume, replay, gc."),
        "solve": Member("agentforge.cli.solve", "Write a program for a problem, with its evidence.", False),
        "patch": Member("agentforge.cli.patch", "Apply any answer a model may give to a tree."),
        "sandbox": Member("agentforge.cli.sandbox", "Containers and images: doctor, build, env, prune."),
        "memory": Member("agentforge.cli.memory", "Verified fixes of the past: list, show, search."),
        "index": Member("agentforge.cli.index", "The repository index: build, status, search."),
        "bench": Member(
            "agentforge.cli.bench", "Run a workflow over a suite of tasks: quixbugs, humaneval, …"
        ),
        "compare": Member(
            "agentforge.cli.compare", "What the numbers of several runs do and do not support.", False
        ),
        "workflow": Member("agentforge.cli.workflow", "Workflows: list, show, check, draw."),
        "serve": Member("agentforge.cli.serve", "The API and the web client.", False),
        "watch": Member("agentforge.cli.watch", "Follow a run of a server.", False),
        "config": Member("agentforge.cli.config", "The resolved configuration and its origins."),
    }


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 verified, 1 no verified patch, 2 usage, 3 environment, 4 model, 5 limit reached, "
    "6 unverified, 70 a defect in agentforge, 130 interrupted.",
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A repository-repair agent that believes nothing it has not executed."""
    if version:
        print(f"agentforge {__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing escapes."""
    return guarded(lambda: _invoke(list(arguments)), as_json="--json" in arguments)


def main() -> None:
    """Console script."""
    sys.exit(run(sys.argv[1:]))


def _invoke(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    with command.make_context("agentforge", arguments) as context:
        command.invoke(context)
    return ExitCode.VERIFIED


if __name__ == "__main__":
    main()
