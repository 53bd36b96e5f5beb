"""The assembled program before its parts are written: a stub for every promised function that is not there.

An edit can then name the function that it writes, and a part that nobody wrote says so when it is called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from agentforge.core.responsibility import Graph, Responsibility
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.responsibility.graph import symbol_name
from agentforge.orchestrator.responsibility.units import unit_code
from agentforge.repo.patch.outline import analysis_text, parse_module

_BODY = "raise NotImplementedError"
_BARE = re.compile(rb"def .*\):\n    raise NotImplementedError|class \w+:\n    pass")


def with_stubs(graph: Graph, tree: Tree) -> Tree:
    """`tree` with a stub for each top-level function or class that a node declares in a file of its own and
    that does not exist. Files that do not parse and methods are left alone."""
    for node in graph.nodes:
        if node.owns_code and len(node.files) == 1 and node.files[0].endswith(".py"):
            tree = _with_missing(node, node.files[0], tree)
    return tree


def _with_missing(node: Responsibility, path: str, tree: Tree) -> Tree:
    data = tree.read(path).data if tree.kind(path) == "file" else b""
    known = unit_code(path, data)
    names = dict.fromkeys(symbol_name(symbol) for symbol in node.symbols)
    missing = [name for name in names if name.isidentifier() and f"{path}::{name}" not in known]
    module = parse_module(analysis_text(data))
    if not missing or not isinstance(module, ast.Module) or tree.kind(path) not in ("file", "missing"):
        return tree
    text = "\n\n\n".join(_stub(node, name) for name in missing).encode()
    mode = tree.read(path).mode if tree.kind(path) == "file" else "100644"
    return tree.with_changes({path: TreeFile(_inserted(data, module, text), mode)})


def _stub(node: Responsibility, name: str) -> str:
    if name[0].isupper():
        return f"class {name}:\n    pass"
    promised = node.contract.name.rpartition(".")[2] == name
    arguments = ", ".join(_argument(text) for text in node.contract.args) if promised else "*args, **kwargs"
    return f"def {name}({arguments}):\n    {_BODY}"


def _argument(text: str) -> str:
    """The bare name of "days: list[int] = ()"; what is no name could not be called by it either."""
    name = re.split(r"[:=]", text, maxsplit=1)[0].strip()
    return name if name.lstrip("*").isidentifier() else "*args"


def _inserted(data: bytes, module: ast.Module, text: bytes) -> bytes:
    """Before the first statement that is neither docstring nor import: whatever runs there may call it."""
    lines = data.split(b"\n")
    later = [node for number, node in enumerate(module.body) if not _preamble(node, number)]
    if not later:
        body = data.rstrip(b"\n")
        return (body + b"\n\n\n" if body else b"") + text + b"\n"
    first = later[0]
    decorators = [item.lineno for item in getattr(first, "decorator_list", [])]
    at = min([first.lineno, *decorators]) - 1
    while at > 0 and lines[at - 1].startswith(b"#"):
        at -= 1
    head = b"\n".join(lines[:at]).rstrip(b"\n")
    return (head + b"\n\n\n" if head else b"") + text + b"\n\n\n" + b"\n".join(lines[at:])


def _preamble(node: ast.stmt, number: int) -> bool:
    words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and not number
    return words or isinstance(node, ast.Import | ast.ImportFrom)


def without_idle_stubs(tree: Tree, base: Tree, paths: Iterable[str]) -> Tree:
    """`tree` without stubs that were never written and that nothing names: nobody needs them."""
    for path in paths:
        if tree.kind(path) == "file" and path.endswith(".py"):
            data = tree.read(path).data
            before = unit_code(path, base.read(path).data) if base.kind(path) == "file" else {}
            for unit, code in unit_code(path, data).items():
                name = unit.rpartition("::")[2].encode()
                bare = unit not in before and _BARE.fullmatch(code) is not None
                if bare and len(re.findall(rb"\b" + re.escape(name) + rb"\b", data)) == 1:
                    data = re.sub(re.escape(code) + rb"\n*", b"", data, count=1)
            if data != tree.read(path).data:
                tree = tree.with_changes({path: TreeFile(data, tree.read(path).mode)})
    return tree
