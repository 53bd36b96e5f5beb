"""Where a generated test goes, and what is wrong with one before it has run."""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from agentforge.agents.extract import parse_python, test_functions
from agentforge.core.paths import is_test_path
from agentforge.core.tree import Tree

_ALWAYS = frozenset({"pytest", "_pytest"})


def choose_path(tree: Tree, code: str, near: Iterable[str] = ()) -> str:
    """A free path `test_agentforge_<hash>.py` beside the existing tests.

    Beside the tests of the files in `near` (same name), else where most tests are, else in `tests/`
    or `test/` where that exists, else at the root (so that a flat module can be imported).
    """
    folder = _folder(tree, near)
    digest = hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()
    for length in range(8, len(digest) + 1):
        path = posixpath.join(folder, f"test_agentforge_{digest[:length]}.py")
        if tree.kind(path) == "missing":
            return path
    raise ValueError("no free name for a generated test")


def _folder(tree: Tree, near: Iterable[str]) -> str:
    tests = [path for path in tree.paths() if _is_test_module(path)]
    stems = {posixpath.basename(path).removesuffix(".py") for path in near}
    named = {f"test_{stem}.py" for stem in stems} | {f"{stem}_test.py" for stem in stems}
    beside = [path for path in tests if posixpath.basename(path) in named]
    folders = Counter(posixpath.dirname(path) for path in beside or tests)
    if folders:
        return min(folders, key=lambda folder: (-folders[folder], folder.count("/"), folder))
    return next((folder for folder in ("tests", "test") if tree.kind(folder) == "directory"), "")


def _is_test_module(path: str) -> bool:
    name = posixpath.basename(path)
    return name.endswith(".py") and is_test_path(path) and name.startswith("test") and name != "conftest.py"


def module_problems(code: str, tree: Tree) -> tuple[str, ...]:
    """What is wrong with a test module, in words; empty when it may run.

    It must parse, hold a test function, import the code under test, and import only what exists: the
    standard library, pytest, what the repository itself imports, its modules and their names.
    """
    module = parse_python(code)
    if module is None:
        return ("the code is not valid Python",)
    problems = [] if test_functions(module) else ["there is no function whose name begins with test_"]
    return (*problems, *_import_problems(module, tree), *_copied_code(module, tree))


_INDIRECT = ("importlib", "runpy", "subprocess")


def _copied_code(module: ast.Module, tree: Tree) -> Iterator[str]:
    """Weak models test a copy of the code: such a test fails on the base and can never pass."""
    names = [name for node in ast.walk(module) for name, _ in _imports(node)]
    if any(name.split(".")[0] in _INDIRECT for name in names):
        return
    if not any(_module_paths(name, tree) for name in names):
        yield "it imports nothing from the repository; import the code under test instead of copying it"
    imported = {member for node in ast.walk(module) for _, members in _imports(node) for member in members}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in imported:
            yield f"it defines {node.name} again; test the imported one"


def _import_problems(module: ast.Module, tree: Tree) -> Iterator[str]:
    known: frozenset[str] | None = None
    for node in ast.walk(module):
        for name, members in _imports(node):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in _ALWAYS:
                continue
            paths = _module_paths(name, tree)
            if paths:
                yield from _missing_members(name, members, paths, tree)
            elif _module_paths(top, tree):
                yield f"the module {name} does not exist in the repository"
            else:
                known = _imported_by(tree) if known is None else known
                if top not in known:
                    yield f"the module {name} is unknown: import the repository, pytest, the standard library"


def _imports(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module, tuple(alias.name for alias in node.names)


def _module_paths(name: str, tree: Tree) -> tuple[str, ...]:
    """Files or packages that `name` may be; any folder may be on the path (`src/`, a subproject)."""
    tail = name.replace(".", "/")
    ends = (f"/{tail}.py", f"/{tail}/__init__.py", f"/{tail}.pyx", f"/{tail}.pyi")
    found = [path for path in tree.paths() if f"/{path}".endswith(ends)]
    inside = f"/{tail}/"
    packages = [path for path in tree.paths() if inside in f"/{path}" and path.endswith(".py")]
    return tuple(found or packages[:1])


def _missing_members(name: str, members: Iterable[str], paths: tuple[str, ...], tree: Tree) -> Iterator[str]:
    if len(paths) != 1 or not paths[0].endswith((f"{name.split('.')[-1]}.py", "/__init__.py")):
        return
    source = tree.read(paths[0]).data
    module = parse_python(source)
    if module is None or b"import *" in source or b"__getattr__" in source or b"globals()" in source:
        return
    bound = _bound_names(module)
    for member in members:
        if member != "*" and member not in bound and not _module_paths(f"{name}.{member}", tree):
            yield f"{name} has no {member}"


def _bound_names(module: ast.Module) -> frozenset[str]:
    """Every name that is bound anywhere in a module: generous, since only clear errors count."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return frozenset(names)


_IMPORT_LINE = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def _imported_by(tree: Tree) -> frozenset[str]:
    """Top-level modules that some file of the repository imports."""
    return frozenset(
        found.decode()
        for path, entry in tree.files.items()
        if path.endswith(".py")
        for found in _IMPORT_LINE.findall(entry.data)
    )
