"""Suites of problems (HumanEval, the thirty, records from files), each program judged by hidden tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.errors import UsageError
from agentforge.core.problem import Problem, ProblemRecord
from agentforge.evaluation.bench.attempt import Ran, attempt, measured
from agentforge.evaluation.bench.harness import judge_hash
from agentforge.evaluation.bench.preflight import check_engine
from agentforge.evaluation.bench.protocol import BenchTask, TrialContext, TrialOutcome
from agentforge.evaluation.judge import ErrorClass, Judgement, judge_program, judging_settings
from agentforge.evaluation.suites.protocol import RecordSuite, SelfCheck, Suite, self_check
from agentforge.evaluation.suites.thirty_problems import ThirtyProblems
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.solve import Solution, settings_for, solution_of, solve_problem
from agentforge.repo.problem.files import problem_tree
from agentforge.repo.problem.read import read_records
from agentforge.sandbox.docker_sandbox import DockerSandbox

SELF_CHECK_S = 900.0


class ProblemBench:
    """Any suite of problems as a `Bench`; `solve` and `fix` workflows alike get the small repository."""

    def __init__(self, suite: Suite, settings: Settings, categories: Mapping[str, str] | None = None) -> None:
        self._suite, self._settings = suite, settings
        self._problems = {problem.id: problem for problem in suite.problems()}
        self._categories = categories or {}

    @property
    def name(self) -> str:
        return self._suite.name

    @property
    def dataset_hash(self) -> str:
        """Over problems, judges and references."""
        digest = hashlib.sha256()
        for problem in self._problems.values():
            parts = (
                problem.model_dump(mode="json"),
                self._suite.judge(problem.id).model_dump(mode="json"),
                self._suite.reference(problem.id),
            )
            digest.update(json.dumps(parts, sort_keys=True).encode())
        return digest.hexdigest()[:16]

    @property
    def harness(self) -> str:
        return judge_hash()

    @property
    def conditions(self) -> Mapping[str, Any]:
        return {}

    def tasks(self) -> tuple[BenchTask, ...]:
        return tuple(
            BenchTask(id=problem.id, category=self._categories.get(problem.id, ""))
            for problem in self._problems.values()
        )

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        unjudged = [task.id for task in tasks if self._suite.judge(task.id).empty]
        if unjudged:
            raise UsageError(
                f"{len(unjudged)} problems have no tests to judge by, {unjudged[0]} first",
                hint="choose others by --filter, or add `tests` to the records",
            )
        await check_engine()

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        sandbox = DockerSandbox(judging_settings(self._settings.sandbox), "bench-self-check")
        ids = tuple(task.id for task in tasks)
        return await self_check(self._suite, sandbox, ids, timeout_s=SELF_CHECK_S)

    async def run(self, task: BenchTask, context: TrialContext) -> TrialOutcome:
        problem = self._problems[task.id]

        async def fresh(listener: Listener) -> RunResult:
            solution = await solve_problem(
                problem, context.settings, listener=listener, run_id=context.run_id
            )
            return solution.run

        ran = await attempt(context, fresh)
        solution = solution_of(problem, problem_tree(problem), ran.run)
        judgement = await self._judge(problem, solution, context)
        return outcome_of(ran, judgement, solution)

    async def _judge(self, problem: Problem, solution: Solution, context: TrialContext) -> Judgement:
        limits = judging_settings(settings_for(problem, context.settings).sandbox)
        sandbox = DockerSandbox(limits, f"{context.run_id}-judge")
        record = ProblemRecord(problem=problem, judge=self._suite.judge(problem.id))
        program = judged_program(problem, solution.program)
        return await judge_program(sandbox, record, program, timeout_s=limits.suite_timeout_s)


def judged_program(problem: Problem, program: str | None) -> str | None:
    """HumanEval's own protocol runs the prompt before the program: its imports and helpers are there.

    What a program defines itself takes the place of what the prompt defines.
    """
    if program is None or not program.strip() or problem.source != "humaneval":
        return program
    return program if "from __future__" in program else f"{problem.stub.rstrip()}\n\n\n{program}"


def outcome_of(ran: Ran, judgement: Judgement, solution: Solution | None = None) -> TrialOutcome:
    """The trial by what its hidden tests say; a run of which nothing can be said is no trial."""
    fields = measured(ran)
    if judgement.error_class is ErrorClass.INFRA:
        fields["status"] = "infra"
    infra = fields["status"] == "infra"
    extra = fields.pop("extra") | {"judge_s": round(judgement.duration_s, 3)}
    artifacts: dict[str, bytes] = {}
    if ran.run.state is not None and ran.run.state.best is not None:
        artifacts["patch.diff"] = ran.run.state.best.candidate.patch.diff
    return TrialOutcome(
        **fields,
        passed=judgement.passed and fields["status"] == "final",
        tests_passed=judgement.tests_passed,
        tests_total=judgement.tests_total,
        error_class=(ErrorClass.INFRA if infra else judgement.error_class).value,
        test_source=solution.test_source if solution is not None else "given",
        extra=extra,
        artifacts=artifacts,
    )


def open_thirty(options: Mapping[str, Any], settings: Settings) -> ProblemBench:
    suite = ThirtyProblems()
    return ProblemBench(suite, settings, {id_: sheet.category for id_, sheet in suite.sheets.items()})


def open_records(options: Mapping[str, Any], settings: Settings) -> ProblemBench:
    """`file`: HumanEval, MBPP, APPS, CodeContests, ClassEval or our own shape. Raises `UsageError`."""
    path = Path(options["file"])
    records = tuple(read_records(path))
    repeated = len(records) - len({record.problem.id for record in records})
    if repeated:
        raise UsageError(f"{path} has {repeated} problems whose id another one has")
    name = options.get("name") or records[0].problem.source
    if name == "humaneval" and any(record.problem.source != "humaneval" for record in records):
        raise UsageError(f"{path} is not a file of HumanEval", hint="use `agentforge bench records`")
    categories = {record.problem.id: record.problem.kind for record in records}
    return ProblemBench(RecordSuite(name, records), settings, categories)
