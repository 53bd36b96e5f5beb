"""`agentforge patch apply`, in process and as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentforge.cli.main import run
from agentforge.cli.patch import app

ANSWER = "f.py\n<<<<<<< SEARCH\nb\n=======\nB\n>>>>>>> REPLACE\n"
KEYS = ["applied", "reason", "message", "path", "closest", "edit_format", "files", "notes", "dry_run"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f.py").write_bytes(b"a\nb\n")
    (tmp_path / "tree" / "g.py").write_bytes(b"def f():\n    return 1\n")
    (tmp_path / "answer").write_text(ANSWER)
    return tmp_path / "tree"


def command(root: Path, *more: str, given: str = "") -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", "agentforge.cli.main", "patch", "apply", "--repo", str(root), *more]
    return subprocess.run(arguments, input=given, capture_output=True, text=True, check=False)


def test_applies_a_file(root: Path) -> None:
    ended = command(root, "--answer", str(root.parent / "answer"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "changed f.py (search_replace)\n", "")
    assert (root / "f.py").read_bytes() == b"a\nB\n"


def test_applies_standard_input_as_json(root: Path) -> None:
    ended = command(root, "--answer", "-", "--json", given=ANSWER)
    told = json.loads(ended.stdout)
    assert list(told) == KEYS
    assert (told["applied"], told["reason"], told["files"], told["edit_format"]) == (
        True,
        None,
        ["f.py"],
        "search_replace",
    )
    assert ended.returncode == 0


def test_dry_run_writes_nothing(root: Path) -> None:
    ended = command(root, "--answer", "-", "--dry-run", "--json", given=ANSWER)
    assert json.loads(ended.stdout)["dry_run"] is True
    assert json.loads(ended.stdout)["applied"] is True
    assert (root / "f.py").read_bytes() == b"a\nb\n"


def test_target_names_the_file(root: Path) -> None:
    ended = command(
        root, "--answer", "-", "--target", "g.py", given="```python\ndef f():\n    return 2\n```\n"
    )
    assert ended.returncode == 0
    assert (root / "g.py").read_bytes() == b"def f():\n    return 2\n"


def test_refusal_as_json(root: Path) -> None:
    ended = command(root, "--answer", "-", "--json", given=ANSWER.replace("\nb\n", "\nbee\n"))
    told = json.loads(ended.stdout)
    assert list(told) == KEYS
    assert (ended.returncode, told["applied"], told["reason"], told["path"]) == (1, False, "no_match", "f.py")
    assert "2 | b" in told["closest"]
    assert (root / "f.py").read_bytes() == b"a\nb\n"


def test_refusal_in_words(root: Path) -> None:
    ended = command(root, "--answer", "-", given=ANSWER.replace("f.py", "../f.py"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "path_escape" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--repo", "{root}/nope", "--answer", "{root}/f.py"], 3),
        (["--repo", "{root}/f.py", "--answer", "{root}/f.py"], 3),
        (["--repo", "{root}", "--answer", "{root}/nope"], 2),
        (["--repo", "{root}"], 2),
        (["--answer", "x"], 2),
    ],
)
def test_bad_usage(root: Path, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["patch", "apply", *(argument.format(root=root) for argument in arguments)]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_bytes_that_are_no_text_are_taken_as_they_are(root: Path) -> None:
    (root / "l.py").write_bytes(b"# caf\xe9\nx = 1\n")
    (root.parent / "answer").write_bytes(
        b"--- a/l.py\n+++ b/l.py\n@@ -1,2 +1,2 @@\n # caf\xe9\n-x = 1\n+x = 2\n"
    )
    ended = CliRunner().invoke(app, ["apply", "--repo", str(root), "--answer", str(root.parent / "answer")])
    assert ended.exit_code == 0
    assert (root / "l.py").read_bytes() == b"# caf\xe9\nx = 2\n"


def test_help_names_every_option() -> None:
    ended = CliRunner().invoke(app, ["apply", "--help"])
    for option in ("--repo", "--answer", "--target", "--dry-run", "--json"):
        assert option in ended.stdout


@pytest.mark.parametrize(
    ("repo", "answer", "code"), [("nowhere", "answer", 3), (".", "nothing", 2), (".", ".", 2)]
)
def test_failures_are_one_document_too(
    root: Path, repo: str, answer: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "answer").write_text("x")
    arguments = ["--repo", str(root / repo), "--answer", str(root / answer), "--json"]
    assert run(["patch", "apply", *arguments]) == code
    said = json.loads(capsys.readouterr().out)
    assert (said["applied"], said["reason"]) == (False, None)
    assert said["message"]
