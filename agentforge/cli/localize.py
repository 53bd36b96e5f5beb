"""`agentforge localize`: the lines to suspect, and the values with which tests fail. No model, no edit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentforge.cli import options as opt
from agentforge.cli.failures import error_document, report_failure, tell
from agentforge.cli.output import ConfigOption, JsonOption, print_json, print_table, resolve_settings
from agentforge.core.errors import AgentForgeError, ExitCode

if TYPE_CHECKING:
    from agentforge.config.settings import Settings
    from agentforge.core.events import Event
    from agentforge.core.facts import Facts, Suspect
    from agentforge.core.task import RepairTask
    from agentforge.orchestrator.result import RunResult

app = typer.Typer(add_completion=False, rich_markup_mode=None)
MAX_LINES = 200
_OptionalIssue = Annotated[
    str | None,
    typer.Option("--issue", metavar="TEXT|@FILE|-|URL", help="The issue, or where it is; may be left out."),
]
_Lines = Annotated[
    int, typer.Option("-k", metavar="N", min=1, max=MAX_LINES, help="How many statements are shown.")
]


@app.command(
    epilog="Example: agentforge localize --repo . --test-id tests/test_money.py::test_split -k 5. "
    "Exit codes: 0 something is suspected, 1 nothing is, others as for `fix`."
)
def localize(
    context: typer.Context,
    repo: opt.Repo = ".",
    issue: _OptionalIssue = None,
    test_id: opt.TestIds = None,
    lines: _Lines = 10,
    base: opt.Base = None,
    tests: opt.Tests = None,
    time_limit: opt.TimeLimit = None,
    sandbox_timeout: opt.SandboxTimeout = None,
    setup: opt.Setup = None,
    image: opt.Image = None,
    apt: opt.Apt = None,
    dockerfile: opt.Dockerfile = None,
    include_uncommitted: opt.IncludeUncommitted = False,
    memory: opt.Memory = None,
    as_json: JsonOption = False,
    stream: opt.Stream = True,
    config: ConfigOption = None,
    verbose: opt.Verbose = False,
) -> None:
    """Show the lines to suspect, and the values with which tests fail; no model is asked.

    Targets are the tests you name, else those that the issue shows, else every test that fails.
    The run is recorded like a repair: `agentforge runs replay` repeats it.
    """
    raise typer.Exit(_guarded(context.params))


def _guarded(values: dict[str, Any]) -> int:
    try:
        return _localize(values)
    except AgentForgeError as error:
        if values["as_json"]:
            print_json(error_document(error.what, error.hint, int(error.exit_code)))
        return report_failure(error)
    except KeyboardInterrupt:
        if values["as_json"]:
            print_json({"outcome": "interrupted", "exit_code": int(ExitCode.INTERRUPTED)})
        raise


def _localize(values: dict[str, Any]) -> int:
    from agentforge.cli.interrupt import run_interruptible
    from agentforge.cli.view import watching
    from agentforge.orchestrator.service import run_fix

    options = _options(values)
    settings = resolve_settings(options.config, options.overrides).settings
    task = _task(values, options, settings)
    with watching(stream=options.stream, verbose=options.verbose) as listener:
        told = _Told(listener)
        result = run_interruptible(run_fix(task, settings, listener=told))
    return _conclude(result, told.facts, values["lines"], as_json=options.as_json)


def _options(values: dict[str, Any]) -> opt.FixOptions:
    """As for `fix`, with everything that asks for a patch or a model left at rest."""
    from dataclasses import fields

    unsaid = dict.fromkeys([*opt.SETTINGS_BY_OPTION, *(item.name for item in fields(opt.FixOptions))])
    rest = {"junit": "", "apply": False, "dry_run": False, "samples": 1}
    # No critic is asked, whatever the configuration wants of one that is.
    own = {"workflow": "localize", "critic": "off", "issue": values["issue"] or ""}
    return opt.FixOptions.parse({**unsaid, **rest, **values, **own})


def _task(values: dict[str, Any], options: opt.FixOptions, settings: Settings) -> RepairTask:
    from agentforge.cli.fix import build_task
    from agentforge.core.task import Issue

    if values["issue"] is not None:
        return build_task(options, settings)
    titled = Issue(text="", title="localize")
    return build_task(options, settings, titled)


@dataclass
class _Told:
    """Hands events on and keeps the facts among them: they are free of secrets."""

    listener: Any
    facts: Facts | None = field(default=None)

    def __call__(self, event: Event) -> None:
        if event.type == "facts_found":
            self.facts = event.facts
        self.listener(event)


def _conclude(result: RunResult, facts: Facts | None, most: int, *, as_json: bool) -> int:
    if as_json:
        print_json(_document(result, facts, most))
    elif facts is not None and facts.suspects:
        _show(facts, most)
    if result.outcome != "localized" or not (facts and facts.suspects):
        tell(result.summary, result.hint, label="error" if result.outcome != "localized" else "note")
    return int(result.exit_code)


def _document(result: RunResult, facts: Facts | None, most: int) -> dict[str, Any]:
    shown = facts.model_dump(mode="json", exclude={"asked"}) if facts is not None else {}
    suspects = shown.get("suspects", [])[:most]
    return {
        "outcome": result.outcome,
        "exit_code": int(result.exit_code),
        "summary": result.summary,
        "hint": result.hint,
        "run_id": result.run_id,
        "run_dir": str(result.run_dir),
        **shown,
        "suspects": suspects,
    }


def _show(facts: Facts, most: int) -> None:
    from agentforge.agents.observed import failure_lines
    from agentforge.cli.sanitize import one_line

    shown = facts.suspects[:most]
    header = ("#", "LINE", "SCORE", "OCHIAI", "TARANTULA", "DSTAR", "FAIL", "PASS", "INDEX", "CODE")
    print_table(header, [_row(number, suspect) for number, suspect in enumerate(shown, 1)])
    print("\nwhy:")
    for number, suspect in enumerate(shown, 1):
        for text in _whys(suspect):
            print(f"  {number}. {one_line(text, 200)}")
    for failure in facts.failures:
        print()
        for text in failure_lines(failure):
            print(text[: len(text) - len(text.lstrip())] + one_line(text.strip(), 400))
    for reason in facts.reasons:
        print(f"\nnote: {one_line(reason, 200)}")


def _row(number: int, suspect: Suspect) -> tuple[str, ...]:
    return (
        str(number),
        f"{suspect.path}:{suspect.line}",
        f"{suspect.score:.2f}",
        f"{suspect.ochiai:.2f}",
        f"{suspect.tarantula:.2f}",
        "inf" if suspect.dstar is None else f"{suspect.dstar:.2f}",
        str(suspect.failing),
        str(suspect.passing),
        "-" if suspect.index is None else str(suspect.index),
        suspect.code,
    )


def _whys(suspect: Suspect) -> Iterator[str]:
    yield "; ".join(suspect.why)
    if suspect.expression and suspect.expression != suspect.code:
        yield f"fails while evaluating {suspect.expression}"
