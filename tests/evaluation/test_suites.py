"""Suites judge rightly: known-good passes, known-bad fails, oracles agree with brute force."""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.tree import TreeFile
from agentforge.evaluation.judge import ErrorClass, judge_program
from agentforge.evaluation.suites.protocol import RecordSuite, self_check
from agentforge.evaluation.suites.quixbugs import QuixBugs
from agentforge.evaluation.suites.thirty_problems import Sheet, ThirtyProblems
from agentforge.repo.problem.inside.agentforge_check import same
from agentforge.repo.problem.read import from_row, read_records
from agentforge.sandbox.docker_sandbox import DockerSandbox

SUITE = ThirtyProblems()
SHEETS = list(SUITE.sheets.values())


def value(program: str, setup: tuple[str, ...], call: str) -> Any:
    """Our own programs, on the host: what `call` gives."""
    names: dict[str, Any] = {}
    exec("\n".join((program, *setup)), names)
    return eval(call, names)


def drawn(sheet: Sheet, rng: random.Random) -> tuple[tuple[str, ...], str]:
    given = eval(sheet.draw, {"rng": rng, "__import__": __import__})
    if sheet.signature.startswith("class "):
        return (f"it = {given[0]}",), f"[getattr(it, name)(*given) for name, *given in {given[1]!r}]"
    return (), f"{sheet.entry}(*{given!r})"


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.id)
def test_eg08_eg09_every_oracle_is_what_brute_force_says(sheet: Sheet) -> None:
    for check in (*sheet.examples, *sheet.tests):
        program = sheet.reference if check.description == "stress" else sheet.brute
        assert repr(value(program, check.setup, check.call)) == check.expected, check.call
    rng = random.Random(sheet.id)
    for _ in range(60):
        setup, call = drawn(sheet, rng)
        assert repr(value(sheet.reference, setup, call)) == repr(value(sheet.brute, setup, call)), call


def test_eg10_a_reversed_order_is_no_order() -> None:
    sheet = SUITE.sheets["graph-courses"]
    backwards = f"{sheet.reference}\n\ndef backwards(*given):\n    return course_order(*given)[::-1]\n"
    refused = 0
    for check in (*sheet.examples, *sheet.tests):
        expected = ast.literal_eval(check.expected)
        if "[::" not in check.call and len(expected) > 1:
            call = check.call.replace("course_order", "backwards", 1)
            assert not same(expected, value(backwards, check.setup, call)), check.call
            refused += 1
    assert refused >= 3


def test_the_suite_is_ten_of_each_with_boundary_canonical_and_stress_tests() -> None:
    assert Counter(sheet.category for sheet in SHEETS) == {"dp": 10, "graph": 10, "structures": 10}
    for sheet in SHEETS:
        assert {"boundary", "canonical", "stress"} == {check.description for check in sheet.tests}, sheet.id
        assert all(change.change in sheet.reference for change in sheet.mutants)
        assert sheet.mutants
        assert not {check.call for check in sheet.examples} & {check.call for check in sheet.tests}
    chain = SUITE.sheets["dp-matrices"]
    assert (
        next(check.expected for check in chain.tests if check.call == "matrix_cost([2, 3, 4, 2, 5])") == "56"
    )


@pytest.mark.docker
async def test_eg10_every_reference_passes_and_every_mutant_fails_through_the_sandbox() -> None:
    async with DockerSandbox(SandboxSettings(pool=0), "test-suites") as sandbox:
        found = await self_check(SUITE, sandbox)
    assert found.problems == ()
    assert found.references == 30
    assert found.mutants >= 60


APPS = {
    "question": "Read two numbers and print their sum.\n\n-----Examples-----\nInput\n1 2\n\nOutput\n3\n",
    "input_output": json.dumps({"inputs": ["1 2\n", "-1 1\n"], "outputs": ["3\n", "0\n"]}),
    "solutions": "[]",
    "problem_id": 7,
}
PROGRAMS = {
    "input": "a, b = map(int, input().split())\nprint(a + b)\n",
    "stdin": "import sys\nprint(sum(map(int, sys.stdin.read().split())))\n",
    "guarded": "def main():\n    print(sum(map(int, input().split())))\n\n\n"
    "if __name__ == '__main__':\n    main()\n",
}


@pytest.mark.docker
async def test_eg06_eg07_eg24_programs_that_read_input_pass_and_each_error_has_its_class() -> None:
    record = from_row(APPS, 0, "apps")
    sandbox = DockerSandbox(SandboxSettings(pool=0), "test-judge")
    for name, program in PROGRAMS.items():
        assert (await judge_program(sandbox, record, program)).passed, name
    bad = {
        "print(3)\n": ErrorClass.WRONG_ANSWER,
        "print(\n": ErrorClass.RUNTIME,
        "raise ValueError\n": ErrorClass.RUNTIME,
        "": ErrorClass.EMPTY_OUTPUT,
    }
    for program, wanted in bad.items():
        judged = await judge_program(sandbox, record, program)
        assert not judged.passed
        assert judged.error_class is wanted, program


