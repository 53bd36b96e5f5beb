"""Claims become tests only when they are seen to fail on the base for the issue's reason."""

from __future__ import annotations

import pytest

from agentforge.core.ports import Environment
from agentforge.core.report import Outcome, TestFailure, TestReport
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.sandbox import DockerSandbox
from agentforge.search.reproduce import existing_targets, reproduce
from tests.search.conftest import make_tree

UTIL = """import random


def clamp(x, low, high):
    if x > high:
        return high
    return x


def first(items):
    return items[0]


def dice():
    return random.Random().random() < 0.5


def parse(text):
    return int(text)
"""


def tree() -> Tree:
    return make_tree(
        {
            "pkg/__init__.py": "from .util import clamp, dice, first, parse\n",
            "pkg/util.py": UTIL,
            "tests/test_a.py": "def test_a():\n    pass\n",
        }
    )


FOUND = {
    "an example that gives something else": (">>> clamp(-5, 0, 3)\n0\n", "assert result == 0"),
    "a call that raises": (">>> first([])\nTraceback (most recent call last):\nIndexError: x\n", "first([])"),
    "a value asked for in prose": ("`clamp(-5, 0, 3)` should return `0`, not `-5`.", "assert result == 0"),
    "an error that is wanted": (
        "parse('') should raise `TypeError`, but raises ValueError",
        "pytest.raises(TypeError)",
    ),
    "the shown output is the wrong one": (
        ">>> clamp(-5, 0, 3)\n-5\n\nwhich should be `0`",
        "assert result == 0",
    ),
}


@pytest.mark.docker
@pytest.mark.parametrize(("text", "line"), FOUND.values(), ids=FOUND.keys())
async def test_a_claim_that_fails_on_the_base_counts(
    sandbox: DockerSandbox, environment: Environment, text: str, line: str
) -> None:
    found = await reproduce(sandbox, environment, tree(), Issue(text=text))
    assert len(found.tests) == 1
    test = found.tests[0]
    assert line in test.code.decode()
    assert test.path.startswith("tests/test_agentforge_repro_")
    assert all(test_id.startswith(f"{test.path}::test_") for test_id in test.test_ids)
    assert test.reason


DISCARDED = {
    "holds already": (">>> clamp(5, 0, 3)\n3\n", "passes on the base"),
    "unknown name": (">>> nobody_knows(1)\n2\n", "unknown names: nobody_knows"),
    "other error": (">>> parse('x')\nTraceback (most recent call last):\nKeyError: x\n", "not KeyError"),
    "set-up is broken": (">>> from pkg import nothing_here\n>>> nothing_here(1)\n2\n", "cannot be set up"),
}


@pytest.mark.docker
@pytest.mark.parametrize(("text", "why"), DISCARDED.values(), ids=DISCARDED.keys())
async def test_other_claims_are_discarded_and_it_says_why(
    sandbox: DockerSandbox, environment: Environment, text: str, why: str
) -> None:
    found = await reproduce(sandbox, environment, tree(), Issue(text=text))
    assert found.tests == ()
    assert why in " ".join(reason for _, reason in found.discarded)


@pytest.mark.docker
async def test_flaky_claims_do_not_count(sandbox: DockerSandbox, environment: Environment) -> None:
    claims = "\n".join(f"`dice()` should be `True`, {'x' * n}." for n in range(1))
    text = claims + "\n>>> [dice() for _ in range(3)].count(True)\n1\n"
    kept = 0
    for _ in range(3):
        found = await reproduce(sandbox, environment, tree(), Issue(text=text))
        kept += len(found.tests)
    assert kept < 6


@pytest.mark.docker
async def test_nothing_in_the_issue_means_no_test(sandbox: DockerSandbox, environment: Environment) -> None:
    found = await reproduce(sandbox, environment, tree(), Issue(text="It is broken, please fix it."))
    assert (found.tests, found.discarded) == ((), ())


def test_failing_tests_that_the_issue_speaks_of_may_be_targets() -> None:
    failure = TestFailure(exception="AssertionError", frames=(("pkg/util.py", 5, "clamp"),))
    report = TestReport(
        outcomes={
            "t.py::test_bounds": Outcome.FAILED,
            "t.py::test_other": Outcome.FAILED,
            "t.py::test_clamp": Outcome.PASSED,
        },
        failures={"t.py::test_bounds": failure},
    )
    assert existing_targets(Issue(text="`clamp()` ignores low"), report) == ("t.py::test_bounds",)
    assert existing_targets(Issue(text="clamp()"), None) == ()
