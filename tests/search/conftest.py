"""The real sandbox, and small programs of our own with one fault each."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from agentforge.config.settings import SandboxSettings, SearchSettings
from agentforge.core.events import SearchProgress
from agentforge.core.ports import Environment
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import DockerSandbox
from agentforge.sandbox.base_image import ensure_base_image
from agentforge.search.engine import SearchEngine

STATS = '''"""Running statistics."""


class Stats:
    def __init__(self, values):
        self.values = list(values)

    def mean(self):
        total = 0
        for value in self.values:
            total += value
        return total / len(self.values)

    def median(self):
        ordered = sorted(self.values)  # smallest first
        middle = len(ordered) // 2
        if len(ordered) % 2 == 1:
            return ordered[middle]
        return (ordered[middle] + ordered[middle + 1]) / 2
'''
TEST_STATS = """import pytest
from stats import Stats


CASES = [([1, 2, 3, 4], 2.5), ([1, 3], 2), ([7, 9, 8, 1, 2, 3], 5), ([5], 5)]


@pytest.mark.parametrize("values, expected", CASES)
def test_median(values, expected):
    assert Stats(values).median() == expected


def test_mean():
    assert Stats([1, 2, 3]).mean() == 2
"""


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def make_tree(files: dict[str, str]) -> Tree:
    return Tree({path: TreeFile(text.encode()) for path, text in files.items()})


@pytest.fixture(scope="session")
def environment() -> Environment:
    return Environment(image=ensure_base_image(SandboxSettings()))


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> DockerSandbox:
    return DockerSandbox(SandboxSettings(), f"test-search-{abs(hash(request.node.nodeid)):x}")


@pytest.fixture
def progress() -> list[SearchProgress]:
    return []


@pytest.fixture
def make_engine(sandbox: DockerSandbox, progress: list[SearchProgress]) -> Callable[..., SearchEngine]:
    def make(**settings: float) -> SearchEngine:
        return SearchEngine(sandbox, SearchSettings(**settings), progress.append, Clock())

    return make
