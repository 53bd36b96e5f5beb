"""Operators on statements: delete, insert, move, re-indent, guard, and change of form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agentforge.search.operators.site import SIMPLE, Site, others
from agentforge.search.source import Edit

JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
MAX_MOVED_LINES = 8


def block_of(site: Site, node: ast.stmt) -> list[ast.stmt]:
    """The list of statements that holds `node`."""
    parent = site.source.parents.get(node)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and node in block:
            return block
    return [node]


def lines_of(site: Site, node: ast.stmt) -> tuple[int, int] | None:
    """Byte span of the statement's whole lines; None where it shares a line with another."""
    start, end = site.source.span(node)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    begin, stop = site.source.line_start(first), site.source.line_start((node.end_lineno or 0) + 1)
    before, after = site.source.data[begin:start], site.source.data[end:stop].strip()
    shared = first == node.lineno and before.strip()
    if shared or (after and not after.startswith(b"#")):
        return None
    return begin, stop


def insert(site: Site, at: int, line: int, indent: str, text: str, operator: str, weight: float) -> Edit:
    """Whole new lines at byte offset `at`, which is a line's start."""
    body = "".join(indent + part + site.source.newline for part in text.split("\n"))
    if at == len(site.source.data) and not site.source.data.endswith((b"\n", b"\r")):
        body = site.source.newline + body.rstrip("\r\n")
    return site.raw(at, at, body, operator, weight, line)


def delete(site: Site) -> Iterator[Edit]:
    """The statement deleted, or its block kept without its condition or loop."""
    node = site.node
    if not isinstance(node, ast.stmt) or isinstance(
        node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    ):
        return
    span = lines_of(site, node)
    if span is None or is_docstring(node):
        return
    if len(block_of(site, node)) > 1:
        yield site.raw(*span, "", "delete", 0.3 if isinstance(node, SIMPLE) else 0.15, node.lineno)
    elif not isinstance(node, ast.Pass):
        yield site.swap(node, "pass", "delete", 0.2)
    if isinstance(node, ast.If) and not node.orelse and not is_elif(site, node):
        yield reindented(site, node.body, span, site.source.indent(node.lineno), "drop-condition", 0.2)


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_elif(site: Site, node: ast.If) -> bool:
    start = site.source.span(node)[0]
    return site.source.data[start : start + 4] == b"elif"


def reindented(
    site: Site, body: list[ast.stmt], span: tuple[int, int], indent: str, operator: str, weight: float
) -> Edit:
    """`span` replaced by the lines of `body` at another indentation."""
    start = site.source.line_start(body[0].lineno)
    end = site.source.line_start((body[-1].end_lineno or 0) + 1)
    text = shift(site.source.data[start:end].decode(), site.source.indent(body[0].lineno), indent)
    return site.raw(*span, text, operator, weight, body[0].lineno)


def shift(text: str, old: str, new: str) -> str:
    return re.sub(rf"^{re.escape(old)}", new, text, flags=re.M)


def move(site: Site) -> Iterator[Edit]:
    """Exchanged with the next statement; moved out of, or into, the block before it."""
    node = site.node
    if not isinstance(node, ast.stmt):
        return
    span, block = lines_of(site, node), block_of(site, node)
    if span is None or node not in block or (node.end_lineno or 0) - node.lineno >= MAX_MOVED_LINES:
        return
    index, text = block.index(node), site.source.data[span[0] : span[1]].decode()
    if not text.endswith(("\n", "\r")):
        return
    if index + 1 < len(block):
        following = lines_of(site, block[index + 1])
        if following and following[0] == span[1]:
            other = site.source.data[following[0] : following[1]].decode()
            if other.endswith(("\n", "\r")):
                yield site.raw(span[0], following[1], other + text, "swap-statements", 0.3, node.lineno)
    yield from move_out(site, node, block, span, text)
    yield from move_in(site, node, block, span, text)


def move_out(
    site: Site, node: ast.stmt, block: list[ast.stmt], span: tuple[int, int], text: str
) -> Iterator[Edit]:
    """The last statement of a loop or branch put after it."""
    parent = site.source.parents.get(node)
    if (
        not isinstance(parent, (ast.For, ast.While, ast.If, ast.With))
        or block[-1] is not node
        or len(block) < 2
    ):
        return
    outer = site.source.indent(parent.lineno)
    moved = shift(text, site.source.indent(node.lineno), outer)
    end = site.source.line_start((parent.end_lineno or 0) + 1)
    rest = site.source.data[span[1] : end].decode()
    yield site.raw(span[0], end, rest + moved, "move-out", 0.3, node.lineno)


