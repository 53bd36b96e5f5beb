"""`agentforge bench` as a user has it: a real process, a scripted model over HTTP, real containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from agentforge.cli import bench_options
from agentforge.evaluation.bench.batch import open_batch
from agentforge.evaluation.bench.runner import BatchEnd
from agentforge.evaluation.trials import TrialRow
from tests.cli.conftest import Ended
from tests.support.model_server import Body, Reply, ScriptedModel

Cli = Callable[..., Ended]
TOKENS = {"tokens_in": 0, "tokens_out": 0}
NAMES = ("double", "triple")
BODIES = {"double": "2 * n", "triple": "3 * n"}


def record(name: str) -> dict[str, Any]:
    """A problem in our own shape; `triple` is the one that the model gets wrong."""
    right = f"def {name}(n: int) -> int:\n    return {BODIES[name]}\n"
    value = eval(BODIES[name], {"n": 5})
    return {
        "id": name,
        "statement": f"Write `{name}`.\n\ndef {name}(n: int) -> int\n",
        "examples": [{"call": f"{name}(1)", "expected": eval(BODIES[name], {"n": 1})}],
        "tests": [{"call": f"{name}(5)", "expected": value}],
        "reference": right,
    }


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(record(name)) + "\n" for name in NAMES))
    return path


def asked_for(body: Body) -> str:
    text = body["messages"][-1]["content"]
    return next(name for name in NAMES if f"def {name}" in text)


def answer(body: Body) -> Reply:
    name = asked_for(body)
    value = "4 - n" if name == "triple" else BODIES[name]  # right for the example, wrong for the judge
    return Reply(f"```python\ndef {name}(n: int) -> int:\n    return {value}\n```", first_delay_s=0.2)


def options(problems: Path, server: ScriptedModel, out: Path, *more: str) -> list[str]:
    model = ["--base-url", server.base_url, "--model", "scripted", "--edit-format", "symbol"]
    return [
        "bench",
        "records",
        "--file",
        str(problems),
        "--workflow",
        "oneshot",
        *model,
        "--out",
        str(out),
        *more,
    ]


@contextmanager
def started(arguments: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "agentforge.cli.main", *arguments]
    child = subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def until(true: Callable[[], bool], seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line] if path.exists() else []


@pytest.mark.docker
def test_eg16_killed_in_mid_batch_it_goes_on_without_a_lost_doubled_or_twice_paid_trial(
    cli: Cli, clean_env: dict[str, str], problems: Path, tmp_path: Path
) -> None:
    out = tmp_path / "batch"
    with ScriptedModel(answer) as server:
        arguments = options(problems, server, out, "--json")
        with started(arguments, clean_env) as child:
            # The second answer is paid for, its trial under way.
            until(lambda: len(lines(out / "trials.jsonl")) >= 1 and len(server.requests) >= 2)
            time.sleep(0.5)
            child.send_signal(signal.SIGKILL)
            child.wait()
        finished = {row["problem"] for row in lines(out / "trials.jsonl")}
        with (out / "trials.jsonl").open("ab") as file:
            file.write(b'{"problem": "torn')
        refused = cli(*arguments)
        assert refused.code == 2
        assert "--resume" in refused.out
        went_on = cli(*arguments, "--resume")
        assert went_on.code == 0, went_on.err
        killed = json.loads(went_on.out)
        more = ("--workers", "2", "--json", "--skip-self-check")
        whole = cli(*options(problems, server, tmp_path / "whole", *more))
        asked = Counter(map(asked_for, server.requests[: -len(NAMES)]))
        again = cli(*arguments, "--resume")
    # One call each: what was answered before the kill is not paid for again, finished or not.
    assert asked == dict.fromkeys(NAMES, 1)
    assert finished, "the kill came before the first trial"
    table = [(row["problem"], row["verdict"]) for row in killed["trials"]]
    assert table == [(row["problem"], row["verdict"]) for row in json.loads(whole.out)["trials"]]
    assert dict(table) == {"double": "passed", "triple": "wrong_answer"}
    assert json.loads(again.out)["trials"] == killed["trials"]
    rows = lines(out / "trials.jsonl")
    assert Counter(row["problem"] for row in rows if row["status"] == "final") == dict.fromkeys(NAMES, 1)
    check_record(out, rows)
    check_comparison(cli, out, tmp_path / "whole")


def check_record(out: Path, rows: list[dict[str, Any]]) -> None:
    """EG-R18 and what goes beyond it; a run's record for each row; the manifest."""
    row = next(row for row in rows if row["problem"] == "triple")
    assert (row["passed"], row["tests_passed"], row["tests_total"]) == (False, 0, 1)
    assert (row["error_class"], row["retries"], row["retry_budget"], row["calls"]) == (
        "wrong_answer",
        0,
        0,
        1,
    )
    assert row["tokens_in"] > 10
    assert row["tokens_out"] > 5
    assert (row["test_source"], row["model"], row["model_reported"], row["seed"]) == (
        "given", "scripted", "scripted", 0,
    )  # fmt: skip
    assert row["condition"] == row["recorded_condition"] == "oneshot"
    assert row["gate"]["verdict"] == "verified"
    assert row["agents"] == {"coder": True}
    assert row["cost_usd"] is None, "a price that is not known is not zero"
    assert (out / "runs" / row["run_id"] / "run.json").exists()
    assert b"4 - n" in (out / "artifacts" / "triple" / "trial-0" / "patch.diff").read_bytes()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["self_check"] == {
        "suite": "json",
        "references": 2,
        "mutants": 2,
        "problems": [],
        "tasks": ["double", "triple"],
    }
    assert len(manifest["sessions"]) == 3
    for key in ("config_hash", "harness", "dataset_hash", "workflow_hash"):
        assert row[key] == manifest["identity"][key]


