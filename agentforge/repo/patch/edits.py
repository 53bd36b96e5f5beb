"""The nouns of the patch engine: hunks of lines, and what an answer does to each path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentforge.core.tree import Changes, FileMode

EditFormat = Literal["diff", "search_replace", "symbol", "whole_file", "json"]
Tag = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class Op:
    """One line of a hunk: context, removed or added. `crlf`: it came with a carriage return."""

    tag: Tag
    text: bytes
    crlf: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [start, end) of a file that become `text`."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of lines to find and what becomes of them.

    `index` is the 0-based line of the original file where the run should start, None when the
    answer gives no number. The two flags repeat the diff's "No newline at end of file" marks.
    `encoded`: the lines are already in the encoding of the file.
    `group` numbers the fenced block it came from: over the same lines a later block wins.
    `short`: the answer ends before its lines add up to the counts of its header.
    `doubtful`: so many lines at its end are empty in the answer and may not belong to it.
    `span` is what it replaces where that begins or ends inside a line.
    """

    ops: tuple[Op, ...]
    index: int | None = None
    old_unterminated: bool = False
    new_unterminated: bool = False
    group: int = 0
    label: str = "the edit"
    encoded: bool = False
    short: bool = False
    doubtful: int = 0
    span: Span | None = None

    @property
    def old(self) -> list[Op]:
        return [op for op in self.ops if op.tag != "+"]

    @property
    def new(self) -> list[Op]:
        return [op for op in self.ops if op.tag != "-"]

    @property
    def ends_file(self) -> bool:
        """Whether a mark of a missing newline says that nothing follows."""
        return self.old_unterminated or self.new_unterminated

    @property
    def changes_nothing(self) -> bool:
        return [o.text for o in self.old] == [n.text for n in self.new] and (
            self.old_unterminated == self.new_unterminated
        )


@dataclass(slots=True)
class FilePatch:
    """What one section of a diff does to one path; an empty path marks /dev/null.

    `literal` is the path with its `a/` or `b/` kept, where both sides carry the same prefix and
    it may be a real folder.
    """

    old_path: str = ""
    new_path: str = ""
    literal: str = ""
    kind: Literal["modify", "create", "delete", "rename", "copy"] = "modify"
    old_mode: str = ""
    new_mode: str = ""
    binary: bool = False
    named: bool = False  # a `---` or `+++` line was read
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for path in (self.old_path, self.new_path) if path]

    @property
    def says_nothing(self) -> bool:
        return not self.hunks and self.kind == "modify" and self.old_mode == self.new_mode


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """An answer that was applied: the change set, the dialect it spoke, and liberties taken."""

    changes: Changes
    edit_format: EditFormat
    notes: tuple[str, ...] = ()


def as_mode(mode: str, default: FileMode = "100644") -> FileMode:
    """Git's regular modes only; links and submodules never get here."""
    if mode == "100755":
        return "100755"
    return "100644" if mode else default
