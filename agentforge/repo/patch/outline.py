"""The functions and classes of a Python source, from its syntax tree or, failing that, its indents."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentforge.repo.patch.filetext import BOM, declared_encoding
from agentforge.repo.patch.indent import lead

_HEADER = re.compile(rb"^(?P<indent>[ \t]*)(?P<kind>def|async[ \t]+def|class)[ \t]+(?P<name>\w+)")
_TRIPLE = re.compile(rb"\"\"\"|'''")
Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Definition:
    """One function or class: lines [start, end) with its decorators, `header` being its `def` line."""

    name: str
    kind: Literal["function", "class"]
    start: int
    header: int
    end: int
    indent: bytes
    parents: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    node: Block | None = field(default=None, compare=False)

    @property
    def depth(self) -> int:
        return len(self.parents)

    @property
    def qualified(self) -> tuple[str, ...]:
        return (*self.parents, self.name)


def parse_module(text: str) -> ast.Module | SyntaxError:
    """The syntax tree of `text`, or why there is none. Warnings about odd escapes are left to others."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error))


def analysis_text(data: bytes) -> str:
    """Source decoded for analysis alone: one character or more a byte is lost, lines never."""
    data = data.removeprefix(BOM)
    text = data.decode(declared_encoding(data) or "utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", " ").replace("\0", " ")


def source_lines(data: bytes) -> list[bytes]:
    """Lines without terminators, cut after LF only, BOM and final empty piece taken off."""
    lines = [line.removesuffix(b"\r") for line in data.removeprefix(BOM).split(b"\n")]
    return lines if lines[-1] else lines[:-1]


def outline(data: bytes) -> list[Definition]:
    """All definitions of a source, outer ones first, in order of their lines."""
    lines = source_lines(data)
    tree = parse_module(analysis_text(data))
    if isinstance(tree, ast.Module):
        return list(_from_tree(tree, (), lines))
    return _from_indents(lines)


def _from_tree(node: ast.AST, parents: tuple[str, ...], lines: Sequence[bytes]) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Block):
            yield _definition(child, parents, lines)
            yield from _from_tree(child, (*parents, child.name), lines)
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _from_tree(child, parents, lines)


def _definition(node: Block, parents: tuple[str, ...], lines: Sequence[bytes]) -> Definition:
    header = node.lineno - 1
    start = min([header, *(decorator.lineno - 1 for decorator in node.decorator_list)])
    indent = lead(lines[header]) if header < len(lines) else b""
    return Definition(
        node.name,
        "class" if isinstance(node, ast.ClassDef) else "function",
        start,
        header,
        _with_trailing_comments(lines, node.end_lineno or node.lineno, indent),
        indent,
        parents,
        tuple(ast.unparse(decorator) for decorator in node.decorator_list),
        node,
    )


def _with_trailing_comments(lines: Sequence[bytes], end: int, indent: bytes) -> int:
    """Comments after the last statement that are indented as part of the body belong to it."""
    number = end
    while number < len(lines):
        text = lines[number]
        if text.lstrip(b" \t\f").startswith(b"#") and len(lead(text)) > len(indent):
            end = number + 1
        elif text.strip():
            break
        number += 1
    return end


def comments_start(lines: Sequence[bytes], definition: Definition) -> int:
    """Where the comments right above a definition begin; its own first line where there are none."""
    start = definition.start
    while start > 0 and lines[start - 1].startswith(definition.indent + b"#"):
        if start <= 2 and (lines[start - 1].startswith(b"#!") or b"coding" in lines[start - 1]):
            break
        start -= 1
    return start


# --- by indents ---------------------------------------------------------------------------------------


def _from_indents(lines: Sequence[bytes]) -> list[Definition]:
    """`def` and `class` lines outside triple-quoted strings; a block ends where its indent does."""
    inside = _inside_strings(lines)
    found: list[Definition] = []
    for number, line in enumerate(lines):
        match = _HEADER.match(line)
        if match is None or inside[number]:
            continue
        end = _block_end(lines, number, match["indent"], inside)
        parents = tuple(d.name for d in found if d.header < number < d.end)
        kind: Literal["function", "class"] = "class" if match["kind"] == b"class" else "function"
        start = _decorated_start(lines, number, match["indent"])
        decorators = tuple(text.strip().decode("utf-8", "replace")[1:] for text in lines[start:number])
        name = match["name"].decode("utf-8", "replace")
        found.append(Definition(name, kind, start, number, end, match["indent"], parents, decorators))
    return found


def _inside_strings(lines: Sequence[bytes]) -> list[bool]:
    inside: list[bool] = []
    quote = b""
    for line in lines:
        inside.append(bool(quote))
        for mark in _TRIPLE.findall(line):
            if not quote:
                quote = mark
            elif mark == quote:
                quote = b""
    return inside


def _block_end(lines: Sequence[bytes], header: int, indent: bytes, inside: Sequence[bool]) -> int:
    end = header + 1
    depth = _brackets(lines[header])
    for number in range(header + 1, len(lines)):
        text = lines[number]
        outside = len(lead(text)) <= len(indent)
        if text.strip() and not inside[number] and outside and (depth <= 0 or _HEADER.match(text)):
            break
        depth += _brackets(text)
        if text.strip():
            end = number + 1
    return end


def _brackets(text: bytes) -> int:
    code = text.split(b"#", 1)[0]
    return sum(code.count(c) for c in (b"(", b"[", b"{")) - sum(code.count(c) for c in (b")", b"]", b"}"))


def _decorated_start(lines: Sequence[bytes], header: int, indent: bytes) -> int:
    start = header
    while start > 0 and lines[start - 1].startswith(indent + b"@"):
        start -= 1
    return start
