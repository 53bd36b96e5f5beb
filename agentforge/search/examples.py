"""Executable claims in an issue's text: what was called, and what should have come back.

Only text is read here; nothing is evaluated. A claim that already holds on the base, such as the
wrong output that a reporter pasted, falls away later, when it is run (`agentforge.search.reproduce`).
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["value", "output", "crash", "raises", "asserts"]
MAX_EXAMPLES = 24
MAX_TEXT = 60_000

FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.M | re.S)
TRACEBACK_END = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt|Iteration|Warning))\b", re.M)
ERROR_NAME = r"`{0,2}((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Iteration))`{0,2}"
VALUE = (
    r"(?:``(?P<v2>[^`\n]+)``|`(?P<v1>[^`\n]+)`|(?P<bare>'[^'\n]*'|\"[^\"\n]*\"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True|False|None"
    r"|[\[({][^\n`]*?[\])}](?=[\s.,;]|$)))"
)
FILLER = (
    "it|the|a|result|output|value|answer|to|have|has|been|be|is|was|return|returned|give|given|yield|print|equal"
    "|get|produce|evaluate|that|I|would|rather|instead|behaviou?r"
)
SHOULD = re.compile(
    r"\b(?i:should|must|ought to|expected|expects?|expecting|instead of being|to (?:be|return|give|equal))\b"
    rf"(?:[ \t]+(?i:{FILLER}))*[ \t]*:?[ \t\n]*" + VALUE
)
SHOULD_RAISE = re.compile(
    r"\b(?:should|must|expected|expect)\b[^.`\n]{0,40}?\b(?:raise|raised|throw|fail with)\b[^.`\n]{0,20}?"
    + ERROR_NAME
)
REPORTED = re.compile(
    r"\b(?:raises?|raised|throws?|fails? with|crash(?:es|ed)? with|get|got|gives?)\b[^.`\n]{0,25}?"
    + ERROR_NAME
)
COMMENT = re.compile(
    r"#\s*(?:(?:it\s+)?(?:should|must)\s+(?:be|return|give|print|equal)"
    r"|expected(?:\s+(?:output|result|value))?|expect|want|->|=>|==)\s*:?\s*(.+?)\s*$",
    re.I,
)
INSTEAD = re.compile(r"\binstead of\b[ \t\n]*(?:the[ \t]+)?(?:expected[ \t]+|correct[ \t]+)?" + VALUE)


@dataclass(frozen=True)
class Example:
    """One claim. `expected` is Python text for "value", printed text for "output".

    `error` is the exception's name for "crash" (must not be raised) and "raises" (must be raised).
    """

    kind: Kind
    setup: tuple[str, ...]
    expression: str
    expected: str = ""
    error: str = ""
    origin: str = ""


def extract(text: str) -> list[Example]:
    """Every claim found, most explicit first, without repetition."""
    text = text[:MAX_TEXT].replace("\r\n", "\n")
    text = re.sub(r"^> ?(?!>>)", "", text, flags=re.M)
    found = [*sessions(text), *blocks(text), *inline(text)]
    return list(dict.fromkeys(found))[:MAX_EXAMPLES]


# Interactive sessions


def sessions(text: str) -> Iterator[Example]:
    """`>>>` examples: the shown output as a claim, then what the prose says it should have been."""
    for session, after in interactive(text):
        setup: list[str] = []
        for example in session:
            source = example.source.strip()
            if is_expression(source) and (example.want.strip() or example.exc_msg is not None):
                yield from claims(tuple(setup), source, example, after, text)
            if parses(source) and not (example.want.strip() and is_expression(source)):
                setup.append(source)


def interactive(text: str) -> Iterator[tuple[list[doctest.Example], str]]:
    """Sessions, each with the prose that follows it. Fences end a session, prompts far apart do not."""
    plain = re.sub(r"^[ \t]*(```+|~~~+)[^\n]*$", "", text, flags=re.M)
    chunks = re.split(r"(?m)^(?=[ \t]*>>> )", plain)
    session: list[doctest.Example] = []
    last = ""
    for chunk in chunks:
        if not chunk.lstrip().startswith(">>> "):
            continue
        try:
            parsed = doctest.DocTestParser().get_examples(chunk)
        except ValueError:
            continue
        session.extend(parsed)
        last = chunk
    if session:
        yield session, last


def claims(
    setup: tuple[str, ...], source: str, example: doctest.Example, after: str, text: str
) -> Iterator[Example]:
    want = example.want.strip("\n")
    if example.exc_msg is not None or want.lstrip().startswith("Traceback"):
        error = (
            (example.exc_msg or want.strip().splitlines()[-1]).partition(":")[0].strip().rpartition(".")[2]
        )
        yield from failed_call(setup, source, error, text)
        return
    comment = COMMENT.search(source)
    if comment:
        yield Example("value", setup, source, comment.group(1), origin="comment beside the call")
    lines = want.splitlines()
    notes = [match for line in lines for match in [COMMENT.search(line)] if match]
    if notes:
        yield Example("value", setup, source, notes[0].group(1), origin="comment beside the output")
    kind: Kind = "output" if source.startswith("print(") else "value"
    yield Example(kind, setup, source, want.strip(), origin="interactive example")
    for value in expectations(after_of(text, source)):
        yield Example(kind, setup, source, value, origin="interactive example and the text after it")


def after_of(text: str, source: str) -> str:
    """The prose around the last mention of `source`: what comes after, then what comes before."""
    first = source.splitlines()[0]
    at = text.find(first)
    return text[at + len(first) : at + len(first) + 800] if at >= 0 else ""


def failed_call(setup: tuple[str, ...], source: str, error: str, text: str) -> Iterator[Example]:
    wanted = SHOULD_RAISE.search(text)
    if wanted and wanted.group(1).rpartition(".")[2] != error:
        yield Example(
            "raises", setup, source, error=wanted.group(1), origin="the issue names the error it wants"
        )
    for value in expectations(after_of(text, source)):
        yield Example("value", setup, source, value, origin="traceback and the text after it")
    yield Example("crash", setup, source, error=error, origin="traceback in an interactive example")


def expectations(prose: str) -> list[str]:
    """Values that prose says should have come, as Python text."""
    found = [pick(match) for pattern in (SHOULD, INSTEAD) for match in pattern.finditer(prose)]
    return [value for value in dict.fromkeys(found) if value and is_expression(value)][:3]


def pick(match: re.Match[str]) -> str:
    return (match.group("v2") or match.group("v1") or match.group("bare") or "").strip()


# Code blocks


def blocks(text: str) -> Iterator[Example]:
    """Fenced code without prompts: asserts, comments that state a value, code that raises."""
    for match in FENCE.finditer(text):
        language, code = match.group(2).lower(), match.group(3)
        if language not in ("", "python", "py", "python3", "pycon") or ">>>" in code:
            continue
        try:
            body = ast.parse(dedent(code)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if body and any(isinstance(n, (ast.Call, ast.Assert, ast.Import)) for s in body for n in ast.walk(s)):
            yield from block(dedent(code), body, text[match.end() :], text)


def dedent(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return "\n".join(line[margin:] for line in code.splitlines()) + "\n"


def block(code: str, body: list[ast.stmt], after: str, text: str) -> Iterator[Example]:
    lines, sources = code.splitlines(), [ast.get_source_segment(code, node) or "" for node in body]
    setup: list[str] = []
    for node, source in zip(body, sources, strict=True):
        comment = COMMENT.search(lines[(node.end_lineno or 1) - 1])
        value = shown(node)
        if isinstance(node, ast.Assert):
            yield Example("asserts", tuple(setup), source, origin="assert in a code block")
            continue
        if comment and value:
            yield Example("value", tuple(setup), value, comment.group(1), origin="comment in a code block")
        setup.append(source)
    last = shown(body[-1])
    if last:
        for wanted in expectations(after[:800]):
            kind: Kind = "value"
            yield Example(kind, tuple(sources[:-1]), last, wanted, origin="code block and the text after it")
    error = reported_error(text)
    if error:
        yield Example("crash", tuple(sources[:-1]), sources[-1], error=error, origin="code block that raises")


def shown(node: ast.stmt) -> str:
    """The expression whose value a statement shows: itself, what it prints, or what it assigns."""
    if isinstance(node, ast.Expr):
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
            return ast.unparse(call.args[0]) if len(call.args) == 1 else ""
        return ast.unparse(call)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.value)
    return ""


def reported_error(text: str) -> str:
    """The exception the issue complains of: the end of a traceback, or one that prose names."""
    if "Traceback (most recent call last)" in text:
        ends = TRACEBACK_END.findall(text.partition("Traceback (most recent call last)")[2])
        if ends:
            return str(ends[0])
    said = REPORTED.search(text)
    return said.group(1).rpartition(".")[2] if said else ""


# Prose


def inline(text: str) -> Iterator[Example]:
    """Calls in the prose, with the value or the error that the same sentence asks for."""
    prose = FENCE.sub("\n\n", text)
    prose = re.sub(r"(?m)^[ \t]*(>>>|\.\.\.).*$", "", prose)
    for start, end, call in calls(prose):
        sentence = rest_of_sentence(prose[end:])
        before = prose[max(0, start - 60) : start]
        wanted = SHOULD_RAISE.search("expected " + sentence) if "should" in sentence else None
        if wanted:
            yield Example("raises", (), call, error=wanted.group(1), origin="sentence about the call")
            continue
        values = expectations(sentence)
        if re.search(r"\b(?:expect(?:ed)?|should|want)\b[^.\n]{0,30}$", before):
            values += expectations(
                "should be " + re.sub(r"^`*\s*(?:to\s+)?(?:be|return|give|equal)?\s*", "", sentence)
            )
        for value in dict.fromkeys(values):
            yield Example("value", (), call, value, origin="sentence about the call")
        said = REPORTED.search(sentence)
        if said and not wanted:
            yield Example(
                "crash", (), call, error=said.group(1).rpartition(".")[2], origin="sentence about the call"
            )


def rest_of_sentence(text: str) -> str:
    """Up to the end of the sentence, or of the next one where that begins with "It" or "Expected"."""
    stop = re.search(
        r"\n\s*\n|\.\s+(?!(?:It|This|That|Expected|The (?:expected|correct|result))\b)[A-Z]", text
    )
    return text[: stop.start() if stop else 400][:400]


def calls(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) of call expressions with balanced brackets, outermost only."""
    at = 0
    for match in re.finditer(r"(?<![\w.])[A-Za-z_][\w.]*\(", text):
        if match.start() < at:
            continue
        end = closing(text, match.end() - 1)
        if end is None:
            continue
        tail = re.match(r"(?:\.\w+\([^()\n`]*\)|\.\w+|\[[^\[\]\n]*\])*", text[end:])
        end += (
            tail.end()
            if tail and text[end : end + 1] in (".", "[") and not re.match(r"\.(\s|$)", text[end:])
            else 0
        )
        call = text[match.start() : end]
        if is_expression(call) and isinstance(
            ast.parse(call, mode="eval").body, (ast.Call, ast.Attribute, ast.Subscript)
        ):
            at = end
            yield match.start(), end, call


def closing(text: str, start: int) -> int | None:
    """Offset after the bracket that closes the one at `start`, quotes respected."""
    depth, quote, position = 0, "", start
    while position < min(len(text), start + 600):
        char = text[position]
        if quote:
            position += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None


def is_expression(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(text.strip())


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