def move_in(
    site: Site, node: ast.stmt, block: list[ast.stmt], span: tuple[int, int], text: str
) -> Iterator[Edit]:
    """A statement after a loop or branch made the last one inside."""
    index = block.index(node)
    before = block[index - 1] if index else None
    if isinstance(before, (ast.For, ast.While, ast.If, ast.With)) and not getattr(before, "orelse", []):
        inner = site.source.indent(before.body[-1].lineno)
        moved = shift(text, site.source.indent(node.lineno), inner)
        yield site.raw(*span, moved, "move-in", 0.3, node.lineno)


def guards(site: Site) -> Iterator[Edit]:
    """A guard with an early result or a default, at the head of the function or before the statement."""
    node, function = site.node, site.scope.function
    if not isinstance(node, ast.stmt) or function is None or lines_of(site, node) is None:
        return
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    first = node in body[:1]
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names = site.scope.parameters if first else [n for n in site.scope.locals if n in used]
    span, indent, step = lines_of(site, node), site.source.indent(node.lineno), site.source.unit
    if span is None or is_elif_or_else(site, node):
        return
    for name in others(fresh_first(site, node, names)[:6], "self", "cls"):
        for test in (f"not {name}", f"{name} is None"):
            for action, weight in guard_actions(site, node, name):
                text = f"if {test}:\n{step}{action}"
                yield insert(
                    site, span[0], node.lineno, indent, text, "guard", weight * (1.5 if first else 1.0)
                )
        for default in ("[]", "{}", "''", "0") if first else ():
            yield insert(
                site,
                span[0],
                node.lineno,
                indent,
                f"if {name} is None:\n{step}{name} = {default}",
                "guard",
                0.12,
            )


def fresh_first(site: Site, node: ast.stmt, names: list[str]) -> list[str]:
    """Names that the statement before has just given a value come first: that value may be missing."""
    block = block_of(site, node)
    at = block.index(node) if node in block else 0
    walked = ast.walk(block[at - 1]) if at else iter(())
    stored = {n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(names, key=lambda name: name not in stored)


def is_elif_or_else(site: Site, node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and is_elif(site, node)


def guard_actions(site: Site, node: ast.stmt, name: str) -> Iterator[tuple[str, float]]:
    returns = [site.source.text(n) for n in site.scope.nodes if isinstance(n, ast.Return)]
    first = list(dict.fromkeys(returns))[:4]
    for text in first:
        if "\n" not in text:
            yield text, 0.12
    for value in (name, "None", "[]", "0", "False", "True", "''", "{}"):
        if f"return {value}" not in first:
            yield f"return {value}", 0.07
    if any(isinstance(up, (ast.For, ast.While)) for up in site.source.ancestors(node)):
        yield "continue", 0.12
        yield "break", 0.1


def insertions(site: Site) -> Iterator[Edit]:
    """A statement inserted before or after: copies from the function, additions to containers, updates."""
    node = site.node
    if not isinstance(node, ast.stmt) or site.scope.function is None or is_docstring(node):
        return
    span = lines_of(site, node)
    if span is None or is_elif_or_else(site, node) or node is site.scope.function:
        return
    indent = site.source.indent(node.lineno)
    places = [span[0]] if isinstance(node, JUMPS) else [span[0], span[1]]
    for at in places:
        for text, weight in new_statements(site, node):
            yield insert(site, at, node.lineno, indent, text, "insert", weight)


def new_statements(site: Site, node: ast.stmt) -> Iterator[tuple[str, float]]:
    scope = site.scope
    own = site.text(node)
    for text in scope.simple_statements:
        if text != own:
            yield text, 0.2
    for container, method in scope.containers.items():
        for name in others(scope.locals, container):
            yield f"{container}.{method}({name})", 0.2
    inner = [n for n in scope.locals if n not in scope.containers]
    stored = assigned(site)
    for left in scope.locals[:10]:
        for right in others(scope.locals[:10], left):
            yield f"{left} = {right}", 0.1 if left in stored else 0.03
    for name in inner[:8]:
        yield f"{name} += 1", 0.12
        yield f"{name} -= 1", 0.06
    if any(isinstance(up, (ast.For, ast.While)) for up in site.source.ancestors(node)):
        yield "continue", 0.12
        yield "break", 0.15
    for name in [*scope.locals[:8], ""]:
        yield f"return {name}".rstrip(), 0.05


def assigned(site: Site) -> frozenset[str]:
    stores = (n for n in site.scope.nodes if isinstance(n, ast.Assign))
    return frozenset(t.id for n in stores for t in n.targets if isinstance(t, ast.Name))


def forms(site: Site) -> Iterator[Edit]:
    """Change of form: call to assignment, assignment to update and back, result returned or yielded."""
    node = site.node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from call_forms(site, node, node.value)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = site.text(node.targets[0]), site.text(node.value)
        for operator, weight in (("+=", 0.3), ("-=", 0.15), ("*=", 0.1), ("|=", 0.05)):
            yield site.swap(node, f"{target} {operator} {value}", "assignment-form", weight)
    elif isinstance(node, ast.AugAssign):
        yield site.swap(node, f"{site.text(node.target)} = {site.text(node.value)}", "assignment-form", 0.3)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield site.swap(node, f"yield {site.text(node.value)}", "return-form", 0.05)
    elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Yield, ast.YieldFrom)):
        yield from yield_forms(site, node, node.value)


