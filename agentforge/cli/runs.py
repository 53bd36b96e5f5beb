"""`agentforge runs`: the record of past runs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentforge.cli import options as opt
from agentforge.cli.failures import tell
from agentforge.cli.output import (
    ConfigOption,
    JsonOption,
    print_bytes,
    print_json,
    print_table,
    resolve_settings,
)
from agentforge.core.errors import ExitCode, RecordError, UsageError

if TYPE_CHECKING:
    from agentforge.config.settings import Settings
    from agentforge.core.task import Limits
    from agentforge.orchestrator.store import RunRecord, RunStore, RunSummary

app = typer.Typer(rich_markup_mode=None)

RunReference = Annotated[str, typer.Argument(metavar="RUN", help='Run id, a unique prefix of it, or "last".')]


@app.callback()
def runs_group() -> None:
    """Past runs: list, show, resume, replay, gc."""


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many.")] = 20,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Newest first."""
    summaries = _store(config).list()
    if as_json:
        print_json([summary.model_dump(mode="json") for summary in summaries[:limit]])
        return
    if not summaries:
        tell("no runs yet", "`agentforge fix --repo … --issue …` makes one", label="note")
        return
    print_table(("RUN", "OUTCOME", "WORKFLOW", "COST", "ISSUE"), map(_row, summaries[:limit]))
    if len(summaries) > limit:
        tell(f"{len(summaries) - limit} older runs are not shown", "--limit N shows more", label="note")


@app.command("show")
def show(
    run: RunReference,
    diff: Annotated[bool, typer.Option("--diff", help="Only the patch, byte for byte.")] = False,
    as_json: JsonOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every step.")] = False,
    config: ConfigOption = None,
) -> None:
    """What a run did, how it ended, and its patch."""
    record = _store(config).open(run)
    if diff:
        _print_diff(record)
    elif as_json:
        print_json(_document(record))
    else:
        _print_story(record, verbose=verbose)


