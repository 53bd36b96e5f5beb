"""What hostile code meets inside: each limit, and the name of the cause when it is hit."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EnvironmentFault
from agentforge.core.ports import Environment, Job, JobResult
from agentforge.core.report import Cause, TestReport
from agentforge.sandbox import DockerSandbox, labels
from agentforge.sandbox.container import Guard, started
from agentforge.sandbox.limits import MB, ContainerPlan
from tests.sandbox.conftest import left_behind, make_tree

pytestmark = pytest.mark.docker
Run = Callable[..., TestReport]

PROBE = """
import json, os, socket, subprocess
def attempt(work):
    try:
        return repr(work())
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)
def connect(address):
    with socket.create_connection(address, timeout=2):
        return "connected"
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": status["CapEff"].strip(),
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "root": attempt(lambda: open("/etc/x", "w")),
    "environment": attempt(lambda: open("/opt/env/x", "w")),
    "dns": attempt(lambda: socket.getaddrinfo("example.org", 80)),
    "internet": attempt(lambda: connect(("1.1.1.1", 53))),
    "raw": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "device": attempt(lambda: os.mknod("/tmp/sda", 0o60666, os.makedev(8, 0))),
    "engine": os.path.exists("/var/run/docker.sock"),
    "sysctl": attempt(lambda: open("/proc/sys/kernel/hostname", "w").write("x")),
    "tree": sorted(os.listdir(".")),
    "owner": os.stat("a.py").st_uid,
    "names": sorted(os.environ),
}))
"""


@pytest.fixture
def job(sandbox: DockerSandbox, environment: Environment) -> Callable[..., JobResult]:
    def run_job(code: str, **options: Any) -> JobResult:
        tree = options.pop("tree", make_tree({"a.py": "x = 1\n"}))
        wanted = Job(("python", "-c", code), **options)
        return asyncio.run(sandbox.run_job(environment, tree, wanted))

    return run_job


def test_limits_hold_inside(job: Callable[..., JobResult]) -> None:
    seen = json.loads(job(PROBE).output)
    assert seen["uid"] == 1000
    assert int(seen["capabilities"], 16) == 0
    assert seen["no_new_privileges"] == "1"
    assert seen["seccomp"] == "2"
    assert seen["interfaces"] == ["lo"]
    for name in ("root", "environment", "sysctl"):
        assert seen[name].startswith("OSError: [Errno 30]"), (name, seen[name])
    for name in ("dns", "internet", "raw", "device"):
        assert "rror" in seen[name], (name, seen[name])
    assert not seen["engine"]
    assert seen["tree"] == ["a.py"]
    assert seen["owner"] == 1000
    assert not [name for name in seen["names"] if "KEY" in name or "TOKEN" in name or "PROXY" in name.upper()]


def plan_for(environment: Environment, run_id: str, **changes: Any) -> ContainerPlan:
    values: dict[str, Any] = {"memory_mb": 512, "cpus": 0.5, "pids": 64, "workspace_mb": 64, "tmp_mb": 64}
    return ContainerPlan(image=environment.image, labels=labels.owner_labels(run_id), **(values | changes))


def test_limits_are_read_back_before_the_first_command(
    engine: Any, environment: Environment, run_id: str
) -> None:
    plan = plan_for(environment, run_id)
    with started(engine, plan) as box:
        inspected = engine.api.inspect_container(box.id)
    host = inspected["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (512 * MB, 512 * MB, 500_000_000)
    assert (host["PidsLimit"], host["NetworkMode"], host["ReadonlyRootfs"]) == (64, "none", True)
    assert inspected["Config"]["Labels"][labels.RUN] == run_id
    assert plan.mismatches(inspected) == []
    for key, value in (("Memory", 0), ("NetworkMode", "bridge"), ("Privileged", True), ("CapDrop", [])):
        weaker = {**inspected, "HostConfig": {**host, key: value}}
        assert len(plan.mismatches(weaker)) == 1, key


def test_a_limit_that_is_not_in_force_refuses_to_run(
    engine: Any, environment: Environment, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is asked for one thing and gives another: nothing is started, nothing is left."""
    honest = ContainerPlan.create_options
    monkeypatch.setattr(
        ContainerPlan,
        "create_options",
        lambda self: {**honest(self), "pids_limit": 128, "network_mode": "bridge"},
    )
    with (
        pytest.raises(EnvironmentFault, match="pids: wanted 64, got 128"),
        started(engine, plan_for(environment, run_id)),
    ):
        pytest.fail("it was started")
    assert left_behind(engine, run_id) == []


