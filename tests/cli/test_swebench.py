"""`agentforge bench swebench`: what it refuses, and its rehearsal. Nothing here needs an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge.core.errors import EnvironmentFault, UsageError
from agentforge.evaluation.bench.batch import open_batch
from agentforge.evaluation.swebench.bench import PREDICTION, collect_predictions, without_prediction
from agentforge.evaluation.swebench.rows import CLASSIC
from agentforge.evaluation.swebench.submit import submit, subset_of
from agentforge.evaluation.trials import TrialRow
from tests.cli.conftest import Ended
from tests.evaluation.swebench.instances import make_project, row, write_rows

Cli = Callable[..., Ended]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    project = make_project(tmp_path / "shapes")
    return write_rows(tmp_path / "rows.jsonl", [row(project, n, "some/image:latest") for n in (1, 2, 3)])


def test_a_rehearsal_lists_instances_and_what_identifies_the_batch(cli: Cli, rows: Path) -> None:
    base = ("bench", "swebench", "--dataset", str(rows), "--dry-run", "--json", "--workflow", "search")
    told = json.loads(cli(*base, "--filter", "[13]$").out)
    assert [each["id"] for each in told["instances"]] == ["demo__shapes-1", "demo__shapes-3"]
    assert told["instances"][0]["repository"] == "demo/shapes"
    assert told["harness"].startswith("swebench 5.")
    assert len(told["dataset_hash"]) == 16
    shuffled = [json.loads(cli(*base, "--shuffle-seed", "7", "--slice", ":2").out)["instances"] for _ in "12"]
    assert shuffled[0] == shuffled[1]
    assert len(shuffled[0]) == 2


def test_what_cannot_be_is_one_clear_error(cli: Cli, rows: Path, tmp_path: Path) -> None:
    def refused(code: int, word: str, *more: str, dataset: Path = rows) -> None:
        out = ("--out", str(tmp_path / "out"), "--workflow", "search")
        cli("bench", "swebench", "--dataset", str(dataset), *out, *more).assert_one_clear_line(code, word)

    given, strange, torn = tmp_path / "given.json", tmp_path / "strange.json", tmp_path / "torn.json"
    given.write_text(json.dumps([{"instance_id": "demo__shapes-1", "model_patch": "x"}]))
    strange.write_text(json.dumps([{"instance_id": "other", "model_patch": "x"}]))
    torn.write_text("{")
    refused(2, "--predict-only", "--predict-only", "--grade-only")
    refused(2, "--predict-only", "--predict-only", "--predictions", str(given))
    refused(2, "--grade-only", "--grade-only")
    refused(2, "hosted evaluation", "--submit")
    refused(2, "other", "--predictions", str(strange))
    refused(2, "torn.json", "--predictions", str(torn))
    refused(2, "torn.json", "--image-map", str(torn))
    refused(2, "none.jsonl", dataset=tmp_path / "none.jsonl")
    # Classic rows are explained before anything runs.
    classic = [{name: json.loads(line)[name] for name in CLASSIC} for line in rows.read_text().splitlines()]
    old = write_rows(tmp_path / "classic.jsonl", classic)
    refused(2, "eval_script", "--predictions", str(given), dataset=old)
    refused(2, "--complete-from", "--predictions", str(given), "--resume", dataset=old)


def test_predictions_are_of_the_trials_that_count_and_only_in_a_folder_of_ours(
    cli: Cli, rows: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "artifacts").mkdir(parents=True)
    (other / "preds.json").write_text("theirs")
    line = ("bench", "swebench", "--dataset", str(rows), "--workflow", "search", "--out", str(other))
    cli(*line).assert_one_clear_line(2, "not a batch folder")
    assert (other / "preds.json").read_text() == "theirs"
    given = {PREDICTION: b'{"instance_id": "x", "model_name_or_path": "m", "model_patch": "diff"}'}
    with open_batch(tmp_path / "out", {}, {"tasks": ["x", "y", "z"]}) as folder:
        for name, status in (("x", "ungraded"), ("y", "cost")):
            kept = TrialRow(run="r", problem=name, passed=False, status=status, artifacts=[PREDICTION])
            folder.append(kept, {PREDICTION: given[PREDICTION].replace(b'"x"', f'"{name}"'.encode())})
        folder.append(TrialRow(run="r", problem="z", passed=False, status="final"))
    assert list(json.loads(collect_predictions(tmp_path / "out").read_text())) == ["x"]
    assert without_prediction(tmp_path / "out") == ("y",)


def test_submission_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subset_of("lite") == subset_of("SWE-bench/SWE-bench_Lite") == "swe-bench_lite"
    with pytest.raises(UsageError, match="does not know full"):
        subset_of("full")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault) as missing:
        submit("lite", "test", tmp_path / "preds.json", "mine")
    assert "sb-cli submit swe-bench_lite test" in missing.value.hint
    assert str(tmp_path / "preds.json") in missing.value.what
    client = tmp_path / "sb-cli"
    client.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexit 3\n')
    client.chmod(0o755)
    with pytest.raises(EnvironmentFault, match="ended with 3"):
        submit("verified", "test", tmp_path / "preds.json", "mine")
    asked = (tmp_path / "asked").read_text().split()
    assert asked[:3] == ["submit", "swe-bench_verified", "test"]
    assert asked[-2:] == ["--run_id", "mine"]
