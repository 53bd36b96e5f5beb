"""Operators on control flow: handlers, guards with the file's conditions, filters, grouping, else parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentforge.search.operators.calls import starred
from agentforge.search.operators.shapes import atoms, is_condition, is_value
from agentforge.search.operators.site import Site, others
from agentforge.search.operators.statements import (
    block_of,
    insert,
    is_docstring,
    is_elif_or_else,
    lines_of,
)
from agentforge.search.source import FUNCTIONS, Edit

PLAIN = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
NOT_CAUGHT = ("AssertionError", "Failed", "SystemExit", "KeyboardInterrupt")


def handlers(site: Site) -> Iterator[Edit]:
    """`try` around a statement of the failure's traceback, with the exception that was seen there."""
    node = site.node
    if not isinstance(node, PLAIN) or is_docstring(node) or site.scope.function is None:
        return
    if (site.source.path, node.lineno) not in site.facts.places or "\n" in site.text(node):
        return
    span, indent, unit = lines_of(site, node), site.source.indent(node.lineno), site.source.unit
    if span is None:
        return
    whole = site.source.data[span[0] : span[1]].decode().strip()  # with the comment at its end
    looped = any(isinstance(up, (ast.For, ast.While)) for up in site.source.ancestors(node))
    actions = ["pass", "return None", *(["continue"] if looped else []), "return False", "return"]
    actions += [f"return {name}" for name in site.scope.parameters[:3]]
    if isinstance(node, ast.Assign):
        actions += [f"{site.text(node.targets[0])} = {value}" for value in ("None", "''", "0", "[]", "{}")]
    for error in others(errors_seen(site), *NOT_CAUGHT):
        for action in actions:
            lines = ["try:", unit + whole, f"except {error}:", unit + action]
            text = "".join(f"{indent}{line}{site.source.newline}" for line in lines)
            yield site.raw(*span, text, "handler", 0.3, node.lineno)


def seen_exceptions(site: Site) -> Iterator[Edit]:
    """The exception that the failing test saw is caught here too."""
    node = site.node
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return
    parts = [site.text(e) for e in node.type.elts] if isinstance(node.type, ast.Tuple) else None
    present = parts if parts is not None else [site.text(node.type)]
    for error in others(errors_seen(site), *NOT_CAUGHT, *present):
        yield site.swap(node.type, f"({', '.join([*present, error])})", "exception", 0.9)
        yield site.swap(node.type, error, "exception", 0.4)
    for error in others(site.file_scope.caught, *present):
        yield site.swap(node.type, f"({', '.join([*present, error])})", "exception", 0.3)


def errors_seen(site: Site) -> list[str]:
    """The failures' exceptions as this file can name them: bare, or as a member of an imported module."""
    found: list[str] = []
    for name in dict.fromkeys(site.facts.exceptions):
        dotted = [text for text in site.file_scope.dotted_classes if text.endswith(f".{name}")]
        found.extend(dotted[:1] or [name])
    return found


def early_returns(site: Site) -> Iterator[Edit]:
    """A guard whose condition is seen in the file or asks for an attribute, with `return` or `raise`."""
    node, function = site.node, site.scope.function
    if not isinstance(node, ast.stmt) or function is None or node not in function.body:
        return
    span = lines_of(site, node)
    if span is None or is_docstring(node) or is_elif_or_else(site, node):
        return
    indent, unit = site.source.indent(node.lineno), site.source.unit
    for test, weight in guard_tests(site):
        for action in guard_results(site):
            text = f"if {test}:\n{unit}{action}"
            yield insert(site, span[0], node.lineno, indent, text, "guard", weight)


def guard_tests(site: Site) -> Iterator[tuple[str, float]]:
    scope = site.scope
    for text in scope.attributes[:5]:
        yield f"not {text}", 0.1
        yield f"{text} is None", 0.1
        yield f"{text} == 0", 0.05
        yield text, 0.06
    for name in others(scope.parameters[:4], "self", "cls"):
        yield f"{name} == ''", 0.05
        yield name, 0.04
        for kind in site.file_scope.tested_types[:4]:
            yield f"isinstance({name}, {kind})", 0.08
            yield f"not isinstance({name}, {kind})", 0.08


def guard_results(site: Site) -> list[str]:
    scope = site.scope
    returns = [t for t in scope.simple_statements if t.startswith(("return", "raise"))]
    bound = [f"return {name}" for name in scope.parameters[:2] if name != "cls"]
    return list(dict.fromkeys([*returns[:3], "return None", *bound, "return False", "return True"]))


