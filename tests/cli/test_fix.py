"""`agentforge fix`: every option has its effect, bad input gets one line, JSON is one document.

The engine behind the command has its own tests; here it is replaced at its one entrance.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend, Usage
from agentforge.core.errors import ExitCode, LimitReached, RepositoryError
from agentforge.core.events import ModelCallFinished, Notice, RunStarted
from agentforge.core.patch import Patch
from agentforge.core.task import RepairTask
from agentforge.orchestrator import sampling, service
from agentforge.orchestrator.result import RunResult

from .conftest import Ended

Cli = Callable[..., Ended]
DIFF = (
    b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
    b"@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
)
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


class Engine:
    """Stands at the entrance of the engine: keeps what it was given, and ends as told."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.task: RepairTask
        self.settings: Settings
        self.dry_run = False
        self.samples = 1
        self.changes: dict[str, Any] = {}
        self.error: BaseException | None = None

    async def run_samples(
        self, task: RepairTask, settings: Settings, count: int, *, listener: Any
    ) -> SimpleNamespace:
        self.samples = count
        return SimpleNamespace(result=await self.run_fix(task, settings, listener=listener))

    async def run_fix(
        self, task: RepairTask, settings: Settings, *, listener: Any, dry_run: bool = False
    ) -> RunResult:
        self.task, self.settings, self.dry_run = task, settings, dry_run
        listener(started(task))
        if self.error is not None:
            raise self.error
        listener(Notice(text="at work"))
        values: dict[str, Any] = {
            "run_id": "r1", "run_dir": self.run_dir, "outcome": "verified", "exit_code": 0, "summary": "done",
            "workflow": "search", "base_commit": "HEAD", "spend": Spend(),
            "patch": Patch(diff=DIFF, files=("calc.py",), added=1, removed=1),
        }  # fmt: skip
        return RunResult(**(values | self.changes))


def started(task: RepairTask) -> RunStarted:
    return RunStarted(
        run_id="r1",
        workflow="search",
        workflow_hash="h",
        repository=task.repository.source,
        base="a" * 40,
        issue_title=task.issue.title,
        models={"coder": "asked"},
    )


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine(tmp_path / "data" / "runs" / "r1")
    monkeypatch.setattr(service, "run_fix", stand_in.run_fix)
    monkeypatch.setattr(sampling, "run_samples", stand_in.run_samples)
    return stand_in


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A real repository with one bug and one test that shows it."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text(TEST)
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
        git(folder, *command)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


OPTIONS: list[tuple[tuple[str, ...], Callable[[Engine], Any], Any]] = [
    (("--repo", "elsewhere"), lambda e: e.task.repository.source, "elsewhere"),
    (("--base", "v1"), lambda e: e.task.repository.revision, "v1"),
    (("--test", "pytest -x"), lambda e: e.task.test_command, "pytest -x"),
    (("--test-id", "a", "--test-id", "b"), lambda e: e.task.target_tests, ("a", "b")),
    (("--tests", "related"), lambda e: (e.settings.tests_scope, e.task.tests_scope), ("related", "related")),
    (("--workflow", "search"), lambda e: e.settings.workflow, "search"),
    (("--model", "m", "--base-url", "http://x/v1"), lambda e: e.settings.model.name, "m"),
    (("--base-url", "http://x/v1"), lambda e: e.settings.model.base_url, "http://x/v1"),
    (("--edit-format", "symbol"), lambda e: e.settings.model.edit_format, "symbol"),
    (("--retries", "7"), lambda e: e.settings.retries, 7),
    (("--critic", "gate"), lambda e: e.settings.critic, "gate"),
    (("--max-cost", "0.5"), lambda e: e.settings.limits.max_cost_usd, 0.5),
    (("--max-tokens", "100"), lambda e: e.settings.limits.max_tokens, 100),
    (("--max-calls", "4"), lambda e: e.settings.limits.max_calls, 4),
    (("--time-limit", "60"), lambda e: e.settings.limits.time_limit_s, 60),
    (("--sandbox-timeout", "9"), lambda e: e.settings.sandbox.timeout_s, 9),
    (("--setup", "pip install x", "--setup", "y"), lambda e: e.task.setup, ("pip install x", "y")),
    (("--image", "i:1"), lambda e: e.task.image, "i:1"),
    (("--apt", "ed", "--apt", "jq"), lambda e: e.task.apt, ("ed", "jq")),
    (("--dockerfile", "/dev/null"), lambda e: e.task.dockerfile, ""),
    (("--test", "make", "--junit", "out.xml"), lambda e: e.task.junit, "out.xml"),
    (("--include-uncommitted",), lambda e: e.task.repository.include_uncommitted, True),
    (("--memory",), lambda e: e.settings.memory.enabled, True),
    (("--no-memory",), lambda e: e.settings.memory.enabled, False),
    (("--dry-run",), lambda e: e.dry_run, True),
    (("--samples", "3"), lambda e: e.samples, 3),
]


