"""Operators on calls and types: keywords, defaults, safe lookups, wrappers of the file, isinstance."""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Iterator, Mapping

from agentforge.search.operators.names import call_with, likeness
from agentforge.search.operators.shapes import VALUE_PLACES, is_value
from agentforge.search.operators.site import Site, others
from agentforge.search.source import Edit

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "max": ("default=None", "default=0", "key=len"),
    "min": ("default=None", "default=0", "key=len"),
    "sorted": ("key=str", "reverse=True", "key=len"),
    "sort": ("key=str", "reverse=True"),
    "open": ("'rb'", "'wb'", "mode='rb'", "encoding='utf-8'", "newline=''", "errors='replace'"),
    "decode": ("errors='replace'", "errors='ignore'", "'utf-8'"),
    "encode": ("errors='replace'", "errors='ignore'", "'utf-8'"),
    "enumerate": ("start=1",),
    "next": ("None",),
    "pop": ("None",),
    "get": ("None", "''", "{}", "[]", "0", "False"),
    "getattr": ("None",),
    "sum": ("0.0", "[]"),
    "round": ("0",),
    "split": ("1", "maxsplit=1", "None, 1"),
    "rsplit": ("1", "maxsplit=1", "None, 1"),
    "replace": ("1",),
    "sub": ("count=1",),
    "dumps": ("ensure_ascii=False", "sort_keys=True", "default=str"),
    "dump": ("ensure_ascii=False", "sort_keys=True", "default=str"),
    "zip": ("strict=False", "strict=True"),
    "makedirs": ("exist_ok=True",),
    "mkdir": ("exist_ok=True", "parents=True"),
    "print": ("end=''", "flush=True"),
    "urlsplit": ("allow_fragments=False",),
    "warn": ("stacklevel=2",),
    **dict.fromkeys(
        ("compile", "match", "search", "fullmatch", "findall", "finditer"),
        ("re.DOTALL", "re.IGNORECASE", "re.MULTILINE", "re.VERBOSE", "re.ASCII", "re.UNICODE"),
    ),
}
"""Arguments that well-known callables of the standard library take and that are easily forgotten."""

LOOKUP_DEFAULTS = ("", "None", "[]", "''", "{}", "0", "False")


def callee(node: ast.Call) -> str:
    """The last part of the called name."""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def options(site: Site) -> Iterator[Edit]:
    """An optional argument given: of the standard library, or as other calls of the file give it."""
    node = site.node
    if not isinstance(node, ast.Call):
        return
    name, present = callee(node), [*map(site.text, node.args), *map(site.text, node.keywords)]
    given = {k.arg for k in node.keywords}
    for option in OPTIONS.get(name, ()):
        if option not in present and option.partition("=")[0] not in given:
            yield call_with(site, node, [*present, option], "option", 0.3)
    passed = [text for text in starred(site) if text not in present]
    for text in [*passed, ", ".join(passed)] if passed else ():
        yield call_with(site, node, [*present, text], "option", 0.3)
    for call in site.file_scope.calls:
        if call is not node and callee(call) == name:
            for keyword in call.keywords:
                text = site.text(keyword)
                if keyword.arg and keyword.arg not in given and "\n" not in text:
                    yield call_with(site, node, [*present, text], "option", 0.25)


def file_keywords(site: Site) -> Iterator[Edit]:
    """A switch that this file gives to other calls, given to this one: `copy=False`."""
    node = site.node
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return
    given = {k.arg for k in node.keywords}
    present = [*map(site.text, node.args), *map(site.text, node.keywords)]
    for name in others(site.file_scope.switches, *(arg for arg in given if arg)):
        for value in ("True", "False"):
            yield call_with(site, node, [*present, f"{name}={value}"], "option", 0.07)


def starred(site: Site) -> Iterator[str]:
    """`*args` and `**kwargs` as the function around takes them."""
    function = site.scope.function
    if function and function.args.vararg:
        yield f"*{function.args.vararg.arg}"
    if function and function.args.kwarg:
        yield f"**{function.args.kwarg.arg}"


def keyword_values(site: Site) -> Iterator[Edit]:
    """The value of a keyword argument: another name in scope; the keyword itself: one like it."""
    node = site.node
    if not isinstance(node, ast.keyword) or node.arg is None:
        return
    start = site.source.span(node)[0]
    names = {k.arg for call in site.file_scope.calls for k in call.keywords if k.arg}
    for name in sorted(names - {node.arg}, key=lambda n: (-likeness(n, node.arg or ""), n))[:6]:
        weight = 0.3 * likeness(name, node.arg)
        yield site.raw(start, start + len(node.arg.encode()), name, "keyword-name", weight, node.lineno)
    if node.arg in site.scope.locals and site.text(node.value) != node.arg:
        yield site.swap(node.value, node.arg, "keyword-value", 0.5)


