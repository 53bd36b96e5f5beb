"""Our own thirty problems: ten of dynamic programming, ten of graphs, ten of data structures.

Statements, solutions, known-bad solutions and tests are ours. Every expected value was computed by an
independent brute-force solution, which is kept beside it and run against the reference again by the tests.
"""

from __future__ import annotations

from functools import cached_property
from importlib import resources
from typing import Any

import yaml

from agentforge.core.base import Frozen
from agentforge.core.problem import Example, Judge, Problem


class Change(Frozen):
    """A known-bad solution: the reference with one piece of its text replaced."""

    change: str
    to: str


class Sheet(Frozen):
    """One problem as its file has it. `draw` is a Python expression over `rng` for random arguments."""

    id: str
    entry: str
    signature: str
    statement: str
    examples: tuple[Example, ...]
    tests: tuple[Example, ...]
    """Each described as boundary, canonical or stress."""
    reference: str
    brute: str
    mutants: tuple[Change, ...]
    draw: str
    category: str

    @property
    def problem(self) -> Problem:
        kind = "class" if self.signature.startswith("class ") else "function"
        body = "pass" if kind == "class" else "raise NotImplementedError"
        return Problem(
            id=self.id,
            title=f"{self.entry}: {self.statement.split('. ')[0].split(chr(10))[0]}"[:100],
            statement=self.statement,
            kind=kind,
            entry_point=self.entry,
            stub=f"{self.signature.rstrip(':')}:\n    {body}\n",
            examples=self.examples,
            source="thirty",
        )


class ThirtyProblems:
    """The suite `thirty`."""

    name = "thirty"

    @cached_property
    def sheets(self) -> dict[str, Sheet]:
        """By id, in order of category and id."""
        folder = resources.files("agentforge") / "evaluation" / "suites" / "thirty"
        rows: list[Any] = [yaml.safe_load(file.read_text("utf-8")) for file in folder.iterdir()]
        sheets = sorted(map(Sheet.model_validate, rows), key=lambda sheet: (sheet.category, sheet.id))
        return {sheet.id: sheet for sheet in sheets}

    def problems(self) -> tuple[Problem, ...]:
        return tuple(sheet.problem for sheet in self.sheets.values())

    def reference(self, problem_id: str) -> str:
        return self.sheets[problem_id].reference

    def mutants(self, problem_id: str) -> tuple[str, ...]:
        sheet = self.sheets[problem_id]
        return tuple(sheet.reference.replace(change.change, change.to, 1) for change in sheet.mutants)

    def judge(self, problem_id: str) -> Judge:
        return Judge(checks=self.sheets[problem_id].tests)
