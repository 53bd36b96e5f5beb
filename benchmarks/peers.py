"""AgentForge beside mini-swe-agent and aider: same local model, same bugs, same limits, in one run.

    python benchmarks/peers.py --base-url URL --model NAME --quixbugs CHECKOUT [--tools NAME…] [--tasks ID…]

Six QuixBugs programs (half of the cases that shows the bug is given, the other half judges) and two bugs over
two files each (`multi_file/`, with a hidden judge). Every tool gets a git repository of its own, the issue,
the failing test file and `--time-limit` seconds, and talks to the endpoint through one counting door.

- AgentForge as shipped; only the size of the model's context is set.
- mini-swe-agent with its text-based configuration (the endpoint offers no tool calls) and its Docker
  environment, the repository mounted into it, so that what a model writes never runs on this machine.
- aider with `--message`, the source files in the chat and the tests as `--auto-test`, which repeats a failed
  edit; in a container of ours for the same reason, with the size of the context from a metadata file.

Peers are killed at the limit. A trial is one line of `trials.jsonl`; one that is there is not run again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs
from counting_proxy import Count, CountingProxy
from quixbugs import build

from agentforge import __version__
from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import EnvironmentSpec, TestRequest
from agentforge.core.tree import Tree, TreeFile
from agentforge.evaluation.judge import judgement_of
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.sandbox.docker_sandbox import DockerSandbox

OURS = ("retry", "agentforge", "cascade", "search")
PEERS = {"mini-swe-agent": "mini-swe-agent==2.4.6", "aider": "aider-chat==0.86.2"}
QUIXBUGS = ("bitcount", "flatten", "gcd", "is_valid_parenthesization", "sqrt", "to_base")
MULTI_FILE = Path(__file__).parent / "multi_file"
RESULTS = Path(__file__).parent / "results" / "peers"
CONTEXT = 8192
GRACE_S = 15.0
AIDER = "bench-aider"
AGENT = 1000
"""The user of the sandbox image, who has to own a repository that is mounted into it."""


@dataclass(frozen=True)
class Bug:
    """`tree` as the tool sees it, `judge` what replaces or joins its tests afterwards."""

    id: str
    issue: str
    tree: Tree
    test: str
    sources: tuple[str, ...]
    judge: dict[str, TreeFile]
    judged_by: tuple[str, ...]


class Bench:
    def __init__(self, options: argparse.Namespace, proxy: CountingProxy) -> None:
        self.options, self.proxy = options, proxy
        self.sandbox = DockerSandbox(SandboxSettings(), "bench-peers")
        self.image = ensure_base_image(SandboxSettings())
        self.pythons = {
            name: installed(requirement) for name, requirement in PEERS.items() if name in options.tools
        }

    async def bug(self, task: str) -> Bug:
        kind, _, name = task.partition("/")
        return multi_file(name) if kind == "multi-file" else await self.quixbug(name)

    async def quixbug(self, name: str) -> Bug:
        test = f"python_testcases/test_{name}.py"
        for half in (0, 1):
            tree = build(self.options.quixbugs, name, half)
            report = await self.run(tree, (test,))
            if report.failed:
                break
        other = build(self.options.quixbugs, name, 1 - half).files
        judge = {path: file for path, file in other.items() if not path.startswith("python_programs/")}
        source = f"python_programs/{name}.py"
        issue = f"{name} in {source} gives wrong results."
        return Bug(f"quixbugs/{name}", issue, tree, test, (source,), judge, (test,))

    async def run(self, tree: Tree, targets: tuple[str, ...]) -> Any:
        environment = await self.sandbox.prepare(tree, EnvironmentSpec())
        return await self.sandbox.run_tests(environment, tree, TestRequest(targets=targets, timeout_s=60))

    async def trial(self, tool: str, bug: Bug) -> dict[str, Any]:
        self.proxy.count = Count()
        with tempfile.TemporaryDirectory(prefix="agentforge-peers-") as scratch:
            repository = Path(scratch) / "repository"
            begin(repository, bug.tree)
            before, start = containers(), time.monotonic()
            how = await self.use(tool, bug, repository, Path(scratch))
            seconds = time.monotonic() - start
            await asyncio.sleep(2)  # what is being removed at this moment has not been left behind
            left = containers(*whose(tool, how.pop("pid"))) - before
            await asyncio.to_thread(remove, left)
            result = outcome_tree(bug, repository, Path(scratch) / "result.diff")
            judgement = judgement_of(await self.run(result, bug.judged_by))
            return {
                "tool": tool,
                "task": bug.id,
                "solved": judgement.passed and result.files != bug.tree.files,
                "error_class": judgement.error_class.value,
                "changed": any(result.files.get(path) != bug.tree.files[path] for path in bug.sources),
                "seconds": round(seconds, 1),
                **how,
                **asdict(self.proxy.count),
                # The container around aider is ours.
                "left": {"containers": 0 if tool == "aider" else len(left), **left_in(repository)},
            }

    async def use(self, tool: str, bug: Bug, repository: Path, scratch: Path) -> dict[str, Any]:
        limit = self.options.time_limit
        if tool in OURS:
            return await limited(self.ours(tool, bug, repository, scratch), limit + GRACE_S, scratch)
        chown(repository)
        command = self.mini if tool == "mini-swe-agent" else self.aider
        return await limited(command(bug, repository, scratch), limit, scratch)

    def ours(self, workflow: str, bug: Bug, repository: Path, scratch: Path) -> Command:
        settings: dict[str, Any] = {
            "workflow": workflow,
            "limits": {"time_limit_s": self.options.time_limit},
            "memory": {"enabled": False},
        }
        if workflow != "search":
            settings["model"] = {
                "base_url": self.proxy.base_url,
                "name": self.options.model,
                "context_tokens": CONTEXT,
            }
        (scratch / "agentforge.yaml").write_text(json.dumps(settings))
        argv = [sys.executable, "-m", "agentforge", "fix", "--repo", str(repository), "--issue", bug.issue]
        argv += ["--test-id", bug.test, "--config", str(scratch / "agentforge.yaml"), "--no-stream"]
        argv += ["--output", str(scratch / "result.diff")]
        return Command(argv, scratch, {"AGENTFORGE_DATA_HOME": str(scratch / "home")})

    def mini(self, bug: Bug, repository: Path, scratch: Path) -> Command:
        python = self.pythons["mini-swe-agent"]
        environment = {
            "environment_class": "docker",
            "image": self.image,
            "cwd": "/repository",
            "run_args": ["--rm", "--network=none", "--cap-drop=ALL", f"--volume={repository}:/repository"],
            "interpreter": ["bash", "-c"],
        }
        model = {
            "model_class": "litellm_textbased",
            "model_kwargs": {"api_base": self.proxy.base_url, "api_key": "none", "drop_params": True},
        }
        (scratch / "mini.yaml").write_text(json.dumps({"environment": environment, "model": model}))
        argv = [str(python), "-m", "minisweagent.run.mini", "-y", "--exit-immediately"]
        argv += ["-c", "mini_textbased.yaml", "-c", str(scratch / "mini.yaml")]
        argv += ["-m", f"openai/{self.options.model}", "-o", str(scratch / "trajectory.json")]
        argv += ["-t", task_text(bug)]
        quiet = {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_GLOBAL_CONFIG_DIR": str(scratch / "mini"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        return Command(argv, scratch, quiet)

    def aider(self, bug: Bug, repository: Path, scratch: Path) -> Command:
        home = self.pythons["aider"].parent.parent
        name = f"openai/{self.options.model}"
        size = {"max_input_tokens": CONTEXT, "max_output_tokens": 2048, "litellm_provider": "openai"}
        (scratch / "metadata.json").write_text(json.dumps({name: size}))
        argv = [
            "docker",
            "run",
            "--rm",
            f"--name={AIDER}-{os.getpid()}",
            "--network=host",
            "--cap-drop=ALL",
            "--env=HOME=/tmp/home",
        ]
        argv += ["--env=LITELLM_LOCAL_MODEL_COST_MAP=True", "--env=OPENAI_API_KEY=none"]
        argv += [f"--env=OPENAI_API_BASE={self.proxy.base_url}", f"--volume={home}:/opt/aider:ro"]
        argv += [f"--volume={scratch / 'metadata.json'}:/metadata.json:ro"]
        argv += [f"--volume={repository}:/repository", "--workdir=/repository", self.image]
        argv += ["/opt/aider/bin/python", "-m", "aider", "--model", name, "--yes-always"]
        argv += ["--model-metadata-file", "/metadata.json", "--no-check-update", "--analytics-disable"]
        argv += ["--no-show-model-warnings", "--no-show-release-notes"]
        argv += ["--test-cmd", f"python -m pytest -q {bug.test}", "--auto-test"]
        argv += ["--message", task_text(bug), *bug.sources]
        return Command(argv, scratch, {})


@dataclass(frozen=True)
class Command:
    argv: list[str]
    folder: Path
    environment: dict[str, str]


async def limited(command: Command, limit: float, scratch: Path) -> dict[str, Any]:
    """Run it in a session of its own; asked to end at the limit, killed ten seconds after."""
    with (scratch / "output.txt").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=command.folder,
            env={**os.environ, **command.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        ended = await waited(process, limit)
        if not ended:
            os.killpg(process.pid, signal.SIGTERM)
            if not await waited(process, 10):
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
    text = (scratch / "output.txt").read_text(errors="replace")
    return {
        "exit_code": process.returncode,
        "killed": not ended,
        "last_words": text[-300:],
        "pid": process.pid,
    }


async def waited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        return False
    return True


def task_text(bug: Bug) -> str:
    return f"{bug.issue}\n\nThe tests in {bug.test} show it: python -m pytest {bug.test}"


def multi_file(name: str) -> Bug:
    folder = MULTI_FILE / name
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.py"))}
    seen = {
        path: TreeFile(file.read_bytes()) for path, file in files.items() if not path.startswith("hidden")
    }
    hidden = TreeFile((folder / "hidden" / "test_judge.py").read_bytes())
    sources = tuple(path for path in seen if path.startswith(name))
    tests = f"tests/test_{name}.py"
    seen["conftest.py"] = TreeFile(b"")
    return Bug(
        f"multi-file/{name}",
        (folder / "issue.txt").read_text().strip(),
        Tree(seen),
        tests,
        sources,
        {"tests/test_judge.py": hidden, tests: seen[tests]},
        (tests, "tests/test_judge.py"),
    )


def begin(repository: Path, tree: Tree) -> None:
    for path, file in tree.files.items():
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "base")
    git(repository, "tag", "bench-base")


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "safe.directory=*")
    done = subprocess.run(
        ["git", *identity, "-c", "core.hooksPath=/dev/null", "-C", repository, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def outcome_tree(bug: Bug, repository: Path, diff: Path) -> Tree:
    """The sources as the tool left them (ours: with the patch it wrote), under the judge's tests."""
    if diff.exists() and diff.stat().st_size:
        git(repository, "apply", "--whitespace=nowarn", str(diff))
    files = dict(bug.tree.files)
    for path in bug.sources:
        place = repository / path
        files.pop(path)
        if place.is_file() and not place.is_symlink():
            files[path] = TreeFile(place.read_bytes())
    return Tree({**files, **bug.judge})


