"""Containers made ahead: used once, the candidate's tree exactly, nothing left behind, nothing when off."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EnvironmentFault
from agentforge.core.ports import EnvironmentSpec, TestRequest
from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.overlay import MAX_BYTES, overlay
from agentforge.sandbox.reaper import reap
from tests.sandbox.conftest import left_behind, make_tree

BASE = make_tree(
    {
        "calc.py": "def add(a, b):\n    return a - b\n",
        "old/gone.py": "x = 1\n",
        "run.sh": TreeFile(b"true\n").data,
        "test_calc.py": "from calc import add\ndef test_add():\n    assert add(1, 2) == 3\n",
    }
)
FIX: Changes = {"calc.py": TreeFile(b"def add(a, b):\n    return a + b\n")}
ID = "test_calc.py::test_add"
# Tells what the tree looks like from inside, as a failure message.
LISTING = """
import hashlib, os
def test_tree():
    seen = []
    for folder, _, names in sorted(os.walk(".")):
        seen.append((folder, oct(os.stat(folder).st_mode), os.stat(folder).st_uid))
        for name in sorted(names):
            path = os.path.join(folder, name)
            state = os.lstat(path)
            with open(path, "rb") as stream:
                digest = hashlib.sha256(stream.read()).hexdigest()
            seen.append((path, oct(state.st_mode), state.st_uid, int(state.st_mtime), digest))
    assert False, hashlib.sha256(repr(seen).encode()).hexdigest() + repr(seen)