def test_memory_hog_is_named(run: Run) -> None:
    code = "def test_hog():\n    data = []\n    while True:\n        data.append(bytearray(8 << 20))\n"
    report = run({"test_a.py": code})
    assert report.cause is Cause.OOM
    assert "512 MB" in report.cause_detail
    assert "test_a.py::test_hog" in report.cause_detail
    assert not report.passed


def test_killed_child_is_mentioned(run: Run) -> None:
    code = (
        "import subprocess, sys\n"
        "def test_child():\n"
        "    code = 'x = bytearray(900 << 20)'\n"
        "    assert subprocess.run([sys.executable, '-c', code]).returncode == 0\n"
    )
    report = run({"test_a.py": code})
    assert report.cause is Cause.OK
    assert "out of memory" in report.cause_detail
    assert report.failed == {"test_a.py::test_child"}


def test_af10_timeout_is_enforced_and_named(run: Run) -> None:
    stubborn = "    signal.setitimer(signal.ITIMER_REAL, 0)\n    while True:\n        pass\n"
    quick = "import signal\ndef test_quick():\n    pass\n"
    files = {"test_a.py": f"{quick}def test_spin():\n{stubborn}"}
    began = time.monotonic()
    report = run(files, timeout_s=4)
    assert time.monotonic() - began < 12
    assert report.cause is Cause.TIMEOUT
    assert "4 s" in report.cause_detail
    assert "test_a.py::test_spin" in report.cause_detail
    assert report.passed == {"test_a.py::test_quick"}


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n        pass",
        "while True:\n        try:\n            while 1: pass\n        except Exception: pass",
    ],
)
def test_an_endless_test_is_failed_and_the_others_go_on(run: Run, loop: str) -> None:
    files = {
        "calc.py": f"def spin():\n    {loop}\n",
        "test_a.py": "from calc import spin\ndef test_spin():\n    spin()\ndef test_after():\n    pass\n",
    }
    report = run(files, timeout_s=15)
    assert report.cause is Cause.OK
    assert report.passed == {"test_a.py::test_after"}
    failure = report.failures["test_a.py::test_spin"]
    assert failure.exception.endswith("TestTimeout")
    assert "5 s" in failure.message
    assert failure.frames[-1][0] == "calc.py"


def test_one_that_ignores_signals_and_kills_its_timer_is_killed(run: Run) -> None:
    code = (
        "import os, signal, time\n"
        "def test_stay():\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n"
        "    time.sleep(600)\n"
    )
    began = time.monotonic()
    report = run({"test_a.py": code}, timeout_s=3)
    assert time.monotonic() - began < 20
    assert report.cause in (Cause.TIMEOUT, Cause.SIGNAL)
    assert not report.passed


