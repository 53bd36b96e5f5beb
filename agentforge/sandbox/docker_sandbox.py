"""The sandbox port over a container engine: asynchronous outside, one thread per execution inside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EnvironmentFault, SandboxLost
from agentforge.core.ports import Environment, EnvironmentSpec, Job, JobResult, LineCoverage, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.tree import Tree
from agentforge.sandbox.container import Guard
from agentforge.sandbox.engine import connect
from agentforge.sandbox.execution import Executor
from agentforge.sandbox.pool import WarmPool
from agentforge.sandbox.provision import Provisioner
from agentforge.sandbox.reaper import reap

if TYPE_CHECKING:
    from agentforge.sandbox.builder import Progress

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class DockerSandbox:
    """Runs tests and jobs, each in a fresh container that is gone when the call returns.

    Full logs go to `log_dir` (None: they are not kept). `progress` is told, in words, what a long
    preparation is doing. Cancelling a call kills and removes its container before it returns.

    Used as `async with`, containers for the prepared environment are made ahead, and removed in the
    background; at its end (or at `close`) none is left. Otherwise nothing happens ahead.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        run_id: str,
        log_dir: Path | None = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._run_id = run_id
        self._log_dir = log_dir
        self._progress: Progress = progress or logger.info
        self._executor: Executor | None = None
        self._connecting = asyncio.Lock()
        self._ahead = False

    async def __aenter__(self) -> Self:
        self._ahead = self._settings.pool > 0
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Remove what was made ahead and wait for removals under way; the sandbox may be used again."""
        async with self._connecting:
            executor, self._executor = self._executor, None
        if executor is not None:
            await _to_the_end(executor.close)

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        """Find or build the image in which `tree`'s tests can run, and how they are run.

        Raises `ImageError`, `EngineUnavailable`, `UsageError` for a test command that cannot be read.
        """
        from agentforge.sandbox.environments import prepare_environment

        executor = await self._ready()
        environment = await _in_thread(
            lambda guard: prepare_environment(
                executor.client, self._settings, tree, spec, guard=guard, progress=self._progress
            )
        )
        if executor.pool is not None:
            await asyncio.to_thread(executor.pool.stock, environment, tree)
        return environment

    async def warmed(self, count: int = 1, timeout_s: float = 60.0) -> bool:
        """Wait until `count` containers made ahead are ready; False when they do not come in time."""
        pool = (await self._ready()).pool
        return pool is not None and await asyncio.to_thread(pool.wait_ready, count, timeout_s)

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        """Run tests of `tree`; what goes wrong inside is a cause in the report, not an exception.

        Raises `EngineUnavailable`, and `EnvironmentFault` when the limits are not in force.
        """
        report, _ = await self._tests(environment, tree, request, coverage=False)
        return report

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        """The same, with the lines each test executed: {test id: {path: line numbers}}."""
        return await self._tests(environment, tree, request, coverage=True)

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        """Run one command with `tree` as working directory.

        Raises `EnvironmentFault` for a result that is no plain file or too large.
        """
        executor = await self._ready()
        try:
            return await _retried(lambda guard, _: executor.run_job(environment, tree, job, guard=guard))
        except SandboxLost as error:
            return JobResult(exit_code=None, cause=Cause.INFRA, output=str(error))

    async def _tests(
        self, environment: Environment, tree: Tree, request: TestRequest, *, coverage: bool
    ) -> tuple[TestReport, LineCoverage]:
        executor = await self._ready()
        try:
            return await _retried(
                lambda guard, fresh: executor.run_tests(
                    environment, tree, request, coverage=coverage, guard=guard, fresh=fresh
                )
            )
        except SandboxLost as error:
            report = TestReport(
                cause=Cause.INFRA,
                cause_detail=f"the sandbox was lost twice: {error.what}",
                command=environment.test_command,
                scope=request.scope,
            )
            return report, {}

    async def _ready(self) -> Executor:
        """Connect at the first use, and remove what dead runs left."""
        async with self._connecting:
            if self._executor is None:
                self._executor = await asyncio.to_thread(self._connect)
        return self._executor

    def _connect(self) -> Executor:
        client = connect()
        try:
            removed = reap(client)
        except EnvironmentFault as error:
            logger.warning("could not look for leftovers of dead runs: %s", error)
        else:
            if removed:
                logger.info("removed %d leftovers of dead runs", len(removed))
        provisioner = Provisioner(client, self._settings, self._run_id)
        pool = WarmPool(provisioner, self._settings.pool) if self._ahead else None
        return Executor(provisioner, self._log_dir, pool)


async def _retried(work: Callable[[Guard, bool], Result]) -> Result:
    """A lost sandbox is restarted once, then without a container made ahead.

    A dead engine is `EngineUnavailable`, at once.
    """
    try:
        return await _in_thread(lambda guard: work(guard, False))
    except SandboxLost as error:
        logger.warning("restarting a lost sandbox: %s", error)
    try:
        return await _in_thread(lambda guard: work(guard, True))
    except SandboxLost:
        # Raises `EngineUnavailable` in its place where that is the reason.
        await asyncio.to_thread(_check_engine)
        raise


def _check_engine() -> None:
    connect(10).close()


async def _to_the_end(work: Callable[[], None]) -> None:
    """Run blocking work to its end, also when we are cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        raise


async def _in_thread(work: Callable[[Guard], Result]) -> Result:
    """Run blocking work; when we are cancelled, abort it and wait until its container is gone."""
    guard = Guard()
    task = asyncio.ensure_future(asyncio.to_thread(work, guard))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        abort = asyncio.ensure_future(asyncio.to_thread(guard.abort))
        while not (task.done() and abort.done()):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task, abort})
        with contextlib.suppress(EnvironmentFault):
            task.result()
        raise
