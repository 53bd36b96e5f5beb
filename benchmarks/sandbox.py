"""What one verification costs beside the test command itself.

    python benchmarks/sandbox.py [--quick] [--repeat N] [--out FILE]

Five ways to run one pytest command over one small project, under the same limits (0.5 CPU, 512 MB,
64 processes, no network, read-only root), in turn, on one machine:

  floor            the command in a container that runs already, by the engine's own exec
  warm             `DockerSandbox.run_tests` of a candidate, a container made ahead being ready
  cold             the same without one: create, start, copy, run, remove
  cold_docker_run  `docker run --rm` of the command
  mini_swe_agent   mini-swe-agent's DockerEnvironment: start, execute, clean up

Warm and cold copy the candidate in, read a report back and remove the container; the others find the
project in their image and bring home an exit code. Medians and quartiles in seconds go to
`benchmarks/results/sandbox.json`. mini-swe-agent is installed into a folder of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
import uuid
import venv
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs

from agentforge import __version__
from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, EnvironmentSpec, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox.archive import tree_archive
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.sandbox.docker_sandbox import DockerSandbox
from agentforge.sandbox.engine import connect

RESULTS = Path(__file__).parent / "results" / "sandbox.json"
MINI = "mini-swe-agent==2.4.6"
PARALLEL = 8
GOAL_FLOOR, GOAL_RUN, GOAL_MB = 1.25, 0.5, 150
PROJECT = {
    "shapes.py": "def area(a, b):\n    return a + b\n",
    "tests/test_shapes.py": (
        "import pytest\nfrom shapes import area\n\n"
        "@pytest.mark.parametrize('n', range(30))\n"
        "def test_area(n):\n    assert area(n, 2) == 2 * n\n"
    ),
}
FIX = "def area(a, b):\n    return a * b\n"
REPO = "/srv/project"
# Runs in mini-swe-agent's own interpreter: times one life of its environment, to the call's return.
MINI_SCRIPT = """
import json, sys, time
from minisweagent.environments.docker import DockerEnvironment
options = json.loads(sys.argv[1])
begun = time.perf_counter()
environment = DockerEnvironment(**options["environment"])
result = environment.execute({"command": options["command"]})
environment.cleanup()
spent = time.perf_counter() - begun
environment.container_id = None
print(json.dumps([spent, result["returncode"]]))
"""


@dataclass(frozen=True)
class Bench:
    """What every way shares: an image that holds the fixed project, the command, the limits."""

    client: Any
    settings: SandboxSettings
    image: str
    python: str

    @property
    def command(self) -> list[str]:
        return [self.python, "-m", "pytest", "-p", "no:cacheprovider", "-q"]

    @property
    def flags(self) -> list[str]:
        limits = self.settings
        return [
            f"--memory={limits.memory_mb}m",
            f"--memory-swap={limits.memory_mb}m",
            f"--cpus={limits.cpus}",
            f"--pids-limit={limits.pids}",
            "--network=none",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--read-only",
            "--tmpfs=/tmp",
            "--init",
            "--user=1000:1000",
            "--env=PYTHONDONTWRITEBYTECODE=1",
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="5 repetitions, for about a minute")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    repeat = 5 if arguments.quick else arguments.repeat
    manifest = opening_manifest(repeat)
    settings = SandboxSettings()
    with bench(settings) as prepared:
        found = asyncio.run(measure(prepared, repeat))
    document = {"manifest": manifest | {"load_after": os.getloadavg()}, **summary(found)}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    sys.stdout.write(json.dumps({key: document[key] for key in ("medians", "goals")}, indent=2) + "\n")
    return 0 if not document["failures"] else 1


def opening_manifest(repeat: int) -> dict[str, Any]:
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "command": "python benchmarks/sandbox.py",
        "repeat": repeat,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "docker": _output("docker", "version", "--format", "{{.Server.Version}}"),
        "mini_swe_agent": MINI,
        "load_before": os.getloadavg(),
        "project": "30 tests in one file, one file changed",
    }


async def measure(prepared: Bench, repeat: int) -> dict[str, Any]:
    """All ways in turn, so that a change of the machine's load meets each alike."""
    base = Tree({path: TreeFile(text.encode()) for path, text in PROJECT.items()})
    fixed = base.with_changes({"shapes.py": TreeFile(FIX.encode())})
    mini = install_mini()
    cold = DockerSandbox(prepared.settings, f"bench-{os.getpid()}")
    times: dict[str, list[float]] = {}
    failures: list[str] = []
    async with DockerSandbox(prepared.settings, f"bench-{os.getpid()}") as warm:
        environment = await warm.prepare(base, EnvironmentSpec())
        with running(prepared) as container:
            ways: Mapping[str, Callable[[], Awaitable[str]]] = {
                "floor": lambda: asyncio.to_thread(run_exec, prepared, container),
                "warm": lambda: verify(warm, environment, fixed),
                "cold": lambda: verify(cold, environment, fixed),
                "cold_docker_run": lambda: asyncio.to_thread(docker_run, prepared),
                "mini_swe_agent": lambda: asyncio.to_thread(run_mini, prepared, mini),
            }
            for _ in range(repeat):
                for name, way in ways.items():
                    # Both are full and idle before every measurement, whichever it is.
                    if not await warm.warmed(prepared.settings.pool):
                        failures.append("nothing was made ahead")
                    begun = time.perf_counter()
                    said = await way()
                    spent = time.perf_counter() - begun
                    if name == "mini_swe_agent":
                        spent, said = float(said.split()[0]), said.partition(" ")[2]
                    times.setdefault(name, []).append(spent)
                    failures += [f"{name}: {said}"] if said else []
        begun = time.perf_counter()
        several = await asyncio.gather(*(verify(warm, environment, fixed) for _ in range(PARALLEL)))
        parallel = {
            "runs": PARALLEL,
            "failures": len([one for one in several if one]),
            "seconds": round(time.perf_counter() - begun, 3),
        }
    await cold.close()
    failures += [f"parallel: {one}" for one in several if one]
    return {"times": times, "failures": failures, "parallel": parallel, "peak_mb": peak_mb()}


