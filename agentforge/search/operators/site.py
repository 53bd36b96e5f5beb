"""Where an operator works: one node of one file, with what is in scope there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from agentforge.search.source import FUNCTIONS, Edit, Function, Source

OPERAND_PARENTS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Starred, ast.Await)
LOOSE = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.Await)
MAX_DONOR_CHARS = 80
SIMPLE = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Expr,
    ast.Return,
    ast.Raise,
    ast.Delete,
    ast.Continue,
    ast.Break,
)


def parse_expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


class Scope:
    """Names, attributes, constants and donors of one function (or of the module's top level)."""

    def __init__(self, source: Source, function: Function | None) -> None:
        self.source, self.function = source, function
        self.root: ast.AST = function or source.tree

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.root))

    @cached_property
    def parameters(self) -> list[str]:
        if self.function is None:
            return []
        a = self.function.args
        every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs]
        return [arg.arg for arg in (*every, *([a.kwarg] if a.kwarg else []))]

    @cached_property
    def locals(self) -> list[str]:
        """Parameters, then assigned names, in order of appearance; `self` and `cls` left out."""
        stored = [n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        outer = self.enclosing.locals if self.enclosing else []
        names = dict.fromkeys([*self.parameters, *stored, *outer])
        return [name for name in names if name not in ("self", "cls")]

    @cached_property
    def enclosing(self) -> Scope | None:
        """The scope of the function around this one."""
        outer = self.source.function_of(self.function) if self.function else None
        return Scope(self.source, outer) if outer else None

    @cached_property
    def unused_parameters(self) -> list[str]:
        """Parameters that the function never reads: often the very thing that was forgotten."""
        read = {n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        return [name for name in self.parameters if name not in read and name not in ("self", "cls")]

    @cached_property
    def module_names(self) -> list[str]:
        """Functions, classes, imports and variables of the file's top level."""
        found: list[str] = []
        for node in self.source.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.append(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found.extend((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            else:
                names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
                found.extend(n.id for n in names if isinstance(n.ctx, ast.Store))
        return list(dict.fromkeys(found))

    @cached_property
    def used_globals(self) -> list[str]:
        """Top-level variables that this function reads (not its functions or imports)."""
        called = {id(n.func) for n in self.nodes if isinstance(n, ast.Call)}
        based = {id(n.value) for n in self.nodes if isinstance(n, ast.Attribute)}
        names = [n.id for n in self.nodes if isinstance(n, ast.Name) and id(n) not in called | based]
        return [n for n in dict.fromkeys(names) if n in self.module_names and n not in self.locals]

    @cached_property
    def attributes(self) -> list[str]:
        """Attribute expressions on `self` or a local that the function reads, such as `self.items`."""
        called = {id(n.func) for n in self.nodes if isinstance(n, ast.Call)}
        reads = [n for n in self.nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
        own = [self.source.text(n) for n in reads if id(n) not in called and self._local(n.value)]
        return [text for text, _ in Counter(own).most_common(8)]

    def _local(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and (node.id in self.locals or node.id in ("self", "cls"))

    @cached_property
    def values(self) -> list[str]:
        """What may stand for a value here: locals, attribute expressions, variables of the file."""
        return [*self.locals, *self.attributes, *self.used_globals[:4]]

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [n for n in self.nodes if isinstance(n, ast.Call)]

    @cached_property
    def called_names(self) -> list[str]:
        """Names that are called, each once."""
        return list(dict.fromkeys(c.func.id for c in self.calls if isinstance(c.func, ast.Name)))

    @cached_property
    def attribute_names(self) -> dict[bool, list[str]]:
        """Attribute names used here, by whether they are called."""
        called = {id(c.func) for c in self.calls}
        found: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                found[id(node) in called][node.attr] = None
        return {key: list(names) for key, names in found.items()}

    @cached_property
    def comparisons(self) -> list[str]:
        """Texts of the one-line comparisons here."""
        texts = dict.fromkeys(self.source.text(n) for n in self.nodes if isinstance(n, ast.Compare))
        return [text for text in texts if "\n" not in text]

    def attributes_of(self, name: str) -> list[str]:
        """Attributes that are read of the variable `name` here, and asked for by `hasattr`; at most six."""
        return list(self._attributes_by_name.get(name, {}))[:6]

    @cached_property
    def _attributes_by_name(self) -> dict[str, dict[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, {})[node.attr] = None
        return found

    @cached_property
    def bare_methods(self) -> list[str]:
        """Methods that are called without arguments here, most often first."""
        bare = (c.func for c in self.calls if not c.args and not c.keywords)
        return [
            name for name, _ in Counter(f.attr for f in bare if isinstance(f, ast.Attribute)).most_common()
        ]

    @cached_property
    def dotted_classes(self) -> list[str]:
        """What looks like a class of an imported module: `nodes.Call`, most often first."""
        reads = (n for n in self.nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        texts = Counter(self.source.text(n) for n in reads if n.attr[:1].isupper())
        return [text for text, _ in texts.most_common(30)]

    @cached_property
    def switches(self) -> list[str]:
        """Keywords that calls here give a truth value to, and `copy`; at most seven."""
        words = (k for c in self.calls for k in c.keywords)
        seen = Counter(k.arg for k in words if k.arg and isinstance(getattr(k.value, "value", None), bool))
        return list(dict.fromkeys([*(name for name, _ in seen.most_common(6)), "copy"]))

    @cached_property
    def caught(self) -> list[str]:
        """Exceptions that handlers here catch, single ones, each once."""
        found: dict[str, None] = {}
        for node in self.nodes:
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                for part in node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]:
                    found[self.source.text(part)] = None
        return list(found)[:12]

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The first function of each name."""
        found: dict[str, Function] = {}
        for node in self.nodes:
            if isinstance(node, FUNCTIONS):
                found.setdefault(node.name, node)
        return found

    @cached_property
    def constants(self) -> dict[type, list[ast.Constant]]:
        """Constants by type, docstrings and parts of f-strings left out, each text once."""
        found: dict[type, dict[object, ast.Constant]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and not isinstance(
                self.source.parents.get(node), (ast.Expr, ast.JoinedStr)
            ):
                found.setdefault(type(node.value), {}).setdefault(node.value, node)
        return {kind: list(nodes.values()) for kind, nodes in found.items()}

    @cached_property
    def one_argument_callees(self) -> list[str]:
        """What is called with one plain argument here (`str`, `self._print`), most often first."""
        seen: Counter[str] = Counter()
        for call in self.calls:
            if len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred):
                text = self.source.text(call.func)
                if text.replace(".", "").isidentifier() and text.count(".") <= 2:
                    seen[text] += 1
        return [text for text, _ in seen.most_common(30)]

    @cached_property
    def simple_statements(self) -> list[str]:
        """Texts of the one-line simple statements here, docstrings left out, each once."""
        plain = (n for n in self.nodes if isinstance(n, SIMPLE))
        code = (n for n in plain if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)))
        texts = dict.fromkeys(self.source.text(n) for n in code)
        return [text for text in texts if "\n" not in text]

    @cached_property
    def short_ifs(self) -> list[ast.If]:
        """`if` statements without `else` whose body is one simple statement."""
        plain = (n for n in self.nodes if isinstance(n, ast.If) and not n.orelse)
        return [n for n in plain if len(n.body) == 1 and isinstance(n.body[0], SIMPLE)]

    @cached_property
    def tested_types(self) -> list[str]:
        """Types that `isinstance` asks for here, single ones, each once."""
        found: dict[str, None] = {}
        for call in self.calls:
            if isinstance(call.func, ast.Name) and call.func.id == "isinstance" and len(call.args) == 2:
                kind = call.args[1]
                for part in kind.elts if isinstance(kind, ast.Tuple) else [kind]:
                    found[self.source.text(part)] = None
        return list(found)[:12]

    @cached_property
    def donors(self) -> list[ast.expr]:
        """Larger expressions of the same function, short and on one line, without repetition."""
        kinds = (ast.Call, ast.Subscript, ast.Attribute, ast.BinOp, ast.Compare, ast.ListComp, ast.UnaryOp)
        found: dict[str, ast.expr] = {}
        for node in self.nodes:
            if isinstance(node, kinds) and self.is_read_value(node):
                text = self.source.text(node)
                if "\n" not in text and len(text) <= MAX_DONOR_CHARS:
                    found.setdefault(text, node)
        return list(found.values())

    def is_read_value(self, node: ast.AST) -> bool:
        """Whether `node` is more than the name of what is called."""
        parent = self.source.parents.get(node)
        return not (isinstance(parent, ast.Call) and parent.func is node)

    @cached_property
    def containers(self) -> dict[str, str]:
        """Local containers and the method that adds to them: append, add, or update."""
        found: dict[str, str] = dict(self.enclosing.containers) if self.enclosing else {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                method = adder(node.value)
                if method:
                    found.setdefault(node.targets[0].id, method)
            if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
                if node.attr in ("append", "add"):
                    found[self.source.text(node.value)] = node.attr
                elif node.attr == "pop":
                    found.setdefault(self.source.text(node.value), "append")
        return found


def adder(value: ast.expr) -> str | None:
    """The method by which a freshly made container grows."""
    if isinstance(value, (ast.List, ast.ListComp)):
        return "append"
    if isinstance(value, (ast.Set, ast.SetComp)):
        return "add"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return {"list": "append", "deque": "append", "set": "add"}.get(value.func.id)
    return None


@dataclass(frozen=True)
class Facts:
    """What the failing tests tell: types of the exceptions, their messages, the innermost places."""

    exceptions: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    places: frozenset[tuple[str, int]] = frozenset()

    @cached_property
    def unknown_names(self) -> tuple[str, ...]:
        """Names that a NameError speaks of."""
        found = (re.match(r"name '(\w+)' is not defined", message) for message in self.messages)
        return tuple(dict.fromkeys(match.group(1) for match in found if match))


NO_FACTS = Facts()


@dataclass(frozen=True)
class Site:
    """One node under edit."""

    source: Source
    node: ast.AST
    scope: Scope
    file_scope: Scope
    facts: Facts = NO_FACTS

    @property
    def parent(self) -> ast.AST | None:
        return self.source.parents.get(self.node)

    def text(self, node: ast.expr | ast.stmt | ast.keyword | None = None) -> str:
        chosen = node if node is not None else self.node
        assert isinstance(chosen, (ast.expr, ast.stmt, ast.keyword, ast.arg))
        return self.source.text(chosen)

    def swap(self, node: ast.AST, text: str, operator: str, weight: float) -> Edit:
        """Replace `node` by `text`, in parentheses where its place asks for them."""
        assert isinstance(node, (ast.expr, ast.stmt))
        start, end = self.source.span(node)
        if isinstance(node, ast.expr) and self._parenthesise(node, text):
            text = f"({text})"
        return self.raw(start, end, text, operator, weight, node.lineno)

    def raw(self, start: int, end: int, text: str, operator: str, weight: float, line: int) -> Edit:
        return Edit(self.source.path, start, end, text.encode(), operator, weight, line)

    def _parenthesise(self, node: ast.expr, text: str) -> bool:
        parent = self.source.parents.get(node)
        below = isinstance(parent, ast.Subscript) and parent.value is node
        below = below or (isinstance(parent, ast.Call) and parent.func is node)
        if not (below or isinstance(parent, OPERAND_PARENTS)):
            return False
        start, end = self.source.span(node)
        around = self.source.data[:start].rstrip()[-1:], self.source.data[end:].lstrip()[:1]
        if around == (b"(", b")"):
            return False
        shape = parse_expression(text)
        if isinstance(parent, ast.BoolOp):
            return isinstance(shape, (ast.BoolOp, ast.IfExp, ast.Lambda))
        if isinstance(parent, ast.Compare):
            return isinstance(shape, (ast.Compare, ast.BoolOp, ast.IfExp, ast.Lambda))
        return isinstance(shape, LOOSE)

    def operand(self, node: ast.AST) -> str:
        """`node`'s text, fit to stand beside a binary operator."""
        assert isinstance(node, ast.expr)
        text = self.source.text(node)
        return f"({text})" if isinstance(node, LOOSE) else text

    def between(self, left: ast.expr, right: ast.expr, token: str) -> tuple[int, int] | None:
        """Byte span of the operator `token` between two operands; None where comments make it unsafe."""
        start, end = self.source.span(left)[1], self.source.span(right)[0]
        gap = self.source.data[start:end]
        at = gap.find(token.encode())
        if at < 0 or b"#" in gap:
            return None
        return start + at, start + at + len(token)


def others(names: Iterable[str], *without: str) -> Iterator[str]:
    return (name for name in names if name not in without)