"""


@pytest.fixture
def tests_of(settings: SandboxSettings, run_id: str, tmp_path: Path, engine: Any) -> Any:
    """Run candidates in containers made ahead for a base."""

    def run_all(base: Tree, *trees: Tree, settings: SandboxSettings = settings) -> list[TestReport]:
        async def scenario() -> list[TestReport]:
            reports = []
            async with DockerSandbox(settings, run_id, tmp_path / "logs") as sandbox:
                environment = await sandbox.prepare(base, EnvironmentSpec())
                for tree in trees:
                    assert await sandbox.warmed()
                    reports.append(await sandbox.run_tests(environment, tree, TestRequest(timeout_s=20)))
            return reports

        reports = asyncio.run(scenario())
        assert left_behind(engine, run_id) == []
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("sandbox-pool")]
        return reports

    return run_all


@pytest.mark.docker
def test_each_candidate_is_judged_by_its_own_tree(tests_of: Any) -> None:
    fixed, base, again = tests_of(BASE, BASE.with_changes(FIX), BASE, BASE.with_changes(FIX))
    assert [fixed.cause, base.cause, again.cause] == [Cause.OK] * 3
    assert fixed.outcomes == again.outcomes == {ID: Outcome.PASSED}
    assert base.outcomes == {ID: Outcome.FAILED}


@pytest.mark.docker
def test_the_tree_is_the_same_as_in_a_fresh_container(tests_of: Any, run: Any) -> None:
    changes: Changes = {
        **FIX,
        "old/gone.py": None,
        "new/deep/made.py": TreeFile(b"y = 2\n"),
        "run.sh": TreeFile(b"true\n", "100755"),
        "test_tree.py": TreeFile(LISTING.encode()),
    }
    tree = BASE.with_changes(changes)
    (ahead,) = tests_of(BASE, tree)
    fresh = run({path: entry.data for path, entry in tree.files.items() if path != "run.sh"})
    whole = [report.failures["test_tree.py::test_tree"].message for report in (ahead, fresh)]
    assert "new/deep/made.py" in whole[0]
    assert "gone.py" not in whole[0]
    assert "'./run.sh', '0o100755'" in whole[0]
    assert ahead.outcomes == fresh.outcomes
    assert _without(whole[0], "run.sh") == _without(whole[1], "run.sh")


def _without(listing: str, name: str) -> list[str]:
    return [entry for entry in listing[listing.index("[(") :].split("), (") if name not in entry]


@pytest.mark.docker
def test_a_timeout_counts_from_the_order(tests_of: Any) -> None:
    stay = "import signal, time\ndef test_stay():\n    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
    tree = BASE.with_changes({"test_stay.py": TreeFile((stay + "    time.sleep(90)\n").encode())})

    async def late(settings: SandboxSettings, run_id: str) -> TestReport:
        async with DockerSandbox(settings, run_id) as sandbox:
            environment = await sandbox.prepare(BASE, EnvironmentSpec())
            assert await sandbox.warmed()
            await asyncio.sleep(4)
            return await sandbox.run_tests(environment, tree, TestRequest(timeout_s=4))

    report = asyncio.run(late(SandboxSettings(), "test-pool-late"))
    assert report.cause is Cause.TIMEOUT
    assert "test_stay.py::test_stay" in report.cause_detail
    assert 3.9 < report.duration_s < 12


@pytest.mark.docker
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os\ndef test_it():\n    os._exit(0)\n", Cause.CRASH),
        ("import os\ndef test_it():\n    os.abort()\n", Cause.SIGNAL),
        ("import os, signal\ndef test_it():\n    os.kill(os.getppid(), signal.SIGKILL)\n", Cause.SIGNAL),
        (
            "import os, signal\ndef test_it():\n    os.kill(-1, signal.SIGKILL)\n    os._exit(0)\n",
            Cause.SIGNAL,
        ),
        ("def test_it():\n    x = []\n    while True:\n        x.append(bytearray(8 << 20))\n", Cause.OOM),
    ],
)
def test_causes_are_those_of_a_fresh_container(tests_of: Any, code: str, cause: Cause) -> None:
    (report,) = tests_of(BASE, BASE.with_changes({"test_it.py": TreeFile(code.encode())}))
    assert report.cause is cause, report


@pytest.mark.docker
def test_a_flood_of_output_costs_little_memory(tests_of: Any) -> None:
    flood = (
        "import os\ndef test_flood(capfd):\n    with capfd.disabled():\n"
        "        for _ in range(200):\n            os.write(1, b'\\xff' * (1 << 20))\n"
    )
    tracemalloc.start()
    (report,) = tests_of(BASE, BASE.with_changes({"test_flood.py": TreeFile(flood.encode())}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "test_flood.py::test_flood" in report.passed, report.failures
    assert peak < 20 << 20
    assert "bytes left out" in report.output
    log = Path(report.log_path).read_bytes()
    assert b"\xff" * 1000 in log
    assert 7 << 20 < len(log) < 9 << 20


@pytest.mark.docker
def test_a_lost_one_is_replaced_by_a_fresh_container(
    settings: SandboxSettings, run_id: str, engine: Any
) -> None:
    async def scenario() -> TestReport:
        async with DockerSandbox(settings, run_id) as sandbox:
            environment = await sandbox.prepare(BASE, EnvironmentSpec())
            assert await sandbox.warmed(settings.pool)
            for box in engine.containers.list(filters={"label": f"agentforge.run={run_id}"}):
                box.remove(force=True, v=True)
            return await sandbox.run_tests(environment, BASE.with_changes(FIX), TestRequest())

    report = asyncio.run(scenario())
    assert report.cause is Cause.OK
    assert report.outcomes == {ID: Outcome.PASSED}
    assert left_behind(engine, run_id) == []


@pytest.mark.docker
def test_cancelling_waits_until_it_is_gone(settings: SandboxSettings, run_id: str, engine: Any) -> None:
    sleepy = BASE.with_changes({"test_s.py": TreeFile(b"import time\ndef test_s():\n    time.sleep(60)\n")})

    async def scenario() -> None:
        async with DockerSandbox(settings, run_id) as sandbox:
            environment = await sandbox.prepare(BASE, EnvironmentSpec())
            assert await sandbox.warmed()
            running = asyncio.ensure_future(sandbox.run_tests(environment, sleepy, TestRequest()))
            await asyncio.sleep(1.0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(scenario())
    assert left_behind(engine, run_id) == []


@pytest.mark.docker
def test_closing_while_one_is_being_made_leaves_nothing(
    settings: SandboxSettings, run_id: str, engine: Any
) -> None:
    async def scenario(delay: float) -> None:
        async with DockerSandbox(settings, run_id) as sandbox:
            await sandbox.prepare(BASE, EnvironmentSpec())
            await asyncio.sleep(delay)

    for delay in (0.0, 0.2, 0.8):
        asyncio.run(scenario(delay))
        assert left_behind(engine, run_id) == []


@pytest.mark.docker
@pytest.mark.parametrize("entered", [True, False])
def test_off_makes_nothing(settings: SandboxSettings, run_id: str, engine: Any, *, entered: bool) -> None:
    async def scenario() -> None:
        sandbox = DockerSandbox(settings.model_copy(update={"pool": 0}) if entered else settings, run_id)
        if entered:
            await sandbox.__aenter__()
        before = set(threading.enumerate())
        await sandbox.prepare(BASE, EnvironmentSpec())
        await asyncio.sleep(0.5)
        assert left_behind(engine, run_id) == []
        assert not [one for one in set(threading.enumerate()) - before if "sandbox" in one.name]
        await sandbox.close()

    asyncio.run(scenario())


CLIENT = textwrap.dedent("""
    import asyncio, sys
    from agentforge.config.settings import SandboxSettings
    from agentforge.core.ports import EnvironmentSpec
    from agentforge.core.tree import Tree, TreeFile
    from agentforge.sandbox import DockerSandbox
    async def main():
        async with DockerSandbox(SandboxSettings(), sys.argv[1]) as sandbox:
            await sandbox.prepare(Tree({"test_a.py": TreeFile(b"")}), EnvironmentSpec())
            await sandbox.warmed(2)
            print("warm", flush=True)
            await asyncio.sleep(60)
    asyncio.run(main())
