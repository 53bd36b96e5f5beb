"""The seam between the runner and the suites: what a suite offers, what a trial is given and gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import Field, StringConstraints

from agentforge.config.settings import Settings
from agentforge.core.base import Frozen
from agentforge.evaluation.suites.protocol import SelfCheck
from agentforge.evaluation.trials import TrialRow
from agentforge.orchestrator.eventlog import Listener

Status = Literal["final", "ungraded", "infra", "cost", "interrupted"]
"""`final` counts and is never run again. `ungraded` waits for `Grader.grade`. The rest says nothing of the
candidate (our own trouble, the batch's money, a signal): the next `--resume` runs it again."""


FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
"""Of an artifact: it stays in its folder, whoever names it."""


class BenchTask(Frozen):
    """One instance of a suite. `id` is unique in it."""

    id: str
    category: str = ""
    repository: str = ""


class SuiteSpec(Frozen):
    """A suite as data, so that another process can open it: a name of the registry and its options (JSON)."""

    name: str
    options: dict[str, Any] = {}


class TrialSpec(Frozen):
    """One trial as data: all that another process needs to carry it out.

    `settings` are the trial's own: seed, limits and the batch folder as data home. `resumes`: the run
    `run_id` was begun by a process that died; what it paid for is in its record.
    """

    suite: SuiteSpec
    task: BenchTask
    trial: int
    seed: int
    run_id: str
    folder: Path
    settings: Settings
    resumes: bool = False


@dataclass(frozen=True)
class TrialContext:
    """What a suite is given for one trial. `settings.limits` hold what may still be spent (US dollars,
    tokens, calls, seconds); `folder` is the batch folder, where the run's record goes, too."""

    settings: Settings
    trial: int
    seed: int
    run_id: str
    folder: Path
    listener: Listener
    resumes: bool = False


class TrialOutcome(Frozen):
    """A `TrialRow` without its keys. `extra` (JSON) goes into the row as further fields; `artifacts`
    are files by name, kept beside the rows before the row is written. Times in seconds."""

    passed: bool = False
    tests_passed: int = Field(default=0, ge=0)
    tests_total: int = Field(default=0, ge=0)
    retries: int = Field(default=0, ge=0)
    error_class: str = "none"
    wallclock: float = Field(default=0.0, ge=0)
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    cost_usd: float | None = None
    test_source: str = ""
    stage: str = ""
    agents: dict[str, bool] = {}
    specialists: list[str] = []
    extra: dict[str, Any] = {}
    artifacts: dict[FileName, bytes] = {}
    status: Status = "final"

    @property
    def final(self) -> bool:
        return self.status == "final"


class Bench(Protocol):
    """A suite that can be run. All of it may be called from several tasks of one loop."""

    @property
    def name(self) -> str: ...

    @property
    def dataset_hash(self) -> str:
        """Of the data the tasks come from; a batch goes on with the same data only."""

    @property
    def harness(self) -> str:
        """What judges, with its version or hash; rows judged by different ones are not compared."""

    @property
    def conditions(self) -> Mapping[str, Any]:
        """Options that change what a trial means (JSON); part of the config hash."""

    def tasks(self) -> tuple[BenchTask, ...]:
        """All tasks, in a fixed order."""

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        """Raise `AgentForgeError` where these tasks cannot be run here: engine, images, disk, rows."""

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        """Known-good solutions pass and known-bad ones fail; None where the suite has none at hand."""

    async def run(self, task: BenchTask, context: TrialContext) -> TrialOutcome:
        """One trial. An `AgentForgeError` it raises is our own trouble (status `infra`)."""


@dataclass(frozen=True)
class Grade:
    """What the judge says of one trial. `extra` adds to the row; `infra` is judged again by the next call."""

    passed: bool
    error_class: str
    tests_passed: int = 0
    tests_total: int = 0
    status: Status = "final"
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Ungraded:
    """A trial that waits for its judge, with the folder of its artifacts."""

    row: TrialRow
    artifacts: Path


@runtime_checkable
class Grader(Protocol):
    """A suite whose judge runs in batch, with its own number of workers, after the trials."""

    async def grade(
        self, pending: Sequence[Ungraded], folder: Path, settle: Callable[[Ungraded, Grade], None]
    ) -> None:
        """Call `settle` once for each of `pending`, as soon as it is known; each call is durable."""