def lookups(site: Site) -> Iterator[Edit]:
    """`d[k]` as `d.get(k)` and back, `x.a` as `getattr(x, 'a', default)`."""
    node = site.node
    if not isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)) or not is_value(site):
        return
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        base, key = site.operand(node.value), site.text(node.slice)
        for default in LOOKUP_DEFAULTS:
            yield site.swap(node, f"{base}.get({', '.join(filter(None, (key, default)))})", "lookup", 0.2)
    elif isinstance(node, ast.Attribute):
        for default in LOOKUP_DEFAULTS[1:]:
            text = f"getattr({site.text(node.value)}, {node.attr!r}, {default})"
            yield site.swap(node, text, "lookup", 0.12 if default == "None" else 0.06)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        base = site.operand(node.func.value)
        if node.args:
            yield site.swap(node, f"{base}[{site.text(node.args[0])}]", "lookup", 0.2)
        if len(node.args) == 1 and not node.keywords:
            for default in LOOKUP_DEFAULTS[1:]:
                yield site.swap(node, f"{site.text(node)} or {default}", "default", 0.15)


def file_wrappers(site: Site) -> Iterator[Edit]:
    """A value passed through what this file calls with one argument; such a callee exchanged."""
    node, scope = site.node, site.file_scope
    near = dict.fromkeys(site.scope.one_argument_callees, 0.18)
    choices = {text: near.get(text, 0.1) for text in scope.one_argument_callees}
    if "re" in scope.module_names:
        choices.setdefault("re.escape", 0.12)
    bound = site.scope.parameters[:1]
    usable = {
        text: weight
        for text, weight in choices.items()
        if "." not in text or text.partition(".")[0] in (*bound, *scope.module_names, *site.scope.locals)
    }
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        own = site.text(node.func)
        for text, weight in usable.items():
            if text != own:
                yield site.swap(node.func, text, "callee", 1.5 * weight)
    if is_value(site) and not isinstance(node, (ast.Starred, ast.Lambda)):
        if not isinstance(site.parent, (*VALUE_PLACES, ast.BinOp, ast.Tuple, ast.List, ast.keyword)):
            return
        for text, weight in usable.items():
            yield site.swap(node, f"{text}({site.text()})", "wrap", weight)


def types_asked(site: Site) -> Iterator[Edit]:
    """`isinstance` with one type more, less or another; a membership test for an equality."""
    node = site.node
    if isinstance(node, ast.Call) and callee(node) in ("isinstance", "issubclass") and len(node.args) == 2:
        yield from type_edits(site, node.args[1])
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        yield from membership(site, node)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and isinstance(site.parent, ast.Compare):
        yield from members(site, node)


def called(site: Site) -> Iterator[Edit]:
    """A callable called where it is only named, and named where it is called; a constant for a value."""
    node = site.node
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)) or not is_value(site):
        return
    text = site.text()
    if isinstance(node, ast.Call):
        if not node.args and not node.keywords:
            yield site.swap(node, site.text(node.func), "call", 0.2)
    elif isinstance(node, ast.Name) and node.id in ("super", "dict", "list", "set", "object"):
        yield site.swap(node, f"{text}()", "call", 0.8)
    else:
        name = node.id if isinstance(node, ast.Name) else node.attr
        seen = name in site.file_scope.attribute_names[True] or name in site.file_scope.called_names
        yield site.swap(node, f"{text}()", "call", 0.4 if seen or name in site.file_scope.functions else 0.08)
    if isinstance(site.parent, (ast.keyword, ast.Call, ast.Assign)) and not isinstance(node, ast.Name):
        for constant in ("None", "True", "False", "''", "[]", "0", "1"):
            yield site.swap(node, constant, "constant-for-expression", 0.08)


def members_of(site: Site) -> Iterator[Edit]:
    """A member of the value in its place: what the file reads of such values, or calls without arguments."""
    node = site.node
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or not is_value(site):
        return
    places = (
        ast.Return,
        ast.Assign,
        ast.Call,
        ast.For,
        ast.comprehension,
        ast.Compare,
        ast.BinOp,
        ast.keyword,
    )
    if not isinstance(site.parent, places):
        return
    text = site.text()
    of_name = site.file_scope.attributes_of(node.id) if isinstance(node, ast.Name) else []
    for attribute in dict.fromkeys([*of_name, *site.scope.attribute_names[False][:10]]):
        yield site.swap(node, f"{text}.{attribute}", "member", 0.2 if attribute in of_name else 0.08)
    for method in site.file_scope.bare_methods[:16]:
        yield site.swap(node, f"{text}.{method}()", "member", 0.1)


STANDARD = frozenset(
    [
        "re",
        "os",
        "codecs",
        "string",
        "math",
        "itertools",
        "functools",
        "collections",
        "datetime",
        "json",
        "sys",
        "time",
        "inspect",
        "operator",
        "types",
        "copy",
        "random",
        "textwrap",
        "decimal",
        "struct",
        "calendar",
        "locale",
        "unicodedata",
        "html",
        "shutil",
    ]
)
"""Modules of the standard library whose members may be looked up here: importing them does nothing."""


