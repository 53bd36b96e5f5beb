"""`agentforge sandbox` against the real engine, and against none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import ExitCode
from agentforge.sandbox import labels
from agentforge.sandbox.engine import connect
from tests.cli.conftest import Ended

Cli = Callable[..., Ended]


@pytest.mark.docker
def test_doctor_finds_this_machine_fit(cli: Cli) -> None:
    ended = cli("sandbox", "doctor", "--json")
    assert ended.code == ExitCode.VERIFIED, ended.out
    found = {check["name"]: check for check in json.loads(ended.out)["checks"]}
    assert list(found) == ["engine", "runtime", "disk", "base image", "limits", "leftovers"]
    for limit in (
        "memory limit",
        "disk limit",
        "process limit",
        "time limit",
        "no network",
        "read-only root",
    ):
        assert limit in found["limits"]["detail"]
    assert "limits: enforced" in cli("sandbox", "doctor").out


def test_without_an_engine_everything_says_what_to_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    ended = cli("sandbox", "doctor", "--json")
    assert ended.code == ExitCode.ENVIRONMENT
    (check,) = json.loads(ended.out)["checks"]
    assert check["name"] == "engine"
    assert "start Docker" in check["advice"]
    for command in (("build",), ("build", "--check"), ("prune",)):
        cli("sandbox", *command).assert_one_clear_line(ExitCode.ENVIRONMENT, "no container engine answers")


@pytest.mark.docker
def test_a_missing_base_image_is_found_out(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("sandbox:\n  base_image: agentforge-no-such-image:1\n", encoding="utf-8")
    ended = cli("sandbox", "doctor", "--json", "--config", str(config))
    assert ended.code == ExitCode.ENVIRONMENT
    check = json.loads(ended.out)["checks"][-2]
    assert check["name"] == "base image"
    assert "sandbox build" in check["advice"]
    cli("sandbox", "build", "--check", "--config", str(config)).assert_one_clear_line(
        ExitCode.ENVIRONMENT, "agentforge-no-such-image:1"
    )


@pytest.mark.docker
def test_build_keeps_what_is_there(cli: Cli) -> None:
    first, second = cli("sandbox", "build", "--json"), cli("sandbox", "build", "--json")
    assert json.loads(first.out) == json.loads(second.out)
    assert second.err == ""


@pytest.mark.docker
def test_env_explains_what_it_found(cli: Cli, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "tests").mkdir(parents=True)
    (repository / "tests" / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "base"], check=True)
    made = json.loads(cli("sandbox", "env", "--repo", str(repository), "--json").out)
    assert made["test_command"] == ["python", "-m", "pytest"]
    assert any("tests/" in note for note in made["notes"])
    given = json.loads(cli("sandbox", "env", "--repo", str(repository), "--test", "make check", "--json").out)
    assert (given["framework"], given["test_command"]) == ("command", ["make", "check"])


@pytest.mark.docker
def test_prune_shows_first_and_removes_only_dead_runs(cli: Cli) -> None:
    engine: Any = connect()
    dead = {**labels.owner_labels("prune-test"), labels.PID: "99999999"}
    image = json.loads(cli("sandbox", "build", "--json").out)["id"]
    container = engine.api.create_container(image, ["sleep", "60"], labels=dead)["Id"]
    try:
        shown = json.loads(cli("sandbox", "prune", "--dry-run", "--json").out)
        assert container in shown["containers"]
        assert engine.api.inspect_container(container)["Id"] == container
        done = json.loads(cli("sandbox", "prune", "--older-than", "3650", "--json").out)
        assert container in done["containers"]
        assert done["images"] == []
    finally:
        left = engine.containers.list(all=True, filters={"label": f"{labels.RUN}=prune-test"})
        for one in left:
            one.remove(force=True, v=True)
        engine.close()
    assert left == []


@pytest.mark.docker
def test_wishes_that_cannot_be_met_are_one_clear_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").write_text("", encoding="utf-8")
    git = ["git", "-C", str(tmp_path / "repo"), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run([*git, *arguments], check=True)
    env = ("sandbox", "env", "--repo", str(tmp_path / "repo"))
    missing = str(tmp_path / "Dockerfile")
    cli(*env, "--dockerfile", missing).assert_one_clear_line(ExitCode.USAGE, "cannot be read")
    cli(*env, "--dockerfile", missing, "--image", "x").assert_one_clear_line(ExitCode.USAGE, "exclude each")
    cli(*env, "--apt", "--yes").assert_one_clear_line(ExitCode.USAGE, "not the name of a Debian package")
    cli(*env, "--image", "agentforge-none:0").assert_one_clear_line(
        ExitCode.ENVIRONMENT, "not on this machine"
    )


def test_fix_checks_the_same_wishes(cli: Cli, tmp_path: Path) -> None:
    fix = ("fix", "--repo", str(tmp_path), "--issue", "it is broken")
    missing = str(tmp_path / "Dockerfile")
    cli(*fix, "--dockerfile", missing).assert_one_clear_line(ExitCode.USAGE, "cannot be read")
    cli(*fix, "--dockerfile", missing, "--image", "x").assert_one_clear_line(ExitCode.USAGE, "exclude each")
    cli(*fix, "--junit", "out.xml").assert_one_clear_line(ExitCode.USAGE, "needs the command")