@pytest.mark.parametrize(
    ("arguments", "seen", "value"), OPTIONS, ids=lambda x: x[0] if isinstance(x, tuple) else ""
)
def test_af32_every_option_reaches_the_engine(
    cli: Cli, engine: Engine, arguments: tuple[str, ...], seen: Callable[[Engine], Any], value: Any
) -> None:
    ended = cli("fix", "--issue", "it is wrong", *arguments)
    assert ended.code == 0, ended.err
    assert seen(engine) == value


def test_af32_every_option_of_the_help_is_tested_here(cli: Cli) -> None:
    words = set(cli("fix", "--help").out.replace("/", " ").split())
    shown = {word.rstrip(",") for word in words if word.startswith("--")}
    tested = {word for arguments, _, _ in OPTIONS for word in arguments if word.startswith("--")}
    delivery = {"--apply", "--apply.", "--branch", "--output"}
    view = {"--json", "--stream", "--no-stream", "--verbose", "--help"}
    assert shown - tested == {"--issue", "--config"} | delivery | view


def test_flags_win_over_the_configuration_file(cli: Cli, engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("retries: 1\ncritic: off\n")
    assert cli("fix", "--issue", "x", "--config", str(file), "--retries", "2").code == 0
    assert (engine.settings.retries, engine.settings.critic) == (2, "off")


def test_the_issue_may_be_text_a_file_or_stdin(
    cli: Cli, engine: Engine, process: Cli, tmp_path: Path
) -> None:
    cli("fix", "--issue", "Title\n\nBody")
    assert engine.task.issue.text == "Title\n\nBody"
    (tmp_path / "issue.md").write_text("From a file")
    cli("fix", "--issue", f"@{tmp_path / 'issue.md'}")
    assert engine.task.issue.text == "From a file"
    ended = process("fix", "--issue", "-", "--repo", "/nonexistent", stdin="")
    ended.assert_one_clear_line(ExitCode.USAGE, "empty")


def test_the_patch_goes_to_stdout_byte_for_byte_and_progress_to_stderr(cli: Cli, engine: Engine) -> None:
    ended = cli("fix", "--issue", "x")
    assert ended.out == DIFF.decode()
    assert "at work" in ended.err
    assert "VERIFIED" in ended.err


def test_json_is_one_document(cli: Cli, engine: Engine) -> None:
    ended = cli("fix", "--issue", "x", "--json")
    document = json.loads(ended.out)
    assert document["patch"] == DIFF.decode()
    assert document["models"] == {"coder": "asked"}
    assert document["applied_to"] is None
    assert "at work" in ended.err


@pytest.mark.parametrize("outcome", [("no_patch", 1), ("environment", 3), ("model", 4), ("limit", 5),
                                     ("unverified", 6), ("interrupted", 130), ("verified", 0)])  # fmt: skip
def test_the_exit_code_is_the_runs(cli: Cli, engine: Engine, outcome: tuple[str, int]) -> None:
    engine.changes = {"outcome": outcome[0], "exit_code": outcome[1], "patch": None}
    ended = cli("fix", "--issue", "x", "--json")
    assert ended.code == outcome[1]
    assert json.loads(ended.out)["outcome"] == outcome[0]


def test_an_error_is_a_document_too(cli: Cli, engine: Engine) -> None:
    engine.error = LimitReached("cost", "too dear", hint="raise --max-cost")
    ended = cli("fix", "--issue", "x", "--json")
    ended.assert_one_clear_line(ExitCode.LIMIT, "too dear")
    document = json.loads(ended.out)
    assert document == {"outcome": "error", "exit_code": 5,
                        "error": {"what": "too dear", "hint": "raise --max-cost"}}  # fmt: skip


def test_cancelled_work_is_interrupted(cli: Cli, engine: Engine) -> None:
    engine.error = asyncio.CancelledError()
    ended = cli("fix", "--issue", "x", "--json")
    assert ended.code == 130
    assert json.loads(ended.out)["outcome"] == "interrupted"


def test_without_a_model_the_search_engine_is_named_and_how_to_get_one(cli: Cli, engine: Engine) -> None:
    err = cli("fix", "--issue", "x").err
    assert "no model is configured: the search engine is used" in err
    assert "OPENAI_API_KEY" in err
    assert "search engine" not in cli("fix", "--issue", "x", "--base-url", "http://x/v1").err


def test_verbose_and_no_stream(cli: Cli, engine: Engine) -> None:
    assert cli("fix", "--issue", "x", "--no-stream", "--verbose").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("--issue",)),
        (("--issue", ""), ("issue", "empty")),
        (("--issue", " \n "), ("issue", "empty")),
        (("--issue", "@/nonexistent/file"), ("/nonexistent/file",)),
        (("--issue", "x", "--apply", "--branch", "b"), ("--apply and --branch", "exclude")),
        (("--issue", "x", "--apply", "--output", "f"), ("--apply and --output", "exclude")),
        (("--issue", "x", "--branch", "b", "--output", "f"), ("--branch and --output", "exclude")),
        (("--issue", "x", "--retries", "-1"), ("--retries",)),
        (("--issue", "x", "--retries", "many"), ("--retries",)),
        (("--issue", "x", "--time-limit", "0"), ("--time-limit", "above 0")),
        (("--issue", "x", "--sandbox-timeout", "nan"), ("--sandbox-timeout",)),
        (("--issue", "x", "--max-cost", "-1"), ("--max-cost",)),
        (("--issue", "x", "--max-cost", "inf"), ("--max-cost", "leave it out")),
        (("--issue", "x", "--max-cost", "nan"), ("--max-cost",)),
        (("--issue", "x", "--critic", "maybe"), ("--critic", "advisory")),
        (("--issue", "x", "--edit-format", "prose"), ("--edit-format", "search_replace")),
        (("--issue", "x", "--test", "pytest 'x"), ("--test", "quot")),
        (("--issue", "x", "--setup", "a 'b"), ("--setup", "quot")),
        (("--issue", "x", "--test-id", ""), ("--test-id",)),
        (("--issue", "x", "--repo", ""), ("--repo",)),
        (("--issue", "x", "--model", "m"), ("no endpoint", "--base-url")),
        (("--issue", "x", "--output", "/nonexistent/dir/p.diff"), ("no such folder",)),
        (("--issue", "x", "--output", "/"), ("folder",)),
        (("--issue", "x", "--repo", "https://example.invalid/r.git", "--apply"), ("--apply", "local")),
        (("--issue", "x", "--isue", "y"), ("--issue",)),
    ],
)
def test_bad_input_is_one_line_with_code_2(
    cli: Cli, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    cli("fix", *arguments).assert_one_clear_line(ExitCode.USAGE, *words)


# --- delivery: a real repository, the engine's answer given ------------------------------------------------


def test_apply_changes_the_working_tree_and_nothing_else(cli: Cli, engine: Engine, repo: Path) -> None:
    engine.changes = {"repository_root": repo, "base_commit": git(repo, "rev-parse", "HEAD")}
    ended = cli("fix", "--issue", "x", "--repo", str(repo), "--apply", "--json")
    assert ended.code == 0, ended.err
    assert "a + b" in (repo / "calc.py").read_text()
    assert git(repo, "status", "--porcelain") == "M calc.py"
    assert str(repo) in json.loads(ended.out)["applied_to"]


def test_apply_respects_a_dirty_file(cli: Cli, engine: Engine, repo: Path) -> None:
    engine.changes = {"repository_root": repo, "base_commit": git(repo, "rev-parse", "HEAD")}
    (repo / "calc.py").write_text("# mine\n")
    ended = cli("fix", "--issue", "x", "--repo", str(repo), "--apply", "--json")
    ended.assert_one_clear_line(ExitCode.ENVIRONMENT, "calc.py")
    assert (repo / "calc.py").read_text() == "# mine\n"
    document = json.loads(ended.out)
    assert document["applied_to"] is None
    assert "calc.py" in document["delivery_error"]
    assert document["exit_code"] == ended.code
    assert "--branch" in document["hint"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_what_forbids_a_delivery_is_found_before_the_run(
    cli: Cli, engine: Engine, repo: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    def refused(code: ExitCode, *arguments: str, words: tuple[str, ...]) -> None:
        cli("fix", "--issue", "x", *arguments, *more).assert_one_clear_line(code, *words)
        assert not hasattr(engine, "task")

    at = ("--repo", str(repo))
    git(repo, "branch", "taken/name")
    environment = ExitCode.ENVIRONMENT
    refused(environment, *at, "--branch", "main", words=("main exists already", "another name"))
    refused(environment, *at, "--branch", "taken", words=("there is a branch taken/name",))
    refused(environment, *at, "--branch", "main/x", words=("there is a branch main",))
    refused(environment, *at, "--branch", "a..b", words=("not a valid branch name",))
    bare = str(tmp_path / "bare.git")
    git(repo, "clone", "-q", "--bare", str(repo), bare)
    refused(environment, "--repo", bare, "--apply", words=("bare repository", "--branch"))
    (repo / "new.py").write_text("x = 1\n")
    uncommitted = (*at, "--branch", "b", "--include-uncommitted")
    refused(ExitCode.USAGE, *uncommitted, words=("--branch", "uncommitted", "commit them first"))


def test_dirty_files_are_said_before_an_apply(cli: Cli, engine: Engine, repo: Path) -> None:
    engine.changes = {"outcome": "dry_run", "patch": None}
    (repo / "calc.py").write_text("# mine\n")
    ended = cli("fix", "--issue", "x", "--repo", str(repo), "--apply", "--dry-run")
    assert ended.code == 0
    assert "note: uncommitted changes: calc.py" in ended.err


def test_branch_leaves_the_working_tree_alone(cli: Cli, engine: Engine, repo: Path) -> None:
    engine.changes = {"repository_root": repo, "base_commit": git(repo, "rev-parse", "HEAD")}
    ended = cli("fix", "--issue", "The sum\n\nis wrong", "--repo", str(repo), "--branch", "fix/sum")
    assert ended.code == 0, ended.err
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert "a + b" in git(repo, "show", "fix/sum:calc.py")
    assert git(repo, "log", "-1", "--format=%P", "fix/sum") == git(repo, "rev-parse", "main")


def test_output_takes_the_patch_instead_of_stdout(cli: Cli, engine: Engine, tmp_path: Path) -> None:
    target = tmp_path / "p.diff"
    ended = cli("fix", "--issue", "x", "--output", str(target))
    assert (ended.code, ended.out) == (0, "")
    assert target.read_bytes() == DIFF


def test_an_unverified_patch_touches_no_repository(cli: Cli, engine: Engine, repo: Path) -> None:
    engine.changes = {"outcome": "unverified", "exit_code": 6, "repository_root": repo}
    ended = cli("fix", "--issue", "x", "--repo", str(repo), "--apply")
    assert ended.code == ExitCode.UNVERIFIED
    assert "a - b" in (repo / "calc.py").read_text()
    assert "not applied" in ended.err


def test_a_failure_after_the_start_is_one_line(cli: Cli, engine: Engine) -> None:
    engine.error = RepositoryError("unknown revision 'x'", hint="see `git branch`")
    cli("fix", "--issue", "x").assert_one_clear_line(ExitCode.ENVIRONMENT, "unknown revision", "git branch")


def test_af31_the_model_that_answered_is_reported(
    cli: Cli, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actual model of the calls, not the one that was asked for."""
    call = ModelCallFinished(
        call=1,
        agent="coder",
        model="answered",
        finish_reason="stop",
        usage=Usage(),
        cost_usd=None,
        spend=Spend(calls=1, unpriced_calls=1),
    )

    async def answered(task: RepairTask, settings: Settings, *, listener: Any, dry_run: bool) -> RunResult:
        listener(call)
        return await engine.run_fix(task, settings, listener=lambda event: None)

    monkeypatch.setattr(service, "run_fix", answered)
    assert json.loads(cli("fix", "--issue", "x", "--json").out)["models"] == {"coder": "answered"}


def test_a_patch_of_an_interrupted_run_is_kept_and_not_handed_over(
    cli: Cli, engine: Engine, repo: Path, tmp_path: Path
) -> None:
    engine.changes = {
        "outcome": "interrupted", "exit_code": 130, "summary": "interrupted; before: 1 test passes",
        "repository_root": repo,
    }  # fmt: skip
    before = (repo / "calc.py").read_text()
    ended = cli("fix", "--repo", str(repo), "--issue", "x", "--apply")
    assert (ended.code, ended.out) == (130, "")
    assert (repo / "calc.py").read_text() == before
    assert "patch apply" in ended.err
    target = tmp_path / "out.diff"
    assert cli("fix", "--repo", str(repo), "--issue", "x", "--output", str(target)).code == 130
    assert not target.exists()
    document = json.loads(cli("fix", "--repo", str(repo), "--issue", "x", "--json").out)
    assert document["patch"] == DIFF.decode()


@pytest.mark.parametrize(
    "arguments", [("fix", "--json"), ("fix", "--issue", "x", "--retries", "a", "--json")]
)
def test_a_command_line_that_cannot_be_parsed_is_a_document_with_json(
    cli: Cli, arguments: tuple[str, ...]
) -> None:
    ended = cli(*arguments)
    document = json.loads(ended.out)
    assert document["exit_code"] == ended.code == ExitCode.USAGE
    assert document["error"]["what"] in ended.err


def test_a_reader_of_the_progress_who_leaves_does_not_end_the_run(
    clean_env: dict[str, str], tmp_path: Path
) -> None:
    """stderr is a pipe that nobody reads: the patch still goes to stdout, with its own exit code."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom agentforge.orchestrator import service\n"
        "from agentforge.cli.main import run\nfrom tests.cli.test_fix import Engine\n"
        "service.run_fix = Engine(Path('r1')).run_fix\n"
        "sys.exit(run(['fix', '--issue', 'x', '--no-stream']))\n"
    )
    read, write = os.pipe()
    os.close(read)
    here = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_env | {"PYTHONPATH": str(here)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=write,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stdout) == (0, DIFF)
