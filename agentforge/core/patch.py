"""A canonical patch and the candidate built from it."""

from __future__ import annotations

from agentforge.core.base import Frozen
from agentforge.core.tree import TreeFile


class Patch(Frozen):
    """A unified diff against the base, made by git, ending in one newline; all or nothing.

    `files` are the touched paths; `added` and `removed` count changed lines.
    """

    diff: bytes
    files: tuple[str, ...]
    added: int = 0
    removed: int = 0

    @property
    def changed_lines(self) -> int:
        return self.added + self.removed

    @property
    def text(self) -> str:
        """For people and prompts only."""
        return self.diff.decode("utf-8", "replace")


class Candidate(Frozen):
    """A patch under judgement. `origin` says who made it: "coder", "debugger", "search", …

    `changes` is what the patch does, file by file, relative to the base.
    """

    id: str
    patch: Patch
    changes: dict[str, TreeFile | None]
    origin: str
    round: int = 0


class GeneratedTest(Frozen):
    """A test file that was written for this run and seen to fail on the base for the issue's reason."""

    path: str
    code: bytes
    test_ids: tuple[str, ...]
    reason: str