LIBRARIES = (
    "bisect, collections, copy, dataclasses, decimal, fractions, functools, heapq, itertools, math, numbers, "
    "random, re, statistics, string, typing"
)
FORGED = '{"ok": true, "return_value": 3, "passed": 2, "failed": 0}'


@pytest.mark.docker
async def test_eg02_eg03_eg04_eg05_a_program_may_import_and_can_neither_forge_nor_outgrow_its_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = from_row(APPS, 0, "apps")
    sandbox = DockerSandbox(SandboxSettings(pool=0), "test-judge")
    monkeypatch.setenv("SECRET_TOKEN", "of the host")
    add = "print(sum(map(int, input().split())))\n"
    clean = f"import os\nassert 'SECRET_TOKEN' not in os.environ\n{add}"
    for program in (f"import {LIBRARIES}\n{add}", clean):
        assert (await judge_program(sandbox, record, program)).passed, program
    forged = f"import os, sys\nsys.__stdout__.write({FORGED!r})\nsys.__stdout__.flush()\nos._exit(0)\n"
    outgrown = f"held = bytearray(600_000_000)\nheld[::4096] = b'x' * len(held[::4096])\n{add}"
    for program in (forged, f"raise SystemExit\n{add}", outgrown):
        assert not (await judge_program(sandbox, record, program)).passed, program


RECORDS: list[dict[str, Any]] = [
    {
        "task_id": "HumanEval/1",
        "prompt": "def one():\n    ",
        "entry_point": "one",
        "canonical_solution": "    return 1\n",
        "test": "def check(f):\n    assert f() == 1\n",
    },
    {
        "task_id": 2,
        "text": "Negate.",
        "code": "def neg(a):\n    return -a\n",
        "test_list": ["assert neg(1) == -1", "assert neg(0) == 0"],
        "test_setup_code": "",
    },
    {
        "task_id": "ClassEval_1",
        "class_name": "Box",
        "skeleton": "class Box:\n    def get(self):\n        pass\n",
        "import_statement": ["import math"],
        "solution_code": "class Box:\n    def get(self):\n        return math.inf\n",
        "test": "class BoxTest(unittest.TestCase):\n"
        "    def test_get(self):\n        self.assertEqual(Box().get(), math.inf)\n",
    },
    {
        "name": "sum",
        "description": "Print the sum.",
        "public_tests": {"input": ["1 1"], "output": ["2"]},
        "private_tests": {"input": ["2 3"], "output": ["5"]},
        "generated_tests": {"input": [], "output": []},
        "solutions": {"language": [3], "solution": ["print(sum(map(int, input().split())))"]},
        "time_limit": {"seconds": 2, "nanos": 0},
    },
    {
        "question": "add",
        "input_output": {"fn_name": "add", "inputs": [[1, 2], [0, 0]], "outputs": [[3], 0]},
        "starter_code": "def add(a, b):\n",
        "solutions": ["def add(a, b):\n    return a + b\n"],
    },
]


@pytest.mark.docker
async def test_a_suite_of_records_checks_itself(tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(map(json.dumps, RECORDS)))
    suite = RecordSuite("mixed", tuple(read_records(path)))
    async with DockerSandbox(SandboxSettings(pool=0), "test-records") as sandbox:
        found = await self_check(suite, sandbox)
    assert (found.problems, found.references) == ((), 5)
    assert suite.problems()[3].limits.time_s == 2.0


def test_a_candidate_brings_nothing_that_judges_it(tmp_path: Path) -> None:
    for folder in ("python_testcases", "python_programs", "correct_python_programs", "json_testcases"):
        (tmp_path / folder).mkdir()
    (tmp_path / "python_testcases/test_f.py").write_text("def test_f(): assert f() == 1\n")
    for helper in ("load_testdata", "node"):
        (tmp_path / f"python_testcases/{helper}.py").write_text("")
    for folder in ("python_programs", "correct_python_programs"):
        (tmp_path / folder / "f.py").write_text("def f(): return 0\n")
    (tmp_path / "json_testcases/f.json").write_text("[1, 2]\n[3, 4]\n")
    suite, forged = QuixBugs(tmp_path), TreeFile(b"forged\n")
    program = "python_programs/f.py"
    names = ("conftest.py", "pytest.ini", "python_testcases/test_f.py", "json_testcases/f.json")
    names += ("python_testcases/conftest.py", "python_testcases/load_testdata.py")
    judged = suite.judged_tree("f", 1, {**dict.fromkeys(names, forged), program: TreeFile(b"mine\n")})
    assert judged.digest == suite.tree("f", 1).with_changes({program: TreeFile(b"mine\n")}).digest