def left_in(repository: Path) -> dict[str, Any]:
    """New commits, and files besides the changed sources that nobody asked for."""
    lines = git(repository, "status", "--porcelain", "--untracked-files=all").splitlines()
    strange = [line[3:] for line in lines if line.startswith("??")]
    committed = git(repository, "diff", "--name-only", "--diff-filter=A", "bench-base", "HEAD").split()
    commits = int(git(repository, "rev-list", "--count", "bench-base..HEAD"))
    return {"commits": commits, "files": sorted({*strange, *committed})[:20]}


def containers(*which: str) -> set[str]:
    command = ["docker", "ps", "-aq", "--no-trunc", *(f"--filter={one}" for one in which)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def whose(tool: str, pid: int) -> list[str]:
    """How the containers of a tool are told from those of others on this machine."""
    if tool in OURS:
        return [f"label=agentforge.pid={pid}"]
    return ["name=minisweagent-" if tool == "mini-swe-agent" else f"name={AIDER}"]


def remove(left: set[str]) -> None:
    for one in left:
        subprocess.run(["docker", "rm", "-f", "-v", one], capture_output=True, check=False)


def chown(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, AGENT, AGENT, follow_symlinks=False)


def installed(requirement: str) -> Path:
    """The interpreter of a peer, in an environment of its own that is made once.

    Made of the system's interpreter, which the sandbox image has at the same place.
    """
    home = Path(platformdirs.user_cache_dir("agentforge-bench")) / requirement.replace("==", "-")
    python = home / "bin" / "python"
    if not python.exists():
        system = shutil.which("python3", path="/usr/bin") or sys.executable
        subprocess.run([system, "-m", "venv", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
    return python


def manifest(options: argparse.Namespace) -> dict[str, Any]:
    fixed = {
        "model": options.model,
        "time_limit_s": options.time_limit,
        "context_tokens": CONTEXT,
        "peers": PEERS,
        "agentforge": __version__,
    }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "hash": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:16],
        **fixed,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def finished(path: Path) -> list[dict[str, Any]]:
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    table = {}
    for tool in dict.fromkeys(row["tool"] for row in rows):
        own = [row for row in rows if row["tool"] == tool]
        table[tool] = {
            "trials": len(own),
            "solved": sum(row["solved"] for row in own),
            "solved_quixbugs": sum(row["solved"] for row in own if row["task"].startswith("quixbugs")),
            "solved_multi_file": sum(row["solved"] for row in own if row["task"].startswith("multi-file")),
            "calls": sum(row["calls"] for row in own),
            "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in own),
            "seconds": round(sum(row["seconds"] for row in own), 1),
            "killed": sum(row["killed"] for row in own),
            "containers_left": sum(row["left"]["containers"] for row in own),
            "files_left": sum(len(row["left"]["files"]) for row in own),
            "commits_left": sum(row["left"]["commits"] for row in own),
        }
    return table


async def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    begun, kept = manifest(options), options.out / "manifest.json"
    if kept.exists() and json.loads(kept.read_text())["hash"] != begun["hash"]:
        sys.exit(f"{kept}: these trials were made with another configuration; choose another --out")
    if not kept.exists():
        kept.write_text(json.dumps(begun, indent=1) + "\n")
    trials = options.out / "trials.jsonl"
    with CountingProxy(options.base_url) as proxy:
        bench = Bench(options, proxy)
        for task in options.tasks:
            bug = await bench.bug(task)
            for tool in options.tools:
                if any((row["tool"], row["task"]) == (tool, bug.id) for row in finished(trials)):
                    continue
                row = await bench.trial(tool, bug)
                with trials.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    table = summary(finished(trials))
    (options.out / "summary.json").write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table, indent=1))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = [f"quixbugs/{name}" for name in QUIXBUGS]
    tasks += [f"multi-file/{folder.name}" for folder in sorted(MULTI_FILE.iterdir()) if folder.is_dir()]
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--quixbugs", type=Path, required=True)
    parser.add_argument("--tools", nargs="*", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--tasks", nargs="*", default=tasks, help="quixbugs/NAME or multi-file/NAME")
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
