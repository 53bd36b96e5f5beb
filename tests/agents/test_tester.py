"""The tester: one module that may run, at a path of our choice."""

from __future__ import annotations

import pytest

from agentforge.agents.coder import EditContext
from agentforge.agents.generated import choose_path, module_problems
from agentforge.agents.tester import Tester
from agentforge.core.plan import Plan, Step
from agentforge.models.errors import EmptyAnswerError
from tests.agents.scripted import CALC, ISSUE, TREE, Script, cut, tree_of

PLAN = Plan(
    explanation="add subtracts",
    steps=(Step(id="s1", description="use +", files=("pkg/calc.py",), symbols=("add",)),),
)
CONTEXT = EditContext(ISSUE)
CODE = "from pkg.calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"


async def test_a_module_is_taken_from_the_answer():
    model = Script(f"Here you are:\n```python\n{CODE}```\nThese tests fail now.")
    written = await Tester(model).write(CONTEXT, PLAN, TREE)
    assert written.code == CODE.encode()
    assert written.path.startswith("tests/test_agentforge_")
    assert written.path.endswith(".py")
    assert written.problems == ()
    for part in (ISSUE.text, "return a - b", "def test_double"):
        assert part in model.prompt()


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ("I cannot.", "no Python module"),
        ("```python\ndef test_(:\n```", "no Python module"),
        (cut("```python\ndef test_a():\n    assert ("), "cut off"),
        ("```python\nx = 1\n```", "name begins with test_"),
        (f"```python\nfrom pkg.calc import subtract\n{CODE}```", "pkg.calc has no subtract"),
        (f"```python\nimport requests\n{CODE}```", "requests is unknown"),
        (
            "```python\ndef add(a, b):\n    return a - b\n\ndef test_add():\n    assert add(2, 3) == 5\n```",
            "imports nothing",
        ),
        (f"```python\n{CODE}\n\ndef add(a, b):\n    return 5\n```", "it defines add again"),
        (EmptyAnswerError("nothing"), "empty"),
    ],
)
async def test_a_module_that_cannot_run_is_asked_for_again_with_the_problem(first, problem):
    model = Script(first, f"```python\n{CODE}```")
    written = await Tester(model, seed=1).write(CONTEXT, PLAN, TREE)
    assert written.code == CODE.encode()
    assert problem in written.problems[0]
    assert problem in model.prompt(1)
    assert [request.seed for request in model.requests] == [1, 2]


async def test_after_two_unusable_answers_there_are_no_tests():
    told: list[str] = []
    written = await Tester(Script("no", "no")).write(CONTEXT, PLAN, TREE, on_problem=told.append)
    assert written.code is None
    assert len(written.problems) == len(told) == 2


async def test_why_earlier_tests_did_not_count_is_told():
    model = Script(f"```python\n{CODE}```")
    await Tester(model, seed=1).write(CONTEXT, PLAN, TREE, problem="test_add: always green", attempt=2)
    assert "test_add: always green" in model.prompt()
    assert model.requests[0].seed == 3


@pytest.mark.parametrize(
    ("imports", "right"),
    [
        ("import pkg", True),
        ("import pkg.calc as c", True),
        ("from pkg import calc", True),
        ("from pkg.calc import *", True),
        ("from pkg.calc import Box, double", True),
        ("import json, pytest", True),
        ("from unittest import mock", True),
        ("import numpy", True),
        ("from . import helper", True),
        ("import pkg.other", False),
        ("from pkg import other", False),
        ("import scipy", False),
        ("from pkg.calc import nothing", False),
    ],
)
def test_imports_only_what_exists(imports, right):
    tree = tree_of({"pkg/__init__.py": "import numpy as np\n", "pkg/calc.py": CALC})
    problems = module_problems(f"import pkg\n{imports}\n\n\ndef test_a():\n    assert True\n", tree)
    assert (problems == ()) is right


def test_imports_from_a_src_layout_and_dynamic_modules():
    tree = tree_of(
        {"src/lib/__init__.py": "def __getattr__(name):\n    return name\n", "src/lib/core.py": "X = 1\n"}
    )
    assert (
        module_problems("from lib import anything\nfrom lib.core import X\ndef test_a(): ...\n", tree) == ()
    )


@pytest.mark.parametrize(
    ("files", "near", "folder"),
    [
        (["a.py"], [], ""),
        (["a.py", "test_a.py"], ["a.py"], ""),
        (["a.py", "tests/test_b.py"], ["a.py"], "tests/"),
        (["a.py", "tests/data.txt"], ["a.py"], "tests/"),
        (
            ["p/a.py", "tests/unit/test_a.py", "tests/other/test_b.py", "tests/other/test_c.py"],
            ["p/a.py"],
            "tests/unit/",
        ),
        (
            ["p/a.py", "tests/unit/test_z.py", "tests/other/test_b.py", "tests/other/test_c.py"],
            ["p/a.py"],
            "tests/other/",
        ),
    ],
)
def test_the_path_lies_beside_existing_tests(files, near, folder):
    path = choose_path(tree_of(dict.fromkeys(files, "")), CODE, near)
    assert path.rpartition("/")[0] == folder.rstrip("/")


def test_the_path_never_collides():
    first = choose_path(TREE, CODE)
    tree = tree_of({"tests/test_calc.py": "", first: ""})
    second = choose_path(tree, CODE)
    assert second != first
    assert tree.kind(second) == "missing"
    assert choose_path(TREE, CODE) == first
