"""The lines of one answer symbol in the indent and style of the place it goes to."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from agentforge.repo.patch.imports import is_docstring
from agentforge.repo.patch.indent import Reindent, converter, lead, unchanged


@dataclass(frozen=True, slots=True)
class Style:
    """How a place indents: what stands before the symbol, and whether its body uses tabs or spaces."""

    indent: bytes
    body: bytes  # one step of indent, b"" when the place shows none


def style_of(indent: bytes, lines: Sequence[bytes], everywhere: Sequence[bytes]) -> Style:
    """The style of a symbol from its own lines, else from the whole file."""
    for sample, base in ((lines, indent), (everywhere, b"")):
        steps = {lead(text)[len(base) :] for text in sample if text.strip() and lead(text).startswith(base)}
        steps.discard(b"")
        if steps:
            return Style(indent, min(steps, key=len))
    return Style(indent, b"")


def restyled(
    lines: Sequence[bytes], source_indent: bytes, place: Style, strings: dict[int, bool], known: set[bytes]
) -> list[bytes]:
    """`lines` moved from `source_indent` to the indent of `place`, tabs and spaces as there.

    `strings` maps the numbers of lines that begin inside a string to whether it is a docstring:
    docstrings move along, the text of other strings stays as written unless `known` (the lines
    being replaced) shows that it moves too.
    """
    step = _step(lines, source_indent)
    convert: Reindent = unchanged
    if place.body.startswith(b"\t") and step and not step.startswith(b"\t"):
        convert = converter(len(step), to_tabs=True)
    elif place.body and not place.body.startswith(b"\t") and step.startswith(b"\t"):
        convert = converter(len(place.body), to_tabs=False)
    if convert is unchanged and source_indent == place.indent:
        return list(lines)
    moved: list[bytes] = []
    for number, text in enumerate(lines):
        bare = text.removeprefix(source_indent)
        new = place.indent + (convert(bare) or bare) if text.strip() else text
        if number in strings and not strings[number] and new not in known:
            new = text
        moved.append(new)
    return moved


def _step(lines: Sequence[bytes], indent: bytes) -> bytes:
    steps = {lead(text)[len(indent) :] for text in lines if text.strip() and text.startswith(indent)}
    steps.discard(b"")
    return min(steps, key=len) if steps else b""


def string_lines(source: str, tree: ast.AST) -> dict[int, bool]:
    """0-based lines that begin inside a string literal; True where it is a docstring."""
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.body
        and is_docstring(node.body[0])
    }
    inside: dict[int, bool] = {}
    opened: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            name = tokenize.tok_name[token.type]
            if name == "FSTRING_START":
                opened.append(token.start[0])
            elif name == "FSTRING_END" and opened:
                _mark(inside, opened.pop(), token.end[0], docstrings)
            elif token.type == tokenize.STRING:
                _mark(inside, token.start[0], token.end[0], docstrings)
    except (tokenize.TokenError, SyntaxError):
        return inside
    return inside


def _mark(inside: dict[int, bool], first: int, last: int, docstrings: set[int]) -> None:
    for number in range(first, last):
        inside[number] = first in docstrings
