"""What an execution said: outcomes by test id, and the cause of its end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from agentforge.core.base import Frozen


class Outcome(StrEnum):
    """Outcome of one test, in pytest's words. Only PASSED and XFAILED mean "as it should be"."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"


class Cause(StrEnum):
    """How an execution ended. OK means: tests ran to the end and a report came back, green or red.

    PIDS, DISK_FULL and SIGNAL name what cut an execution short; CRASH is any other early end.
    """

    OK = "ok"
    NO_TESTS = "no_tests"
    COLLECTION_ERROR = "collection_error"
    TIMEOUT = "timeout"
    OOM = "oom"
    PIDS = "pids"
    DISK_FULL = "disk_full"
    SIGNAL = "signal"
    CRASH = "crash"
    INFRA = "infra"


class TestFailure(Frozen):
    """Why one test failed: the exception's type, its message, and where in the repository."""

    __test__ = False

    exception: str = ""
    message: str = ""
    traceback: str = ""
    frames: tuple[tuple[str, int, str], ...] = ()
    """(path, line, function), outermost first, repository files only."""


class TestReport(Frozen):
    """Outcome per test id of one execution (design, section 2). Times in seconds.

    `output` is clipped head and tail, for people; the whole lies at `log_path` in the run directory.
    """

    __test__ = False

    outcomes: Mapping[str, Outcome] = {}
    failures: Mapping[str, TestFailure] = {}
    collected: int = 0
    exit_code: int | None = None
    duration_s: float = 0.0
    cause: Cause = Cause.OK
    cause_detail: str = ""
    output: str = ""
    log_path: str = ""
    command: tuple[str, ...] = ()
    scope: str = "all"
    tampered: tuple[str, ...] = ()
    """Parts of the test framework that the repository's own code replaced while the tests ran."""

    def with_outcome(self, *wanted: Outcome) -> frozenset[str]:
        """Ids whose outcome is one of `wanted`."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome in wanted)

    @property
    def passed(self) -> frozenset[str]:
        return self.with_outcome(Outcome.PASSED)

    @property
    def failed(self) -> frozenset[str]:
        """Ids that failed or ended in an error."""
        return self.with_outcome(Outcome.FAILED, Outcome.ERROR)
