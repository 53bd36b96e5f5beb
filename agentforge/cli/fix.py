"""`agentforge fix`: the main job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from agentforge.cli import options as opt
from agentforge.cli.dockerfile import read_dockerfile
from agentforge.cli.failures import error_document, reader_may_leave, report_failure, tell
from agentforge.cli.output import ConfigOption, JsonOption, print_bytes, print_json, resolve_settings
from agentforge.core.errors import AgentForgeError, ExitCode, UsageError

if TYPE_CHECKING:
    from agentforge.cli.delivery import Delivery
    from agentforge.cli.view import Listener
    from agentforge.config.load import Resolved
    from agentforge.config.settings import Settings
    from agentforge.core.patch import Patch
    from agentforge.core.task import Issue, RepairTask
    from agentforge.orchestrator.result import RunResult

app = typer.Typer(add_completion=False, rich_markup_mode=None)
NO_MODEL = "no model is configured: the search engine is used"
HOW_TO_CONFIGURE = (
    "for a model set OPENAI_API_KEY, or --base-url URL --model NAME for any OpenAI-compatible endpoint, "
    "or both under `model:` in the configuration file"
)


@app.command()
def fix(
    context: typer.Context,
    issue: opt.IssueSpec,
    repo: opt.Repo = ".",
    base: opt.Base = None,
    test: opt.TestCommand = None,
    test_id: opt.TestIds = None,
    tests: opt.Tests = None,
    workflow: opt.WorkflowName = None,
    model: opt.ModelName = None,
    base_url: opt.BaseUrl = None,
    edit_format: opt.EditFormat = None,
    samples: opt.Samples = 1,
    retries: opt.Retries = None,
    critic: opt.Critic = None,
    max_cost: opt.MaxCost = None,
    max_tokens: opt.MaxTokens = None,
    max_calls: opt.MaxCalls = None,
    time_limit: opt.TimeLimit = None,
    sandbox_timeout: opt.SandboxTimeout = None,
    setup: opt.Setup = None,
    image: opt.Image = None,
    apt: opt.Apt = None,
    dockerfile: opt.Dockerfile = None,
    junit: opt.Junit = "",
    include_uncommitted: opt.IncludeUncommitted = False,
    memory: opt.Memory = None,
    apply: opt.Apply = False,
    branch: opt.Branch = None,
    output: opt.Output = None,
    as_json: JsonOption = False,
    stream: opt.Stream = True,
    dry_run: opt.DryRun = False,
    config: ConfigOption = None,
    verbose: opt.Verbose = False,
) -> None:
    """Repair an issue: a patch that was run, with its evidence.

    The patch goes to stdout, progress to stderr. Your working tree is touched only with --apply.
    """
    raise typer.Exit(repair(context.params))


def repair(values: dict[str, Any]) -> int:
    """Run the repair that `values` ask for; the exit code. With --json errors are a document too."""
    try:
        return _repair(opt.FixOptions.parse(values))
    except AgentForgeError as error:
        if values["as_json"]:
            print_json(error_document(error.what, error.hint, int(error.exit_code)))
        return report_failure(error)
    except KeyboardInterrupt:
        if values["as_json"]:
            print_json({"outcome": "interrupted", "exit_code": int(ExitCode.INTERRUPTED)})
        raise


def _repair(options: opt.FixOptions) -> int:
    from agentforge.cli.delivery import Delivery

    resolved = resolve_settings(options.config, options.overrides)
    _check_endpoint(resolved)
    task = build_task(options, resolved.settings)
    delivery = Delivery.of(options, task.issue.title)
    models: dict[str, str] = {}
    result = _run(options, task, resolved.settings, models)
    return _conclude(options, result, delivery, models)


def _run(options: opt.FixOptions, task: RepairTask, settings: Settings, models: dict[str, str]) -> RunResult:
    from agentforge.cli.interrupt import run_interruptible
    from agentforge.cli.view import watching
    from agentforge.orchestrator.service import run_fix

    with watching(stream=options.stream, verbose=options.verbose) as listener:
        following = _following(listener, settings, models)
        if options.samples > 1 and not options.dry_run:
            from agentforge.orchestrator.sampling import run_samples

            work = run_samples(task, settings, options.samples, listener=following)
            return run_interruptible(work).result
        return run_interruptible(run_fix(task, settings, listener=following, dry_run=options.dry_run))


def build_task(options: opt.FixOptions, settings: Settings, issue: Issue | None = None) -> RepairTask:
    """Read the issue, unless it is given, and put the task together. Raises `UsageError` on an empty one."""
    from agentforge.core.task import RepairTask, RepositoryRef
    from agentforge.repo.issue import read_issue

    token = settings.github_token.get_secret_value() if settings.github_token else None
    if issue is None:
        issue = read_issue(options.issue, stdin=sys.stdin, github_api=settings.github_api, token=token)
    return RepairTask(
        repository=RepositoryRef(
            source=options.repo, revision=options.base, include_uncommitted=options.include_uncommitted
        ),
        issue=issue,
        target_tests=options.test_id,
        test_command=options.test,
        setup=options.setup,
        image=options.image,
        apt=options.apt,
        dockerfile=read_dockerfile(options.dockerfile, options.image),
        junit=options.junit,
        tests_scope=settings.tests_scope,
    )


def _check_endpoint(resolved: Resolved) -> None:
    """A model named on the command line must not silently become a search without one."""
    settings = resolved.settings
    if resolved.origin("model.name") == "flag" and not settings.model.configured:
        raise UsageError(f"--model {settings.model.name} has no endpoint", hint=HOW_TO_CONFIGURE)


def _following(listener: Listener, settings: Settings, models: dict[str, str]) -> Listener:
    """Hand events on; note which model answered, and say at the start when there is none."""
    from agentforge.core.events import Event, ModelCallFinished, Notice, RunStarted

    started = False

    def follow(event: Event) -> None:
        nonlocal started
        if not started and not settings.model.configured:
            listener(Notice(text=NO_MODEL, hint=HOW_TO_CONFIGURE))
        started = True
        if isinstance(event, RunStarted):
            models.update(event.models)
        elif isinstance(event, ModelCallFinished):
            models[event.agent] = event.model
        listener(event)

    return follow


def _conclude(
    options: opt.FixOptions, result: RunResult, delivery: Delivery, models: Mapping[str, str]
) -> int:
    from agentforge.cli.summary import result_document, show_result
    from agentforge.cli.view import error_console

    failure: AgentForgeError | None = None
    applied_to: str | None = None
    try:
        applied_to = delivery.deliver(result)
    except AgentForgeError as error:
        failure = error
    with reader_may_leave():
        show_result(error_console(), result, applied_to=applied_to, show_diff=sys.stderr.isatty())
        sys.stderr.flush()
    if result.outcome == "unverified" and (options.apply or options.branch):
        tell("an unverified patch is not applied", f"look at {result.run_dir}/patch.diff", label="note")
    if options.as_json:
        document = result_document(result, models=models, applied_to=applied_to)
        print_json(document | (_delivery_failure(failure) if failure else {}))
    elif result.patch is not None and options.output is None and result.outcome != "interrupted":
        _print_patch(result.patch)
    return report_failure(failure) if failure else int(result.exit_code)


def _print_patch(patch: Patch) -> None:
    """The patch on stdout: byte for byte into a file or pipe; on a terminal coloured, and only once."""
    if not sys.stdout.isatty():
        print_bytes(patch.diff)
    elif not sys.stderr.isatty():
        from rich.console import Console

        from agentforge.cli.summary import diff_text

        Console(highlight=False, markup=False).print(diff_text(patch.text), soft_wrap=True)


def _delivery_failure(error: AgentForgeError) -> dict[str, Any]:
    """What a delivery that failed changes in the document: the exit code is the process's own."""
    return {"exit_code": int(error.exit_code), "delivery_error": error.what, "hint": error.hint}
