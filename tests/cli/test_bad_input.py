"""Bad surroundings, through the whole command: one clear line, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.model_server import ScriptedModel

from .conftest import Ended

Cli = Callable[..., Ended]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text(
        "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    )
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", "-C", str(folder), *identity, *command], check=True, capture_output=True)
    return folder


@pytest.fixture
def fix(process: Cli, repo: Path) -> Cli:
    def call(*arguments: str, repository: str = "", env: dict[str, str] | None = None) -> Ended:
        place = repository or str(repo)
        issue = "add(1, 2) returns -1, it must be 3"
        return process("fix", "--issue", issue, "--repo", place, "--no-memory", *arguments, env=env)

    return call


def nothing_left(tmp_path: Path) -> None:
    scratch = tmp_path / "data" / "scratch"
    assert not scratch.exists() or not list(scratch.iterdir())


def test_a_missing_repository(fix: Cli, tmp_path: Path) -> None:
    fix(repository="/nonexistent/repo").assert_one_clear_line(3, "/nonexistent/repo", "hint:")
    nothing_left(tmp_path)


def test_a_folder_that_is_no_repository(fix: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    fix(repository=str(tmp_path / "plain")).assert_one_clear_line(3, "plain", "git")
    nothing_left(tmp_path)


def test_an_unknown_revision_with_what_was_meant(fix: Cli, tmp_path: Path) -> None:
    fix("--base", "mian").assert_one_clear_line(3, "unknown revision 'mian'", "did you mean main?")
    nothing_left(tmp_path)


def test_a_hostile_file_name_is_not_obeyed(fix: Cli) -> None:
    ended = fix(repository="/nonexistent/\x1b[2J\u202e")
    ended.assert_one_clear_line(3)
    assert "\x1b" not in ended.err


def test_an_unknown_workflow_lists_the_known_ones(fix: Cli) -> None:
    fix("--workflow", "serach").assert_one_clear_line(2, "serach", "search")


def test_a_workflow_that_needs_a_model_without_one(fix: Cli) -> None:
    fix("--workflow", "agentforge").assert_one_clear_line(2, "needs a model", "OPENAI_API_KEY")


def test_no_engine(fix: Cli, tmp_path: Path) -> None:
    ended = fix(env={"DOCKER_HOST": f"unix://{tmp_path}/dead.sock"})
    ended.assert_one_clear_line(3, "hint:")
    nothing_left(tmp_path)


def test_no_engine_as_a_document(fix: Cli, tmp_path: Path) -> None:
    ended = fix("--json", env={"DOCKER_HOST": f"unix://{tmp_path}/dead.sock"})
    document = json.loads(ended.out)
    assert (ended.code, document["exit_code"], document["patch"]) == (3, 3, None)


@pytest.mark.docker
def test_an_unreachable_endpoint(fix: Cli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        ended = fix("--base-url", url, "--model", "m", env={"AGENTFORGE_MODEL__MAX_RETRIES": "0"})
    ended.assert_one_clear_line(4, "127.0.0.1", "hint:")
    nothing_left(tmp_path)


@pytest.mark.docker
def test_a_wrong_key(fix: Cli, tmp_path: Path) -> None:
    with ScriptedModel(api_key="right") as server:
        ended = fix("--base-url", server.base_url, "--model", "m", env={"OPENAI_API_KEY": "sk-wrong-key"})
    ended.assert_one_clear_line(4, "key", "hint:")
    assert "sk-wrong-key" not in ended.err
    nothing_left(tmp_path)


@pytest.mark.docker
def test_a_limit_that_is_reached(fix: Cli, tmp_path: Path) -> None:
    ended = fix("--time-limit", "0.01")
    ended.assert_one_clear_line(5, "time limit", "--time-limit")
    nothing_left(tmp_path)


def test_a_dry_run_spends_and_starts_nothing(fix: Cli, tmp_path: Path) -> None:
    with ScriptedModel() as server:
        env = {"DOCKER_HOST": f"unix://{tmp_path}/dead.sock"}
        ended = fix("--dry-run", "--base-url", server.base_url, "--model", "m", env=env)
        assert ended.code == 0, ended.err
        assert server.requests == []
    assert "DRY RUN" in ended.err
    nothing_left(tmp_path)
