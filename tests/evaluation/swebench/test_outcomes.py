"""What is read from the harness's folder, also where the harness broke down or the folder is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentforge.evaluation.swebench.bench import grade_of
from agentforge.evaluation.swebench.harness import Order, _earlier_verdict
from agentforge.evaluation.swebench.outcomes import Outcome, judged_by_logs, judged_by_report
from agentforge.evaluation.swebench.predictions import Prediction

PATCH = "diff --git a/a b/a\r\n-x\n+y\n"


def leave(folder: Path, log: str = "", report: object = None, patch: str = PATCH) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "run_instance.log").write_text(log)
    (folder / "patch.diff").write_bytes(patch.encode())
    if report is not None:
        (folder / "report.json").write_text(json.dumps(report))


def report(resolved: bool, passed: list[str], failed: list[str]) -> dict[str, object]:
    tests = {
        "FAIL_TO_PASS": {"success": passed, "failure": failed},
        "PASS_TO_PASS": {"success": [], "failure": []},
    }
    return {"x": {"resolved": resolved, "patch_successfully_applied": True, "tests_status": tests}}


def test_af38_resolved_is_the_harness_word_and_tests_are_told_by_id(tmp_path: Path) -> None:
    leave(tmp_path, report=report(False, ["a", "b"], ["c"]))
    judged = judged_by_report(tmp_path, "x", PATCH)
    assert judged is not None
    assert (judged.outcome, judged.tests_passed, judged.tests_total) == (Outcome.UNRESOLVED, 2, 3)
    assert judged.failed == ("c",)
    assert grade_of(judged).error_class == "wrong_answer"


def test_a_verdict_from_another_image_is_none(tmp_path: Path) -> None:
    prediction = Prediction(instance_id="demo__x-1", model_name_or_path="m", model_patch="diff")
    order = Order((prediction,), {"demo__x-1": {"image": "i"}}, "digest", 1, 60)
    place = tmp_path / "run/logs/run_evaluation/run/m/demo__x-1"
    place.mkdir(parents=True)
    (place / "patch.diff").write_text("diff")
    (place / "report.json").write_text(json.dumps({"demo__x-1": {"resolved": True}}))
    about = tmp_path / "run/about.json"
    about.write_text(json.dumps({**order.identity, "images": {"demo__x-1": "sha256:old"}}))
    assert _earlier_verdict(order, tmp_path, prediction, "sha256:old") is not None
    assert _earlier_verdict(order, tmp_path, prediction, "sha256:rebuilt") is None
    assert _earlier_verdict(order, tmp_path, prediction, "") is None
    about.write_text("[]")
    assert _earlier_verdict(order, tmp_path, prediction, "sha256:old") is None


def test_a_verdict_on_another_patch_is_none(tmp_path: Path) -> None:
    leave(tmp_path, report=report(True, ["a"], []))
    assert judged_by_report(tmp_path, "x", PATCH) is not None
    assert judged_by_report(tmp_path, "x", PATCH.replace("y", "z")) is None
    assert judged_by_report(tmp_path, "other", PATCH) is None
    (tmp_path / "report.json").write_text('{"x": {"resol')
    assert judged_by_report(tmp_path, "x", PATCH) is None
    (tmp_path / "report.json").write_text("")
    assert judged_by_report(tmp_path, "x", PATCH) is None


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("INFO - >>>>> Patch Apply Failed:\nerror: no such file\n", Outcome.APPLY_FAILED),
        ("Test timed out after 1800 seconds.", Outcome.TIMEOUT),
        (
            "Image not found locally, attempting to pull...\nERROR - Error creating container for x: 404",
            "image_missing",
        ),
        ("ERROR - Error creating container for x: 500 no space left on device", Outcome.INFRA),
        ("INFO - Creating container for x...", Outcome.INFRA),
        ("", Outcome.INFRA),
    ],
)
def test_af40_whatever_ends_without_a_report_is_told_apart(
    tmp_path: Path, log: str, outcome: Outcome
) -> None:
    leave(tmp_path, log)
    judged = judged_by_logs(tmp_path, "x", PATCH, "the harness ended with 1: Killed")
    assert judged.outcome == outcome
    assert judged.detail
    # What says nothing of the patch is judged again; everything else is final and counts.
    again = outcome in (Outcome.INFRA, Outcome.IMAGE_MISSING)
    assert (grade_of(judged).status == "infra") is again
    assert not grade_of(judged).passed
    assert judged_by_logs(tmp_path, "x", "", "").outcome is Outcome.EMPTY