def only_if(site: Site) -> Iterator[Edit]:
    """A statement made to depend on a test of what it reads: `if x is not None: x.close()`."""
    node = site.node
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)) or is_docstring(node):
        return
    span, indent = lines_of(site, node), site.source.indent(node.lineno)
    if span is None or site.scope.function is None or "\n" in site.text():
        return
    whole = site.source.data[span[0] : span[1]].decode().strip()
    for test, weight in statement_tests(site):
        lines = [f"if {test}:", site.source.unit + whole]
        text = "".join(f"{indent}{line}{site.source.newline}" for line in lines)
        yield site.raw(*span, text, "only-if", weight, node.lineno)


def statement_tests(site: Site) -> Iterator[tuple[str, float]]:
    """Tests of the values a statement reads first, then of those in scope."""
    reads = [n for n in ast.walk(site.node) if isinstance(n, (ast.Name, ast.Attribute))]
    texts = dict.fromkeys(site.text(n) for n in reads if isinstance(n.ctx, ast.Load))
    near = [text for text in texts if text in site.scope.values]
    for name in dict.fromkeys([*near, *site.scope.values[:6]]):
        weight = 0.25 if name in near else 0.1
        yield name, weight
        yield f"{name} is not None", weight
        yield f"not {name}", weight / 2
        yield f"{name} is None", weight / 3
    for compared in list(dict.fromkeys(site.scope.comparisons))[:6]:
        yield compared, 0.08


def normalise(site: Site) -> Iterator[Edit]:
    """A parameter brought into shape before it is used: `x = x.strip()`, `x = list(x)`."""
    node, function = site.node, site.scope.function
    if not isinstance(node, ast.stmt) or function is None or node not in function.body:
        return
    span, indent = lines_of(site, node), site.source.indent(node.lineno)
    if span is None or is_docstring(node) or is_elif_or_else(site, node):
        return
    shapes = (
        "{}.strip()",
        "[i.strip() for i in {}]",
        "list({})",
        "str({})",
        "{}.lower()",
        "tuple({})",
        "int({})",
        "{}.copy()",
        "dict({})",
    )
    callees = [f"{callee}({{}})" for callee in site.file_scope.one_argument_callees[:8]]
    for name in others(site.scope.parameters[:5], "self", "cls"):
        for shape in dict.fromkeys([*shapes, *callees]):
            text = f"{name} = {shape.format(name)}"
            yield insert(site, span[0], node.lineno, indent, text, "normalise", 0.1)


def super_calls(site: Site) -> Iterator[Edit]:
    """The same method of the base class called first or last."""
    node, function, owner = site.node, site.scope.function, site.source.class_of(site.node)
    if not isinstance(node, ast.stmt) or function is None or owner is None or node not in function.body:
        return
    span, indent = lines_of(site, node), site.source.indent(node.lineno)
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    if span is None or site.source.parents.get(function) is not owner or node not in (body[:1] + body[-1:]):
        return
    if not owner.bases or is_elif_or_else(site, node):
        return
    plain = [a.arg for a in function.args.args[1:]]
    passed = ", ".join([*plain, *(f"{a.arg}={a.arg}" for a in function.args.kwonlyargs), *starred(site)])
    at = span[0] if node is body[0] else span[1]
    for arguments in dict.fromkeys([passed, ", ".join(starred(site)), ""]):
        text = f"super().{function.name}({arguments})"
        yield insert(site, at, node.lineno, indent, text, "super-call", 0.12)


def raised(site: Site) -> Iterator[Edit]:
    """An exception that is only returned or made is raised."""
    node = site.node
    made = node.value if isinstance(node, (ast.Return, ast.Expr)) else None
    if isinstance(made, ast.Call):
        name = site.text(made.func).rpartition(".")[2]
        if name.endswith(("Error", "Exception")):
            yield site.swap(node, f"raise {site.text(made)}", "raise", 0.8)