async def verify(sandbox: DockerSandbox, environment: Environment, tree: Tree) -> str:
    """One verification; says what was wrong with it, "" when nothing."""
    report = await sandbox.run_tests(environment, tree, TestRequest(timeout_s=120))
    return wrong(report)


def wrong(report: TestReport) -> str:
    if report.cause is not Cause.OK or len(report.passed) != 30 or report.failed:
        return f"{report.cause} {report.cause_detail}, {len(report.passed)} passed"
    return ""


def run_exec(prepared: Bench, container: str) -> str:
    api = prepared.client.api
    created = api.exec_create(container, prepared.command, workdir=REPO, user="1000:1000")
    for _ in api.exec_start(created["Id"], stream=True):
        pass
    while (state := api.exec_inspect(created["Id"]))["Running"]:
        time.sleep(0.005)
    return "" if state["ExitCode"] == 0 else f"exit code {state['ExitCode']}"


def docker_run(prepared: Bench) -> str:
    flags = [*prepared.flags, f"--workdir={REPO}"]
    done = subprocess.run(
        ["docker", "run", "--rm", *flags, prepared.image, *prepared.command], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace")[-200:]


def run_mini(prepared: Bench, python: Path) -> str:
    """Seconds, then what was wrong. Its interpreter's start and imports are not counted."""
    options = {
        "environment": {"image": prepared.image, "cwd": REPO, "run_args": ["--rm", *prepared.flags]},
        "command": shlex.join(prepared.command),
    }
    quiet = {**os.environ, "MSWEA_SILENT_STARTUP": "1"}
    done = subprocess.run(
        [python, "-c", MINI_SCRIPT, json.dumps(options)], capture_output=True, check=True, env=quiet
    )
    spent, code = json.loads(done.stdout.splitlines()[-1])
    return f"{spent} " + (f"exit code {code}" if code else "")


def install_mini() -> Path:
    """Its interpreter, in a virtual environment that is made once."""
    home = Path(platformdirs.user_cache_dir("agentforge")) / f"bench-{MINI.replace('==', '-')}"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    known = subprocess.run([python, "-c", "import minisweagent"], capture_output=True, check=False)
    if known.returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", MINI], check=True)
    return python


@contextmanager
def bench(settings: SandboxSettings) -> Iterator[Bench]:
    """An image for those ways that cannot bring a tree: the base image with the fixed project in it."""
    client = connect()
    base = ensure_base_image(settings)
    files = PROJECT | {"shapes.py": FIX}
    tree = Tree({path: TreeFile(text.encode()) for path, text in files.items()})
    name = f"agentforge-bench:{uuid.uuid4().hex[:12]}"
    made = client.api.create_container(base, ["true"])["Id"]
    try:
        client.api.put_archive(made, "/srv", tree_archive(tree, "project"))
        client.api.commit(made, repository=name.partition(":")[0], tag=name.partition(":")[2])
    finally:
        client.api.remove_container(made, force=True, v=True)
    try:
        python = client.containers.run(
            name, ["python", "-c", "import sys; print(sys.executable)"], remove=True
        )
        yield Bench(client, settings, name, python.decode().strip())
    finally:
        client.api.remove_image(name, force=True)
        client.close()


@contextmanager
def running(prepared: Bench) -> Iterator[str]:
    """A container of the same limits that idles."""
    container = _output(
        "docker", "run", "--detach", *prepared.flags, prepared.image, "tail", "-f", "/dev/null"
    )
    try:
        yield container
    finally:
        prepared.client.api.remove_container(container, force=True, v=True)


def summary(found: Mapping[str, Any]) -> dict[str, Any]:
    times: Mapping[str, list[float]] = found["times"]
    medians = {name: round(statistics.median(values), 4) for name, values in times.items()}
    spreads = {name: spread(values) for name, values in times.items()}
    goals = {
        "warm_to_floor": goal(medians["warm"] / medians["floor"], GOAL_FLOOR),
        "warm_to_cold_docker_run": goal(medians["warm"] / medians["cold_docker_run"], GOAL_RUN),
        "parallel_failures": goal(found["parallel"]["failures"], 0),
        "our_peak_mb": goal(found["peak_mb"], GOAL_MB),
    }
    return {
        "medians": medians,
        "spreads": spreads,
        "goals": goals,
        "parallel": found["parallel"],
        "peak_mb": found["peak_mb"],
        "failures": found["failures"],
        "times": {name: [round(value, 4) for value in values] for name, values in times.items()},
    }


def spread(values: list[float]) -> dict[str, float]:
    low, _, high = statistics.quantiles(values, n=4)
    return {
        "min": round(min(values), 4),
        "p25": round(low, 4),
        "p75": round(high, 4),
        "max": round(max(values), 4),
    }


def goal(reached: float, at_most: float) -> dict[str, Any]:
    return {"reached": round(reached, 3), "at_most": at_most, "met": reached <= at_most}


def peak_mb() -> float:
    """The most memory this process ever held."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