def module_members(site: Site) -> Iterator[Edit]:
    """Another member, with a like name, of the standard library's module."""
    node = site.node
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return
    if node.value.id not in STANDARD or node.value.id not in site.file_scope.module_names:
        return
    names = [n for n in dir(importlib.import_module(node.value.id)) if not n.startswith("_")]
    near = sorted(names, key=lambda name: (-likeness(name, node.attr), name))
    end = site.source.span(node)[1]
    for name in others(near[:10], node.attr):
        weight = 0.6 * likeness(name, node.attr) ** 2
        yield site.raw(end - len(node.attr), end, name, "attribute", weight, node.lineno)


def conversions(site: Site) -> Iterator[Edit]:
    """An operand converted, or a text put between two that are joined."""
    node = site.node
    if not isinstance(site.parent, ast.BinOp) or not isinstance(node, ast.expr) or not is_value(site):
        return
    if not isinstance(node, ast.Constant):
        for wrapper in ("str", "int", "list", "len", "float", "tuple", "abs"):
            yield site.swap(node, f"{wrapper}({site.text()})", "wrap", 0.3 if wrapper == "str" else 0.12)
    parts = [n for n in ast.walk(site.parent) if isinstance(n, ast.Constant)]
    if isinstance(site.parent.op, ast.Add) and any(isinstance(p.value, str) for p in parts):
        for text in ("' '", "', '", "'\\n'", "'.'", "':'", "'/'"):
            yield site.raw(*site.source.span(node), f"{site.text()} + {text}", "add-term", 0.12, node.lineno)


TYPES = ("str", "bytes", "int", "float", "list", "tuple", "dict", "set", "bool", "type", "frozenset")


def type_edits(site: Site, kind: ast.expr) -> Iterator[Edit]:
    parts = [site.text(e) for e in kind.elts] if isinstance(kind, ast.Tuple) else [site.text(kind)]
    builtin = set(dir(builtins))
    classes = [n.name for n in site.source.tree.body if isinstance(n, ast.ClassDef)]
    capital = [n for n in site.file_scope.module_names if n[:1].isupper()]
    beside = [t for t in site.file_scope.dotted_classes if t.partition(".")[0] == parts[0].partition(".")[0]]
    pool = dict.fromkeys([*site.file_scope.tested_types, *beside[:12], *TYPES, *classes, *capital])
    for text in others(list(pool)[:48], *parts):
        weight = 0.35 if text in site.file_scope.tested_types or text in builtin else 0.2
        yield site.swap(kind, f"({', '.join([*parts, text])})", "type", weight)
        yield site.swap(kind, text, "type", weight * 0.8)
    if len(parts) > 1:
        for index in range(len(parts)):
            kept = parts[:index] + parts[index + 1 :]
            text = f"({', '.join(kept)})" if len(kept) > 1 else kept[0]
            yield site.swap(kind, text, "type", 0.3)


def membership(site: Site, node: ast.Compare) -> Iterator[Edit]:
    """`x == 'a'` as `x in ('a', 'b')`, with the constants of the function, then of the file."""
    right = node.comparators[0]
    if not isinstance(right, ast.Constant) or not isinstance(right.value, (str, int)):
        return
    word = "in" if isinstance(node.ops[0], ast.Eq) else "not in"
    own, kind = site.text(right), type(right.value)
    seen = dict.fromkeys(site.text(c) for c in site.scope.constants.get(kind, [])[:12])
    seen |= dict.fromkeys(site.text(c) for c in site.file_scope.constants.get(kind, [])[:25])
    extra = ["None", "''"] if kind is str else ["None"]
    for text in others([*seen, *extra], own):
        if "\n" not in text and len(text) < 40:
            both = f"{site.operand(node.left)} {word} ({own}, {text})"
            yield site.swap(node, both, "membership", 0.15)


def members(site: Site, node: ast.Tuple | ast.List | ast.Set) -> Iterator[Edit]:
    """One member more or less in the collection that a value is compared with."""
    present = [site.text(e) for e in node.elts]
    opening, closing = site.text()[:1], site.text()[-1:]
    if (opening, closing) not in (("(", ")"), ("[", "]"), ("{", "}")) or not node.elts:
        return
    kind = type(node.elts[0].value) if isinstance(node.elts[0], ast.Constant) else None
    pool = [site.text(c) for c in site.file_scope.constants.get(kind, [])[:25]] if kind else []
    for text in others([*pool, "None", "''", *site.scope.locals[:4]], *present):
        if "\n" not in text:
            yield site.swap(node, f"{opening}{', '.join([*present, text])}{closing}", "membership", 0.15)
    for index in range(len(present)) if len(present) > 1 else ():
        kept = present[:index] + present[index + 1 :]
        tail = "," if opening == "(" and len(kept) == 1 else ""
        yield site.swap(node, f"{opening}{', '.join(kept)}{tail}{closing}", "membership", 0.2)


OPERATORS = (
    called,
    members_of,
    module_members,
    conversions,
    file_keywords,
    options,
    keyword_values,
    lookups,
    file_wrappers,
    types_asked,
)
