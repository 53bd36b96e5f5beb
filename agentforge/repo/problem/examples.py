"""Examples in a statement: sessions, calls with their value beside them, sample input and output."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
from collections.abc import Iterator

from agentforge.core.problem import Example

MAX_EXAMPLES = 20
_ARROW = re.compile(
    r"\s*(?:➞|→|=>|->|==|=|#=>|(?:should |must |will )?(?:returns?|return|be|is|equals?|gives?))"
    r"\s*:?\s*(?P<value>.+)$"
)
_HEADING = r"^[ \t>*#-]*(?:sample |example )?{word}(?: *\d+)?[ \t*:-]*$"
_INPUT = re.compile(_HEADING.format(word="input"), re.I | re.M)
_OUTPUT = re.compile(_HEADING.format(word="output"), re.I | re.M)
_NEXT = re.compile(
    r"^[ \t>*#-]*(?:(?:sample |example )?input(?: *\d+)?|note|explanation|examples?(?: *\d+)?|constraints?)"
    r"[ \t*:-]*$",
    re.I | re.M,
)
_OPERATOR = re.compile(r"\s*(?:[-+*/%]|=(?!>)|if\b|for\b)")
_MARKS = re.compile(r"^[ \t]*(?:```\w*|-{3,})[ \t]*$", re.M)


def call_examples(text: str, entry: str) -> tuple[Example, ...]:
    """Calls of `entry` whose value the text states as a Python literal."""
    found = [*_sessions(text, entry), *_beside(text, entry)]
    unique = {(example.setup, example.call): example for example in reversed(found)}
    return tuple(reversed(unique.values()))[:MAX_EXAMPLES]


def _sessions(text: str, entry: str) -> Iterator[Example]:
    """`>>>` sessions; a name bound in one stays bound until the text between examples ends it."""
    setup: list[str] = []
    for chunk in re.split(r"(?m)^(?=[ \t]*>>> )", text):
        if not chunk.lstrip().startswith(">>> "):
            continue
        try:
            (parsed,) = doctest.DocTestParser().get_examples(chunk)
        except ValueError:
            continue
        source, want = parsed.source.strip(), parsed.want.strip()
        value = literal(want) or (literal(want.split("\n")[0]) if want else None)
        if value is not None and is_expression(source) and (setup or calls(source, entry)):
            yield Example(call=source, setup=tuple(setup), expected=value)
        elif not want and parses(source):
            setup.append(source)


def _beside(text: str, entry: str) -> Iterator[Example]:
    """`f(3) == 6`, `f(3) ➞ 6`, `assert f(3) == 6`, `f(3) should return 6`."""
    for found in re.finditer(rf"(?<![\w.]){re.escape(entry)}\(", text):
        if text[max(0, found.start() - 8) : found.start()].rstrip().endswith(("def", ">>>")):
            continue
        call = balanced(text, found.start(), found.end() - 1)
        rest = text[found.start() + len(call) :].split("\n", 1)[0] if call else ""
        arrow = _ARROW.match(rest.lstrip("`"))
        value = leading_literal(arrow["value"]) if arrow else None
        if call and value is not None and is_closed(call, entry):
            yield Example(call=" ".join(call.split()), expected=value)


def calls(source: str, entry: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(entry)}\(", source))


def balanced(text: str, start: int, bracket: int) -> str:
    """The text from `start` to the bracket that closes the one at `bracket`, "" where none does."""
    depth, quote = 0, ""
    for place in range(bracket, min(len(text), bracket + 2000)):
        letter = text[place]
        if quote:
            quote = "" if letter == quote and text[place - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if not depth:
                return text[start : place + 1]
    return ""


def literal(text: str) -> str | None:
    """`text` where it is a Python literal (`nan` and `inf` included), else None."""
    text = text.strip()
    if text in ("nan", "inf", "-inf"):
        return text
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return text


def leading_literal(text: str) -> str | None:
    """The literal with which `text` begins; words or a full stop may follow it, but no operator."""
    text = text.strip().strip("`")
    if "#" not in text and (whole := literal(text)):
        return whole
    if text[:1] in "([{":
        whole = literal(balanced(text, 0, 0))
        return None if whole is None or _OPERATOR.match(text[len(whole) :]) else whole
    found = re.match(
        r"('[^'\n]*'|\"[^\"\n]*\"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|True|False|None)(?![\w(])", text
    )
    return literal(found[1]) if found and not _OPERATOR.match(text[found.end() :]) else None


def is_expression(source: str) -> bool:
    try:
        ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def is_closed(source: str, entry: str) -> bool:
    """Whether `source` is an expression over `entry`, builtins and literals: no name of the prose's own."""
    if not is_expression(source):
        return False
    used = {node.id for node in ast.walk(ast.parse(source, mode="eval")) if isinstance(node, ast.Name)}
    return used <= {entry, *dir(builtins)}


def parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def sample_examples(text: str) -> tuple[Example, ...]:
    """Pairs of a sample input and the sample output that follows it, under headings of their own."""
    found: list[Example] = []
    for heading in _INPUT.finditer(text):
        output = _OUTPUT.search(text, heading.end())
        following = _INPUT.search(text, heading.end())
        if output is None or (following and following.start() < output.start()):
            continue
        after = _NEXT.search(text, output.end())
        end = after.start() if after else len(text)
        stdin, expected = _block(text[heading.end() : output.start()]), _block(text[output.end() : end])
        if stdin and expected and _is_data(stdin) and _is_data(expected):
            found.append(Example(stdin=stdin, expected=expected))
    return tuple(dict.fromkeys(found))[:MAX_EXAMPLES]


def _block(text: str) -> str:
    """Data under a heading: a fenced block, or the lines up to the first empty one after them."""
    fence = re.search(r"```\w*\n(.*?)```", text, re.S)
    body = fence[1] if fence else _MARKS.sub("", text).strip("\n").split("\n\n")[0]
    return body.strip("\n") + "\n" if body.strip() else ""


def _is_data(text: str) -> bool:
    """Prose under the heading "Input" describes the format; data are shorter words, mostly without stops."""
    lines = text.strip().split("\n")
    return not any(re.search(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}.*\.\s*$", line) for line in lines)
