"""Operators that put something around an expression, take it away, or add a term to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentforge.search.operators.site import Site, others
from agentforge.search.source import Edit

WRAPPERS = {
    "len": 0.12,
    "abs": 0.12,
    "int": 0.15,
    "str": 0.15,
    "list": 0.15,
    "tuple": 0.15,
    "sorted": 0.12,
    "set": 0.1,
    "float": 0.08,
    "reversed": 0.04,
    "sum": 0.03,
    "iter": 0.03,
}
METHODS = ("strip()", "lower()", "upper()", "copy()", "items()", "keys()", "values()", "rstrip()", "lstrip()")
VALUE_PLACES = (ast.Return, ast.Assign, ast.Call, ast.AugAssign, ast.For, ast.comprehension, ast.Compare)
NON_VALUES = (ast.Constant, ast.Starred, ast.Slice, ast.JoinedStr, ast.Lambda)


def is_value(site: Site) -> bool:
    """Whether the node is an expression that is read and may be replaced by another value."""
    node = site.node
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Starred, ast.Slice, ast.FormattedValue)):
        return False
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) or "\n" in site.text():
        return False
    if isinstance(site.parent, ast.Call) and site.parent.func is node:
        return False
    return not isinstance(site.parent, (ast.JoinedStr, ast.FormattedValue, ast.Expr, ast.arguments))


def wrap(site: Site) -> Iterator[Edit]:
    """A conversion or a method call around a value."""
    node = site.node
    if not is_value(site) or isinstance(node, NON_VALUES) or not isinstance(site.parent, VALUE_PLACES):
        return
    text = site.text()
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    for wrapper in others(WRAPPERS, name):
        yield site.swap(node, f"{wrapper}({text})", "wrap", WRAPPERS[wrapper])
    for method in METHODS:
        yield site.swap(node, f"{site.operand(node)}.{method}", "wrap-method", 0.08)
    yield site.swap(node, f"[{text}]", "wrap-list", 0.15)
    yield site.swap(node, f"-{site.operand(node)}", "negate", 0.15)
    for default in ("[]", "''", "0", "{}", "()"):
        yield site.swap(node, f"{site.operand(node)} or {default}", "default", 0.06)


def powers(site: Site) -> Iterator[Edit]:
    """A number squared, doubled or halved."""
    node = site.node
    if not is_value(site) or not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return
    if isinstance(site.parent, (ast.BinOp, ast.Return, ast.Assign, ast.Call, ast.Compare)):
        for operator in ("** 2", "* 2", "// 2"):
            yield site.swap(node, f"{site.text()} {operator}", "power", 0.07)


def unwrap(site: Site) -> Iterator[Edit]:
    """An argument for its call, the base for a subscript or method call, one operand for an operation."""
    node = site.node
    if not is_value(site) and not isinstance(site.parent, ast.Expr):
        return
    if isinstance(node, ast.Call):
        for argument in node.args:
            if not isinstance(argument, (ast.Starred, ast.GeneratorExp)):
                yield site.swap(node, site.text(argument), "unwrap", 0.5)
        if isinstance(node.func, ast.Attribute):
            yield site.swap(node, site.text(node.func.value), "unwrap-method", 0.4)
    elif isinstance(node, (ast.Subscript, ast.Attribute)):
        yield site.swap(node, site.text(node.value), "unwrap", 0.25)
    elif isinstance(node, ast.BinOp):
        yield site.swap(node, site.text(node.left), "drop-term", 0.35)
        yield site.swap(node, site.text(node.right), "drop-term", 0.4)


def bounds(site: Site) -> Iterator[Edit]:
    """Values clamped or folded: `max(a, e)`, `min(a, e)` with names, 0, 1 and the assigned variable."""
    node = site.node
    if not is_value(site) or isinstance(node, NON_VALUES):
        return
    if not isinstance(
        site.parent, (ast.Return, ast.Assign, ast.Call, ast.AugAssign, ast.Slice, ast.Subscript)
    ):
        return
    target = ""
    if isinstance(site.parent, ast.Assign) and isinstance(site.parent.targets[0], (ast.Name, ast.Subscript)):
        target = site.text(site.parent.targets[0])
    for name in dict.fromkeys([target, "0", "1", *site.scope.locals[:8]]):
        if name and name != site.text():
            weight = 0.5 if name == target else 0.25 if name == "0" else 0.1 if name == "1" else 0.06
            yield site.swap(node, f"max({name}, {site.text()})", "clamp", weight)
            yield site.swap(node, f"min({name}, {site.text()})", "clamp", weight)


def terms(site: Site) -> Iterator[Edit]:
    """A term added: `e + name`, `e - name`, `name + e`, `e * name`, `e[name]`."""
    node = site.node
    if not is_value(site) or (isinstance(node, ast.Constant) and type(node.value) is not int):
        return
    if not isinstance(
        site.parent, (ast.Return, ast.Assign, ast.Call, ast.Subscript, ast.Slice, ast.BinOp, ast.Compare)
    ):
        return
    text = site.operand(node)
    for name in others(site.scope.values[:10], site.text()):
        weight = 0.12 if not isinstance(site.parent, (ast.BinOp, ast.Compare)) else 0.05
        for operator in ("-", "+"):
            yield site.swap(node, f"{text} {operator} {name}", "add-term", weight)
        yield site.swap(node, f"{name} + {text}", "add-term", weight)
        yield site.swap(node, f"{text} * {name}", "add-term", weight / 2)


def slices(site: Site) -> Iterator[Edit]:
    """A slice added to a sequence, its bounds dropped; the subscript of one name given to another."""
    node = site.node
    if isinstance(node, ast.Slice) and isinstance(site.parent, ast.Subscript):
        yield from slice_bounds(site, node)
    if not is_value(site) or not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        return
    if isinstance(site.parent, (ast.Subscript, ast.Attribute)):
        return
    text = site.text()
    used = [f"[{site.source.text(n.slice)}]" for n in site.scope.nodes if isinstance(n, ast.Subscript)]
    for subscript in list(dict.fromkeys(used))[:6]:
        yield site.swap(node, text + subscript, "subscript", 0.3)
    for subscript in others(("[1:]", "[:-1]", "[0]", "[-1]", "[::-1]", "[:]"), *used):
        yield site.swap(node, text + subscript, "subscript", 0.12)
    for name in site.scope.locals[:8]:
        if name != text:
            yield site.swap(node, f"{text}[{name}:]", "subscript", 0.12)
            yield site.swap(node, f"{text}[:{name}]", "subscript", 0.12)
            yield site.swap(node, f"{text}[{name}]", "subscript", 0.06)


def slice_bounds(site: Site, node: ast.Slice) -> Iterator[Edit]:
    low, high = (site.text(e) if e else "" for e in (node.lower, node.upper))
    step = f":{site.text(node.step)}" if node.step else ""
    choices = [("", high, step), (low, "", step), (low, high, ""), (high, low, step), (low, high, ":-1")]
    if not low:
        choices += [("1", high, step)]
    if not high:
        choices += [(low, "-1", step)] + [(low, name, step) for name in site.scope.locals[:8]]
    for lower, upper, pace in choices:
        yield site.swap(node, f"{lower}:{upper}{pace}", "slice", 0.3)


def conditions(site: Site) -> Iterator[Edit]:
    """A condition negated, strengthened, weakened or replaced by an atom in scope."""
    node = site.node
    if not isinstance(node, ast.expr) or not is_condition(site):
        return
    text = site.text()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield site.swap(node, site.text(node.operand), "negate-condition", 0.5)
    else:
        inner = f"({text})" if isinstance(node, (ast.Compare, ast.BoolOp, ast.BinOp, ast.IfExp)) else text
        yield site.swap(node, f"not {inner}", "negate-condition", 0.4)
    for atom, weight in atoms(site):
        if atom == text:
            continue
        left = f"({text})" if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else text
        yield site.swap(node, f"{text} or {atom}", "weaken", weight)
        yield site.swap(node, f"{left} and {atom}", "strengthen", weight)
        yield site.swap(node, f"{atom} or {text}", "weaken", weight * (1.0 if guards(atom, text) else 0.5))
        yield site.swap(
            node, f"{atom} and {left}", "strengthen", weight * (1.0 if guards(atom, text) else 0.5)
        )
        yield site.swap(node, atom, "condition", weight)
    yield site.swap(node, "True", "condition", 0.1)
    yield site.swap(node, "False", "condition", 0.2)


def is_condition(site: Site) -> bool:
    parent, node = site.parent, site.node
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, ast.comprehension):
        return any(node is condition for condition in parent.ifs)
    return False


def guards(atom: str, text: str) -> bool:
    """Whether `atom` speaks of something `text` dereferences."""
    base = atom.removeprefix("not ").partition(" is ")[0]
    return f"{base}." in text or f"{base}[" in text


def atoms(site: Site) -> Iterator[tuple[str, float]]:
    """Truth, emptiness and None tests of what is in scope, then conditions seen in the function."""
    text = site.text()
    for name in site.scope.values[:10]:
        weight = 0.4 if guards(name, text) else 0.25
        yield name, weight
        yield f"not {name}", weight
        yield f"{name} is None", weight * 0.9
        yield f"{name} is not None", weight * 0.9
    seen = [site.source.text(n) for n in site.scope.nodes if isinstance(n, ast.Compare)]
    for condition in list(dict.fromkeys(seen))[:12]:
        if "\n" not in condition and condition not in text:
            yield condition, 0.15
    for name in site.scope.locals[:8]:
        for compared in (f"{name} == 0", f"{name} > 0"):
            yield compared, 0.06


def results(site: Site) -> Iterator[Edit]:
    """Another result: a truth test, a name, an empty or singleton container, the negation."""
    node, parent = site.node, site.parent
    if not isinstance(parent, ast.Return) or not isinstance(node, ast.expr):
        return
    text = site.text()
    inner = f"({text})" if isinstance(node, (ast.BoolOp, ast.Compare)) else text
    yield site.swap(node, f"not {inner}", "result", 0.3)
    truth = isinstance(node, (ast.Compare, ast.BoolOp)) or text in ("True", "False")
    for name in site.scope.values[:12]:
        yield site.swap(node, name, "result", 0.3)
        for form in (f"[{name}]", f"not {name}", f"{name} is None", f"{name} is not None", f"({name},)"):
            yield site.swap(node, form, "result", 0.12)
        for form in (f"{name} == 0", f"{name} != 0", f"{name} > 0", f"len({name}) == 0", f"bool({name})"):
            yield site.swap(node, form, "result", 0.3 if truth else 0.04)
        if truth:
            yield site.swap(node, f"{inner} and {name}", "result", 0.15)
            yield site.swap(node, f"{inner} and not {name}", "result", 0.15)
            yield site.swap(node, f"{inner} or {name}", "result", 0.15)
    for form in ("None", "[]", "[[]]", "()", "{}", "''", "0", "1", "-1", "True", "False"):
        yield site.swap(node, form, "result", 0.15)


OPERATORS = (wrap, powers, unwrap, bounds, terms, slices, conditions, results)
