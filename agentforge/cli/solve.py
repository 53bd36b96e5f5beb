"""`agentforge solve`: a program for a problem, through the same workflows as a repair."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentforge.cli import options as opt
from agentforge.cli.failures import error_document, reader_may_leave, report_failure
from agentforge.cli.output import ConfigOption, JsonOption, print_bytes, print_json, resolve_settings
from agentforge.cli.sanitize import one_line
from agentforge.core.errors import AgentForgeError, ExitCode, UsageError

if TYPE_CHECKING:
    from agentforge.config.settings import Settings
    from agentforge.core.problem import ProblemRecord
    from agentforge.evaluation.judge import Judgement
    from agentforge.orchestrator.solve import Solution

app = typer.Typer(add_completion=False, rich_markup_mode=None)
ProblemFile = Annotated[
    Path, typer.Option("--problem", metavar="FILE", help="A statement, or JSON (.json, .jsonl, also .gz).")
]
Index = Annotated[
    int | None, typer.Option("--index", metavar="N", help="Which problem of the file, counted from 0.")
]
Id = Annotated[str | None, typer.Option("--id", metavar="ID", help="The problem with this id.")]
Folder = Annotated[
    Path | None,
    typer.Option("--output", metavar="FOLDER", help="Write program, tests and explanation there."),
]
Judging = Annotated[
    bool, typer.Option("--judge/--no-judge", help="Run the file's hidden tests on the result, too.")
]
MODEL_OPTIONS = ("workflow", "model", "base_url", "edit_format", "retries", "critic", "memory")
LIMIT_OPTIONS = ("max_cost", "max_tokens", "max_calls", "time_limit", "sandbox_timeout")


@app.command()
def solve(
    context: typer.Context,
    problem: ProblemFile,
    index: Index = None,
    id: Id = None,
    workflow: opt.WorkflowName = None,
    model: opt.ModelName = None,
    base_url: opt.BaseUrl = None,
    edit_format: opt.EditFormat = None,
    retries: opt.Retries = None,
    critic: opt.Critic = None,
    max_cost: opt.MaxCost = None,
    max_tokens: opt.MaxTokens = None,
    max_calls: opt.MaxCalls = None,
    time_limit: opt.TimeLimit = None,
    sandbox_timeout: opt.SandboxTimeout = None,
    memory: opt.Memory = None,
    judge: Judging = True,
    output: Folder = None,
    as_json: JsonOption = False,
    stream: opt.Stream = True,
    dry_run: opt.DryRun = False,
    config: ConfigOption = None,
    verbose: opt.Verbose = False,
) -> None:
    """Write a program for a problem: program, tests and explanation, each of them run.

    The program goes to stdout, progress to stderr. Hidden tests judge only what the workflow has done.
    """
    raise typer.Exit(_guarded(context.params))


def _guarded(values: dict[str, Any]) -> int:
    try:
        return _solve(values)
    except AgentForgeError as error:
        if values["as_json"]:
            print_json(error_document(error.what, error.hint, int(error.exit_code)))
        return report_failure(error)


def _solve(values: dict[str, Any]) -> int:
    from agentforge.repo.problem.read import read_record

    opt.check_numbers(values)
    output: Path | None = values["output"]
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file", hint="give it a folder")
    overrides = {
        key: values[name]
        for name, key in opt.SETTINGS_BY_OPTION.items()
        if name in (*MODEL_OPTIONS, *LIMIT_OPTIONS)
    }
    settings = resolve_settings(values["config"], overrides).settings
    record = read_record(values["problem"].expanduser(), values["index"], values["id"])
    solution, judgement = _run(record, settings, values)
    return _conclude(record, solution, judgement, values)


def _run(
    record: ProblemRecord, settings: Settings, values: dict[str, Any]
) -> tuple[Solution, Judgement | None]:
    from agentforge.cli.interrupt import run_interruptible
    from agentforge.cli.view import watching

    async def work() -> tuple[Solution, Judgement | None]:
        from agentforge.evaluation.judge import judge_program, judging_settings
        from agentforge.orchestrator.solve import settings_for, solve_problem
        from agentforge.sandbox.docker_sandbox import DockerSandbox

        problem = record.problem
        dry = values["dry_run"]
        solution = await solve_problem(problem, settings, listener=listener, dry_run=dry)
        if dry or not values["judge"] or record.judge.empty or solution.program is None:
            return solution, None
        limits = judging_settings(settings_for(problem, settings).sandbox)
        sandbox = DockerSandbox(limits, f"{solution.run.run_id}-judge")
        return solution, await judge_program(
            sandbox, record, solution.program, timeout_s=limits.suite_timeout_s
        )

    with watching(stream=values["stream"], verbose=values["verbose"]) as listener:
        return run_interruptible(work())


def _conclude(
    record: ProblemRecord, solution: Solution, judgement: Judgement | None, values: dict[str, Any]
) -> int:
    code = _exit_code(solution, judgement)
    written = _write(values["output"], solution) if values["output"] is not None else []
    with reader_may_leave():
        for line in _account(solution, judgement):
            print(one_line(line, 600), file=sys.stderr)
        sys.stderr.flush()
    if values["as_json"]:
        print_json(_document(record, solution, judgement, code, written))
    elif solution.program is not None and not written and code in (0, ExitCode.UNVERIFIED):
        print_bytes(solution.program.encode("utf-8", "replace"))
    return code


def _exit_code(solution: Solution, judgement: Judgement | None) -> int:
    """The run's own; hidden tests that a program fails make it no success."""
    code = int(solution.run.exit_code)
    refused = judgement is not None and not judgement.passed
    return int(ExitCode.NO_VERIFIED_PATCH) if refused and code in (0, ExitCode.UNVERIFIED) else code


def _write(folder: Path, solution: Solution) -> list[str]:
    """Program, tests and explanation; a program that nothing accepted is written as well, and said so."""
    from agentforge.orchestrator.solve import result_files

    written = []
    for name, text in result_files(solution).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        written.append(str(path))
    return written


def _account(solution: Solution, judgement: Judgement | None) -> list[str]:
    run = solution.run
    lines = ["", f"{run.outcome.upper().replace('_', ' ')} {run.summary}"]
    lines += [f"hint: {run.hint}"] if run.hint else []
    if solution.test_poor:
        lines.append("evidence is poor: the problem has no examples, and no test could be written for it")
    if judgement is not None:
        how = "passed" if judgement.passed else f"failed ({judgement.error_class.value})"
        lines.append(f"hidden tests: {how}, {judgement.tests_passed} of {judgement.tests_total}")
    return [*lines, f"record   {run.run_dir}"]


def _document(
    record: ProblemRecord,
    solution: Solution,
    judgement: Judgement | None,
    code: int,
    written: list[str],
) -> dict[str, Any]:
    from agentforge.cli.summary import result_document

    judged = None
    if judgement is not None:
        judged = {
            "passed": judgement.passed,
            "tests_passed": judgement.tests_passed,
            "tests_total": judgement.tests_total,
            "error_class": judgement.error_class.value,
        }
    return result_document(solution.run, models={}) | {
        "exit_code": code,
        "problem": record.problem.id,
        "program": solution.program,
        "tests_written": dict(solution.tests),
        "explanation": solution.explanation,
        "test_source": solution.test_source,
        "test_poor": solution.test_poor,
        "judge": judged,
        "files": written,
    }
