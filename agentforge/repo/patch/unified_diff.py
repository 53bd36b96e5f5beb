"""Unified diffs as models and git write them, read leniently into `FilePatch` values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch.diff_hunks import HUNK_HEADER, Range, is_file_header, parse_range, read_hunk
from agentforge.repo.patch.edits import FilePatch
from agentforge.repo.patch.fences import Block, fenced_blocks
from agentforge.repo.patch.paths import git_header_paths, header_path, jailed, strip_prefix

_GIT = b"diff --git "
_COMBINED = re.compile(rb"^(@@@+ |diff --cc |diff --combined )")
_EXTENDED = re.compile(
    rb"^(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to) (.*)$"
)
_INDEX_MODE = re.compile(rb"^index [0-9a-f]+\.\.[0-9a-f]+ (\d{6})")
_MOST_SECTIONS = 1_000_000  # of one diff, so that groups of hunks never meet
_FOREIGN = tuple(
    b"*** " + word for word in (b"Begin Patch", b"Update File: ", b"Add File: ", b"Delete File: ")
)
_NOT_FILES = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a folder"}


def looks_like_diff(text: bytes) -> bool:
    """Whether some line opens a file section or a hunk."""
    lines = text.split(b"\n")
    return any(_opens(lines, number) for number in range(len(lines)))


def holds_diff(answer: bytes) -> bool:
    """Whether an answer is a diff, be it only a fence so marked around prefixed lines."""
    return looks_like_diff(answer) or any(is_diff_block(block) for block in fenced_blocks(answer))


def _opens(lines: Sequence[bytes], number: int) -> bool:
    line = lines[number]
    if line.startswith(_GIT) or _COMBINED.match(line):
        return True
    following = lines[number + 1] if number + 1 < len(lines) else b""
    if HUNK_HEADER.match(line):
        return following[:1] in (b" ", b"+", b"-") or parse_range(line) != Range()
    return line.startswith(b"--- ") and following.startswith((b"+++ ", b"@@"))


def diff_texts(answer: bytes) -> list[tuple[bytes, bool, bool]]:
    """The diffs of an answer as (text, fenced, closed); an unfenced one is the whole answer."""
    lines = answer.split(b"\n")
    fence = next((n for n, line in enumerate(lines) if line.startswith((b"```", b"~~~"))), len(lines))
    if any(_opens(lines, number) for number in range(fence)):
        return [(answer, False, True)]
    blocks = [block for block in fenced_blocks(answer) if is_diff_block(block)]
    return [(block.body, True, block.closed) for block in blocks] or [(answer, False, True)]


def is_diff_block(block: Block) -> bool:
    if looks_like_diff(block.body):
        return True
    changed = any(line.startswith((b"+", b"-")) for line in block.body.split(b"\n"))
    return changed and block.language in ("diff", "patch", "udiff")


def parse_unified_diff(answer: bytes) -> list[FilePatch]:
    """Every file section of every diff in `answer`, its paths passed by the jail.

    PatchError: malformed (no section, combined diff), path_escape, git_internal, type_change,
    binary, partial (cut). Hunks under no file header come in a section without paths.
    """
    sections: list[FilePatch] = []
    for group, (text, fenced, closed) in enumerate(diff_texts(answer)):
        found = DiffReader(text, fenced, cut=not closed, group=group).sections()
        if sections and found and not found[0].paths:
            found[0].old_path = found[0].new_path = sections[-1].new_path
        sections += found
    if not sections:
        raise PatchError(RefusalReason.MALFORMED, "the answer holds no file section and no hunk")
    for judge in (_judge_modes, _judge_binary, _judge_empty):
        for section in sections:
            judge(section, alone=len(sections) == 1)
    return sections


class DiffReader:
    """Walks the lines of one diff text once."""

    def __init__(self, text: bytes, fenced: bool, cut: bool, group: int) -> None:
        lines = text.split(b"\n")
        self.lines = _without_transport_cr(lines[:-1] if not lines[-1] else lines)
        self.fenced, self.cut, self.group = fenced, cut, group
        self.number = 0
        self.found: list[FilePatch] = []
        self.hunk_count = 0

    def sections(self) -> list[FilePatch]:
        while self.number < len(self.lines):
            self._step(self.lines[self.number])
        if not self.found and self.fenced:
            self._bare_body()
        return self.found

    def _step(self, line: bytes) -> None:
        section = self.found[-1] if self.found else None
        extended = _EXTENDED.match(line)
        if _COMBINED.match(line):
            raise PatchError(RefusalReason.MALFORMED, "a combined diff (of a merge) cannot be applied")
        if line.startswith(_FOREIGN):
            raise PatchError(RefusalReason.MALFORMED, "a `*** Begin Patch` block is no unified diff")
        self.number += 1
        if line.startswith(_GIT):
            old, new = git_header_paths(line[len(_GIT) :].rstrip(b"\r"))
            self.found.append(_named(FilePatch(), old, new))
        elif self._at_header():
            self._read_header(section)
        elif HUNK_HEADER.match(line):
            self._read_hunk(parse_range(line))
        elif section and extended:
            _extend(section, extended.group(1).decode(), extended.group(2).rstrip(b"\r"))
        elif section and not section.hunks and line.startswith((b"GIT binary patch", b"Binary files ")):
            section.binary = True
        elif section and not section.hunks and (mode := _INDEX_MODE.match(line)):
            section.old_mode = section.old_mode or mode.group(1).decode()
            section.new_mode = section.new_mode or section.old_mode

    def _at_header(self) -> bool:
        """Whether the line just taken opens `---`/`+++`; either may be missing before a hunk."""
        here, following = self.lines[self.number - 1], self.lines[self.number : self.number + 1]
        if is_file_header(self.lines, self.number - 1):
            return True
        before_hunk = bool(following) and following[0].startswith(b"@@")
        if here.startswith(b"--- "):
            return before_hunk or bool(following and following[0].startswith(b"+++ "))
        return here.startswith(b"+++ ") and before_hunk

    def _read_header(self, section: FilePatch | None) -> None:
        if section is None or section.hunks or section.named:
            section = FilePatch()
            self.found.append(section)
        line = self.lines[self.number - 1]
        old = header_path(line[4:])
        new = old
        if line.startswith(b"--- ") and self.lines[self.number].startswith(b"+++ "):
            new = header_path(self.lines[self.number][4:])
            self.number += 1
        _named(section, old, new)
        section.named = True
        if not old or not new:
            section.kind = "create" if not old else "delete"
        if self.number < len(self.lines) and self.lines[self.number][:1] in (b" ", b"+", b"-"):
            self._read_hunk(Range())

    def _read_hunk(self, extent: Range) -> None:
        if not self.found:
            self.found.append(FilePatch())
        self.hunk_count += 1
        label = f"hunk {self.hunk_count}"
        group = self.group * _MOST_SECTIONS + len(self.found)
        hunk, self.number = read_hunk(self.lines, self.number, extent, self.fenced, self.cut, group, label)
        if hunk.ops:
            self.found[-1].hunks.append(hunk)
        elif self.number >= len(self.lines):
            raise PatchError(RefusalReason.TRUNCATED, f"the answer ends with the header of {label}")

    def _bare_body(self) -> None:
        """A fence marked as a diff that holds nothing but prefixed lines."""
        self.number = 0
        while self.number < len(self.lines) and not self.lines[self.number].strip():
            self.number += 1
        self._read_hunk(Range())


def _without_transport_cr(lines: list[bytes]) -> list[bytes]:
    """One CR off every line where the diff's own headers carry it: the diff travelled as CRLF."""
    headers = [line for line in lines if line.startswith((b"@@", b"--- ", b"+++ ", _GIT))]
    if headers and all(line.endswith(b"\r") for line in headers):
        return [line.removesuffix(b"\r") for line in lines]
    return lines


