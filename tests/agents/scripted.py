"""A scripted model in this process: replies in order, every request kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.ports import TokenSink
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile

Reply = str | Completion | Exception | Callable[[ModelRequest], "Reply"]


class Script:
    """Replies are texts, completions, exceptions to raise, or functions of the request."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, sink: TokenSink | None = None) -> Completion:
        self.requests.append(request)
        assert self.replies, f"no reply left for {request.agent}"
        reply: Any = self.replies.pop(0)
        while callable(reply) and not isinstance(reply, Exception):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        completion = reply if isinstance(reply, Completion) else Completion(text=reply, model="script")
        if sink is not None:
            for word in completion.text.split(" "):
                sink.token(word)
        return completion

    def prompt(self, place: int = -1) -> str:
        """All text of the request at `place`."""
        return "\n".join(message.content for message in self.requests[place].messages)


class Tokens:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.resets: list[str] = []

    def token(self, text: str) -> None:
        self.texts.append(text)

    def reset(self, reason: str) -> None:
        self.resets.append(reason)
        self.texts.clear()


def cut(text: str) -> Completion:
    """An answer that ran into the output limit."""
    return Completion(text=text, model="script", finish_reason="length")


def tree_of(files: dict[str, str]) -> Tree:
    return Tree({path: TreeFile(text.encode()) for path, text in files.items()})


def text_at(changes: Any, path: str) -> str:
    entry = changes[path]
    assert entry is not None
    return str(entry.data.decode())


CALC = '''"""Arithmetic."""


def add(a, b):
    """Sum of two numbers."""
    return a - b


def double(a):
    return add(a, a)


class Box:
    def __init__(self, items=()):
        self.items = list(items)

    def total(self):
        result = 0
        for item in self.items:
            result = add(result, item)
        return result
'''
CALC_TEST = """from pkg.calc import double


def test_double():
    assert double(2) == 4
"""
TREE = tree_of(
    {"pkg/__init__.py": "", "pkg/calc.py": CALC, "tests/test_calc.py": CALC_TEST, "README.md": "x\n"}
)
ISSUE = Issue(text="add(2, 3) gives -1 instead of 5.", title="add subtracts")
