"""What a suite is, and the check that its judge can tell good programs from bad ones."""

from __future__ import annotations

from typing import Protocol

from agentforge.core.base import Frozen
from agentforge.core.ports import Sandbox
from agentforge.core.problem import Judge, Problem, ProblemRecord
from agentforge.evaluation.judge import Entrant, judge_many


class Suite(Protocol):
    """Problems under one name. Ids are those of `problems()`; an unknown one raises `KeyError`."""

    @property
    def name(self) -> str: ...

    def problems(self) -> tuple[Problem, ...]:
        """What workflows are given, in a fixed order."""

    def reference(self, problem_id: str) -> str:
        """A program that is right; "" where the suite has none."""

    def mutants(self, problem_id: str) -> tuple[str, ...]:
        """Programs that are known to be wrong."""

    def judge(self, problem_id: str) -> Judge:
        """The hidden tests."""


class SelfCheck(Frozen):
    """`problems` names each reference that does not pass and each mutant that does; empty: all is well."""

    suite: str
    references: int
    mutants: int
    problems: tuple[str, ...] = ()


async def self_check(
    suite: Suite, sandbox: Sandbox, ids: tuple[str, ...] = (), *, timeout_s: float = 300.0
) -> SelfCheck:
    """Known-good programs must pass and known-bad ones fail, through the same sandbox as any program.

    `ids` narrows it to some problems. References run together, mutants too, in containers of their own.
    """
    chosen = [problem for problem in suite.problems() if not ids or problem.id in ids]
    good = [
        _entrant(suite, problem, f"good_{n}", suite.reference(problem.id)) for n, problem in enumerate(chosen)
    ]
    good = [entrant for entrant in good if entrant.program]
    bad = [
        _entrant(suite, problem, f"bad_{n}_{place}", program)
        for n, problem in enumerate(chosen)
        for place, program in enumerate(suite.mutants(problem.id))
    ]
    found: list[str] = []
    for entrants, wanted in ((good, True), (bad, False)):
        judged = await judge_many(sandbox, tuple(entrants), timeout_s=timeout_s) if entrants else {}
        found += [_complaint(one, wanted) for one in entrants if judged[one.name].passed is not wanted]
        found += [f"{one.problem.id}: did not run" for one in entrants if not judged[one.name].tests_total]
    return SelfCheck(suite=suite.name, references=len(good), mutants=len(bad), problems=tuple(found))


def _entrant(suite: Suite, problem: Problem, name: str, program: str) -> Entrant:
    return Entrant(name, problem, suite.judge(problem.id), program)


def _complaint(entrant: Entrant, wanted: bool) -> str:
    what = (
        "the reference fails" if wanted else f"the known-bad program {entrant.name.rpartition('_')[2]} passes"
    )
    return f"{entrant.problem.id}: {what}"


class RecordSuite:
    """A suite of records read from a file, with the references that they hold.

    Each has one known-bad program: the stub, which is no solution.
    """

    def __init__(self, name: str, records: tuple[ProblemRecord, ...]) -> None:
        self._name = name
        self._records = {record.problem.id: record for record in records}

    @property
    def name(self) -> str:
        return self._name

    def problems(self) -> tuple[Problem, ...]:
        return tuple(record.problem for record in self._records.values())

    def reference(self, problem_id: str) -> str:
        return self._records[problem_id].reference

    def mutants(self, problem_id: str) -> tuple[str, ...]:
        return (self._records[problem_id].problem.stub or "pass\n",)

    def judge(self, problem_id: str) -> Judge:
        return self._records[problem_id].judge