""")


@pytest.mark.docker
def test_those_of_a_killed_process_are_reaped(run_id: str, engine: Any) -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT, run_id], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"warm\n"
        os.kill(client.pid, signal.SIGKILL)
        client.wait(10)
    assert len(left_behind(engine, run_id)) == 6  # two containers with two volumes each
    reap(engine)
    deadline = time.monotonic() + 10
    while left_behind(engine, run_id):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.docker
def test_what_the_environment_loads_of_the_tree_is_never_loaded_ahead(
    settings: SandboxSettings, run_id: str, engine: Any
) -> None:
    """An environment that puts the tree on its path and imports from it would keep the base's code."""
    tree = make_tree(
        {
            "hook.py": "LOADED = 'base'\n",
            "test_a.py": "import hook\ndef test_a():\n    assert hook.LOADED == 'fix'\n",
        }
    )
    folder = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    setup = f"printf '/workspace/repo\\nimport hook\\n' > {folder}/tree.pth"

    async def scenario() -> tuple[bool, TestReport]:
        async with DockerSandbox(settings, run_id) as sandbox:
            made = await sandbox.prepare(tree, EnvironmentSpec(setup=(setup,)))
            waiting = await sandbox.warmed(1, 15)
            fixed = tree.with_changes({"hook.py": TreeFile(b"LOADED = 'fix'\n")})
            return waiting, await sandbox.run_tests(made, fixed, TestRequest())

    waiting, report = asyncio.run(scenario())
    assert not waiting
    assert report.outcomes == {"test_a.py::test_a": Outcome.PASSED}, report.output
    assert left_behind(engine, run_id) == []


# -- without an engine


@pytest.mark.parametrize(
    "changes",
    [
        {"link": TreeFile(b"calc.py", "120000")},
        {"calc.py": TreeFile(b"old", "120000")},
        {"big": TreeFile(bytes(MAX_BYTES + 1))},
        {"calc.py/inner.py": TreeFile(b""), "calc.py": None},
        {"old/gone.py": None, "old": TreeFile(b"")},
    ],
)
def test_odd_changes_take_a_fresh_container(changes: Changes) -> None:
    assert overlay(BASE, BASE.with_changes(changes)) is None


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//b"])
def test_a_name_that_leaves_the_tree_is_refused(path: str) -> None:
    with pytest.raises(EnvironmentFault):
        overlay(BASE, BASE.with_changes({path: TreeFile(b"")}))


def test_what_lies_behind_a_link_is_refused() -> None:
    base = BASE.with_changes({"link": TreeFile(b"old", "120000")})
    with pytest.raises(EnvironmentFault, match="symbolic link"):
        overlay(base, base.with_changes({"link/x.py": TreeFile(b"")}))


def test_an_equal_tree_needs_nothing() -> None:
    found = overlay(BASE, BASE.with_changes({}))
    assert found is not None
    assert not found.write
    assert not found.remove
