"""Values at failure, told by hostile code that runs in the real sandbox: one container for all of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentforge.core.facts import FailingTest
from agentforge.core.ports import Environment
from agentforge.core.redact import MARK, Redactor
from agentforge.core.task import Issue
from agentforge.search.engine import SearchEngine
from agentforge.search.facts import facts_of
from tests.search.conftest import make_tree

pytestmark = pytest.mark.docker

CODE = """
import os


class Bad:
    def __init__(self, how):
        self.how = how

    def __repr__(self):
        if self.how == "raise":
            raise KeyError("x")
        if self.how == "long":
            return "x" * 10**6
        if self.how == "memory":
            return "x" * 10**9
        if self.how == "exit":
            os._exit(0)
        while True:
            try:
                while True:
                    pass
            except BaseException:
                if self.how == "hang":
                    raise


class Box:
    def __init__(self, items):
        self.items = items


def share(total, people, box):
    each = total // people
    box.items.append(each)
    return [each] * people


def use(a, b):
    token = "sk-abcdefghijklmnopqrstuvwx123456"
    many = list(range(10000))
    return a.missing + \\
        b.value


def spin(n):
    while n:
        n += 1
"""
TEST = """
from code_ import Bad, Box, share, spin, use


def test_share():
    box = Box([1])
    assert share(10, 3, box) == [4, 3, 3]


def test_hostile():
    raising, long, slow, memory = Bad("raise"), Bad("long"), Bad("hang"), Bad("memory")
    use(raising, 3)


def test_swallowing():
    expected, value = 1, Bad("swallow")
    assert expected == 2


def test_leaving():
    value = Bad("exit")
    assert 1 == 2


def test_spinning():
    spin(1)
"""


async def test_values_of_hostile_code_are_told_bounded_and_without_secrets(
    make_engine: Callable[..., SearchEngine], environment: Environment
) -> None:
    tree = make_tree({"code_.py": CODE, "test_code.py": TEST})
    diagnosis = await make_engine(time_limit_s=2000).diagnose(
        environment, tree, Issue(text=""), ["test_code.py"], explain=9
    )
    facts = facts_of(diagnosis, lines=5, clean=Redactor().text)
    by_name = {failure.test.partition("::")[2]: failure for failure in facts.failures}
    assert {"test_share", "test_hostile", "test_swallowing", "test_spinning"} <= by_name.keys()
    texts = [value.text for f in facts.failures for frame in f.frames for value in frame.values]
    assert all(len(text) <= 120 for text in texts)
    assert all(len(frame.values) <= 12 for f in facts.failures for frame in f.frames)
    shares(by_name["test_share"])
    hostile(by_name["test_hostile"])
    assert ("expected", "1") in values(by_name["test_swallowing"])
    spinning = by_name["test_spinning"]
    assert spinning.outcome == "timeout"
    assert spinning.frames[-1].function == "spin"
    assert any(name == "n" for name, _ in values(spinning))
    # A value that ends the process takes only its own test's values with it.
    assert "test_code.py::test_leaving" in facts.targets


def shares(failure: FailingTest) -> None:
    (call,) = failure.calls
    assert (call.function, call.returned) == ("share", "[3, 3, 3]")
    arguments = {value.name: value.text for value in call.arguments}
    assert arguments == {"total": "10", "people": "3", "box": "Box(items=[1])"}
    assert [(value.name, value.text) for value in call.values] == [
        ("box", "Box(items=[1, 3])"),
        ("each", "3"),
    ]
    assert failure.frames[-1].expression.startswith("assert share(10, 3, box)")


def hostile(failure: FailingTest) -> None:
    assert failure.exception == "AttributeError"
    inner, seen = failure.frames[-1], dict(values(failure))
    assert (inner.function, inner.expression) == ("use", "a.missing")
    assert seen["token"] == f"'{MARK}'"
    assert seen["b"] == "3"
    assert seen["many"].startswith("[0, 1, 2")
    assert "TooSlow" in seen["slow"]
    assert seen["long"].startswith("xxx")
    assert "memory" in seen
    assert failure.calls[-1].returned is None


def values(failure: FailingTest) -> list[tuple[str, str]]:
    return [(value.name, value.text) for frame in failure.frames for value in frame.values]
