"""One execution from start to end: container, files, command, verdict. Blocks; runs in a thread."""

from __future__ import annotations

import json
import posixpath
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import SandboxLost
from agentforge.core.ports import Environment, Job, JobResult, LineCoverage, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.tree import Tree
from agentforge.sandbox import verdict
from agentforge.sandbox.archive import unpack_file
from agentforge.sandbox.command_report import command_report, unittest_reader
from agentforge.sandbox.container import Container, Ended, Guard, dispose
from agentforge.sandbox.counters import Counters
from agentforge.sandbox.foreign_reports import MAX_JUNIT
from agentforge.sandbox.limits import JOB, REPO
from agentforge.sandbox.output import CappedOutput
from agentforge.sandbox.pool import Waiting, WarmPool
from agentforge.sandbox.provision import Provisioner
from agentforge.sandbox.record import ExecutionRecord
from agentforge.sandbox.session import ENVIRONMENT, REQUEST, inside_files, run_session
from agentforge.sandbox.test_command import PytestCall, plan_pytest

if TYPE_CHECKING:
    from docker import DockerClient

_MB = 1024 * 1024
_REPORT_GRACE_S = 2.0
_REMOVAL_S = 0.5
_KILLED = 137


@dataclass(frozen=True)
class Executor:
    """What every execution of one sandbox shares."""

    provisioner: Provisioner
    log_dir: Path | None
    pool: WarmPool | None = None

    @property
    def client(self) -> DockerClient:
        return self.provisioner.client

    @property
    def settings(self) -> SandboxSettings:
        return self.provisioner.settings

    def close(self) -> None:
        """Remove what was made ahead, wait for removals under way, hang up."""
        if self.pool is not None:
            self.pool.close()
        self.client.close()

    def run_tests(
        self,
        environment: Environment,
        tree: Tree,
        request: TestRequest,
        *,
        coverage: bool,
        guard: Guard,
        fresh: bool = False,
    ) -> tuple[TestReport, LineCoverage]:
        """Run tests once; a usage error caused by the repository's own options is retried without them.

        `fresh` uses no container that was made ahead.
        """
        if environment.framework == "command":
            return self._run_command(environment, tree, request, guard), {}
        call = plan_pytest(environment, tree, request, self.settings.test_timeout_s)
        report, traced = self._run_pytest(environment, tree, request, call, coverage, guard, fresh)
        if report.exit_code == verdict.EXIT_USAGE and report.cause is Cause.INFRA:
            bare = call.without_ini_options()
            again, traced = self._run_pytest(environment, tree, request, bare, coverage, guard, fresh)
            if again.exit_code != verdict.EXIT_USAGE:
                note = "ran without the repository's addopts, which pytest refused"
                detail = "; ".join(part for part in (again.cause_detail, note) if part)
                report = again.model_copy(update={"cause_detail": detail})
        return report, traced

    def run_job(self, environment: Environment, tree: Tree, job: Job, *, guard: Guard) -> JobResult:
        with self._container(environment, tree, job.files, guard) as box:
            with self._output("job") as output:
                ended = box.run(
                    job.argv,
                    output.write,
                    timeout_s=job.timeout_s,
                    workdir=posixpath.join(REPO, environment.workdir).rstrip("/"),
                    environment={**ENVIRONMENT, **job.env},
                )
            seen = self._circumstances(box, ended, job.timeout_s, output)
            cause, detail = verdict.command_cause(seen)
            found = _results(box, job) if seen.container_running else {}
        text = output.text() + (f"\n[{detail}]\n" if detail else "")
        return JobResult(
            exit_code=ended.exit_code, cause=cause, output=text, duration_s=ended.duration_s, files=found
        )

    def _run_pytest(
        self,
        environment: Environment,
        tree: Tree,
        request: TestRequest,
        call: PytestCall,
        coverage: bool,
        guard: Guard,
        fresh: bool,
    ) -> tuple[TestReport, LineCoverage]:
        order = {**call.request(), "coverage": coverage}
        waiting = self.pool.take(environment, tree, guard) if self.pool is not None and not fresh else None
        if waiting is not None:
            return self._run_waiting(waiting, order, request, call, guard)
        files = {**inside_files(), REQUEST: json.dumps(order).encode()}
        with self._container(environment, tree, files, guard) as box, self._output("tests") as output:
            ended, record = run_session(box, call.python, call.workdir, request.timeout_s, output.write)
            return self._judged(box, ended, record, output, request, call), record.coverage

    def _run_waiting(
        self,
        waiting: Waiting,
        order: Mapping[str, object],
        request: TestRequest,
        call: PytestCall,
        guard: Guard,
    ) -> tuple[TestReport, LineCoverage]:
        with self._ending(waiting.box, guard), self._output("tests") as output:
            packed = waiting.changes.order(order, request.timeout_s)
            ended, record = waiting.session.run(packed, request.timeout_s, output.write)
            return self._judged(waiting.box, ended, record, output, request, call), record.coverage

    def _judged(
        self,
        box: Container,
        ended: Ended,
        record: ExecutionRecord,
        output: CappedOutput,
        request: TestRequest,
        call: PytestCall,
    ) -> TestReport:
        if not ended.host_killed and record.greeted:
            record.closed.wait(_REPORT_GRACE_S)
        seen = self._circumstances(box, ended, request.timeout_s, output)
        cause, detail = verdict.test_cause(seen, record)
        found, failures = verdict.outcomes(record)
        return TestReport(
            outcomes=found,
            failures=failures,
            collected=len(record.collected),
            exit_code=ended.exit_code,
            duration_s=ended.duration_s,
            cause=cause,
            cause_detail=detail,
            output=output.text(),
            log_path=output.log_name,
            command=call.shown,
            scope=request.scope,
            tampered=tuple(sorted(record.tampered)),
        )

    def _run_command(
        self, environment: Environment, tree: Tree, request: TestRequest, guard: Guard
    ) -> TestReport:
        reader = unittest_reader(environment, tree)
        workdir = posixpath.join(REPO, environment.workdir).rstrip("/")
        junit: bytes | None = None
        with self._container(environment, tree, {}, guard) as box:
            with self._output("tests") as output:
                ended = box.run(
                    environment.test_command,
                    output.write,
                    timeout_s=request.timeout_s,
                    workdir=workdir,
                    environment=ENVIRONMENT,
                    errors=reader.write if reader is not None else None,
                )
            seen = self._circumstances(box, ended, request.timeout_s, output)
            if environment.junit and seen.container_running:
                junit = _file(box, posixpath.join(workdir, environment.junit), MAX_JUNIT)
        report = command_report(seen, reader, junit, environment.junit)
        return report.model_copy(
            update={
                "exit_code": ended.exit_code,
                "duration_s": ended.duration_s,
                "output": output.text(),
                "log_path": output.log_name,
                "command": environment.test_command,
                "scope": request.scope,
            }
        )

    @contextmanager
    def _container(
        self, environment: Environment, tree: Tree, files: Mapping[str, bytes], guard: Guard
    ) -> Iterator[Container]:
        box = self.provisioner.furnished(environment, tree, files, guard)
        with self._ending(box, guard):
            yield box

    @contextmanager
    def _ending(self, box: Container, guard: Guard) -> Iterator[None]:
        """Removal on every way out; in the background where there is one and nobody waits for it."""
        try:
            yield
        finally:
            if self.pool is None or guard.aborted:
                dispose(box, guard)
            else:
                self.pool.dispose_later(box, guard)

    def _output(self, kind: str) -> CappedOutput:
        name = f"{kind}-{secrets.token_hex(4)}.log"
        return CappedOutput(
            self.settings.output_kb * 1024,
            log_path=self.log_dir / name if self.log_dir is not None else None,
            log_limit=self.settings.log_mb * _MB,
        )

    def _circumstances(
        self, box: Container, ended: Ended, timeout_s: float, output: CappedOutput
    ) -> verdict.Circumstances:
        """Ask the kernel only when something went wrong: a green run costs nothing more."""
        clean = ended.exit_code == 0
        state = {"Running": True} if clean else _settled(box, ended)
        running = bool(state["Running"])
        counters = Counters() if clean or not running else box.counters()
        if state.get("OOMKilled"):
            counters = Counters(max(counters.oom_kills, 1), counters.pids_refused)
        full = not clean and b"No space left on device" in output.getvalue()
        return verdict.Circumstances(ended, counters, timeout_s, self.settings.memory_mb, running, full)


def _settled(box: Container, ended: Ended) -> Mapping[str, Any]:
    """The container's state once it is stable. A kill may be the first sign of its removal: look again,
    and if it is gone (`SandboxLost`) that came from outside; if it stays, from within."""
    state = box.state()
    if not ended.host_killed and (ended.exit_code in (None, _KILLED) or not state["Running"]):
        time.sleep(_REMOVAL_S)
        state = box.state()
    return state


def _results(box: Container, job: Job) -> dict[str, bytes]:
    found = {}
    for name in job.results:
        data = _file(box, f"{JOB}/out/{name}", job.max_result_bytes)
        if data is not None:
            found[name] = data
    return found


def _file(box: Container, path: str, limit: int) -> bytes | None:
    """A file of the sandbox, None where it was not written. Raises `EnvironmentFault` for an odd one."""
    try:
        archive = box.get(path, limit + 16 * 1024)
    except SandboxLost:
        return None
    return unpack_file(archive, path, limit)
