"""`agentforge compare`: what the numbers of several runs do and do not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import JsonOption, print_json, print_table
from agentforge.cli.words import plural
from agentforge.core.errors import UsageError

app = typer.Typer(help="What the numbers of several runs support.", rich_markup_mode=None)


@app.command()
def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Batch folders, or files of trial rows."),
    ] = None,
    rows: Annotated[
        list[Path] | None,
        typer.Option("--rows", metavar="FILE", help="Trial rows (JSON or JSON lines). May be repeated."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="Write tables, figures and a page there: report.html and more."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Pass rates with intervals, paired tests, errors and cost; refuses rows that must not be pooled.

    Examples: agentforge compare out/search out/cascade --report figures
              agentforge compare --rows trials.jsonl --json
    """
    from agentforge.evaluation.contrast import compare as compare_rows
    from agentforge.evaluation.trials import read_all

    sources = [*(runs or []), *(rows or [])]
    if not sources:
        raise UsageError("nothing to compare", hint="give batch folders, or --rows FILE")
    read = [(source, read_all(source)) for source in sources]
    for source, found in read:
        if found.unfinished:
            left_out = plural(len(found.unfinished), "trial")
            tell(f"{source}: {left_out} without a final row left out; --resume runs them", label="warning")
    _refuse_namesakes([(source, found.rows[0].run) for source, found in read if source.is_dir()])
    comparison = compare_rows([row for _, found in read for row in found.rows])
    if report is not None:
        from agentforge.evaluation.report.write import write_report

        written = write_report(comparison, report)
        tell(f"{len(written)} files written; see {report / 'report.html'}", label="report")
    if as_json:
        print_json(comparison)
    else:
        _print(comparison)


def _refuse_namesakes(batches: Sequence[tuple[Path, str]]) -> None:
    """Two batches of one name would be taken for one run."""
    seen: dict[str, Path] = {}
    for folder, run in batches:
        if run in seen:
            raise UsageError(
                f"{seen[run]} and {folder} both name their run {run!r}",
                hint="compare different batches, and name new ones by `bench --name`",
            )
        seen[run] = folder


def _print(comparison: Mapping[str, Any]) -> None:
    from agentforge.evaluation.report.tables import tables_of

    shown = {"runs", "paired", "by_category", "by_repository", "errors", "cost"}
    for table in tables_of(comparison):
        if table.name in shown:
            print(table.title)
            print_table(table.header, table.rows)
            print(f"{table.note}\n" if table.note else "")
