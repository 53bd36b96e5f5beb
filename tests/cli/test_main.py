"""The frame: speed, suggestions, exit codes, and how failures are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge import __version__
from agentforge.cli.failures import INTERNAL_ERROR, guarded
from agentforge.core import errors
from agentforge.core.errors import ExitCode

from .conftest import Ended

Cli = Callable[..., Ended]
SLEEPER = (
    "import sys, time; from agentforge.cli.failures import guarded\n"
    "def command():\n"
    "    try:\n"
    "        print('ready', flush=True); time.sleep(60)\n"
    "    finally:\n"
    "        print('cleaned', flush=True)\n"
    "sys.exit(guarded(command))\n"
)


def test_help_answers_fast(process: Cli) -> None:
    """Well under half a second (design, section 8); the best of five, as the machine is shared."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert process("--help").code == 0
        times.append(time.perf_counter() - start)
    assert min(times) < 0.5


def test_help_imports_nothing_heavy(clean_env: dict[str, str]) -> None:
    code = (
        "import sys; from agentforge.cli.main import run; run(['--help'])\n"
        "heavy = {'rich', 'docker', 'chromadb', 'openai', 'git', 'pydantic', 'yaml', 'httpx'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=clean_env, capture_output=True)


def test_version(process: Cli) -> None:
    ended = process("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"agentforge {__version__}\n", "")


def test_help_names_every_command_and_exit_code(cli: Cli) -> None:
    out = cli("--help").out
    for word in ("fix", "runs", "patch", "sandbox", "memory", "index", "config", "130 interrupted"):
        assert word in " ".join(out.split())


def test_no_command_shows_help_on_stderr(cli: Cli) -> None:
    ended = cli()
    assert ended.code == ExitCode.USAGE
    assert not ended.out
    assert "Usage:" in ended.err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("fxi",), "`fix`"),
        (("confg", "show"), "`config`"),
        (("config", "shwo"), "'show'"),
        (("config", "show", "--jsn"), "--json"),
        (("--versoin",), "--version"),
        (("runs", "lst"), "'list'"),
    ],
)
def test_typos_get_a_suggestion(cli: Cli, arguments: tuple[str, ...], meant: str) -> None:
    cli(*arguments).assert_one_clear_line(ExitCode.USAGE, meant, "hint: `agentforge")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.AgentForgeError("x"), 1),
        (errors.UsageError("x"), 2),
        (errors.ConfigError("x"), 2),
        (errors.RepositoryError("x"), 3),
        (errors.EngineUnavailable("x"), 3),
        (errors.ModelError("x"), 4),
        (errors.LimitReached("cost", "x"), 5),
        (ExceptionGroup("tasks", [ValueError("y"), errors.ModelError("x")]), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], clean_env: dict[str, str]
) -> None:
    def command() -> int:
        raise error

    assert guarded(command) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_an_error_shows_what_and_hint_and_neutralises_both(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise errors.RepositoryError("no such\nrevision \x1b[2Jevil", hint="try\x07 main")

    assert guarded(command) == 3
    assert capsys.readouterr().err == "error: no such revision ␛[2Jevil\nhint: try␇ main\n"


def test_a_defect_leaves_its_traceback_in_a_private_file_without_secrets(
    clean_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-topsecret")

    def command() -> int:
        raise ValueError("key was sk-topsecret")

    assert guarded(command) == INTERNAL_ERROR
    err = capsys.readouterr().err
    assert "Traceback" not in err
    (file,) = (tmp_path / "data" / "crashes").iterdir()
    assert str(file) in err
    assert "ValueError" in file.read_text()
    assert "sk-topsecret" not in file.read_text() + err
    assert file.stat().st_mode & 0o077 == 0


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTFORGE_DEBUG", "1")

    def command() -> int:
        raise errors.UsageError("x")

    assert guarded(command) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_command_cleanly_with_130(clean_env: dict[str, str], number: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=clean_env)  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, number)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out, err) == (130, "cleaned\n", "interrupted\n")


def test_a_reader_that_leaves_is_met_with_silence(clean_env: dict[str, str]) -> None:
    code = (
        "import sys; from agentforge.cli.failures import guarded\n"
        "sys.exit(guarded(lambda: [print('x' * 1000) for _ in range(1000)] and 0))"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=clean_env)  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(20) == 141