def check_comparison(cli: Cli, first: Path, second: Path) -> None:
    skipped = json.loads((second / "manifest.json").read_text())["self_check"]
    assert skipped == {"skipped": True}
    compared = json.loads(cli("compare", str(first), str(second), "--json").out)
    assert {run: numbers["pass_rate"] for run, numbers in compared["runs"].items()} == {
        "batch": 0.5,
        "whole": 0.5,
    }
    assert compared["paired"]["batch->whole"]["n"] == 2
    twice = cli("compare", str(first), str(first), "--json")
    assert twice.code == 2
    assert "both name their run 'batch'" in twice.out + twice.err


@pytest.mark.docker
def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(
    cli: Cli, clean_env: dict[str, str], problems: Path, tmp_path: Path
) -> None:
    out = tmp_path / "batch"
    with ScriptedModel(answer) as server:
        more = ("--skip-self-check", "--instances", "double", "--json")
        arguments = options(problems, server, out, *more)
        with started(arguments, clean_env) as child:
            until(lambda: len(server.requests) >= 1)
            os.kill(child.pid, signal.SIGTERM)  # as Ctrl-C, which a background job does not hear
            said, told = child.communicate(timeout=120)
        assert child.returncode == 130
        assert "Traceback" not in told
        assert "--resume" in told
        assert json.loads(said)["outcome"] == "interrupted"
        assert lines(out / "trials.jsonl") == []
        ended = cli(*arguments, "--resume")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["outcomes"] == {"passed": 1}


def test_what_is_wrong_is_said_before_anything_is_run(cli: Cli, problems: Path, tmp_path: Path) -> None:
    given = ("bench", "records", "--file", str(problems), "--workflow", "search")
    cli(*given).assert_one_clear_line(2, "--out")
    cli(*given, "--dry-run", "--instances", "doubel").assert_one_clear_line(2, "did you mean double")
    cli(*given, "--dry-run", "--slice", "a:b").assert_one_clear_line(2, "--slice")
    cli(*given, "--dry-run", "--filter", "(").assert_one_clear_line(2, "--filter")
    cli(*given, "--dry-run", "--filter", "zzz").assert_one_clear_line(2, "none of 2 instances")
    out = tmp_path / "home"
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    cli(*given, "--out", str(out)).assert_one_clear_line(2, "not a batch folder", "letter.txt")
    paid = ("--base-url", "http://127.0.0.1:1/v1", "--model", "unheard-of", "--max-cost", "1")
    told = cli("bench", "thirty", "--workflow", "oneshot", "--out", str(tmp_path / "new"), *paid)
    told.assert_one_clear_line(2, "price of model 'unheard-of'")
    assert not (tmp_path / "new").exists()


