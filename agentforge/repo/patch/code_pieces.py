"""The code in an answer that names no edit format: fenced blocks, or code with prose around."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.tree import TreeReader
from agentforge.repo.patch.fences import Block, fenced_blocks
from agentforge.repo.patch.filetext import BOM
from agentforge.repo.patch.hints import is_path, path_in_info, path_in_line
from agentforge.repo.patch.indent import lead
from agentforge.repo.patch.outline import analysis_text, parse_module

_PYTHON = ("", "python", "py", "python3", "py3", "python2", "sage")
_NOT_CODE = ("bash", "sh", "shell", "console", "zsh", "output", "pycon", "plaintext", "log", "traceback")
_CODE_START = re.compile(rb"^[ \t]*(@\w|def |async def |class |import \w|from [\w.]+ import )")
_CODE_LINE = re.compile(rb"^[ \t]*(@\w|def |async def |class |return\b|import \w|from [\w.]+ import )")
_PATH_COMMENT = re.compile(
    rb"^(?:#|//|--|/\*|<!--)\s*(?:file(?:name)?:\s*|path:\s*)?(?P<path>[^\s*]+)\s*(?:\*/|-->)?\s*$"
)
_MOST_ENDS = 200  # ends at which code in prose is tried


@dataclass(frozen=True, slots=True)
class Piece:
    """Code as it stands in the answer. `hint` is the file named beside it, "" for none."""

    text: bytes
    hint: str = ""
    language: str = ""
    closed: bool = True
    fenced: bool = True

    @property
    def python(self) -> bool:
        return self.language in _PYTHON

    @property
    def lines(self) -> list[bytes]:
        lines = [line.removesuffix(b"\r") for line in self.text.split(b"\n")]
        return lines if lines[-1] else lines[:-1]


def code_pieces(answer: bytes, tree: TreeReader) -> list[Piece]:
    """Every piece of code in reading order; fences to the exclusion of what stands outside."""
    blocks = [block for block in fenced_blocks(answer) if block.language not in _NOT_CODE]
    if blocks:
        return [_piece(block, tree) for block in blocks if block.body.strip()]
    return _unfenced(answer)


def _piece(block: Block, tree: TreeReader) -> Piece:
    text = block.body.removeprefix(BOM)
    language = block.language if not is_path(block.language, tree) else ""
    hint = path_in_info(block.info.removeprefix(block.language).lstrip(":") if language else block.info, tree)
    hint = hint or path_in_line(block.lead, tree)
    if not hint:
        first, _, rest = text.partition(b"\n")
        named = _PATH_COMMENT.match(first.rstrip(b"\r"))
        path = named["path"].decode("utf-8", "surrogateescape") if named else ""
        if path and ("/" in path or "." in path) and is_path(path, tree):
            hint = path
            text = text if _keeps_path_comment(path, first, tree) else rest
    return Piece(text, hint, language, block.closed)


def _keeps_path_comment(path: str, first: bytes, tree: TreeReader) -> bool:
    """Whether the file itself begins with the comment that names it."""
    return tree.kind(path) == "file" and tree.read(path).data.split(b"\n", 1)[0].strip() == first.strip()


# --- code in prose ------------------------------------------------------------------------------------


def _unfenced(answer: bytes) -> list[Piece]:
    """The one run of code in an answer without fences."""
    lines = answer.removeprefix(BOM).split(b"\n")
    if isinstance(parse_module(analysis_text(answer)), ast.Module) and any(map(_CODE_START.match, lines)):
        return [Piece(answer.removeprefix(BOM), fenced=False)]
    start = next((number for number, line in enumerate(lines) if _CODE_START.match(line)), None)
    if start is None:
        return []
    ends = [n for n in range(len(lines), start, -1) if n == len(lines) or _may_end(lines, n)]
    for end in ends[:_MOST_ENDS]:
        body = dedented(lines[start:end])[0]
        if isinstance(parse_module(analysis_text(b"\n".join(body))), ast.Module):
            if any(_CODE_LINE.match(line) for line in lines[end:]):
                break
            return [Piece(b"\n".join(lines[start:end]) + b"\n", fenced=False)]
    return [Piece(b"\n".join(lines[start:]), closed=False, fenced=False)]


def _may_end(lines: Sequence[bytes], number: int) -> bool:
    """Prose after code starts at the margin."""
    return bool(lines[number].strip()) and not lines[number].startswith((b" ", b"\t"))


def dedented(lines: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """`lines` without the indent of the first one that is not blank, and that indent."""
    indent = next((lead(line) for line in lines if line.strip()), b"")
    return [line.removeprefix(indent) for line in lines], indent


def refuse_unparsable(piece: Piece, error: SyntaxError) -> PatchError:
    """Why a piece that does not parse cannot be used: cut, or wrong."""
    where = f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    if not piece.closed and (piece.fenced or _breaks_at_end(piece, error)):
        return PatchError(RefusalReason.PARTIAL, f"the answer was cut: its code ends in the middle ({where})")
    return PatchError(RefusalReason.MALFORMED, f"the code of the answer is not valid Python ({where})")


def _breaks_at_end(piece: Piece, error: SyntaxError) -> bool:
    said = error.msg or ""
    unfinished = ("never closed", "unterminated", "expected an indented block", "unexpected EOF")
    return any(words in said for words in unfinished) or (error.lineno or 0) >= len(piece.lines)
