"""Problems from files: statements, our own JSON, records of public data sets; and what a workflow gets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agentforge.core.errors import UsageError
from agentforge.core.problem import Example, Judge
from agentforge.repo.problem.examples import call_examples, sample_examples
from agentforge.repo.problem.files import judge_tree, problem_issue, problem_tree
from agentforge.repo.problem.read import from_row, from_text, read_record

HUMAN_EVAL = {
    "task_id": "HumanEval/38",
    "prompt": "from typing import List\n\n\ndef helper(s: str):\n    return s[::-1]\n\n\n"
    'def undo(s: str) -> List[str]:\n    """\n    Take it back.\n    >>> undo("ab")\n    [\'ba\']\n    """\n',
    "entry_point": "undo",
    "canonical_solution": "    return [helper(s)]\n",
    "test": "def check(candidate):\n    assert candidate('xyz') == ['zyx']\n",
}


def test_eg25_the_prompt_with_imports_and_helpers_is_the_program_to_start_from() -> None:
    record = from_row(HUMAN_EVAL, 0, "f")
    stub = record.problem.stub
    assert stub.startswith("from typing import List")
    assert "def helper" in stub
    assert stub.endswith("raise NotImplementedError\n")
    assert record.problem.examples == (Example(call='undo("ab")', expected="['ba']"),)
    assert "check" not in problem_issue(record.problem).text


def test_nothing_hidden_is_in_what_a_workflow_gets() -> None:
    record = from_row(HUMAN_EVAL, 0, "f")
    seen = b"".join(entry.data for entry in problem_tree(record.problem).files.values())
    seen += record.problem.model_dump_json().encode()
    assert b"xyz" not in seen
    assert b"[helper(s)]" not in seen
    judged = judge_tree(record.problem, record.judge, record.reference)
    assert b"xyz" in judged.read("tests/test_hidden.py").data
    assert judged.kind("tests/test_examples.py") == "missing"


@pytest.mark.parametrize(
    ("text", "call", "expected"),
    [
        (">>> f(1, [2])\n[3]\n", "f(1, [2])", "[3]"),
        ("f(3) == 6", "f(3)", "6"),
        ("For example, f('a,b') ➞ ['a', 'b'].", "f('a,b')", "['a', 'b']"),
        ("f((1, 2)) should return (2, 1)", "f((1, 2))", "(2, 1)"),
        ("assert f(-1.5) == None", "f(-1.5)", "None"),
        ("`f(2)` -> True", "f(2)", "True"),
        ("* f(')') => 1 # one", "f(')')", "1"),
    ],
)
def test_examples_in_words(text: str, call: str, expected: str) -> None:
    assert call_examples(text, "f") == (Example(call=call, expected=expected),)


@pytest.mark.parametrize(
    "text",
    ["def f(a) -> int:", "f(x) is slow", "g(1) == 2", "f(1) == g(2)", "f(1", "f(n) == 2", "f(3) == 1 + 2"],
)
def test_what_is_no_example_is_not_taken_for_one(text: str) -> None:
    assert call_examples(text, "f") == ()


def test_samples_of_input_and_output_and_not_their_descriptions() -> None:
    text = (
        "Input\nThe first line contains an integer n that is given.\n\nOutput\nPrint the answer to this.\n\n"
        "Sample Input 1\n3\n1 2 3\n\nSample Output 1\n6\n\nNote\nNothing.\n"
    )
    assert sample_examples(text) == (Example(stdin="3\n1 2 3\n", expected="6\n"),)


def test_a_statement_says_by_itself_what_is_wanted() -> None:
    problem = from_text("# Twice\n\ndef twice(n: int) -> int\n\ntwice(2) == 4\n", "t").problem
    assert (problem.kind, problem.entry_point, problem.title) == ("function", "twice", "Twice")
    assert problem.stub == "def twice(n: int) -> int:\n    raise NotImplementedError\n"
    assert from_text("Write class Pair:\nclass Pair:\n", "t").problem.kind == "class"
    assert from_text("Read two numbers from standard input, print their sum.", "t").problem.kind == "stdio"
    with pytest.raises(UsageError, match="neither a function nor input"):
        from_text("Make it better.", "t")


def test_our_own_json_keeps_tests_apart_and_its_limits() -> None:
    row: dict[str, Any] = {
        "id": "own",
        "statement": "Sort.",
        "signature": "def order(items)",
        "examples": [{"call": "order([2, 1])", "expected": [1, 2]}],
        "tests": [{"call": "order([])", "expected": "[]", "unordered": True}],
        "limits": {"time_s": 1.5, "memory_mb": 64},
    }
    record = from_row(row, 0, "f")
    assert record.problem.examples == (Example(call="order([2, 1])", expected="[1, 2]", loose=True),)
    assert record.judge == Judge(checks=(Example(call="order([])", expected="[]", unordered=True),))
    assert record.problem.limits.time_s == 1.5


def test_af_bad_files_are_told_in_one_line(tmp_path: Path) -> None:
    cases = {"a.json": "{", "b.jsonl": '"x"', "c.json": '{"prompt": 3}', "d.txt": "  ", "e.json": "[]"}
    cases["f.json"] = json.dumps({"test_list": []})
    for name, text in cases.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError) as caught:
            read_record(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot read"):
        read_record(tmp_path / "missing.json")


def test_records_may_be_packed_and_are_chosen_by_index_or_id(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl.gz"
    rows = [HUMAN_EVAL, HUMAN_EVAL | {"task_id": "HumanEval/39"}]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_record(path, 1).problem.id == "HumanEval/39"
    assert read_record(path, None, "39").problem.id == "HumanEval/39"
