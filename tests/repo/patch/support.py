"""Cases of the patch engine: a tree, an answer, and the bytes or the refusal it must give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from agentforge.core.errors import PatchError
from agentforge.core.tree import Tree, TreeFile
from agentforge.repo.patch import AppliedEdit, apply_answer

Content = str | bytes | TreeFile


@dataclass(frozen=True)
class Case:
    """`after` holds the files that change (None: gone); `reason` the refusal instead."""

    name: str
    before: Mapping[str, Content]
    answer: str | bytes
    after: Mapping[str, Content | None] = field(default_factory=dict)
    reason: str = ""
    target: str | None = None
    format: str = ""
    submodules: frozenset[str] = frozenset()


def as_file(content: Content) -> TreeFile:
    if isinstance(content, TreeFile):
        return content
    return TreeFile(content.encode() if isinstance(content, str) else content)


def make_tree(files: Mapping[str, Content], submodules: frozenset[str] = frozenset()) -> Tree:
    return Tree({path: as_file(content) for path, content in files.items()}, submodules)


def run(case: Case) -> AppliedEdit:
    return apply_answer(case.answer, make_tree(case.before, case.submodules), target=case.target)


def check(case: Case) -> None:
    """Compare by bytes and modes, or by reason category."""
    if case.reason:
        with pytest.raises(PatchError) as caught:
            run(case)
        assert caught.value.reason.value == case.reason, caught.value
        return
    edit = run(case)
    wanted = {path: None if content is None else as_file(content) for path, content in case.after.items()}
    assert dict(edit.changes) == wanted
    if case.format:
        assert edit.edit_format == case.format


def diff(path: str, *hunks: str) -> str:
    """A plain diff of one existing file."""
    return f"--- a/{path}\n+++ b/{path}\n" + "".join(hunks)


def block(search: str, replace: str, path: str = "") -> str:
    """One SEARCH/REPLACE block; both halves end their last line."""
    named = f"{path}\n" if path else ""
    return f"{named}<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def numbered(count: int, **replaced: str) -> str:
    """`line 1` to `line count`; `n5="x"` puts another text at line 5."""
    lines = [replaced.get(f"n{number}", f"line {number}") for number in range(1, count + 1)]
    return "".join(f"{line}\n" for line in lines)


def ids(cases: list[Case]) -> list[str]:
    return [re.sub(r"\W+", "-", case.name) for case in cases]
