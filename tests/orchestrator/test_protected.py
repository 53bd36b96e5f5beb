"""What a candidate may not change: tests by evidence, what steers them, what the test command names."""

from __future__ import annotations

import pytest

from agentforge.core.ports import Environment
from agentforge.core.report import Outcome, TestReport
from agentforge.core.state import RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.protected import protected_paths, split_protected

PYPROJECT = b'[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
TREE = Tree(
    {
        "pkg/code.py": TreeFile(b""),
        "pkg/test/client.py": TreeFile(b"a product called test, without tests in it"),
        "numpy/testing/_utils.py": TreeFile(b""),
        "checks/check_add.py": TreeFile(b""),
        "test.py": TreeFile(b""),
        "Tests/test_image.py": TreeFile(b""),
        "Tests/helper.py": TreeFile(b""),
        "suite/real.py": TreeFile(b""),
        "tests/test_link.py": TreeFile(b"../suite/real.py", "120000"),
        "tests/data/table.json": TreeFile(b""),
        "pyproject.toml": TreeFile(PYPROJECT),
        "setup.cfg": TreeFile(b"[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n"),
        "Makefile": TreeFile(b""),
        "check.sh": TreeFile(b""),
    }
)
IDS = (
    "checks/check_add.py::test_add",
    "test.py::T::test_add",
    "tests/test_link.py::test_x",
    "pkg/code.py::pkg.code.f",
)


def state(**changes: object) -> RunState:
    task = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text="x"))
    baseline = TestReport(outcomes=dict.fromkeys(IDS, Outcome.PASSED), collected=len(IDS))
    return RunState(task=task, base_commit="0" * 40, baseline=baseline).model_copy(update=changes)


def left_out(path: str, data: bytes | None = b"x", run: RunState | None = None) -> bool:
    entry = None if data is None else TreeFile(data)
    _, dropped = split_protected({path: entry}, protected_paths(run or state(), TREE))
    return dropped == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "checks/check_add.py",
        "test.py",
        "Tests/helper.py",
        "Tests/test_image.py",
        "suite/real.py",
        "tests/test_link.py",
        "tests/data/table.json",
        "tests/calc.py",
        "anywhere/test_new.py",
        "conftest.py",
        "pkg/conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        "tox.ini",
        "sitecustomize.py",
        "usercustomize.py",
        "evil.pth",
        "evil.egg-info/entry_points.txt",
        "evil-1.dist-info/entry_points.txt",
    ],
)
def test_what_judges_is_left_out(path: str) -> None:
    assert left_out(path)
    assert left_out(path, None)


@pytest.mark.parametrize(
    "path",
    ["pkg/code.py", "pkg/test/client.py", "numpy/testing/_utils.py", "pkg/new.py", "README.md", "Makefile"],
)
def test_products_are_not_whatever_their_folder_is_called(path: str) -> None:
    assert not left_out(path)


def test_a_doctest_does_not_freeze_the_code_it_stands_in() -> None:
    assert not left_out("pkg/code.py")


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        ("pyproject.toml", PYPROJECT.replace(b'"a"', b'"b"'), False),
        ("pyproject.toml", PYPROJECT.replace(b"-q", b"-p quiet"), True),
        ("pyproject.toml", b"not = toml = at all", True),
        ("pyproject.toml", None, True),
        ("setup.cfg", b"[metadata]\nname = b\n[tool:pytest]\naddopts = -q\n", False),
        ("setup.cfg", b"[metadata]\nname = a\n", True),
        ("sub/pyproject.toml", b'[project]\nname = "c"\n', False),
        ("sub/pyproject.toml", PYPROJECT, True),
    ],
)
def test_configuration_may_change_but_not_the_part_of_pytest(
    path: str, data: bytes | None, expected: bool
) -> None:
    assert left_out(path, data) == expected


def test_the_files_a_test_command_goes_through_are_left_out() -> None:
    environment = Environment(
        image="x", framework="command", test_command=("sh", "-c", "make all && ./check.sh")
    )
    run = state(environment=environment)
    assert left_out("check.sh", run=run)
    assert left_out("Makefile", run=run)
    assert left_out("build/rules.mk", run=run)
    assert not left_out("check.sh")


def test_target_tests_are_protected_without_a_baseline() -> None:
    task = state().task.model_copy(update={"target_tests": ("odd/place.py::test_x",)})
    assert left_out("odd/place.py", run=state(task=task, baseline=None))