def _named(section: FilePatch, old: str, new: str) -> FilePatch:
    """Set the paths of a section from its headers, stripped once and jailed."""
    if section.kind in ("rename", "copy"):
        return section
    same_prefix = bool(old) and old == new and strip_prefix(old) != old
    section.literal = jailed(old) if same_prefix else ""
    section.old_path = jailed(strip_prefix(old)) if old else ""
    section.new_path = jailed(strip_prefix(new)) if new else ""
    return section


def _extend(section: FilePatch, word: str, value: bytes) -> None:
    text = value.decode("ascii", "replace").strip()
    if word == "new file mode":
        section.kind, section.new_mode = "create", text
    elif word == "deleted file mode":
        section.kind, section.old_mode = "delete", text
    elif word == "old mode":
        section.old_mode = text
    elif word == "new mode":
        section.new_mode = text
    else:
        section.kind = "rename" if word.startswith("rename") else "copy"
        path = jailed(header_path(value))
        if word.endswith("from"):
            section.old_path = path
        else:
            section.new_path = path


def _judge_modes(section: FilePatch, alone: bool) -> None:
    for mode in (section.old_mode, section.new_mode):
        if mode in _NOT_FILES:
            path = section.new_path or section.old_path
            raise PatchError(RefusalReason.TYPE_CHANGE, f"{path} is or becomes {_NOT_FILES[mode]}", path=path)


def _judge_binary(section: FilePatch, alone: bool) -> None:
    if section.binary:
        path = section.new_path or section.old_path
        raise PatchError(RefusalReason.BINARY, f"the diff of {path} is a binary one", path=path)


def _judge_empty(section: FilePatch, alone: bool) -> None:
    if not section.says_nothing:
        return
    path = section.new_path or section.old_path
    what = f"the diff of {path or 'the first file'} has no hunk"
    raise PatchError(RefusalReason.TRUNCATED if alone else RefusalReason.PARTIAL, what, path=path)