def filters(site: Site) -> Iterator[Edit]:
    """A comprehension's condition added or dropped."""
    node = site.node
    if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    loop = node.generators[-1]
    end = site.source.span(loop.ifs[-1] if loop.ifs else loop.iter)[1]
    while site.source.data[end : end + 1] == b")" and parens(site, loop, end):
        end += 1
    targets = [site.text(n) for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    for name in targets:
        for test in (
            name,
            f"not {name}",
            f"{name} is not None",
            f"{name}.strip()",
            f"isinstance({name}, str)",
        ):
            word = " and " if loop.ifs else " if "
            yield site.raw(end, end, word + test, "filter", 0.2, node.lineno)
    begin = site.source.span(loop.iter)[1]
    if loop.ifs and b"\n" not in site.source.data[begin:end]:
        at = site.source.data.find(b"if", begin, end)
        if at >= 0:
            yield site.raw(at, end, "", "filter", 0.25, node.lineno)


def parens(site: Site, loop: ast.comprehension, end: int) -> bool:
    """Whether the bracket at `end` closes one that opened inside the comprehension's last part."""
    first = loop.ifs[-1] if loop.ifs else loop.iter
    start = site.source.span(first)[0]
    return site.source.data[:start].rstrip().endswith(b"(") and not isinstance(first, ast.Tuple)


def choices(site: Site) -> Iterator[Edit]:
    """`e if test else other`, and `e and e.attribute`: a value where the usual one is missing."""
    node = site.node
    if not is_value(site) or not isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.Name)):
        return
    if not isinstance(site.parent, (ast.Return, ast.Assign, ast.keyword, ast.Call)):
        return
    text = site.text()
    bases = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)) and n is not node]
    names = [t for t in dict.fromkeys(site.text(n) for n in bases) if t in site.scope.values]
    for name in names[:3]:
        for other in ("None", "''", "[]", name):
            yield site.swap(node, f"{text} if {name} else {other}", "choice", 0.15)
            if other != name:
                test = f"{text} if {name} is not None else {other}"
                yield site.swap(node, test, "choice", 0.12)
        yield site.swap(node, f"{name} and {text}", "choice", 0.1)
    for name in site.scope.values[:6]:
        if name != text:
            yield site.swap(node, f"{text} or {name}", "choice", 0.12)
    if isinstance(node, (ast.Name, ast.Attribute)):
        for other in ("()", "[]", "''", "0", "{}"):
            yield site.swap(node, f"{text} if {text} is not None else {other}", "choice", 0.06)
    for part in unwrapped(site):
        for test in (f"{part} is None", f"not {part}", f"isinstance({part}, str)"):
            yield site.swap(node, f"{part} if {test} else {text}", "choice", 0.15)


def unwrapped(site: Site) -> list[str]:
    """What a call makes its value of: the one argument, or what the method is called on."""
    node = site.node
    if not isinstance(node, ast.Call):
        return []
    parts: list[ast.expr] = [node.args[0]] if len(node.args) == 1 else []
    if isinstance(node.func, ast.Attribute) and not node.args:
        parts.append(node.func.value)
    return [site.text(p) for p in parts if isinstance(p, (ast.Name, ast.Attribute))]


