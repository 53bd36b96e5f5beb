"""`bench swebench` with an agent: a scripted model over HTTP, the instance's image, the official harness."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge.evaluation.bench.batch import read_trials
from agentforge.evaluation.swebench.predictions import read_predictions
from tests.evaluation.swebench.instances import SECRET, Project, row, write_rows
from tests.support.model_server import Body, Reply, ScriptedModel

EDIT = """src/shapes/area.py
<<<<<<< SEARCH
    return (width + height) * UNIT
=======
    return ({expression}) * UNIT
>>>>>>> REPLACE

tests/test_extra.py
<<<<<<< SEARCH
=======
def test_extra():
    assert True
>>>>>>> REPLACE
"""
NO_IMAGE = "agentforge-test/none:latest"


def answer(body: Body) -> Reply:
    text = "\n".join(str(message["content"]) for message in body["messages"])
    number = re.findall(r"Case (\d)", text)[0]
    expressions = {"1": "width * height", "2": "width - height"}
    return Reply(EDIT.format(expression=expressions[number]) if number in expressions else "I cannot help.")


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_af36_af39_the_agent_predicts_in_the_instances_image_and_the_harness_judges(
    project: Project, instance_image: str, tmp_path: Path, clean_env: dict[str, str]
) -> None:
    records = [row(project, n, NO_IMAGE if n == 5 else instance_image) for n in (1, 2, 3, 5)]
    # Without an example nothing shows the bug: a patch that breaks nothing is handed over, unverified.
    records[1]["problem_statement"] = "rectangle gives a wrong area\n\nIt should not add.\n"
    for each in records:
        each["problem_statement"] += f"\nCase {each['instance_id'][-1]}\n"
    rows = write_rows(tmp_path / "rows.jsonl", records)
    with ScriptedModel(answer) as server:

        def bench(code: int, *more: str) -> dict[str, Any]:
            command = [sys.executable, "-m", "agentforge", "bench", "swebench", "--dataset", str(rows)]
            command += ["--workflow", "oneshot", "--base-url", server.base_url, "--model", "org/scripted"]
            command += ["--edit-format", "search_replace", "--no-pull", "--workers", "2", "--json"]
            command += ["--out", str(tmp_path / "batch"), *more]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=clean_env, timeout=280
            )
            assert done.returncode == code, done.stderr
            document: dict[str, Any] = json.loads(done.stdout)
            return document | {"stderr": done.stderr}

        predicted = bench(3, "--predict-only")  # one image is missing
        assert predicted["outcomes"] == {"ungraded": 3, "image_missing": 1}, predicted["stderr"]
        asked = len(server.requests)
        graded = bench(0, "--grade-only")
        assert len(server.requests) == asked  # nothing is paid for twice
        prompts = json.dumps(server.requests)
    words = {each["problem"][-1]: each["verdict"] for each in graded["trials"]}
    assert words == {"1": "resolved", "2": "unresolved", "3": "empty"}, graded["stderr"]

    # The hidden test, its name and the operator of the gold patch never went to the model.
    assert SECRET not in prompts
    assert "width * height" not in prompts.replace(EDIT.format(expression="width * height"), "")
    assert "look at the operator" not in prompts
    predictions = read_predictions(tmp_path / "batch/preds.json")
    first = predictions["demo__shapes-1"]
    assert first.model_name_or_path == "agentforge+oneshot+org_scripted"
    assert first.model_patch.endswith("\n")
    assert not first.model_patch.endswith("\n\n")
    assert "test_extra" not in first.model_patch
    newest = {each.problem: each for each in read_trials(tmp_path / "batch")}
    resolved = newest["demo__shapes-1"]
    assert (resolved.passed, resolved.tests_passed, resolved.tests_total) == (True, 2, 2)
    assert resolved.calls == 1
    assert resolved.tokens > 0
    assert (resolved.model_extra or {})["image"].startswith("sha256:")
    assert not list((tmp_path / "batch/scratch").iterdir())
