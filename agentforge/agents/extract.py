"""What a model's answer holds: fenced blocks, a Python module, a JSON value.

Answers come with prose around them, several fences, fences of other lengths inside fences, or no
fence at all. Nothing here edits what it finds: text is cut out, never rewritten.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator

from agentforge.agents.prompts import data
from agentforge.repo.patch.fences import Block, fenced_blocks

_PYTHON_INFO = frozenset({"", "py", "python", "python3", "py3", "pytest"})
_CODE_START = re.compile(
    r"^(?:import |from |def |class |async def |@|#|\"\"\"|'''|[A-Za-z_][\w.]*\s*[=(\[:])"
)
_LARGEST_ANSWER = 400_000
_LARGEST_UNFENCED = 40_000


def blocks_in(text: str) -> list[tuple[str, str]]:
    """(language, text) of each fenced block, by the patch engine's reading of fences."""
    return [(block.language, block.body.decode("utf-8", "replace")) for block in _fenced(text)]


def only_closed_block(text: str) -> str | None:
    """The one block of an answer that has one, fence included, where that fence is closed."""
    blocks = _fenced(text)
    if len(blocks) != 1 or not blocks[0].closed:
        return None
    return data(blocks[0].body.decode("utf-8", "replace"), blocks[0].info)


def _fenced(text: str) -> list[Block]:
    return fenced_blocks(text.encode("utf-8", "replace"))


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def parse_python(source: str | bytes) -> ast.Module | None:
    """The syntax tree, or None where the source does not parse (or is too strange to be parsed)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def python_module(text: str) -> str | None:
    """The Python module in an answer, or None.

    Of several blocks the one with the most test functions counts, then the longest, then the last.
    Without a fence the longest run of lines that parses is taken, so that prose around it is dropped
    and a first line such as ``answer = solve()`` is kept.
    """
    text = text[:_LARGEST_ANSWER]
    blocks = [body for language, body in blocks_in(text) if language in _PYTHON_INFO]
    parsed = [(body, tree) for body in blocks if (tree := parse_python(body)) and tree.body]
    if parsed:
        best = max(
            enumerate(parsed),
            key=lambda item: (len(test_functions(item[1][1])), len(item[1][0]), item[0]),
        )
        return best[1][0]
    return None if blocks else _unfenced_module(text)


def _unfenced_module(text: str) -> str | None:
    lines = text[:_LARGEST_UNFENCED].split("\n")
    starts = [number for number, line in enumerate(lines) if _CODE_START.match(line)][:4]
    ends = [number for number in range(len(lines), 0, -1) if _may_end(lines, number)][:20]
    for start in starts:
        for end in ends:
            code = _joined(lines[start:end])
            tree = parse_python(code) if end > start else None
            if tree and tree.body and not _is_prose(tree):
                return code
    return None


def _may_end(lines: list[str], number: int) -> bool:
    """Whether code may end before line `number`: behind text, and not inside an indented block."""
    return bool(lines[number - 1].strip()) and not "".join(lines[number : number + 1]).startswith((" ", "\t"))


def _is_prose(tree: ast.Module) -> bool:
    """A lone word or number parses as Python too."""
    return all(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Name | ast.Constant) for node in tree.body
    )


def test_functions(tree: ast.Module) -> tuple[str, ...]:
    """Names of pytest's test functions, methods as ``Class::name``, in order."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names.extend(f"{node.name}::{name}" for name in _tests_in(node.body))
    return (*_tests_in(tree.body), *names)


def _tests_in(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node.name


test_functions.__test__ = False  # type: ignore[attr-defined]


def json_values(text: str) -> tuple[object, ...]:
    """Every JSON object or list in an answer, outermost ones only, in order of trust.

    Tried: the whole text, each fenced block, each balanced ``{…}`` or ``[…]`` in the prose. Trailing
    commas, ``//`` comments and Python literals are read too. Values found twice are given once.
    """
    text = text[:_LARGEST_ANSWER]
    sources = [text, *(body for _, body in blocks_in(text))]
    values = [value for source in sources if (value := _read_json(source.strip())) is not None]
    if not values:
        values = [value for piece in _balanced(text) if (value := _read_json(piece)) is not None]
    unique: list[object] = []
    unique.extend(value for place, value in enumerate(values) if value not in values[:place])
    return tuple(unique)


def _read_json(text: str) -> object | None:
    """A dict or list, or None. Strict JSON first, then mended JSON, then a Python literal."""
    if not text or text[0] not in "{[":
        return None
    for candidate in (text, _mend(text)):
        try:
            value: object = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict | list) else None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict | list) else None


def _mend(text: str) -> str:
    """`text` without comments and trailing commas, strings untouched."""
    out: list[str] = []
    for inside, piece in _string_pieces(text):
        if not inside:
            piece = re.sub(r"//[^\n]*", "", piece)
        out.append(piece)
    joined = "".join(out)
    return "".join(
        piece if inside else re.sub(r",(\s*[}\]])", r"\1", piece) for inside, piece in _string_pieces(joined)
    )


# Both patterns match at every quote, so that no answer makes them scan its rest again and again.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def _string_pieces(text: str) -> Iterator[tuple[bool, str]]:
    """(is a string, piece) over `text`; a comment's apostrophes are no strings in JSON."""
    position = 0
    for found in _STRING.finditer(text):
        yield False, text[position : found.start()]
        yield True, found.group()
        position = found.end()
    yield False, text[position:]


_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[{}\[\]]', re.DOTALL)


def _balanced(text: str) -> Iterator[str]:
    """Outermost balanced bracket runs, strings respected; at most 50. An unbalanced start is skipped."""
    position, found = 0, 0
    while found < 50 and (start := _next_open(text, position)) >= 0:
        found += 1
        end = _close_of(text, start)
        if end < 0:
            position = start + 1
        else:
            yield text[start:end]
            position = end


def _next_open(text: str, position: int) -> int:
    places = [place for mark in "{[" if (place := text.find(mark, position)) >= 0]
    return min(places, default=-1)


def _close_of(text: str, start: int) -> int:
    stack: list[str] = []
    for found in _BRACKETS.finditer(text, start):
        mark = found.group()
        if mark in ("{", "["):
            stack.append("}" if mark == "{" else "]")
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return -1
            if not stack:
                return found.end()
    return -1
