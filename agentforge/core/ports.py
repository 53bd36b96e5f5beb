"""The ports of the engine. Each has a live form and a replay form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agentforge.core.base import Frozen
from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.patch import Patch
from agentforge.core.report import Cause, TestReport
from agentforge.core.retrieval import Episode, Insight, Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Changes, Tree


class TokenSink(Protocol):
    """Receives a completion as it is produced."""

    def token(self, text: str) -> None: ...

    def reset(self, reason: str) -> None:
        """The stream broke and starts over: forget every token of this completion."""


class Model(Protocol):
    """The one door to language models. Raises `ModelError` or `LimitReached`."""

    async def complete(self, request: ModelRequest, sink: TokenSink | None = None) -> Completion: ...


class Environment(Frozen):
    """An image in which a repository's tests can run, and how they are run.

    `image` is a content digest; `test_command` is argv without test ids; `framework` is "pytest",
    "unittest" or "command"; `notes` explain in words what was detected and why.
    """

    image: str
    test_command: tuple[str, ...] = ("python", "-m", "pytest")
    framework: str = "pytest"
    notes: tuple[str, ...] = ()
    workdir: str = ""
    """Subdirectory of the tree where commands start, "" for the root."""
    reads: str = ""
    """"unittest" where the output of a framework "command" names each test as unittest does with -v."""
    junit: str = ""
    """Where a framework "command" writes a JUnit report, relative to `workdir`; "" for none. It is
    written by the tests themselves, so it can be forged: it is compared with the exit code."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What the user asked about the environment; empty fields are detected."""

    image: str | None = None
    setup: tuple[str, ...] = ()
    test_command: str | None = None
    subdirectory: str = ""
    apt: tuple[str, ...] = ()
    """Debian packages of the environment."""
    dockerfile: str | None = None
    """Text of a Dockerfile that makes the user's own image; the tree is its build context."""
    junit: str = ""


@dataclass(frozen=True)
class TestRequest:
    """Which tests to run. Empty `targets` means the whole suite (of `workdir`).

    `targets` are test ids, files or directories relative to the tree's root.
    """

    __test__ = False

    targets: tuple[str, ...] = ()
    timeout_s: float = 30.0
    scope: str = "all"


@dataclass(frozen=True)
class Job:
    """A command inside a sandbox, with files beside the tree and files to bring home.

    `files` are put under /job (read-only to nobody, but outside the repository); `results` are
    paths relative to /job/out that are read back, each at most `max_result_bytes`.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    results: tuple[str, ...] = ()
    timeout_s: float = 30.0
    max_result_bytes: int = 16 * 1024 * 1024
    env: Mapping[str, str] = field(default_factory=dict)


class JobResult(Frozen):
    """How a job ended. `output` is clipped; `files` holds those results that exist."""

    exit_code: int | None
    cause: Cause
    output: str = ""
    duration_s: float = 0.0
    files: Mapping[str, bytes] = {}


# Test id -> path -> line numbers executed.
LineCoverage = Mapping[str, Mapping[str, tuple[int, ...]]]


class Sandbox(Protocol):
    """The one door to execution. Every call uses a fresh, limited, networkless container."""

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        """Build or find the environment image. Raises `ImageError`, `EngineUnavailable`."""

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        """Run tests of `tree`; what goes wrong inside is a cause in the report, not an exception."""

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        """As `run_tests`, and which lines of the repository each test executed."""

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        """Run one command with `tree` as working directory."""


class Workspace(Protocol):
    """A disposable, history-free copy of the repository at the base."""

    @property
    def tree(self) -> Tree:
        """The base tree."""

    async def make_patch(self, changes: Changes) -> Patch:
        """The canonical diff of `changes` against the base, re-checked by a strict `git apply --check`."""


class Retriever(Protocol):
    """Memory as the agents see it. Never raises: a broken store yields nothing."""

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved: ...

    async def store(self, episode: Episode) -> str:
        """Remember; the episode's id, "" where it could not be kept."""

    async def outcome(self, used: Sequence[Insight], *, verified: bool) -> None:
        """Tell the insights a run was given whether it ended verified."""

    async def learn(self, lesson: str, episodes: Sequence[str]) -> str:
        """Keep a lesson that those episodes support; the insight's id, "" where it could not be kept."""


class Clock(Protocol):
    """Time as the record sees it."""

    def now(self) -> datetime:
        """Aware, UTC."""

    def monotonic(self) -> float:
        """Seconds, for deadlines."""
