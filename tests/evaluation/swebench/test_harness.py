"""The unmodified official harness over instances of our own: each outcome is reported as itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.evaluation.bench.batch import read_trials
from agentforge.evaluation.swebench.harness import Order, grade, remove_leftovers
from agentforge.evaluation.swebench.predictions import Prediction
from agentforge.evaluation.trials import TrialRow
from agentforge.sandbox.engine import connect
from agentforge.sandbox.labels import process_start
from tests.evaluation.swebench.instances import Project, row, write_rows

WORDS = {
    "demo__shapes-1": "resolved",
    "demo__shapes-2": "unresolved",
    "demo__shapes-3": "empty",
    "demo__shapes-4": "apply_failed",
    "demo__shapes-5": "image_missing",
    "demo__shapes-6": "timeout",
}
NO_IMAGE = "agentforge-test.invalid/none:latest"
Command = Callable[..., list[str]]


@pytest.fixture
def command(project: Project, instance_image: str, tmp_path: Path) -> Command:
    """A command line over six instances and a prediction for each; `name` is the batch folder's."""
    # The one that takes its whole time comes first, beside all the others.
    images = dict.fromkeys((6, 1, 2, 3, 4, 5), instance_image) | {5: NO_IMAGE}
    rows = write_rows(tmp_path / "rows.jsonl", [row(project, number, images[number]) for number in images])
    patches = {
        1: project.gold,
        2: project.gold.replace("+    return (width * height)", "+    return (width - height)"),
        3: "",
        4: project.gold.replace("-    return (width + height)", "-    return (breadth + height)"),
        5: project.gold,
        6: project.gold.replace("+    return (", "+    __import__('time').sleep(600)\n+    return (").replace(
            "@@ -4,7 +4,7 @@", "@@ -4,7 +4,8 @@"
        ),
    }
    assert len(set(patches.values())) == 5, patches
    given = [
        {"instance_id": f"demo__shapes-{number}", "model_name_or_path": "by/hand", "model_patch": patch}
        for number, patch in patches.items()
    ]
    predictions = tmp_path / "by-hand.jsonl"
    predictions.write_text("".join(json.dumps(each) + "\n" for each in given), "utf-8")

    def line(name: str, *more: str) -> list[str]:
        options = ["--dataset", str(rows), "--predictions", str(predictions), "--out", str(tmp_path / name)]
        limits = ["--harness-timeout", "20", "--grade-workers", "2", "--workflow", "search", "--json"]
        return [sys.executable, "-m", "agentforge", "bench", "swebench", *options, *limits, *more]

    return line


def table(folder: Path) -> dict[str, tuple[object, ...]]:
    """The last row of each instance without what differs from run to run."""
    rows = {each.problem: each for each in _rows(folder)}
    return {name: _told(each) for name, each in sorted(rows.items())}


def _rows(folder: Path) -> list[TrialRow]:
    return list(read_trials(folder))


def _told(each: TrialRow) -> tuple[object, ...]:
    extra = each.model_extra or {}
    detail = extra.get("judge_detail", "")
    return extra.get("verdict"), each.passed, each.tests_passed, each.tests_total, each.error_class, detail


def ended(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def harness_containers() -> list[str]:
    client = connect()
    try:
        found = client.containers.list(all=True, ignore_removed=True)
        return [name for each in found if "demo__shapes" in (name := str(each.name))]
    finally:
        client.close()


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_outcome_is_itself_and_a_killed_batch_ends_with_the_same_table(
    command: Command, tmp_path: Path, clean_env: dict[str, str]
) -> None:
    run = {"capture_output": True, "text": True, "check": False, "env": clean_env, "timeout": 300}
    whole = subprocess.run(command("whole"), **run)
    assert whole.returncode == 3, whole.stderr  # one image is missing: that instance is not judged yet
    summary = ended(whole)
    assert {each["problem"]: each["verdict"] for each in summary["trials"]} == WORDS, whole.stderr
    reference = table(tmp_path / "whole")
    assert reference["demo__shapes-1"][:5] == ("resolved", True, 2, 2, "none")
    # The hidden test fails, and what passed before still does: told by test, not by count.
    assert reference["demo__shapes-2"][:5] == ("unresolved", False, 1, 2, "wrong_answer")
    assert reference["demo__shapes-6"][5] == "Test timed out after 20 seconds"
    assert not harness_containers()
    about = json.loads(next((tmp_path / "whole/harness").glob("*/about.json")).read_text())
    assert about["harness"].startswith("swebench 5.")
    assert about["run_id"] == next((tmp_path / "whole/harness").glob("agentforge-*")).name
    assert not list((tmp_path / "whole").rglob("dataset.jsonl"))  # the reference patches do not stay

    killed = tmp_path / "killed"
    process = subprocess.Popen(command("killed"), env=clean_env, stdout=-3, stderr=-3, start_new_session=True)
    try:
        _wait_for_a_grade(killed, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    orphan = json.loads(next((killed / "harness").glob("*/process.json")).read_text())["pid"]
    assert Path(f"/proc/{orphan}").exists()
    # As if it had died one moment earlier: the harness has the verdict, the batch has not.
    lines = (killed / "trials.jsonl").read_bytes().splitlines(keepends=True)
    graded = [line for line in lines if b'"verdict": "resolved"' in line]
    assert len(graded) == 1
    (killed / "trials.jsonl").write_bytes(
        b"".join(line for line in lines if line not in graded) + b'{"run": "to'
    )
    again = subprocess.run(command("killed", "--resume"), **run)
    assert again.returncode == 3, again.stderr
    assert not Path(f"/proc/{orphan}").exists() or _is_zombie(orphan)
    assert table(killed) == reference
    assert ended(again)["outcomes"] == summary["outcomes"]
    keys = [each.problem for each in _rows(killed) if each.status == "final"]
    assert len(keys) == len(set(keys)) == 5
    assert len(list(killed.glob("harness/*/logs/**/demo__shapes-1/report.json"))) == 1  # not graded again
    assert not harness_containers()
    assert remove_leftovers(killed / "harness") == []


def _wait_for_a_grade(folder: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if (folder / "trials.jsonl").exists() and any(each.passed for each in _rows(folder)):
            return
        time.sleep(0.1)
    pytest.fail("the batch was not seen in the middle")


def _is_zombie(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.docker
@pytest.mark.timeout(200)
async def test_a_cancelled_grading_leaves_no_process_and_no_container(
    project: Project, instance_image: str, tmp_path: Path
) -> None:
    slow = row(project, 7, instance_image)
    slow["eval_script"] = "#!/bin/bash\nsleep 600\n"
    prediction = Prediction(instance_id="demo__shapes-7", model_name_or_path="m", model_patch=project.gold)
    order = Order((prediction,), {"demo__shapes-7": slow}, "digest", 1, 600)
    told: list[str] = []
    work = asyncio.ensure_future(grade(order, tmp_path, lambda name, judged: told.append(name)))
    for _ in range(600):
        await asyncio.sleep(0.1)
        if work.done() or await asyncio.to_thread(harness_containers):
            break
    pid = _left(tmp_path)["pid"]
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not process_start(pid)
    assert await asyncio.to_thread(harness_containers) == []
    assert not _left(tmp_path)
    assert told == []


def _left(folder: Path) -> dict[str, Any]:
    """What is noted of a running harness; nothing once it has ended, nor the reference patches."""
    notes = list(folder.glob("*/process.json"))
    assert bool(notes) == bool(list(folder.rglob("dataset.jsonl")))
    return json.loads(notes[0].read_text()) if notes else {}
