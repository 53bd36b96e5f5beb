"""`agentforge solve` as a user has it, with a scripted model and real containers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ended
from tests.support.model_server import ScriptedModel

RECORD = {
    "task_id": "HumanEval/900",
    "prompt": (
        "from typing import List\n\n\ndef twice(item: int) -> int:\n    return 2 * item\n\n\n"
        "def doubled(items: List[int]) -> List[int]:\n"
        '    """ Each item times two.\n    >>> doubled([1, 2])\n    [2, 4]\n    """\n'
    ),
    "entry_point": "doubled",
    "canonical_solution": "    return [twice(item) for item in items]\n",
    "test": "def check(candidate):\n    assert candidate([5, 0]) == [10, 0]\n",
}
RIGHT = (
    "```python\ndef doubled(items: List[int]) -> List[int]:\n    return [twice(item) for item in items]\n```"
)
SPECIAL = "```python\ndef doubled(items: List[int]) -> List[int]:\n    return [2, 4]\n```"
WRONG = "```python\ndef doubled(items: List[int]) -> List[int]:\n    return items\n```"
Cli = Callable[..., Ended]


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps(RECORD | {"task_id": "HumanEval/901"}) + "\n")
    return path


def solve(cli: Cli, problem: Path, replies: Any, *more: str) -> tuple[Ended, ScriptedModel]:
    with ScriptedModel(replies) as server:
        options = ("--base-url", server.base_url, "--edit-format", "symbol", "--no-memory", *more)
        return cli("solve", "--problem", str(problem), "--index", "0", *options), server


@pytest.mark.docker
def test_a_program_with_tests_and_explanation_judged_by_the_hidden_tests(
    cli: Cli, problem: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    ended, server = solve(cli, problem, [RIGHT], "--workflow", "oneshot", "--output", str(folder), "--json")
    document = json.loads(ended.out)
    assert ended.code == 0, ended.err
    assert document["judge"] == {
        "passed": True, "tests_passed": 1, "tests_total": 1, "error_class": "none",
    }  # fmt: skip
    assert document["test_source"] == "given"
    assert document["program"].startswith("from typing import List")
    assert (folder / "solution.py").read_text() == document["program"]
    assert "expected == doubled([1, 2])" in (folder / "tests/test_examples.py").read_text()
    assert "verified" in (folder / "EXPLANATION.md").read_text()
    # What judges is out of reach: neither the hidden tests nor the reference are in a prompt or the record.
    said = json.dumps(server.requests) + "".join(
        path.read_text("utf-8", "replace") for path in Path(document["run_dir"]).rglob("*") if path.is_file()
    )
    assert "candidate([5, 0])" not in said
    assert "twice(item) for item in items" not in json.dumps(server.requests)


@pytest.mark.docker
def test_a_program_that_passes_the_examples_alone_is_no_success(cli: Cli, problem: Path) -> None:
    ended, _ = solve(cli, problem, [SPECIAL], "--workflow", "oneshot", "--json")
    document = json.loads(ended.out)
    assert document["outcome"] == "verified"
    assert document["judge"]["error_class"] == "wrong_answer"
    assert ended.code == document["exit_code"] == 1


@pytest.mark.docker
def test_eg19_eg20_a_retry_is_told_the_failing_call_expected_got_and_the_candidate(
    cli: Cli, problem: Path
) -> None:
    ended, server = solve(cli, problem, [WRONG, RIGHT], "--workflow", "retry", "--no-judge")
    assert ended.code == 0, ended.err
    assert ended.out.endswith("return [twice(item) for item in items]\n")
    first, second = (request["messages"][-1]["content"] for request in server.requests)
    assert "return items" not in first
    for word in ("doubled([1, 2])", "expected: [2, 4]", "got:      [1, 2]", "return items"):
        assert word in second
    assert server.requests[0]["seed"] != server.requests[1]["seed"]


def test_several_problems_need_a_choice(cli: Cli, problem: Path) -> None:
    cli("solve", "--problem", str(problem)).assert_one_clear_line(2, "2 problems", "--index or --id")
    cli("solve", "--problem", str(problem), "--id", "x").assert_one_clear_line(2, "no problem 'x'")
    cli("solve", "--problem", str(problem), "--index", "7").assert_one_clear_line(2, "2 problems")