@app.command("replay")
def replay(
    run: RunReference,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Live view, or plain lines.")] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Run it again from its record, without model and containers; says whether the events are the same."""
    from agentforge.cli.interrupt import run_interruptible
    from agentforge.cli.view import watching
    from agentforge.orchestrator.replay import replay_run

    settings = resolve_settings(config).settings
    with watching(stream=stream) as listener:
        result = run_interruptible(replay_run(run, settings, listener))
    same = bool(result.replay_matches)
    if as_json:
        facts = {"run_id": result.run_id, "same": same, "difference": result.difference}
        print_json(facts | {"outcome": result.outcome, "run_dir": str(result.run_dir)})
    elif same:
        print(f"run {result.run_id}: the replay gave the same events, outcome {result.outcome}")
    if not same:
        tell(f"run {result.run_id}: the replay differs: {result.difference or 'reason unknown'}")
    raise typer.Exit(ExitCode.VERIFIED if same else ExitCode.NO_VERIFIED_PATCH)


@app.command("resume")
def resume(
    run: RunReference,
    max_cost: opt.MaxCost = None,
    max_tokens: opt.MaxTokens = None,
    max_calls: opt.MaxCalls = None,
    time_limit: opt.TimeLimit = None,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Live view, or plain lines.")] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Go on with a run that was killed, interrupted or stopped; no answered model call is made again.

    Limits are those of the run, and count from its beginning; one that stopped it can be raised.

    Example: agentforge runs resume last --max-calls 40
    """
    from agentforge.cli.interrupt import run_interruptible
    from agentforge.cli.summary import result_document, show_result
    from agentforge.cli.view import error_console, watching
    from agentforge.orchestrator.resume import resume_run

    given = {
        "max_cost_usd": max_cost, "max_tokens": max_tokens, "max_calls": max_calls, "time_limit_s": time_limit
    }  # fmt: skip
    opt.check_numbers({"max_cost": max_cost, "time_limit": time_limit, "sandbox_timeout": None})
    settings = resolve_settings(config).settings
    limits = _limits_of(run, settings, {name: value for name, value in given.items() if value is not None})
    with watching(stream=stream) as listener:
        result = run_interruptible(resume_run(run, settings, listener=listener, limits=limits))
    show_result(error_console(), result, applied_to=None, show_diff=sys.stderr.isatty())
    if as_json:
        print_json(result_document(result, models={}, applied_to=None))
    elif result.patch is not None:
        print_bytes(result.patch.diff)
    raise typer.Exit(int(result.exit_code))


def _limits_of(run: str, settings: Settings, changes: dict[str, Any]) -> Limits | None:
    """The limits of the record with `changes`; None where there are none."""
    from agentforge.orchestrator.past import settings_of
    from agentforge.orchestrator.store import RunStore

    if not changes:
        return None
    record = RunStore(settings.data_home).open(run)
    return settings_of(record.manifest, settings).limits.model_copy(update=changes)


@app.command("gc")
def collect_garbage(
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the newest N.")] = None,
    older_than: Annotated[
        float | None, typer.Option("--older-than", metavar="DAYS", min=0, help="Remove older ones.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Remove records of old runs, and the base trees that no record needs any more."""
    if keep is None and older_than is None:
        raise UsageError("runs gc needs --keep N or --older-than DAYS", hint="--dry-run shows what would go")
    from agentforge.orchestrator import retention

    store = _store(config)
    old = retention.removable(store.list(), datetime.now(UTC), keep=keep, older_than_days=older_than)
    doomed = [summary.run_id for summary in old]
    if not dry_run:
        doomed = retention.remove_runs(store, doomed)
    trees = retention.unneeded_trees(store, without=doomed)
    if not dry_run:
        for path in trees:
            path.unlink(missing_ok=True)
    if as_json:
        print_json({"removed": doomed, "trees": [path.name for path in trees], "dry_run": dry_run})
        return
    for run_id in doomed:
        print(run_id)
    done = "would be removed" if dry_run else "removed"
    tell(f"{len(doomed)} runs and {len(trees)} base trees {done}", label="note")


def _store(config: Any) -> RunStore:
    from agentforge.orchestrator.store import RunStore

    return RunStore(resolve_settings(config).settings.data_home)


def _row(summary: RunSummary) -> tuple[str, ...]:
    if summary.cost_usd is None:
        cost = "?" if summary.calls else "-"
    else:
        cost = f"${summary.cost_usd:.4f}" if summary.calls else "-"
    return summary.run_id, summary.outcome, summary.workflow, cost, summary.issue


def _print_diff(record: RunRecord) -> None:
    patch = record.patch()
    if patch is None:
        tell(f"run {record.run_id} has no patch", f"`agentforge runs show {record.run_id}` says why")
        raise typer.Exit(ExitCode.NO_VERIFIED_PATCH)
    print_bytes(patch)


def _document(record: RunRecord) -> dict[str, Any]:
    patch = record.patch()
    return {
        "run_id": record.run_id,
        "directory": str(record.directory),
        "manifest": record.manifest,
        "events": [event.model_dump(mode="json") for event in record.events()],
        "patch": patch.decode("utf-8", "replace") if patch is not None else None,
    }


def _print_story(record: RunRecord, *, verbose: bool) -> None:
    from rich.console import Console

    from agentforge.cli.summary import diff_text
    from agentforge.cli.view import styled
    from agentforge.cli.words import describe

    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    manifest = record.manifest
    for event in record.events():
        for line in describe(event):
            if verbose or not line.detail:
                console.print(styled(line), soft_wrap=True)
    patch = record.patch()
    if patch is not None:
        console.print()
        console.print(diff_text(patch.decode("utf-8", "replace")), soft_wrap=True)
    console.print()
    for name, value in _ending(record, manifest):
        console.print(styled(_fact(name, value)), soft_wrap=True)


def _ending(record: RunRecord, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    from pydantic import ValidationError

    from agentforge.cli.words import spent
    from agentforge.core.chat import Spend

    summary = manifest.get("summary") or "the process ended before the run did"
    facts = [("outcome", f"{manifest.get('outcome') or 'unfinished'}: {summary}")]
    try:
        spend = Spend.model_validate(manifest.get("spend") or {})
    except ValidationError:
        raise RecordError(f"run {record.run_id}: run.json is odd: what it spent cannot be read") from None
    facts.append(("cost", spent(spend)))
    facts.append(("record", str(record.directory)))
    return facts


def _fact(name: str, value: str) -> Any:
    from agentforge.cli.words import Line

    return Line(name, value)
