"""A checkout of QuixBugs' shape, with programs of our own: halves, self-check, and a trial by search."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import UsageError
from agentforge.evaluation.suites.quixbugs import (
    QuixBugs,
    cases_path,
    check_quixbugs,
    keep_half,
    program_path,
)
from agentforge.sandbox.docker_sandbox import DockerSandbox
from tests.support.model_server import ScriptedModel

LOAD = """
import json
from pathlib import Path


def load_json_testcases(name):
    lines = (Path(__file__).parent.parent / f"json_testcases/{name}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]
"""
CASES = """
import pytest
from load_testdata import load_json_testcases

if pytest.use_correct:
    from correct_python_programs.{name} import {name}
else:
    from python_programs.{name} import {name}


@pytest.mark.parametrize("given,expected", load_json_testcases("{name}"))
def test_{name}(given, expected):
    assert {name}(*given) == expected
"""
RIGHT = {
    "area": "def area(a, b):\n    return a * b\n",
    "larger": "def larger(a, b):\n    return a if a > b else b\n",
}
WRONG = {
    "area": "def area(a, b):\n    return a + b\n",
    "larger": "def larger(a, b):\n    return a if a < b else b\n",
}


def checkout(path: Path) -> Path:
    files = {"python_testcases/load_testdata.py": LOAD, "python_testcases/node.py": ""}
    for name in RIGHT:
        files[program_path(name)] = WRONG[name]
        files[f"correct_python_programs/{name}.py"] = RIGHT[name]
        files[cases_path(name)] = CASES.format(name=name)
        value = (lambda a, b: a * b) if name == "area" else max
        # 2 and 2: the sum is the product, so a half of such cases alone would not show the bug.
        cases = [[[a, b], value(a, b)] for a, b in ((2, 2), (3, 4), (2, 2), (5, 1), (7, 2))]
        files[f"json_testcases/{name}.json"] = "".join(json.dumps(case) + "\n" for case in cases)
    for place, text in files.items():
        (path / place).parent.mkdir(parents=True, exist_ok=True)
        (path / place).write_text(text)
    return path


def test_the_halves_are_apart_and_together_all_cases(tmp_path: Path) -> None:
    suite = QuixBugs(checkout(tmp_path))
    assert suite.names == ("area", "larger")
    halves = [suite.tree("area", half).read("json_testcases/area.json").data.splitlines() for half in (0, 1)]
    assert [len(half) for half in halves] == [3, 2]
    whole = suite.whole_tree(("area",), correct=True)
    assert sorted(halves[0] + halves[1]) == sorted(whole.read("json_testcases/area.json").data.splitlines())
    assert whole.read(program_path("area")).data.decode() == RIGHT["area"]
    # What a repair sees holds neither the other half nor the right program.
    given = suite.tree("area", 0)
    assert not any(path.startswith("correct") for path in given.paths())


def test_test_functions_are_halved_where_there_are_no_cases_in_a_file() -> None:
    code = (
        b"import pytest\n\n\ndef test1():\n    pass\n\n\ndef test2():\n    pass\n\n\ndef test3():\n    pass\n"
    )
    assert [word for word in keep_half(code, 0).decode().split() if word.startswith("test")] == [
        "test1():", "test3():",
    ]  # fmt: skip
    assert b"test2" in keep_half(code, 1)
    assert b"import pytest" in keep_half(code, 1)


def test_what_is_no_checkout_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no checkout of QuixBugs"):
        QuixBugs(tmp_path)


@pytest.mark.docker
async def test_eg07_the_judge_accepts_the_right_programs_and_refuses_the_wrong_ones(tmp_path: Path) -> None:
    suite = QuixBugs(checkout(tmp_path))
    # A reference that is wrong, and a "bug" that is none.
    (tmp_path / "correct_python_programs/larger.py").write_text(WRONG["larger"])
    (tmp_path / program_path("area")).write_text(RIGHT["area"])
    sandbox = DockerSandbox(SandboxSettings(), "t")
    check = await check_quixbugs(suite, sandbox, sandbox, suite.names, 120)
    assert check.problems == (
        "larger: the reference fails 3 of 5 cases",
        "area: the program with the bug passes",
    )


@pytest.mark.docker
def test_eg01_a_bug_is_repaired_by_one_half_and_judged_by_the_other(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    path = checkout(tmp_path / "checkout")
    out = ("--out", str(tmp_path / "out"), "--instances", "area", "--skip-self-check", "--json")
    answers = [f"```python\n{code}```" for code in ("def area(a, b):\n    return a - b\n", RIGHT["area"])]
    with ScriptedModel(answers) as server:
        model = ("--workflow", "retry", "--base-url", server.base_url, "--edit-format", "symbol")
        ended = cli("bench", "quixbugs", "--path", str(path), *model, *out)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["outcomes"] == {"passed": 1}
    row = json.loads((tmp_path / "out" / "trials.jsonl").read_text())
    assert (row["given_half"], row["tests_passed"], row["tests_total"]) == (0, 2, 2)
    assert (row["repository"], row["calls"]) == ("QuixBugs", 2)
    # B regenerations and B + 1 executions: one retry was used, of the three that the settings allow.
    assert (row["retries"], row["retry_budget"]) == (1, 3)
    # Neither the held-out cases nor the right program were in a prompt.
    assert "[[3, 4], 12]" not in json.dumps(server.requests)
    assert "return a * b" not in json.dumps(server.requests)
