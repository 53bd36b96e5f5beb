"""Operators that bring in code from the rest of the file: statements, expressions, imports, near names.

Copying from the program itself is the plastic surgery hypothesis of Barr et al. (FSE 2014): most
fixes are made of pieces that the file already holds.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache

from agentforge.search.operators.names import likeness
from agentforge.search.operators.shapes import is_value
from agentforge.search.operators.site import Scope, Site
from agentforge.search.operators.statements import insert, is_docstring, is_elif_or_else, lines_of
from agentforge.search.source import Edit

BUILTINS = frozenset(dir(builtins))
MAX_STATEMENTS = 25
MAX_BLOCKS = 6
MAX_BLOCK_LINES = 4
MAX_EXPRESSIONS = 25
COMMON_IMPORTS = {
    "OrderedDict": "collections",
    "defaultdict": "collections",
    "Counter": "collections",
    "deque": "collections",
    "namedtuple": "collections",
    "Mapping": "collections.abc",
    "Sequence": "collections.abc",
    "Iterable": "collections.abc",
    "wraps": "functools",
    "partial": "functools",
    "reduce": "functools",
    "Path": "pathlib",
    "Decimal": "decimal",
    "Fraction": "fractions",
    "deepcopy": "copy",
    "chain": "itertools",
    "timedelta": "datetime",
    "suppress": "contextlib",
    "contextmanager": "contextlib",
}
"""Names of the standard library that are mostly imported by themselves."""


@lru_cache(maxsize=5_000)
def names_read(text: str) -> frozenset[str]:
    """Names that the code of `text` reads; nothing where it does not stand alone."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return frozenset()
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    stored = {n.id for n in nodes if not isinstance(n.ctx, ast.Load)}
    return frozenset(n.id for n in nodes if isinstance(n.ctx, ast.Load)) - stored


def known(site: Site) -> frozenset[str]:
    scope = site.scope
    return frozenset([*scope.locals, *scope.parameters, *site.file_scope.module_names]) | BUILTINS


def fitting(site: Site, texts: Iterable[str], own: str, limit: int) -> list[str]:
    """Those texts whose names are all in scope here, the ones most like `own` first."""
    names = known(site)
    fit = [text for text in texts if text != own and names_read(text) <= names]
    return sorted(fit, key=lambda text: -shared(text, own))[:limit]


def shared(left: str, right: str) -> float:
    """The share of words two pieces of code have in common."""
    a, b = words(left), words(right)
    return len(a & b) / max(1, len(a | b))


@lru_cache(maxsize=10_000)
def words(text: str) -> frozenset[str]:
    return frozenset("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def file_statements(site: Site) -> Iterator[Edit]:
    """A one-line statement of another function, inserted before or after, or in place of this one."""
    node = site.node
    if not isinstance(node, ast.stmt) or site.scope.function is None or is_docstring(node):
        return
    span = lines_of(site, node)
    if span is None or is_elif_or_else(site, node):
        return
    here = set(site.scope.simple_statements)
    texts = (t for t in site.file_scope.simple_statements if t not in here and len(t) < 100)
    indent, own = site.source.indent(node.lineno), site.text() if "\n" not in site.text() else ""
    for text in fitting(site, texts, own, MAX_STATEMENTS):
        alike = shared(text, own)
        yield insert(site, span[0], node.lineno, indent, text, "donor-statement", 0.06 + 0.1 * alike)
        if own and not isinstance(node, (ast.Return, ast.Raise)):
            yield insert(site, span[1], node.lineno, indent, text, "donor-statement", 0.06 + 0.1 * alike)
        if own and alike > 0.2:
            yield site.swap(node, text, "donor-statement", 0.25 * alike)


def blocks(site: Site) -> Iterator[Edit]:
    """A short `if` of another place in the file, whole, put before this statement."""
    node = site.node
    if not isinstance(node, ast.stmt) or site.scope.function is None or is_docstring(node):
        return
    span = lines_of(site, node)
    if span is None or is_elif_or_else(site, node):
        return
    indent = site.source.indent(node.lineno)
    for text in fitting(site, short_blocks(site), site.text(), MAX_BLOCKS):
        yield insert(site, span[0], node.lineno, indent, text, "donor-block", 0.12)


def short_blocks(site: Site) -> list[str]:
    """Texts of the file's short `if` statements, without their indentation."""
    found: dict[str, None] = {}
    for node in site.file_scope.short_ifs:
        if node.end_lineno is not None and node.end_lineno - node.lineno < MAX_BLOCK_LINES:
            indent = site.source.indent(node.lineno)
            lines = site.text(node).splitlines()
            found["\n".join(line.removeprefix(indent) for line in lines)] = None
    return list(found)


def file_expressions(site: Site) -> Iterator[Edit]:
    """A like expression from elsewhere in the file."""
    node = site.node
    kinds = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare, ast.Constant)
    if not is_value(site) or not isinstance(node, kinds):
        return
    if isinstance(node, ast.Constant) and not isinstance(node.value, (int, float, type(None))):
        return
    own = site.text()
    near = {site.text(d) for d in site.scope.donors}
    texts = (t for t in expressions_like(site.file_scope, node) if t not in near)
    for text in fitting(site, texts, own, MAX_EXPRESSIONS):
        yield site.swap(node, text, "donor-expression", 0.05 + 0.2 * shared(text, own))


def expressions_like(scope: Scope, node: ast.expr) -> list[str]:
    """Expressions of the same kind; for a constant, the dotted names of the file."""
    kind = ast.Attribute if isinstance(node, ast.Constant) else type(node)
    return [scope.source.text(d) for d in scope.donors if type(d) is kind]


def imports(site: Site) -> Iterator[Edit]:
    """The import of a name that a NameError missed: of the standard library, or as a near name."""
    node = site.node
    if not isinstance(node, ast.Name) or node.id not in site.facts.unknown_names:
        return
    line = ""
    if node.id in COMMON_IMPORTS:
        line = f"from {COMMON_IMPORTS[node.id]} import {node.id}"
    elif node.id in sys.stdlib_module_names:
        line = f"import {node.id}"
    if line:
        at = import_place(site)
        new = line + site.source.newline
        yield site.raw(at, at, new, "import", 1.0, node.lineno)
        statement = site.source.statement_of(node)
        span = lines_of(site, statement) if statement and site.scope.function else None
        if span and statement and not is_elif_or_else(site, statement):
            indent = site.source.indent(statement.lineno)
            yield insert(site, span[0], node.lineno, indent, line, "import", 0.5)
    pool = dict.fromkeys([*site.scope.locals, *site.file_scope.module_names, *sorted(BUILTINS)])
    for name in sorted(pool, key=lambda n: (-likeness(n, node.id), n))[:12]:
        if name != node.id:
            yield site.swap(node, name, "name", 0.3 + 0.7 * likeness(name, node.id))


def import_place(site: Site) -> int:
    """Byte offset of the first top-level import, after `from __future__`, or of the first statement."""
    body = site.source.tree.body
    start = 1 if body and is_docstring(body[0]) else 0
    rest = [n for n in body[start:] if not (isinstance(n, ast.ImportFrom) and n.module == "__future__")]
    first = next((n for n in rest if isinstance(n, (ast.Import, ast.ImportFrom))), rest[0])
    decorated = [d.lineno for d in getattr(first, "decorator_list", ())]
    return site.source.line_start(min([first.lineno, *decorated]))


OPERATORS = (file_statements, blocks, file_expressions, imports)
