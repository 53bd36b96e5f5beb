"""Operators on operators, constants and numbers: comparison, arithmetic, boolean, off-by-one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentforge.search.operators.site import Scope, Site
from agentforge.search.source import Edit

COMPARE: dict[type[ast.cmpop], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Lt: ("<", (("<=", 1.0), (">", 0.5), (">=", 0.5), ("!=", 0.3), ("==", 0.1))),
    ast.LtE: ("<=", (("<", 1.0), (">=", 0.5), (">", 0.5), ("==", 0.3), ("!=", 0.1))),
    ast.Gt: (">", ((">=", 1.0), ("<", 0.5), ("<=", 0.5), ("!=", 0.3), ("==", 0.1))),
    ast.GtE: (">=", ((">", 1.0), ("<=", 0.5), ("<", 0.5), ("==", 0.3), ("!=", 0.1))),
    ast.Eq: ("==", (("!=", 0.7), ("<=", 0.5), (">=", 0.5), ("in", 0.2), ("is", 0.2), ("<", 0.2), (">", 0.2))),
    ast.NotEq: ("!=", (("==", 0.7), ("<", 0.4), (">", 0.4), ("is not", 0.2), ("not in", 0.2))),
    ast.Is: ("is", (("is not", 0.7), ("==", 0.4))),
    ast.IsNot: ("is not", (("is", 0.7), ("!=", 0.4))),
    ast.In: ("in", (("not in", 0.7), ("==", 0.2))),
    ast.NotIn: ("not in", (("in", 0.7), ("!=", 0.2))),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, tuple[tuple[str, float], ...]]] = {
    ast.Add: ("+", (("-", 0.8), ("*", 0.3), ("|", 0.1))),
    ast.Sub: ("-", (("+", 0.8), ("*", 0.2), ("//", 0.1), ("%", 0.1))),
    ast.Mult: ("*", (("+", 0.4), ("/", 0.4), ("//", 0.3), ("**", 0.3))),
    ast.Div: ("/", (("//", 0.9), ("*", 0.5), ("%", 0.2))),
    ast.FloorDiv: ("//", (("/", 0.9), ("%", 0.4), ("*", 0.3))),
    ast.Mod: ("%", (("//", 0.6), ("/", 0.3))),
    ast.Pow: ("**", (("*", 0.6), ("^", 0.1))),
    ast.BitAnd: ("&", (("|", 0.7), ("^", 0.4), ("-", 0.2))),
    ast.BitOr: ("|", (("&", 0.7), ("^", 0.4), ("+", 0.2))),
    ast.BitXor: ("^", (("&", 0.7), ("|", 0.6), ("**", 0.3))),
    ast.LShift: ("<<", ((">>", 0.8),)),
    ast.RShift: (">>", (("<<", 0.8),)),
}


def comparisons(site: Site) -> Iterator[Edit]:
    """Another comparison operator; `a < b` turned round; operator and constant together."""
    node = site.node
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        token, choices = COMPARE[type(operator)]
        place = site.between(operands[index], operands[index + 1], token.split()[0])
        if place is None:
            continue
        end = place[1]
        if " " in token:
            gap = site.source.data[place[0] : site.source.span(operands[index + 1])[0]]
            end = place[0] + len(gap.rstrip(b" \t\r\n("))
        for new, weight in choices:
            yield site.raw(place[0], end, new, "comparison", weight, node.lineno)
    if len(node.ops) == 1:
        yield from compared_constant(site, node)


def compared_constant(site: Site, node: ast.Compare) -> Iterator[Edit]:
    """`len(x) == 0` as `len(x) <= 1` and its like."""
    right = node.comparators[0]
    if not (isinstance(right, ast.Constant) and type(right.value) is int):
        return
    own = COMPARE[type(node.ops[0])][0]
    for new in ("<=", ">=", "<", ">", "=="):
        for step in (1, -1):
            if new != own:
                text = f"{site.operand(node.left)} {new} {right.value + step}"
                yield site.swap(node, text, "comparison+constant", 0.2 if new in ("<=", ">=") else 0.1)


def arithmetic(site: Site) -> Iterator[Edit]:
    """Another arithmetic or bit operator, in expressions and augmented assignments; operands swapped."""
    node = site.node
    if isinstance(node, ast.BinOp):
        token, choices = ARITHMETIC.get(type(node.op), ("", ()))
        place = site.between(node.left, node.right, token) if token else None
        for new, weight in choices if place else ():
            assert place is not None
            yield site.raw(*place, new, "arithmetic", weight, node.lineno)
        if token:
            text = f"{site.operand(node.right)} {token} {site.operand(node.left)}"
            yield site.swap(node, text, "operand-swap", 0.5)
    elif isinstance(node, ast.AugAssign):
        token, choices = ARITHMETIC.get(type(node.op), ("", ()))
        start, end = site.source.span(node.target)[1], site.source.span(node.value)[0]
        at = site.source.data.find(f"{token}=".encode(), start, end) if token else -1
        for new, weight in choices if at >= 0 else ():
            yield site.raw(at, at + len(token), new, "arithmetic", weight, node.lineno)


def boolean(site: Site) -> Iterator[Edit]:
    """`and` for `or` and back; one operand dropped."""
    node = site.node
    if not isinstance(node, ast.BoolOp):
        return
    token, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        place = site.between(left, right, token)
        if place:
            yield site.raw(*place, other, "boolean", 0.8, node.lineno)
    texts = [site.text(value) for value in node.values]
    for index in range(len(texts)):
        kept = texts[:index] + texts[index + 1 :]
        yield site.swap(node, f" {token} ".join(kept), "drop-operand", 0.5)
    if len(texts) == 2:
        yield site.swap(node, f"{texts[1]} {token} {texts[0]}", "operand-swap", 0.2)


def unary(site: Site) -> Iterator[Edit]:
    """A sign or a `not` removed."""
    node = site.node
    if isinstance(node, ast.UnaryOp):
        yield site.swap(node, site.text(node.operand), "drop-unary", 0.6)


def constants(site: Site) -> Iterator[Edit]:
    """Numbers one up or down, small numbers, truth values, constants of the same function or file."""
    node = site.node
    if not isinstance(node, ast.Constant) or isinstance(site.parent, (ast.JoinedStr, ast.FormattedValue)):
        return
    if isinstance(site.parent, ast.Expr):
        return
    value = node.value
    near = near_constants(value)
    for text, weight in near:
        yield site.swap(node, text, "constant", weight)
    for name in site.scope.values[:8]:
        weight = 0.7 if name in site.scope.unused_parameters else 0.08
        yield site.swap(node, name, "name-for-constant", weight)
    seen = {text for text, _ in near} | {site.text()}
    for scope, weight in ((site.scope, 0.3), (site.file_scope, 0.1)):
        for other in constants_of(scope, value):
            text = scope.source.text(other)
            if text not in seen and "\n" not in text and len(text) < 60:
                seen.add(text)
                yield site.swap(node, text, "constant", weight)


def near_constants(value: object) -> list[tuple[str, float]]:
    if value is True or value is False:
        return [(str(not value), 0.8), ("None", 0.2)]
    if value is None:
        return [
            ("False", 0.2),
            ("True", 0.2),
            ("[]", 0.2),
            ("''", 0.2),
            ("0", 0.2),
            ("b''", 0.1),
            ("{}", 0.15),
        ]
    if isinstance(value, int):
        near = [(str(value + 1), 0.8), (str(value - 1), 0.7)]
        extra = [(text, 0.2) for text in ("0", "1", "2", "-1", "None", str(-value)) if text != str(value)]
        return near + [item for item in extra if item[0] not in {t for t, _ in near}]
    if isinstance(value, float):
        return [(repr(value + 1), 0.2), (repr(value - 1), 0.2), (repr(-value), 0.3), ("0.0", 0.2)]
    if isinstance(value, str):
        changed = [value.strip(), value.lower(), value.upper(), value + " ", " " + value, ""]
        return [(repr(text), 0.15) for text in dict.fromkeys(changed) if text != value and len(text) < 60]
    return []


def constants_of(scope: Scope, value: object) -> list[ast.Constant]:
    """Constants of the same type in `scope`, at most thirty."""
    return scope.constants.get(type(value), [])[:30]


NUMERIC = (ast.Name, ast.Call, ast.BinOp, ast.Attribute, ast.Subscript)


def off_by_one(site: Site) -> Iterator[Edit]:
    """`e + 1` and `e - 1` where a number is asked for: index, slice, range, argument, comparison, result."""
    node, parent = site.node, site.parent
    if not isinstance(node, NUMERIC) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return
    weight = off_by_one_weight(node, parent)
    if weight:
        yield site.swap(node, f"{site.text()} + 1", "off-by-one", weight)
        yield site.swap(node, f"{site.text()} - 1", "off-by-one", weight)


def off_by_one_weight(node: ast.AST, parent: ast.AST | None) -> float:
    if isinstance(parent, ast.Slice) or (isinstance(parent, ast.Subscript) and parent.slice is node):
        return 0.7
    if isinstance(parent, ast.Call) and parent.func is not node:
        name = parent.func.id if isinstance(parent.func, ast.Name) else ""
        return 0.9 if name == "range" else 0.8
    if isinstance(parent, ast.BinOp):
        return 0.4
    if isinstance(parent, (ast.Compare, ast.Return, ast.Assign, ast.Tuple)):
        return 0.3
    return 0.0


OPERATORS = (comparisons, arithmetic, boolean, unary, constants, off_by_one)