def strong_conditions(site: Site) -> Iterator[Edit]:
    """A condition joined with a type test, or with a test of what the condition itself reads."""
    node = site.node
    if not isinstance(node, ast.expr) or not is_condition(site):
        return
    text = site.text()
    loose = isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
    left = f"({text})" if loose else text
    reads = [site.text(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
    names = [t for t in dict.fromkeys(reads) if t in site.scope.values][:4]
    tests = [f"{word}({name})" for name in names for word in ("any", "all")]
    tests += [f"len({name}) > 1" for name in names]
    tests += [f"hasattr({name}, {attr!r})" for name in names for attr in site.file_scope.attributes_of(name)]
    kinds = [*site.file_scope.tested_types[:6], "str"]
    typed = dict.fromkeys([*names, *site.scope.locals[:4]])
    tests += [f"isinstance({name}, {kind})" for name in typed for kind in dict.fromkeys(kinds)]
    for test in tests:
        yield site.swap(node, f"{left} and {test}", "strengthen", 0.15)
        yield site.swap(node, f"{left} and not {test}", "strengthen", 0.15)
        yield site.swap(node, f"{text} or {test}", "weaken", 0.1)


def inner_conditions(site: Site) -> Iterator[Edit]:
    """One operand of `and` or `or` negated, joined with an atom before or after it, or replaced by one."""
    node, parent = site.node, site.parent
    if not isinstance(parent, ast.BoolOp) or not isinstance(node, ast.expr):
        return
    text = site.text()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield site.swap(node, site.text(node.operand), "negate-condition", 0.3)
    else:
        yield site.swap(node, f"not {site.operand(node)}", "negate-condition", 0.3)
    word = "and" if isinstance(parent.op, ast.And) else "or"
    for atom, weight in atoms(site):
        if atom in text and len(atom) > 3:
            weight *= 1.3
        for joined in (f"{text} {word} {atom}", f"{atom} {word} {text}"):
            yield site.raw(*site.source.span(node), joined, "strengthen", 0.5 * weight, node.lineno)
        other = "or" if word == "and" else "and"
        yield site.swap(node, f"({text} {other} {atom})", "weaken", 0.4 * weight)
        share = (
            1.0
            if text.startswith((f"{atom.partition(' is ')[0]} ", f"{atom.partition(' is ')[0]}."))
            else 0.4
        )
        yield site.swap(node, f"({atom} {other} {text})", "weaken", share * weight)
        if atom != text:
            yield site.swap(node, atom, "condition", 0.3 * weight)


def regroup(site: Site) -> Iterator[Edit]:
    """Brackets elsewhere: `a op (b op c)` for `(a op b) op c` and back."""
    node = site.node
    if isinstance(node, ast.BinOp) and not any(c in site.text() for c in "\n#"):
        ops = site.source
        for inner, first in ((node.left, True), (node.right, False)):
            if not isinstance(inner, ast.BinOp):
                continue
            a, b, c = (inner.left, inner.right, node.right) if first else (node.left, inner.left, inner.right)
            one, two = (inner, node) if first else (node, inner)
            x, y = token_of(site, one), token_of(site, two)
            if not x or not y:
                continue
            parts = [f"({ops.text(n)})" if isinstance(n, ast.BinOp) else ops.text(n) for n in (a, b, c)]
            text = (
                f"{parts[0]} {x} ({parts[1]} {y} {parts[2]})"
                if first
                else f"({parts[0]} {x} {parts[1]}) {y} {parts[2]}"
            )
            yield site.swap(node, f"({text})" if isinstance(site.parent, ast.BinOp) else text, "regroup", 0.3)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and "\n" not in site.text():
        last = node.values[-1]
        if isinstance(last, ast.BoolOp):
            head = " or ".join(site.text(v) for v in [*node.values[:-1], last.values[0]])
            tail = " and ".join(site.text(v) for v in last.values[1:])
            yield site.swap(node, f"({head}) and {tail}", "regroup", 0.3)
        first_part = node.values[0]
        if isinstance(first_part, ast.BoolOp):
            head = " and ".join(site.text(v) for v in first_part.values[:-1])
            tail = " or ".join(site.text(v) for v in [first_part.values[-1], *node.values[1:]])
            yield site.swap(node, f"{head} and ({tail})", "regroup", 0.3)


def token_of(site: Site, node: ast.BinOp) -> str:
    """The operator between the operands, "" where brackets or comments stand there too."""
    gap = site.source.data[site.source.span(node.left)[1] : site.source.span(node.right)[0]]
    return gap.decode().strip(" ()\t")


def missing_ends(site: Site) -> Iterator[Edit]:
    """`return` of a local at the end of a function or branch that ends without, or with, a bare one."""
    node = site.node
    if not isinstance(node, ast.stmt) or site.scope.function is None:
        return
    if isinstance(node, ast.Return) and node.value is None:
        for name in [*site.scope.values[:8], "False", "True", "[]"]:
            yield site.swap(node, f"return {name}", "return", 0.2)
        return
    span = lines_of(site, node)
    if span is None or block_of(site, node)[-1] is not node or isinstance(node, (ast.Return, ast.Raise)):
        return
    if isinstance(site.parent, FUNCTIONS) and not isinstance(node, ast.Pass):
        indent = site.source.indent(node.lineno)
        at = site.source.line_start((node.end_lineno or 0) + 1)
        for name in dict.fromkeys(["self", "None", "False", "True", *site.scope.values[:10]]):
            if name != "self" or "self" in site.scope.parameters:
                yield insert(site, at, node.lineno, indent, f"return {name}", "return", 0.15)


OPERATORS = (
    handlers,
    seen_exceptions,
    early_returns,
    only_if,
    normalise,
    super_calls,
    raised,
    filters,
    choices,
    strong_conditions,
    inner_conditions,
    regroup,
    missing_ends,
)