def test_a_dry_run_names_what_would_be_run(cli: Cli) -> None:
    chosen = ("--filter", "^dp", "--shuffle-seed", "7", "--slice", "0:3", "--trials", "2")
    ended = cli("bench", "thirty", "--dry-run", "--workflow", "search", "--json", *chosen)
    document = json.loads(ended.out)
    assert ended.code == 0
    ids = [row["id"] for row in document["instances"]]
    assert len(ids) == 3
    assert ids != sorted(ids)
    assert {row["category"] for row in document["instances"]} == {"dp"}


def test_compare_says_which_trials_of_a_batch_have_no_final_row(cli: Cli, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with open_batch(tmp_path / name, {}, {}) as folder:
            for number in range(4):
                spoiled = {"status": "infra", "error_class": "infra"} if number == 3 else {}
                values = {"run": name, "problem": f"p{number}", "passed": number < 2, **spoiled}
                folder.append(TrialRow.model_validate(values))
    ended = cli("compare", str(tmp_path / "first"), str(tmp_path / "second"), "--json")
    assert ended.code == 0
    assert ended.err.count("1 trial without a final row left out") == 2
    runs = json.loads(ended.out)["runs"]
    assert {run: (told["n_trials"], told["harness_failures"]) for run, told in runs.items()} == {
        "first": (3, 0),
        "second": (3, 0),
    }


@pytest.mark.parametrize(
    ("option", "path", "value"),
    [
        (("--workflow", "oneshot"), "settings.workflow", "oneshot"),
        (("--model", "m2"), "settings.model.name", "m2"),
        (("--base-url", "http://127.0.0.1:2/v1"), "settings.model.base_url", "http://127.0.0.1:2/v1"),
        (("--edit-format", "diff"), "settings.model.edit_format", "diff"),
        (("--retries", "7"), "settings.retries", 7),
        (("--critic", "off"), "settings.critic", "off"),
        (("--trials", "4"), "trials", 4),
        (("--workers", "3"), "workers", 3),
        (("--instances", "a,b", "--instances", "c"), "selection.instances", ("a", "b", "c")),
        (("--filter", "^a"), "selection.pattern", "^a"),
        (("--slice", "1:2"), "selection.piece", "1:2"),
        (("--shuffle-seed", "5"), "selection.shuffle_seed", 5),
        (("--seed", "9"), "seed", 9),
        (("--max-cost", "2.5"), "max_cost_usd", 2.5),
        (("--max-cost-per-instance", "0.5"), "settings.limits.max_cost_usd", 0.5),
        (("--max-tokens", "900"), "settings.limits.max_tokens", 900),
        (("--max-calls", "8"), "settings.limits.max_calls", 8),
        (("--time-limit", "60"), "settings.limits.time_limit_s", 60.0),
        (("--sandbox-timeout", "11"), "settings.sandbox.timeout_s", 11.0),
        (("--memory",), "settings.memory.enabled", True),
        (("--name", "mine"), "run", "mine"),
        (("--resume",), "resume", True),
        (("--skip-self-check",), "skip_self_check", True),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) and value else "",
)
def test_af32_every_option_has_its_effect(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    path: str,
    value: object,
) -> None:
    asked: list[Any] = []

    def keep(request: Any, values: object) -> BatchEnd:
        asked.append(request)
        summary = {"planned": 0, "final": 0, "passed": 0, "pass_rate": None, "outcomes": {}, "not_run": 0}
        return BatchEnd(summary | dict.fromkeys(("cost_usd", "unpriced_trials", "calls"), 0) | TOKENS)

    monkeypatch.setattr(bench_options, "_carry_out", keep)
    given = ("bench", "thirty", "--out", str(tmp_path / "out"))
    assert cli(*given).code == 0
    assert cli(*given, *option).code == 0
    plain, changed = (attrgetter(path)(request) for request in asked)
    assert changed == value
    assert plain != value
