"""Operators on names, attributes, calls and whole expressions."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from functools import lru_cache

from agentforge.search.operators.site import Site, others
from agentforge.search.source import Edit

FAMILIES = (
    ("max", "min", "sum"),
    ("any", "all"),
    ("sorted", "reversed", "list"),
    ("int", "float", "round", "abs"),
    ("str", "repr", "ascii"),
    ("list", "tuple", "set", "frozenset", "dict", "sorted"),
    ("isinstance", "issubclass"),
    ("ceil", "floor", "trunc", "round"),
    ("append", "extend", "add", "update", "insert", "appendleft", "extendleft", "setdefault"),
    ("pop", "popleft", "popitem", "remove", "discard", "get"),
    ("strip", "lstrip", "rstrip"),
    ("startswith", "endswith"),
    ("find", "rfind", "index", "rindex"),
    ("split", "rsplit", "partition", "rpartition", "splitlines"),
    ("lower", "upper", "casefold", "title", "capitalize", "swapcase"),
    ("keys", "values", "items"),
    ("match", "search", "fullmatch", "findall", "finditer"),
    ("isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum"),
    ("union", "intersection", "difference", "symmetric_difference", "update"),
    ("issubset", "issuperset", "isdisjoint"),
    ("ljust", "rjust", "center", "zfill"),
    ("group", "groups"),
    ("getattr", "hasattr"),
    ("read", "readline", "readlines"),
    ("total_seconds", "seconds", "days"),
    ("heappush", "heappop", "heappushpop", "heapreplace"),
    ("bisect", "bisect_left", "bisect_right"),
    ("product", "permutations", "combinations", "combinations_with_replacement"),
)


def family(name: str) -> list[str]:
    return list(
        dict.fromkeys(other for group in FAMILIES if name in group for other in group if other != name)
    )


def names(site: Site) -> Iterator[Edit]:
    """Another name in scope: a value for a value, a callable of the file for a callable."""
    node = site.node
    if not isinstance(node, ast.Name):
        return
    if isinstance(site.parent, ast.Call) and site.parent.func is node:
        yield from callables(site, node)
        return
    if isinstance(node.ctx, ast.Del):
        return
    load = isinstance(node.ctx, ast.Load)
    choices = list(others(site.scope.values if load else site.scope.locals, node.id))
    beside = siblings(site)
    for name in choices:
        weight = 0.6 if len(choices) < 6 else 0.4
        weight *= 1.5 if name in site.scope.unused_parameters else 1.0
        weight *= (0.7 if "." in name else 1.0) * (1.0 if load else 0.3) * (0.3 if name in beside else 1.0)
        yield site.swap(node, name, "name", weight)


def siblings(site: Site) -> frozenset[str]:
    """The other operands, arguments or elements beside the node: `f(x, x)` and `x < x` are unusual."""
    parent = site.parent
    if isinstance(parent, (ast.Call, ast.Tuple, ast.BinOp, ast.Compare, ast.Assign)):
        parts = [child for child in ast.iter_child_nodes(parent) if isinstance(child, ast.expr)]
        return frozenset(site.source.text(part) for part in parts if part is not site.node)
    return frozenset()


def callables(site: Site, node: ast.Name) -> Iterator[Edit]:
    for name in family(node.id):
        yield site.swap(node, name, "callable", 0.8)
    called = site.file_scope.called_names
    mine = [name for name in site.file_scope.module_names if name in called or likeness(name, node.id) > 0.6]
    for name in others(list(dict.fromkeys([*mine, *called]))[:40], node.id, *family(node.id)):
        yield site.swap(node, name, "callable", 0.1 + 0.3 * likeness(name, node.id))


@lru_cache(maxsize=20_000)
def likeness(left: str, right: str) -> float:
    """How alike two names are, 0 to 1."""
    return difflib.SequenceMatcher(None, left, right).ratio()


def attributes(site: Site) -> Iterator[Edit]:
    """Another attribute or method of the same kind, from the same family, class or file."""
    node = site.node
    if not isinstance(node, ast.Attribute):
        return
    start = site.source.span(node)[1] - len(node.attr.encode())
    end = site.source.span(node)[1]
    called = isinstance(site.parent, ast.Call) and site.parent.func is node
    for name in family(node.attr):
        yield site.raw(start, end, name, "method", 0.7, node.lineno)
    plain = node.attr.strip("_")
    for name in others((f"_{plain}", plain), node.attr) if not node.attr.startswith("__") else ():
        yield site.raw(start, end, name, "attribute", 0.15, node.lineno)
    for name in others(seen_attributes(site, called), node.attr, *family(node.attr)):
        weight = 0.2 + 0.5 * likeness(name, node.attr) ** 2
        yield site.raw(start, end, name, "attribute", weight, node.lineno)


def seen_attributes(site: Site, called: bool) -> list[str]:
    """Attribute names used in the file in the same way, and members of the class; at most forty."""
    used = site.file_scope.attribute_names[called]
    owner = site.source.class_of(site.node)
    members = [n.name for n in owner.body if isinstance(n, ast.FunctionDef)] if owner else []
    node = site.node
    assert isinstance(node, ast.Attribute)
    own = members if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") else []
    ranked = sorted(dict.fromkeys([*own, *used]), key=lambda name: -likeness(name, node.attr))
    return ranked[:40]


def arguments(site: Site) -> Iterator[Edit]:
    """Arguments swapped, dropped, added."""
    node = site.node
    if not isinstance(node, ast.Call):
        return
    args = node.args
    for i in range(len(args)):
        for j in range(i + 1, min(len(args), i + 4)):
            yield site.raw(*exchange(site, args[i], args[j]), "argument-swap", 0.6, node.lineno)
    every: list[ast.expr | ast.keyword] = [*args, *node.keywords]
    for index, argument in enumerate(every):
        kept = [site.text(a) for a in every if a is not argument]
        if len(every) > 1 or isinstance(node.func, ast.Attribute):
            weight = 0.3 if index else 0.2
            yield call_with(site, node, kept, "argument-drop", weight)
    yield from added_arguments(site, node, [site.text(a) for a in every])


def call_with(site: Site, node: ast.Call, arguments: list[str], operator: str, weight: float) -> Edit:
    text = f"{site.text(node.func)}({', '.join(arguments)})"
    return site.swap(node, text, operator, weight)


def exchange(site: Site, left: ast.expr, right: ast.expr) -> tuple[int, int, str]:
    """The span from `left` to `right` with the two exchanged and what lies between kept."""
    (start, left_end), (right_start, end) = site.source.span(left), site.source.span(right)
    between = site.source.data[left_end:right_start].decode()
    return start, end, site.text(right) + between + site.text(left)


def added_arguments(site: Site, node: ast.Call, present: list[str]) -> Iterator[Edit]:
    """A parameter of the called function of this file that is not given, from a name or constant."""
    positional = len(node.keywords) == 0 and len(node.args) < 4
    for name in missing_parameters(site, node):
        values = [name] if name in site.scope.values else []
        values += [f"self.{name}"] if f"self.{name}" in site.scope.attributes else []
        for value in values:
            yield call_with(site, node, [*present, f"{name}={value}"], "argument-add", 0.6)
        for value in ("True", "False", "None", "0", "1"):
            yield call_with(site, node, [*present, f"{name}={value}"], "argument-add", 0.15)
    for value in site.scope.values[:10] if positional else ():
        yield call_with(site, node, [*present, value], "argument-add", 0.08)
    for value in ("1", "0", "-1", "None", "''", "' '") if positional else ():
        yield call_with(site, node, [*present, value], "argument-add", 0.06)


def missing_parameters(site: Site, node: ast.Call) -> list[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    given = {k.arg for k in node.keywords}
    other = site.file_scope.functions.get(name)
    if other is None:
        return []
    bound = other.args.args[:1] and other.args.args[0].arg in ("self", "cls")
    wanted = [a.arg for a in other.args.args][len(node.args) + (1 if bound else 0) :]
    wanted += [a.arg for a in other.args.kwonlyargs]
    return [arg for arg in wanted if arg not in given]


def sequences(site: Site) -> Iterator[Edit]:
    """Elements of a tuple or list exchanged or dropped; branches of a conditional exchanged."""
    node = site.node
    if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) >= 2:
        for left, right in zip(node.elts, node.elts[1:], strict=False):
            yield site.raw(*exchange(site, left, right), "element-swap", 0.4, node.lineno)
    if isinstance(node, ast.List) and len(node.elts) >= 1 and isinstance(node.ctx, ast.Load):
        for element in node.elts:
            kept = [site.text(e) for e in node.elts if e is not element]
            yield site.swap(node, f"[{', '.join(kept)}]", "element-drop", 0.2)
    if isinstance(node, ast.List) and isinstance(node.ctx, ast.Load):
        for value in (*site.scope.values[:8], "[]", "0", "1"):
            present = [site.text(e) for e in node.elts]
            yield site.swap(node, f"[{', '.join([*present, value])}]", "element-add", 0.25)
    if isinstance(node, ast.IfExp):
        text = f"{site.text(node.orelse)} if {site.text(node.test)} else {site.text(node.body)}"
        yield site.swap(node, text, "branch-swap", 0.5)
        yield site.swap(node, site.text(node.body), "branch-drop", 0.2)
        yield site.swap(node, site.text(node.orelse), "branch-drop", 0.2)


def donors(site: Site) -> Iterator[Edit]:
    """A larger expression of the same function in place of this one, and a name in place of a call."""
    node = site.node
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Constant, ast.Slice, ast.Starred)):
        return
    if not site.scope.is_read_value(node) or isinstance(
        site.parent, (ast.Expr, ast.JoinedStr, ast.FormattedValue)
    ):
        return
    store = isinstance(getattr(node, "ctx", None), ast.Store)
    text = site.text()
    for donor in site.scope.donors[:40]:
        if store and not isinstance(donor, (ast.Subscript, ast.Attribute)):
            continue
        new = site.text(donor)
        if new != text and not overlaps(site, node, donor):
            same = type(donor) is type(node)
            yield site.swap(node, new, "donor-expression", 0.2 if same else 0.1)
    if not isinstance(node, ast.Name) and not store:
        for name in others(site.scope.values[:14], text):
            yield site.swap(node, name, "name-for-expression", 0.2)


def overlaps(site: Site, node: ast.expr, donor: ast.expr) -> bool:
    """Whether one is inside the other (unwrapping has an operator of its own)."""
    (a, b), (c, d) = site.source.span(node), site.source.span(donor)
    return (a <= c and d <= b) or (c <= a and b <= d)


OPERATORS = (names, attributes, arguments, sequences, donors)