def test_background_survivor_does_not_hold_us(run: Run) -> None:
    code = (
        "import subprocess\n"
        "def test_leaves_one():\n"
        "    subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    )
    began = time.monotonic()
    report = run({"test_a.py": code})
    assert time.monotonic() - began < 15
    assert report.passed == {"test_a.py::test_leaves_one"}


def test_crash_by_signal_is_named(run: Run) -> None:
    report = run({"test_a.py": "import ctypes\ndef test_crash():\n    ctypes.string_at(0)\n"})
    assert report.cause is Cause.SIGNAL
    assert "SIGSEGV" in report.cause_detail
    assert "test_a.py::test_crash" in report.cause_detail


def test_output_flood_costs_little_memory(run: Run) -> None:
    """200 MB of output: head and tail are kept, and our memory does not grow with it."""
    code = (
        "import sys\n"
        "def test_flood(capfd):\n"
        "    with capfd.disabled():\n"
        "        sys.stdout.write('first line\\n')\n"
        "        chunk = 'x' * (1 << 20)\n"
        "        for _ in range(200):\n"
        "            sys.stdout.write(chunk)\n"
    )
    tracemalloc.start()
    report = run({"test_a.py": code}, timeout_s=60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.passed == {"test_a.py::test_flood"}
    assert "first line" in report.output
    assert "1 passed" in report.output
    assert "bytes left out" in report.output
    assert len(report.output) < 80_000
    assert peak < 20 * MB
    with open(report.log_path, "rb") as log:
        assert 7 * MB < len(log.read()) < 9 * MB


def test_disk_filler_meets_the_cap(job: Callable[..., JobResult], settings: SandboxSettings) -> None:
    code = (
        "import os\n"
        "for folder in ('.', '/tmp', '/job/out'):\n"
        "    written = 0\n"
        "    try:\n"
        "        with open(folder + '/fill', 'wb', buffering=0) as f:\n"
        "            for _ in range(400):\n"
        "                written += f.write(bytes(1 << 20))\n"
        "    except OSError as error:\n"
        "        print(folder, error.errno, written >> 20)\n"
        "    os.unlink(folder + '/fill')\n"
    )
    lines = job(code).output.split("\n")[:3]
    limits = (settings.workspace_mb + 1, settings.tmp_mb, 64)
    for line, (folder, limit) in zip(lines, zip((".", "/tmp", "/job/out"), limits, strict=True), strict=True):
        name, errno, written = line.split()
        assert (name, errno) == (folder, "28")
        assert int(written) <= limit + 1


def test_fork_bomb_is_contained(job: Callable[..., JobResult]) -> None:
    code = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    for _ in range(500):\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(30)\n"
        "            os._exit(0)\n"
        "        made += 1\n"
        "except OSError as error:\n"
        "    print('stopped', made < 64, error.errno)\n"
    )
    result = job(code)
    assert "stopped True 11" in result.output


def test_undecodable_output_and_terminal_codes_are_neutralised(job: Callable[..., JobResult]) -> None:
    result = job("import os; os.write(1, b'caf\\xe9 \\x1b]0;owned\\x07 \\x1b[2J end')")
    assert result.output == "caf\\xe9 \\x1b]0;owned\\x07 \\x1b[2J end"


def test_results_are_read_with_suspicion(job: Callable[..., JobResult]) -> None:
    with pytest.raises(EnvironmentFault, match="not a regular file"):
        job("import os; os.symlink('/etc/passwd', '/job/out/r')", results=("r",))
    with pytest.raises(EnvironmentFault, match=r"larger than|the limit is"):
        job("open('/job/out/r', 'wb').write(bytes(1 << 20))", results=("r",), max_result_bytes=1000)
    with pytest.raises(EnvironmentFault):
        job("import os; os.mkdir('/job/out/r'); open('/job/out/r/x', 'w')", results=("r",))


def test_a_lost_sandbox_is_restarted_once_and_then_infra(
    sandbox: DockerSandbox, environment: Environment, engine: Any, run_id: str
) -> None:
    from agentforge.core.ports import TestRequest

    tree = make_tree({"test_a.py": "import time\ndef test_a():\n    time.sleep(20)\n"})
    lost: list[str] = []

    def container() -> str:
        """The next container of this run, a moment after it came."""
        for _ in range(150):
            found = [one.id for one in engine.containers.list(filters={"label": f"{labels.RUN}={run_id}"})]
            if set(found) - set(lost):
                time.sleep(1)
                return (set(found) - set(lost)).pop()
            time.sleep(0.1)
        return ""

    async def scenario() -> TestReport:
        running = asyncio.ensure_future(sandbox.run_tests(environment, tree, TestRequest()))
        for _ in range(2):
            lost.append(await asyncio.to_thread(container))
            assert lost[-1] or pytest.fail(f"no container came: {await running}")
            await asyncio.to_thread(engine.api.remove_container, lost[-1], force=True, v=True)
        return await running

    report = asyncio.run(scenario())
    assert len(set(lost)) == 2
    assert report.cause is Cause.INFRA
    assert "lost" in report.cause_detail


def test_an_aborted_guard_starts_nothing(engine: Any, environment: Environment, run_id: str) -> None:
    guard = Guard()
    guard.abort()
    with pytest.raises(EnvironmentFault), started(engine, plan_for(environment, run_id), guard):
        pytest.fail("it was started")
    assert left_behind(engine, run_id) == []
