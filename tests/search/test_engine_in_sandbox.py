"""The whole engine in the real sandbox, on programs of our own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from agentforge.config.settings import SearchSettings
from agentforge.core.events import SearchProgress
from agentforge.core.patch import GeneratedTest
from agentforge.core.ports import Environment
from agentforge.core.task import Issue
from agentforge.core.tree import TreeFile
from agentforge.sandbox import DockerSandbox
from agentforge.search.engine import SearchEngine
from agentforge.search.reproduce import reproduce
from tests.search.conftest import STATS, TEST_STATS, Clock, make_tree

pytestmark = pytest.mark.docker
ISSUE = Issue(title="median", text="Stats.median is wrong for an even number of values")


async def test_a_wrong_operator_is_found_and_ranked_first(
    make_engine: Callable[..., SearchEngine], environment: Environment, progress: list[SearchProgress]
) -> None:
    tree = make_tree({"stats.py": STATS, "test_stats.py": TEST_STATS})
    outcome = await make_engine().repair(environment, tree, ISSUE, ["test_stats.py::test_median"])
    assert outcome.plausible, outcome.reasons
    fixed = outcome.plausible[0].changes["stats.py"]
    assert fixed is not None
    assert fixed.data == STATS.replace("middle + 1", "middle - 1").encode()
    assert outcome.localization[0].line == 19
    assert [p.stage for p in progress][:2] == ["observe", "localize"]
    assert progress[-1].plausible >= 1


async def test_a_generated_test_is_target_enough(
    make_engine: Callable[..., SearchEngine], sandbox: DockerSandbox, environment: Environment
) -> None:
    tree = make_tree({"stats.py": STATS})
    issue = Issue(text=">>> from stats import Stats\n>>> Stats([1, 2, 3, 4]).median()\n2.5\n")
    found = await reproduce(sandbox, environment, tree, issue)  # its test imports inside the function
    outcome = await make_engine().repair(environment, tree, issue, [], found.tests)
    assert outcome.plausible
    assert all(path == "stats.py" for edit in outcome.plausible for path in edit.changes)


async def test_without_a_failing_test_nothing_is_tried(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    tree = make_tree({"stats.py": STATS, "test_stats.py": TEST_STATS})
    outcome = await make_engine().repair(environment, tree, ISSUE, ["test_stats.py::test_mean"])
    nothing = await make_engine().repair(environment, tree, ISSUE, [])
    assert (outcome.tried, outcome.plausible) == (0, ())
    assert outcome.reasons == ("the target tests do not fail when run alone",)
    assert nothing.reasons == ("no failing test to aim at",)


HOPELESS = "def secret(x):\n    a = x + 1\n    b = a * 3\n    return b - x\n"
TEST_HOPELESS = "from m import secret\n\n\ndef test_secret():\n    assert secret(2) == 'no edit gives this'\n"


async def test_the_deadline_ends_the_search(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    engine = make_engine()
    start = time.monotonic()
    tree = make_tree({"m.py": HOPELESS, "test_m.py": TEST_HOPELESS})
    outcome = await engine.repair(environment, tree, ISSUE, ["test_m.py"], deadline=start + 8)
    assert time.monotonic() - start < 14
    assert outcome.plausible == ()
    assert outcome.reasons


async def test_a_cancelled_engine_keeps_what_it_found(
    sandbox: DockerSandbox, environment: Environment
) -> None:
    screened = asyncio.Event()

    def hear(progress: SearchProgress) -> None:
        if progress.stage == "screen":
            screened.set()

    engine = SearchEngine(sandbox, SearchSettings(), hear, Clock())
    tree = make_tree({"m.py": HOPELESS, "test_m.py": TEST_HOPELESS})
    task = asyncio.ensure_future(engine.repair(environment, tree, ISSUE, ["test_m.py"]))
    await asyncio.wait([task, asyncio.ensure_future(screened.wait())], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.outcome().tried > 0
    assert engine.outcome().localization


async def test_max_candidates_is_a_limit(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    tree = make_tree({"m.py": HOPELESS, "test_m.py": TEST_HOPELESS})
    outcome = await make_engine(max_candidates=60, batch_size=30).repair(
        environment, tree, ISSUE, ["test_m.py"]
    )
    assert 60 <= outcome.tried <= 120
    assert any("limit of 60" in reason for reason in outcome.reasons)


async def test_the_same_search_twice_gives_the_same_edits(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    tree = make_tree({"stats.py": STATS, "test_stats.py": TEST_STATS})
    targets = ["test_stats.py::test_median"]
    runs = [await make_engine(batch_size=60).repair(environment, tree, ISSUE, targets) for _ in range(2)]
    assert [r.edit for r in runs[0].plausible][:3] == [r.edit for r in runs[1].plausible][:3]


async def test_the_generated_test_file_is_no_part_of_the_changes(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    code = b"from stats import Stats\n\n\ndef test_it():\n    assert Stats([1, 3]).median() == 2\n"
    given = GeneratedTest(path="test_new.py", code=code, test_ids=("test_new.py::test_it",), reason="median")
    outcome = await make_engine().repair(environment, make_tree({"stats.py": STATS}), ISSUE, [], [given])
    assert outcome.plausible
    assert all("test_new.py" not in edit.changes for edit in outcome.plausible)
    assert isinstance(outcome.plausible[0].changes["stats.py"], TreeFile)


TWO_FAULTS = """def spread(values):
    top = max(values) + 1
    return top - max(values)
"""
TEST_TWO_FAULTS = """from m import spread


def test_spread():
    assert [spread([3, 1, 7, 2]), spread([4]), spread([-5, 10])] == [6, 0, 15]
"""


async def test_two_faults_are_repaired_by_a_pair_of_edits(
    make_engine: Callable[..., SearchEngine], environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentforge.search.engine.PAIRS_AFTER", 30)
    tree = make_tree({"m.py": TWO_FAULTS, "test_m.py": TEST_TWO_FAULTS})
    outcome = await make_engine(batch_size=30).repair(environment, tree, ISSUE, ["test_m.py::test_spread"])
    assert outcome.plausible, outcome.reasons
    assert {ranked.edit.operator for ranked in outcome.plausible} == {"pair"}


UNITTEST = """import unittest
from stack import Stack


class StackTest(unittest.TestCase):
    def test_lifo(self):
        stack = Stack()
        for item in (1, 2, 3):
            stack.push(item)
        self.assertEqual([stack.pop(), stack.pop(), stack.pop()], [3, 2, 1])

    @unittest.skip("not yet")
    def test_later(self):
        self.fail()
"""
STACK = """class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        return self.items.pop(0)
"""


async def test_failures_of_unittest_are_seen_though_they_are_not_raised(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    tree = make_tree({"stack.py": STACK, "test_stack.py": UNITTEST})
    outcome = await make_engine().repair(environment, tree, ISSUE, ["test_stack.py::StackTest::test_lifo"])
    assert {seen.test.rpartition("::")[2]: seen.outcome for seen in outcome.observations} == {
        "test_lifo": "failed",
        "test_later": "skipped",
    }
    assert outcome.plausible, outcome.reasons