def call_forms(site: Site, node: ast.Expr, call: ast.Call) -> Iterator[Edit]:
    text = site.text(call)
    yield site.swap(node, f"return {text}", "return-form", 0.3)
    if isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        base, value = site.text(call.func.value), site.text(call.args[0])
        yield site.swap(node, f"{base} = {value}", "assignment-form", 0.2)
        yield site.swap(node, f"{base} = {text}", "assignment-form", 0.2)
        yield site.swap(node, f"{base} += {value}", "assignment-form", 0.1)
    elif isinstance(call.func, ast.Attribute):
        yield site.swap(node, f"{site.text(call.func.value)} = {text}", "assignment-form", 0.2)
    for argument in call.args[:2]:
        if isinstance(argument, (ast.Name, ast.Attribute)):
            yield site.swap(node, f"{site.text(argument)} = {text}", "assignment-form", 0.2)


def yield_forms(site: Site, node: ast.Expr, inner: ast.Yield | ast.YieldFrom) -> Iterator[Edit]:
    if inner.value is None:
        return
    value = site.text(inner.value)
    other = f"yield from {value}" if isinstance(inner, ast.Yield) else f"yield {value}"
    yield site.swap(node, other, "return-form", 0.5)


def keywords(site: Site) -> Iterator[Edit]:
    """`if` for `while`, `elif` for `if`, `break` for `continue` and for `return`, and back."""
    node = site.node
    if isinstance(node, (ast.If, ast.While)):
        start = site.source.span(node)[0]
        word = site.source.data[start : start + 5].split(b" ")[0].split(b"(")[0].decode()
        for new, weight in {
            "if": (("while", 0.15), ("elif", 0.2)),
            "while": (("if", 0.1),),
            "elif": (("if", 0.3),),
        }.get(word, ()):
            yield site.raw(start, start + len(word), new, "keyword", weight, node.lineno)
    elif isinstance(node, (ast.Break, ast.Continue)):
        other = "continue" if isinstance(node, ast.Break) else "break"
        yield site.swap(node, other, "keyword", 0.5)
        yield site.swap(node, "pass", "keyword", 0.2)
        for name in site.scope.locals[:6]:
            yield site.swap(node, f"return {name}", "keyword", 0.1)


ERRORS = (
    "Exception",
    "ValueError",
    "TypeError",
    "KeyError",
    "IndexError",
    "AttributeError",
    "StopIteration",
    "LookupError",
    "OSError",
)


def exceptions(site: Site) -> Iterator[Edit]:
    """Another exception caught, one more caught, another raised."""
    node = site.node
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        caught = site.text(node.type)
        present = [site.text(e) for e in node.type.elts] if isinstance(node.type, ast.Tuple) else [caught]
        for error in others(ERRORS, *present):
            yield site.swap(node.type, f"({', '.join([*present, error])})", "exception", 0.4)
            yield site.swap(node.type, error, "exception", 0.2)
    elif isinstance(node, ast.Raise) and node.exc is not None:
        name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        for error in others(ERRORS, site.text(name)) if isinstance(name, ast.Name) else ():
            yield site.swap(name, error, "exception", 0.3)


OPERATORS = (delete, move, guards, insertions, forms, keywords, exceptions)
