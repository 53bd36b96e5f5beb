"""Admission by what a real sandbox reports of real tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge.agents.admission import Admission, admit_tests
from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.base_image import ensure_base_image
from tests.agents.scripted import tree_of

PATH = "test_agentforge_1.py"
ISSUE = Issue(
    title="add subtracts", text="add(2, 3) is -1 and total(None) raises TypeError. spin(1) never returns."
)
CODE = """
def add(a, b):
    return a - b


def total(items):
    return sum(item for item in items)


def spin(n):
    while n:
        pass
"""
TESTS = """
import random

import pytest

from calc import add, total
import calc


def test_assertion():
    assert add(2, 3) == 5


def test_raised_in_the_code():
    assert total(None) == 0


def test_exception_that_does_not_come():
    with pytest.raises(ValueError):
        add(1, 1)


def test_green():
    assert add(2, 0) == 2


def test_name():
    assert plus(2, 3) == 5


def test_no_such_function():
    assert calc.plus(2, 3) == 5


def test_signature():
    assert add(2, 3, 4) == 9


def test_fixture(client):
    assert client


def test_flaky():
    assert add(2, 3) == random.random()


@pytest.mark.skip
def test_skipped():
    assert False
"""


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment(image=ensure_base_image(SandboxSettings()))


async def admit(environment: Environment, folder: Path, tests: str, timeout_s: float = 20.0) -> Admission:
    sandbox = DockerSandbox(SandboxSettings(), "test-admission", folder)
    tree: Tree = tree_of({"calc.py": CODE}).with_changes({PATH: TreeFile(tests.encode())})
    request = TestRequest(targets=(PATH,), timeout_s=timeout_s)
    base = await sandbox.run_tests(environment, tree, request)
    rerun = await sandbox.run_tests(environment, tree, request)
    return admit_tests(base, rerun, tests.encode(), ISSUE, PATH)


@pytest.mark.docker
async def test_each_test_is_judged_by_why_it_failed(environment, tmp_path):
    admission = await admit(environment, tmp_path, TESTS)
    accepted = {test.removeprefix(f"{PATH}::test_") for test in admission.accepted}
    assert accepted == {"assertion", "raised_in_the_code", "exception_that_does_not_come"}
    why = {test.removeprefix(f"{PATH}::test_"): why.split(":")[0] for test, why in admission.discarded}
    assert why == {
        "green": "always green",
        "name": "broken",
        "no_such_function": "unrelated",
        "signature": "unrelated",
        "fixture": "broken",
        "flaky": "flaky",
        "skipped": "not failing",
    }
    assert "calc.py" in admission.reasons[f"{PATH}::test_raised_in_the_code"]


@pytest.mark.docker
@pytest.mark.parametrize(
    "first", ["import no_such_module", "from calc import nothing", "def broken(:", "x = missing"]
)
async def test_a_file_that_cannot_be_imported_is_broken(environment, tmp_path, first):
    admission = await admit(environment, tmp_path, f"{first}\n{TESTS}")
    assert admission.accepted == ()
    assert all(why.startswith("broken") for _, why in admission.discarded)


@pytest.mark.docker
async def test_a_hang_that_the_issue_speaks_of_counts(environment, tmp_path):
    code = "from calc import spin\n\n\ndef test_spin():\n    assert spin(1) is None\n"
    admission = await admit(environment, tmp_path, code, timeout_s=3.0)
    assert admission.accepted == (f"{PATH}::test_spin",)
