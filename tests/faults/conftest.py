"""What every fault is held to: the outcome, one clear line, an honest record, and nothing left behind."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pytest

from agentforge.cli.main import run
from agentforge.orchestrator.store import RunStore
from agentforge.sandbox import labels
from tests.orchestrator.conftest import SHOP, make_repository
from tests.support.model_server import ScriptedModel

TARGET = "tests/test_money.py::test_nothing_is_lost"
FILES = SHOP | {
    "tests/test_money.py": SHOP["tests/test_money.py"]
    + "\n\ndef test_nothing_is_lost():\n    assert split(10, 3) == [4, 3, 3]\n"
}
PATCH = """--- a/shop/money.py
+++ b/shop/money.py
@@ -9,4 +9,4 @@
 def split(cents, people):
     \"\"\"Equal shares; the first ones take what is left over.\"\"\"
-    share = cents // people
-    return [share] * people
+    share, left = divmod(cents, people)
+    return [share + 1] * left + [share] * (people - left)
"""
GOOD = f"The remainder was dropped.\n\n```diff\n{PATCH}```\n"


@dataclass(frozen=True)
class Leftovers:
    """What a process holds or has made outside its data home."""

    containers: frozenset[str]
    volumes: frozenset[str]
    folders: frozenset[str]
    sockets: int
    threads: frozenset[str]


@dataclass(frozen=True)
class Ending:
    """How a run under a fault ended. `left` is empty where nothing stayed behind."""

    code: int
    out: str
    err: str
    outcome: str
    calls: int
    patch: str
    left: dict[str, object] = field(default_factory=dict)

    def assert_clean(self, *, sockets: int = 0) -> None:
        """Nothing stays behind but that many sockets of the test's own."""
        left = {name: value for name, value in self.left.items() if (name, value) != ("sockets", sockets)}
        assert not left, left
        assert "Traceback" not in self.out + self.err


class Rig:
    """Runs `agentforge fix` in this process on a small repository, and looks at what it leaves."""

    def __init__(
        self, repository: Path, data: Path, engine: docker.DockerClient, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.repository, self.data, self.engine, self.capfd = repository, data, engine, capfd

    def fix(self, *options: str, workflow: str = "oneshot", base_url: str = "") -> Ending:
        words = ["fix", "--repo", str(self.repository), "--issue", "split loses money", "--no-stream"]
        words += ["--test-id", TARGET, "--workflow", workflow, "--no-memory"]
        words += ["--base-url", base_url] if base_url else []
        before = self.leftovers()
        self.capfd.readouterr()
        code = run([*words, *options])
        out, err = self.capfd.readouterr()
        return self.ending(code, out, err, before)

    def under(self, server: ScriptedModel, *options: str, workflow: str = "oneshot") -> Ending:
        return self.fix(*options, workflow=workflow, base_url=server.base_url)

    def ending(self, code: int, out: str, err: str, before: Leftovers) -> Ending:
        runs = RunStore(self.data).list()
        folder = self.data / "runs" / runs[0].run_id if runs else None
        if folder is not None:
            self.assert_intact(folder)
        patch = folder / "patch.diff" if folder is not None else None
        calls = folder / "calls.jsonl" if folder is not None else None
        return Ending(
            code=code,
            out=out,
            err=err,
            outcome=runs[0].outcome if runs else "",
            calls=len(calls.read_text().splitlines()) if calls is not None and calls.exists() else 0,
            patch=patch.read_text() if patch is not None and patch.exists() else "",
            left=difference(before, self.leftovers()),
        )

    @staticmethod
    def assert_intact(folder: Path) -> None:
        """The record can be read whole: numbered events without a gap, and an outcome."""
        rows = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert json.loads((folder / "run.json").read_text())["outcome"]

    def leftovers(self) -> Leftovers:
        ours = {"label": f"{labels.PID}={os.getpid()}"}
        return Leftovers(
            containers=frozenset(row["Id"] for row in self.engine.api.containers(all=True, filters=ours)),
            volumes=frozenset(
                row["Name"] for row in self.engine.api.volumes(filters=ours).get("Volumes") or []
            ),
            folders=frozenset(path.name for path in Path(tempfile.gettempdir()).glob("agentforge*")),
            sockets=sum(is_socket(link) for link in Path("/proc/self/fd").iterdir()),
            threads=frozenset(
                thread.name for thread in threading.enumerate() if "_Handler" not in type(thread).__name__
            ),
        )


def difference(before: Leftovers, after: Leftovers) -> dict[str, object]:
    found: dict[str, object] = {
        name: sorted(getattr(after, name) - getattr(before, name))
        for name in ("containers", "volumes", "folders")
    }
    found["sockets"] = max(0, after.sockets - before.sockets)
    found["threads"] = sorted(
        name for name in after.threads - before.threads if "process_request_thread" not in name
    )
    return {name: value for name, value in found.items() if value}


def is_socket(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith("socket:")
    except OSError:
        return False


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def rig(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: docker.DockerClient,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Rig]:
    """A rig around a fresh repository and data home; dotted settings as keywords."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(tmp_path / "data"))

    def make(**settings: object) -> Rig:
        for name, value in {"sandbox__pool": 0, **settings}.items():
            monkeypatch.setenv(f"AGENTFORGE_{name.upper()}", str(value))
        return Rig(make_repository(tmp_path / "shop", FILES), tmp_path / "data", engine, capfd)

    return make
