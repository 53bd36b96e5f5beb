"""The command line as a user has it: in-process, and as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentforge.cli.main import run


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def assert_one_clear_line(self, code: int, *words: str) -> None:
        """Right exit code, `error: …` in one line with a hint at most, no traceback, nothing on stdout."""
        assert self.code == code, self.err
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert "Traceback" not in self.err + self.out
        for word in words:
            assert word in self.err


@pytest.fixture
def clean_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """No key, no configuration of the machine; data home in a temporary folder."""
    for name in list(os.environ):
        if name.startswith(("AGENTFORGE_", "OPENAI_")) or name in ("GITHUB_TOKEN", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTFORGE_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return dict(os.environ)


@pytest.fixture
def cli(clean_env: dict[str, str], capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command line in this process."""

    def call(*arguments: str) -> Ended:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return call


@pytest.fixture
def process(clean_env: dict[str, str], tmp_path: Path) -> Callable[..., Ended]:
    """Run a command line as a process of its own."""

    def call(*arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "agentforge.cli.main", *arguments],
            env=clean_env | dict(env or {}),
            input=stdin,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return call
