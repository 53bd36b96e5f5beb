"""The hidden judge of a program, and the class of its error (ExecuGraph, 4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, EnvironmentSpec, Sandbox, TestRequest
from agentforge.core.problem import Judge, Problem, ProblemRecord
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.problem.files import CHECK, HIDDEN, judge_tree


class ErrorClass(StrEnum):
    """Why a program does not pass. `INFRA` is our own trouble: such a trial is repeated, never counted."""

    NONE = "none"
    SYNTAX = "syntax"
    RUNTIME = "runtime"
    TIMEOUT = "timeout"
    WRONG_ANSWER = "wrong_answer"
    EMPTY_OUTPUT = "empty_output"
    SANDBOX_VIOLATION = "sandbox_violation"
    INFRA = "infra"


@dataclass(frozen=True)
class Judgement:
    """`passed` only where every hidden test passed in a clean report."""

    passed: bool
    tests_passed: int
    tests_total: int
    error_class: ErrorClass
    failures: Mapping[str, TestFailure]
    duration_s: float


async def judge_program(
    sandbox: Sandbox, record: ProblemRecord, program: str | None, *, timeout_s: float = 120.0
) -> Judgement:
    """Run the hidden tests on `program` (None or blank: there is none), in a container of their own."""
    if program is None or not program.strip():
        return Judgement(False, 0, 0, ErrorClass.EMPTY_OUTPUT, {}, 0.0)
    tree = judge_tree(record.problem, record.judge, program)
    spec = EnvironmentSpec(apt=record.problem.packages)
    environment = await sandbox.prepare(tree, spec)
    report = await sandbox.run_tests(
        environment, tree, TestRequest(targets=(HIDDEN,), timeout_s=timeout_s, scope="hidden")
    )
    return judgement_of(report)


def judgement_of(report: TestReport) -> Judgement:
    """What a report on the hidden tests comes to."""
    error = error_class(report)
    total, passed = len(report.outcomes), len(report.passed)
    return Judgement(error is ErrorClass.NONE, passed, total, error, dict(report.failures), report.duration_s)


_VIOLATIONS = frozenset({"PermissionError", "OSError", "BlockingIOError"})


def error_class(report: TestReport) -> ErrorClass:
    """The first of these that holds, worst first; `NONE` only where everything that ran passed."""
    if report.cause is Cause.INFRA:
        return ErrorClass.INFRA
    if report.cause is Cause.TIMEOUT:
        return ErrorClass.TIMEOUT
    if report.cause in (Cause.OOM, Cause.PIDS, Cause.DISK_FULL, Cause.SIGNAL) or report.tampered:
        return ErrorClass.SANDBOX_VIOLATION
    if report.outcomes and len(report.passed) == len(report.outcomes) and report.cause is Cause.OK:
        return ErrorClass.NONE
    return _of_failures(report)


def _of_failures(report: TestReport) -> ErrorClass:
    texts = [f"{failure.exception}: {failure.message}" for failure in report.failures.values()]
    if any(text.startswith(("SyntaxError", "IndentationError", "TabError")) for text in texts) or (
        report.cause is Cause.COLLECTION_ERROR and "SyntaxError" in report.output
    ):
        return ErrorClass.SYNTAX
    if any("did not end within" in text or "Timeout" in text or "time limit" in text for text in texts):
        return ErrorClass.TIMEOUT
    if any(failure.exception in _VIOLATIONS for failure in report.failures.values()):
        return ErrorClass.SANDBOX_VIOLATION
    crashed = [text for text in texts if not text.startswith(("AssertionError", "Failed"))]
    crashed += [text for text in texts if "the program ended with exit code" in text]
    if crashed or report.cause is not Cause.OK or Outcome.ERROR in report.outcomes.values():
        return ErrorClass.RUNTIME
    return ErrorClass.WRONG_ANSWER


@dataclass(frozen=True)
class Entrant:
    """A program to be judged among others; `name` is unique and a Python identifier."""

    name: str
    problem: Problem
    judge: Judge
    program: str


async def judge_many(
    sandbox: Sandbox, entrants: tuple[Entrant, ...], *, timeout_s: float = 300.0
) -> dict[str, Judgement]:
    """Judge programs that are trusted not to disturb each other, all in one container.

    For the self-check of suites: their reference solutions and mutants are our own.
    """
    tree = _tree_of_many(entrants)
    packages = dict.fromkeys(name for entrant in entrants for name in entrant.problem.packages)
    environment = await sandbox.prepare(tree, EnvironmentSpec(apt=tuple(packages)))
    reports = await asyncio.gather(
        *(
            _run(sandbox, environment, tree, part, timeout_s)
            for part in (entrants[::2], entrants[1::2])
            if part
        )
    )
    return {entrant.name: judgement_of(_part(reports, _hidden(entrant))) for entrant in entrants}


async def _run(
    sandbox: Sandbox, environment: Environment, tree: Tree, part: tuple[Entrant, ...], timeout_s: float
) -> TestReport:
    files = tuple(_hidden(entrant) for entrant in part)
    return await sandbox.run_tests(environment, tree, TestRequest(targets=files, timeout_s=timeout_s))


def _hidden(entrant: Entrant) -> str:
    return f"{entrant.name}/tests/test_{entrant.name}.py"


def _tree_of_many(entrants: tuple[Entrant, ...]) -> Tree:
    files: dict[str, TreeFile] = {"pytest.ini": TreeFile(b"[pytest]\naddopts = -p no:cacheprovider\n")}
    for entrant in entrants:
        alone = judge_tree(entrant.problem, entrant.judge, entrant.program).files
        program = entrant.problem.program_path
        files[f"{entrant.name}/{program}"] = alone[program]
        files[f"{entrant.name}/{CHECK}"] = alone[CHECK]
        files[_hidden(entrant)] = alone[HIDDEN]
    return Tree(files)


def _part(reports: list[TestReport], file: str) -> TestReport:
    """What is said of one test file. A file without any outcome did not come to run."""
    for report in reports:
        outcomes = {test: how for test, how in report.outcomes.items() if test.split("::")[0] == file}
        if outcomes:
            failures = {test: report.failures[test] for test in outcomes if test in report.failures}
            changes = {"outcomes": outcomes, "failures": failures, "collected": len(outcomes)}
            return report.model_copy(update={**changes, "cause": Cause.OK, "output": ""})
    return next(iter(reports)).model_copy(update={"outcomes": {}, "failures": {}, "collected": 0})


def judging_settings(settings: SandboxSettings) -> SandboxSettings:
    """Nothing is made ahead for a single judgement."""
    return settings.model_copy(update={"pool": 0})
