"""What all `agentforge bench` commands have in common: options, and how a batch is run and told."""

from __future__ import annotations

import inspect
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentforge.cli import options as opt
from agentforge.cli.failures import error_document, report_failure, tell
from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings
from agentforge.core.errors import AgentForgeError, ExitCode, UsageError

if TYPE_CHECKING:
    from agentforge.evaluation.bench.protocol import SuiteSpec
    from agentforge.evaluation.bench.runner import BatchEnd, BatchRequest, Watcher

Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder of the batch: rows, manifest, runs.")
]
Trials = Annotated[
    int, typer.Option("--trials", metavar="N", min=1, help="Trials of each instance, each with its own seed.")
]
Workers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Trials at the same time.")]
Instances = Annotated[
    list[str] | None,
    typer.Option("--instances", metavar="ID", help="Only these; ids with commas between. May be repeated."),
]
Filter = Annotated[str, typer.Option("--filter", metavar="REGEX", help="Only ids in which this is found.")]
Slice = Annotated[str, typer.Option("--slice", metavar="A:B", help="Of what is left, these by position.")]
ShuffleSeed = Annotated[
    int | None, typer.Option("--shuffle-seed", metavar="N", help="Shuffle before --slice, with this seed.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the first trial; then N+1, …")]
BatchCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="USD", min=0, help="Most money for the whole batch.")
]
InstanceCost = Annotated[
    float | None,
    typer.Option("--max-cost-per-instance", metavar="USD", min=0, help="Most money for one trial."),
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name in comparisons, else that of the folder.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the batch in --out.")]
SkipSelfCheck = Annotated[
    bool, typer.Option("--skip-self-check", help="Do not check the judge first; the manifest says so.")
]
ExecutorName = Annotated[
    Literal["local", "ray"], typer.Option("--executor", help="Trials here, or on the nodes of a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT|auto", help="The Ray cluster, else one is started on this machine."
    ),
]


def _shared(
    workflow: opt.WorkflowName = None,
    model: opt.ModelName = None,
    base_url: opt.BaseUrl = None,
    edit_format: opt.EditFormat = None,
    retries: opt.Retries = None,
    critic: opt.Critic = None,
    trials: Trials = 1,
    workers: Workers = 1,
    instances: Instances = None,
    filter: Filter = "",
    slice: Slice = "",
    shuffle_seed: ShuffleSeed = None,
    seed: Seed = 0,
    max_cost: BatchCost = None,
    max_cost_per_instance: InstanceCost = None,
    max_tokens: opt.MaxTokens = None,
    max_calls: opt.MaxCalls = None,
    time_limit: opt.TimeLimit = None,
    sandbox_timeout: opt.SandboxTimeout = None,
    memory: opt.Memory = None,
    out: Out = None,
    name: Name = "",
    resume: Resume = False,
    skip_self_check: SkipSelfCheck = False,
    executor: ExecutorName = "local",
    address: Address = None,
    as_json: JsonOption = False,
    stream: opt.Stream = True,
    dry_run: opt.DryRun = False,
    config: ConfigOption = None,
) -> None:
    """The options of every suite, for their signature alone."""


SETTINGS = {
    "workflow": "workflow",
    "model": "model.name",
    "base_url": "model.base_url",
    "edit_format": "model.edit_format",
    "retries": "retries",
    "critic": "critic",
    "max_cost_per_instance": "limits.max_cost_usd",
    "max_tokens": "limits.max_tokens",
    "max_calls": "limits.max_calls",
    "time_limit": "limits.time_limit_s",
    "sandbox_timeout": "sandbox.timeout_s",
    "memory": "memory.enabled",
}


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(context, own options…, **shared)` the shared options on the command line, too."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(_shared, eval_str=True)
    kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters = [*kept, *shared.parameters.values()]
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = own.replace(parameters=keyword)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in keyword} | {"return": None}
    return command


def run_suite(spec: SuiteSpec, values: dict[str, Any]) -> int:
    """Run the batch that the command line asks for; the exit code. With --json errors are a document too."""
    try:
        return _run(spec, values)
    except AgentForgeError as error:
        if values["as_json"]:
            print_json(error_document(error.what, error.hint, int(error.exit_code)))
        return report_failure(error)


def _run(spec: SuiteSpec, values: dict[str, Any]) -> int:
    request = build_request(spec, values)
    if values["dry_run"]:
        return _rehearse(request, as_json=values["as_json"])
    end = _carry_out(request, values)
    return _conclude(request, end, values)


def build_request(spec: SuiteSpec, values: dict[str, Any]) -> BatchRequest:
    """Raises `UsageError`, `ConfigError`."""
    from agentforge.evaluation.bench.runner import BatchRequest
    from agentforge.evaluation.bench.selection import Selection

    _check(values)
    overrides = {key: values[option] for option, key in SETTINGS.items()}
    if values["memory"] is None:  # nothing is learned from one trial for the next
        overrides["memory.enabled"] = False
    ids = [part.strip() for text in values["instances"] or () for part in text.split(",")]
    return BatchRequest(
        suite=spec,
        settings=resolve_settings(values["config"], overrides).settings,
        folder=values["out"] or Path(),
        selection=Selection(
            instances=tuple(filter(None, ids)),
            pattern=values["filter"],
            shuffle_seed=values["shuffle_seed"],
            piece=values["slice"],
        ),
        trials=values["trials"],
        workers=values["workers"],
        seed=values["seed"],
        max_cost_usd=values["max_cost"],
        run=values["name"],
        resume=values["resume"],
        skip_self_check=values["skip_self_check"],
    )


def _check(values: dict[str, Any]) -> None:
    opt.check_numbers(values)
    per_instance = values["max_cost_per_instance"]
    if per_instance is not None and not math.isfinite(per_instance):
        raise UsageError(f"--max-cost-per-instance must be a number of US dollars, got {per_instance:g}")
    if values["address"] is not None and values["executor"] != "ray":
        raise UsageError("--address names a Ray cluster", hint="add --executor ray")
    if values["out"] is None and not values["dry_run"]:
        raise UsageError("no folder for the batch", hint="give --out DIR")
    if values["out"] is not None and values["out"].exists() and not values["out"].is_dir():
        raise UsageError(f"--out {values['out']} is a file", hint="give it a folder")


def _rehearse(request: BatchRequest, *, as_json: bool) -> int:
    from agentforge.evaluation.bench.runner import plan_batch

    plan = plan_batch(request)
    rows = [{"id": task.id, "category": task.category, "repository": task.repository} for task in plan.tasks]
    if as_json:
        print_json(
            {
                "suite": plan.bench.name,
                "dataset_hash": plan.bench.dataset_hash,
                "harness": plan.bench.harness,
                "workflow": plan.workflow.name,
                "workflow_hash": plan.workflow.hash,
                "trials": request.trials,
                "instances": rows,
            }
        )
        return ExitCode.VERIFIED
    tell(
        f"{len(rows)} instances of {plan.bench.name}, {request.trials} trials each, "
        f"workflow {plan.workflow.name}; nothing is run",
        label="dry run",
    )
    print_table(("id", "category", "repository"), [tuple(row.values()) for row in rows])
    return ExitCode.VERIFIED


def _carry_out(request: BatchRequest, values: dict[str, Any]) -> BatchEnd:
    from agentforge.cli.batchview import watching_batch
    from agentforge.cli.interrupt import run_interruptible

    try:
        with watching_batch(stream=values["stream"]) as watcher:
            return run_interruptible(_run_there(request, watcher, values))
    except KeyboardInterrupt:
        tell(f"go on with: {how_to_resume(sys.argv[1:])}", label="stopped")
        if values["as_json"]:
            print_json({"outcome": "interrupted", "exit_code": int(ExitCode.INTERRUPTED)})
        raise


async def _run_there(request: BatchRequest, watcher: Watcher, values: dict[str, Any]) -> BatchEnd:
    from agentforge.evaluation.bench.runner import run_batch

    if values["executor"] == "local":
        return await run_batch(request, watcher)
    from agentforge.evaluation.bench.ray_executor import RayExecutor

    async with RayExecutor(request.workers, values["address"]) as executor:
        return await run_batch(request, watcher, lambda bench, wanted: executor)


def how_to_resume(arguments: list[str]) -> str:
    """The command line that goes on."""
    more = [] if "--resume" in arguments else ["--resume"]
    return shlex.join(["agentforge", *arguments, *more])


def _conclude(request: BatchRequest, end: BatchEnd, values: dict[str, Any]) -> int:
    summary = end.summary
    code = _exit_code(end)
    if values["as_json"]:
        stopped = {"stopped": {"what": end.stopped.what, "hint": end.stopped.hint}} if end.stopped else {}
        print_json({**summary, "out": str(request.folder), "exit_code": code, **stopped})
    else:
        print_summary(summary)
    if end.stopped is not None:
        report_failure(end.stopped)
    elif code:
        left = summary["planned"] - summary["final"]
        tell(f"{left} trials have no final row; go on with --resume", label="unfinished")
    return code


def print_summary(summary: dict[str, Any]) -> None:
    """The final table: outcomes, then what it took."""
    table = [(name, str(count)) for name, count in summary["outcomes"].items()]
    table += [("not run", str(summary["not_run"]))] if summary["not_run"] else []
    print_table(("outcome", "trials"), table)
    passed, final, rate = summary["passed"], summary["final"], summary["pass_rate"]
    share = f" ({rate:.1%})" if rate is not None else ""
    unknown = summary["unpriced_trials"]
    cost = f"${summary['cost_usd']:.4f}" + (f" and {unknown} trials of unknown price" if unknown else "")
    tokens = summary["tokens_in"] + summary["tokens_out"]
    print(f"{passed} of {final} passed{share}; {summary['calls']} model calls, {tokens} tokens, {cost}")


def _exit_code(end: BatchEnd) -> int:
    """0 where every trial has what was asked for, whatever it says."""
    if end.stopped is not None:
        return int(end.stopped.exit_code)
    return int(ExitCode.VERIFIED if end.complete else ExitCode.ENVIRONMENT)
