"""A programming problem as a workflow may see it, and, kept apart, what judges the program."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen

ProblemKind = Literal["function", "class", "stdio"]
Language = Literal["python", "cpp"]


class Example(Frozen):
    """One check of a program: a call with its value, or input with its output.

    `call`, `setup` and `expected` are Python text (`expected` a literal); for "stdio" problems `stdin` and
    `expected` are the text itself. `loose`: lists may stand for tuples, where JSON could not tell them
    apart. `tolerance` is relative and absolute, for floats only.
    """

    call: str = ""
    setup: tuple[str, ...] = ()
    stdin: str = ""
    expected: str = ""
    description: str = ""
    unordered: bool = False
    loose: bool = False
    tolerance: float = 1e-9


class ProblemLimits(Frozen):
    """Seconds and megabytes of one test; None leaves the sandbox's own."""

    time_s: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)


class Problem(Frozen):
    """What a workflow sees. Nothing here comes from the hidden tests or the reference solution.

    `stub` is the program to start from: for HumanEval the prompt, imports and helpers included.
    """

    id: str
    title: str
    statement: str
    kind: ProblemKind = "function"
    language: Language = "python"
    entry_point: str = ""
    """Name of the function or class; "" for "stdio"."""
    stub: str = ""
    examples: tuple[Example, ...] = ()
    limits: ProblemLimits = ProblemLimits()
    source: str = "text"
    """Shape of the record it was read from."""

    @property
    def program_path(self) -> str:
        return "solution.cpp" if self.language == "cpp" else "solution.py"

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages that its tests need; an image with them is made when first needed."""
        return ("g++",) if self.language == "cpp" else ()


class Judge(Frozen):
    """The hidden tests: checks, or code of a test module that sees the names of the solution.

    `code` holds pytest or unittest tests; with `check` its function of that name is called with the
    entry point (HumanEval). Empty where a record has no hidden tests.
    """

    checks: tuple[Example, ...] = ()
    code: str = ""
    check: str = ""

    @property
    def empty(self) -> bool:
        return not self.checks and not self.code


class ProblemRecord(Frozen):
    """A problem with what must stay out of its workflow's reach."""

    problem: Problem
    judge: Judge = Judge()
    reference: str = ""
