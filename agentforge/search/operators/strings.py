"""Operators on text: regular expressions, format strings, and characters added or dropped at the ends."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agentforge.search.operators.site import Site, others
from agentforge.search.source import Edit

MAX_CHARS = 200
LITERAL = re.compile(r"(?s)^([rRbBuU]{0,2})('''|\"\"\"|'|\")(.*)\2$")
REGEX_CALLS = ("compile", "match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split")
QUANTIFIERS = {"+": ("*", "?", ""), "*": ("+", "?", ""), "?": ("*", "+", "")}
CLASSES = ("\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b")
CONVERSIONS = "srdifxgeao"
ENDS = (" ", "\\n", ".", ":", ",", "/", "-", "_", "s", "'", "(", ")", "%s")


def texts(site: Site) -> Iterator[Edit]:
    """What one small change makes of a string literal."""
    node = site.node
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, bytes)):
        return
    if isinstance(site.parent, (ast.Expr, ast.JoinedStr, ast.FormattedValue)):
        return
    literal = LITERAL.match(site.text())
    if literal is None or len(literal[3]) > MAX_CHARS or literal[2] in literal[3]:
        return
    prefix, quote, body = literal.groups()
    made: dict[str, float] = {}
    if looks_like_regex(site, body):
        for text, weight in regex_edits(body):
            made.setdefault(text, weight)
    for text, weight in (*format_edits(body), *end_edits(body)):
        made.setdefault(text, weight)
    for text, weight in made.items():
        if text != body:
            yield site.swap(node, f"{prefix}{quote}{text}{quote}", "text", weight)


def looks_like_regex(site: Site, body: str) -> bool:
    """An argument of what `re` offers, or a text with the marks of a pattern."""
    parent = site.parent
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        base = parent.func.value
        named = isinstance(base, ast.Name) and base.id in ("re", "regex")
        if parent.func.attr in REGEX_CALLS and named:
            return True
    return bool(re.search(r"\\[dwsbDWSB.]|\(\?|\[\^|\.\*|\.\+|\]\+|\]\*", body))


def regex_edits(body: str) -> Iterator[tuple[str, float]]:
    """Quantifiers, anchors, escapes, groups and character classes changed at one place."""
    yield f"^{body}", 0.25
    yield body.removeprefix("^"), 0.2
    yield f"{body}$", 0.25
    yield f"{body}\\Z", 0.1
    yield body.removesuffix("$"), 0.2
    yield f"^{body}$", 0.12
    yield f"\\b{body}\\b", 0.1
    yield f"\\b{body}", 0.1
    for at, char in enumerate(body):
        escaped = at > 0 and body[at - 1] == "\\" and not (at > 1 and body[at - 2] == "\\")
        before, after = body[:at], body[at + 1 :]
        if char in QUANTIFIERS and not escaped and at > 0 and body[at - 1] not in "(|":
            for other in QUANTIFIERS[char]:
                yield before + other + after, 0.3
            if after[:1] == "?":
                yield before + char + after[1:], 0.3
            else:
                yield before + char + "?" + after, 0.3
        elif char in ".+*?()[]{}|^$" and not escaped:
            yield before + "\\" + char + after, 0.2
        elif escaped:
            yield from class_edits(body, at)
            yield body[: at - 1] + char + after, 0.15
        if char in ")]" and not escaped and after[:1] not in "+*?{":
            for quantifier in ("?", "*", "+"):
                yield before + char + quantifier + after, 0.2
        if char == "]" and not escaped:
            for member in ("-", "_", ".", " ", "\\s", "\\w", "0-9", "A-Z", "a-z", "+", ":", "'", ",", "/"):
                yield before + member + char + after, 0.12
        if char == "(" and not escaped and after[:1] != "?":
            yield before + "(?:" + after, 0.15


def class_edits(body: str, at: int) -> Iterator[tuple[str, float]]:
    """`\\d` as another class, and a quantifier after it."""
    whole, char = "\\" + body[at], body[at]
    if whole in CLASSES:
        for other in others(CLASSES, whole):
            yield body[: at - 1] + other + body[at + 1 :], 0.12
    if char in "dwsDWS" and body[at + 1 : at + 2] not in ("+", "*", "?", "{"):
        for quantifier in ("+", "*", "?"):
            yield body[: at + 1] + quantifier + body[at + 1 :], 0.2


def format_edits(body: str) -> Iterator[tuple[str, float]]:
    """`%s` as `%r` and its like; `{}` with a conversion or a width."""
    for match in re.finditer(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])", body):
        for other in others(CONVERSIONS, match[1]):
            weight = 0.2 if {other, match[1]} <= set("srd") else 0.06
            yield body[: match.start(1)] + other + body[match.end(1) :], weight
    for match in re.finditer(r"\{(\w*)((?:!\w)?)((?::[^{}]*)?)\}", body):
        for tail in ("!r", "!s", ""):
            if tail != match[2]:
                text = "{" + match[1] + tail + match[3] + "}"
                yield body[: match.start()] + text + body[match.end() :], 0.12
        if match[3]:
            yield body[: match.start(3)] + body[match.end(3) :], 0.12


def end_edits(body: str) -> Iterator[tuple[str, float]]:
    """A character more or less at either end, letters' case, one character dropped, quotes escaped."""
    for piece in ENDS:
        yield body + piece, 0.08
        yield piece + body, 0.05
    if len(body) > 1:
        yield body[1:], 0.12
        yield body[:-1], 0.12
    for match in re.finditer(r"\(\)|\s+|[^\w\s]", body):
        yield body[: match.start()] + body[match.end() :], 0.08
    for match in re.finditer(r"[-_ ./]", body):
        for other in others("-_ ./", match[0]):
            yield body[: match.start()] + other + body[match.end() :], 0.05


OPERATORS = (texts,)
