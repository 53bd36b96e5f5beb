"""The batch folder: one experiment, one owner, whole lines, one final row a trial."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import ConfigError, RecordError, UsageError
from agentforge.evaluation.bench.batch import BatchFolder, open_batch, read_trials
from agentforge.evaluation.trials import ROWS_FILE, TrialRow, read_all, read_rows

IDENTITY = {
    "suite": "s",
    "workflow": "retry",
    "workflow_hash": "w1",
    "config_hash": "c1",
    "settings": {"retries": 3, "model": {"temperature": 0.0}},
}


def opened(path: Path, *, resume: bool = False, **changes: Any) -> BatchFolder:
    return open_batch(path, {**IDENTITY, **changes}, {"created": "now"}, resume=resume)


def row(problem: str = "p", *, trial: int = 0, **changes: Any) -> TrialRow:
    return TrialRow.model_validate(
        {"run": "batch", "problem": problem, "trial": trial, "passed": True, **changes}
    )


def test_a_torn_last_line_is_cut_off_so_that_the_next_row_stands_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append(row("a"))
    rows = tmp_path / ROWS_FILE
    rows.write_bytes(rows.read_bytes() + b'{"run": "batch", "prob')
    assert [one.problem for one in read_trials(tmp_path)] == ["a"]
    with opened(tmp_path, resume=True) as folder:
        folder.append(row("b"))
    assert [json.loads(line)["problem"] for line in rows.read_text().splitlines()] == ["a", "b"]


def test_a_broken_line_in_the_middle_is_no_accident_and_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append(row("a"))
    rows = tmp_path / ROWS_FILE
    rows.write_bytes(b'{"run": "batch"}\n' + rows.read_bytes())
    with pytest.raises(RecordError, match="line 1: is no trial row"):
        opened(tmp_path, resume=True)


def test_eg16_a_final_row_is_never_written_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append(row("a"))
        with pytest.raises(RecordError, match="trial 0 of a already has its final row"):
            folder.append(row("a", passed=False))
        folder.append(row("a", trial=1))


def test_eg16_spoiled_trials_are_superseded_and_never_pooled(tmp_path: Path) -> None:
    spoiled = {"passed": False, "error_class": "infra", "status": "infra"}
    with opened(tmp_path) as folder:
        folder.append(row("a", **spoiled))
        folder.append(row("b", **spoiled))
        folder.append(row("a"))
        assert folder.current["a", 0].passed
        assert len(folder.rows) == 3
    read = read_all(tmp_path)
    assert [(one.problem, one.passed) for one in read.rows] == [("a", True)]
    assert [one.problem for one in read.unfinished] == ["b"]


def test_a_batch_of_spoiled_trials_alone_has_nothing_to_compare(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append(row("a", passed=False, status="infra"))
    with pytest.raises(ConfigError, match="no trial with a final row: 1 have none"):
        read_rows(tmp_path)


def test_another_configuration_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    opened(tmp_path).__exit__()
    changed = {"retries": 5, "model": {"temperature": 0.0}}
    with pytest.raises(ConfigError) as refused:
        opened(tmp_path, resume=True, settings=changed, config_hash="c2")
    assert "settings.retries was 3, now 5" in refused.value.what
    assert "config_hash" not in refused.value.what, "the hash says nothing that the names do not"
    with pytest.raises(ConfigError, match="workflow_hash was w1, now w2"):
        opened(tmp_path, resume=True, workflow_hash="w2")
    opened(tmp_path, resume=True).__exit__()


def test_a_folder_with_a_batch_is_not_begun_again(tmp_path: Path) -> None:
    opened(tmp_path).__exit__()
    with pytest.raises(UsageError, match="holds a batch already"):
        opened(tmp_path)


def test_eg16_two_processes_never_write_one_batch(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from agentforge.core.errors import RecordError\n"
        "from agentforge.evaluation.bench.batch import open_batch\n"
        "try:\n    open_batch(Path(sys.argv[1]), {}, {}, resume=True)\n"
        "except RecordError as error:\n    print(error.what)\n"
    )
    with opened(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        )
    assert "another process works on this batch" in other.stdout


def test_runs_of_which_no_row_tells_are_known(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.begin("r1", ("a", 0))
        folder.append(row("a", run_id="r1"))
        folder.begin("r2", ("b", 0))
    with opened(tmp_path, resume=True) as folder:
        assert folder.begun() == {("b", 0): "r2"}
        assert folder.granted("r2") == (False, None)
        folder.begin("r3", ("c", 0), away=True, max_cost_usd=0.5)
        assert folder.granted("r3") == (True, 0.5)


def test_artifacts_are_there_before_their_row(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append(row("org/x 1"), {"patch.diff": b"--- a\n"})
        assert (folder.artifacts("org/x 1", 0) / "patch.diff").read_bytes() == b"--- a\n"
        assert folder.artifacts("org/x 1", 0) != folder.artifacts("org_x_1", 0)
        assert folder.artifacts("a__b-1", 2) == tmp_path / "artifacts" / "a__b-1" / "trial-2"
