"""What the base shows about a failure: lines to suspect, and the values seen where tests fail."""

from __future__ import annotations

from agentforge.core.base import Frozen


class Value(Frozen):
    """A name and its value as text, at most 120 characters."""

    name: str
    text: str


class FailingFrame(Frozen):
    """One frame of the repository when the exception was raised. `expression` is what was evaluated."""

    path: str
    line: int
    function: str
    expression: str = ""
    values: tuple[Value, ...] = ()


class SeenCall(Frozen):
    """A call from the test into the repository. `returned` is None where it raised or did not end."""

    path: str
    line: int
    function: str
    arguments: tuple[Value, ...] = ()
    values: tuple[Value, ...] = ()
    """Local names when it ended, without arguments that are as they came in."""
    returned: str | None = None


class FailingTest(Frozen):
    """How one target fails on the base: the frames innermost last, the last calls that it made."""

    test: str
    outcome: str
    exception: str = ""
    message: str = ""
    frames: tuple[FailingFrame, ...] = ()
    calls: tuple[SeenCall, ...] = ()


class Suspect(Frozen):
    """A statement that failing tests run: lines `line` to `end_line`, 1-based and inclusive.

    `score` orders; `ochiai` and `tarantula` are between 0 and 1, `dstar` (exponent 2) is None where it is
    unbounded: every failing test and no passing one runs the statement. `index` is the rank (from 1) at
    which the repository index gave the symbol around it for this issue, None where it did not.
    """

    path: str
    line: int
    end_line: int
    code: str
    score: float
    ochiai: float
    tarantula: float
    dstar: float | None
    failing: int
    passing: int
    index: int | None = None
    expression: str = ""
    """The part of it that was evaluated when a test failed here."""
    why: tuple[str, ...] = ()


class Facts(Frozen):
    """What was observed on the base. `reasons` say in words what limits it.

    `asked`: the run was made for these facts alone, so that they are its result.
    """

    targets: tuple[str, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    failures: tuple[FailingTest, ...] = ()
    reasons: tuple[str, ...] = ()
    asked: bool = False
