"""One execution from start to end: container, files, command, verdict. Blocks; runs in a thread."""

from __future__ import annotations

import json
import posixpath
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EnvironmentFault, SandboxLost
from agentforge.core.ports import Environment, Job, JobResult, LineCoverage, TestRequest
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.tree import Tree
from agentforge.sandbox import labels, verdict
from agentforge.sandbox.archive import pack_job, packed_mb, tree_archive, unpack_file
from agentforge.sandbox.container import Container, Counters, Ended, Guard, started
from agentforge.sandbox.engine import engine_errors
from agentforge.sandbox.environments import GENERATED, GENERATED_DIR
from agentforge.sandbox.limits import COLLECTOR_USER, JOB, REPO, WORKSPACE, ContainerPlan
from agentforge.sandbox.output import CappedOutput
from agentforge.sandbox.record import MAX_RECORD, ExecutionRecord
from agentforge.sandbox.test_command import PytestCall, plan_pytest

if TYPE_CHECKING:
    from docker import DockerClient

COMMAND_TEST = "command"
"""The id of the one test that a custom command is."""
_MB = 1024 * 1024
_SPARE_INODES = 50_000
_JOB_MB = 64
_REPORT_GRACE_S = 2.0
_REMOVAL_S = 0.5
_KILLED = 137
_INSIDE = ("collect.py", "launch.py", "report_plugin.py")
_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108  inside the container
    "TMPDIR": "/tmp",  # noqa: S108
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True)
class Executor:
    """What every execution of one sandbox shares."""

    client: DockerClient
    settings: SandboxSettings
    run_id: str
    log_dir: Path | None
    _generated: dict[str, bool] = field(default_factory=dict)

    def run_tests(
        self, environment: Environment, tree: Tree, request: TestRequest, *, coverage: bool, guard: Guard
    ) -> tuple[TestReport, LineCoverage]:
        """Run tests once; a usage error caused by the repository's own options is retried without them."""
        if environment.framework == "command":
            return self._run_command(environment, tree, request, guard), {}
        call = plan_pytest(environment, tree, request, self.settings.test_timeout_s)
        report, traced = self._run_pytest(environment, tree, request, call, coverage, guard)
        if report.exit_code == verdict.EXIT_USAGE and report.cause is Cause.INFRA:
            bare = call.without_ini_options()
            again, traced = self._run_pytest(environment, tree, request, bare, coverage, guard)
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
                    environment={**_ENVIRONMENT, **job.env},
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
    ) -> tuple[TestReport, LineCoverage]:
        socket = f"{JOB}/channel/{secrets.token_hex(16)}"
        files = {name: _inside(name) for name in _INSIDE}
        files["request.json"] = json.dumps({**call.request(), "coverage": coverage}).encode()
        record = ExecutionRecord()
        with self._container(environment, tree, files, guard) as box:
            collector = threading.Thread(
                target=_collect, args=(box, call.python, socket, record, request.timeout_s), daemon=True
            )
            collector.start()
            with self._output("tests") as output:
                ended = box.run(
                    (call.python, "-S", f"{JOB}/launch.py", socket, f"{JOB}/request.json"),
                    output.write,
                    timeout_s=request.timeout_s,
                    workdir=call.workdir,
                    environment=_ENVIRONMENT,
                )
            if not ended.host_killed and record.greeted:
                record.closed.wait(_REPORT_GRACE_S)
            seen = self._circumstances(box, ended, request.timeout_s, output)
        collector.join(_REPORT_GRACE_S)
        cause, detail = verdict.test_cause(seen, record)
        found, failures = verdict.outcomes(record)
        report = TestReport(
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
        )
        return report, record.coverage

    def _run_command(
        self, environment: Environment, tree: Tree, request: TestRequest, guard: Guard
    ) -> TestReport:
        with self._container(environment, tree, {}, guard) as box:
            with self._output("tests") as output:
                ended = box.run(
                    environment.test_command,
                    output.write,
                    timeout_s=request.timeout_s,
                    workdir=posixpath.join(REPO, environment.workdir).rstrip("/"),
                    environment=_ENVIRONMENT,
                )
            seen = self._circumstances(box, ended, request.timeout_s, output)
        cause, detail = verdict.command_cause(seen)
        passed = cause is Cause.OK and ended.exit_code == 0
        if cause is Cause.OK and ended.exit_code in (126, 127):
            cause, detail = (
                Cause.INFRA,
                f"the test command could not be started (exit code {ended.exit_code})",
            )
        failure = TestFailure(message=detail or f"exit code {ended.exit_code}")
        return TestReport(
            outcomes={COMMAND_TEST: Outcome.PASSED if passed else Outcome.FAILED}
            if cause is Cause.OK
            else {},
            failures={} if passed else {COMMAND_TEST: failure},
            collected=1,
            exit_code=ended.exit_code,
            duration_s=ended.duration_s,
            cause=cause,
            cause_detail=detail,
            output=output.text(),
            log_path=output.log_name,
            command=environment.test_command,
            scope=request.scope,
        )

    @contextmanager
    def _container(
        self, environment: Environment, tree: Tree, files: Mapping[str, bytes], guard: Guard
    ) -> Iterator[Container]:
        settings = self.settings
        plan = ContainerPlan(
            image=environment.image,
            labels=labels.owner_labels(self.run_id),
            memory_mb=settings.memory_mb,
            cpus=settings.cpus,
            pids=settings.pids,
            workspace_mb=settings.workspace_mb + packed_mb(tree.files.values()),
            tmp_mb=settings.tmp_mb,
            inodes=_SPARE_INODES + 4 * len(tree.files),
            job_mb=_JOB_MB + sum(map(len, files.values())) // _MB,
        )
        with started(self.client, plan, guard) as box:
            box.put(WORKSPACE, tree_archive(tree, "repo"))
            box.put(JOB, pack_job(files))
            if self._has_generated(environment.image):
                box.run(("cp", "-rn", f"{GENERATED_DIR}/.", REPO), lambda _: None, timeout_s=30)
            yield box

    def _has_generated(self, image: str) -> bool:
        """Whether installing the project made files in the tree that later trees need beneath them."""
        if image not in self._generated:
            with engine_errors("looking at the environment image"):
                found = self.client.images.get(image)
            self._generated[image] = found.labels.get(GENERATED, "0") != "0"
        return self._generated[image]

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


def _collect(box: Container, python: str, socket: str, record: ExecutionRecord, timeout_s: float) -> None:
    """Feed the record from the collector, a second process under a user id of its own."""
    argv = (python, "-I", "-S", f"{JOB}/collect.py", socket, str(MAX_RECORD))
    try:
        box.run(argv, record.feed, timeout_s=timeout_s + 60, user=COLLECTOR_USER)
    except EnvironmentFault:
        return  # an incomplete record says so itself
    finally:
        record.closed.set()


def _results(box: Container, job: Job) -> dict[str, bytes]:
    found = {}
    for name in job.results:
        try:
            archive = box.get(f"{JOB}/out/{name}", job.max_result_bytes + 16 * 1024)
        except SandboxLost:
            continue  # not written
        found[name] = unpack_file(archive, name, job.max_result_bytes)
    return found


def _inside(name: str) -> bytes:
    return (resources.files("agentforge.sandbox") / "inside" / name).read_bytes()
