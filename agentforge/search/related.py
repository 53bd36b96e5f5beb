"""Which test files bear on a set of target tests: same file, same imports, same names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from agentforge.core.paths import is_test_path
from agentforge.core.tree import Tree

MAX_RELATED_FILES = 8
MAX_TEST_FILE_BYTES = 400_000


def test_file(test: str) -> str:
    """The file of a test id."""
    return test.partition("::")[0]


test_file.__test__ = False  # type: ignore[attr-defined]


def imported_modules(code: bytes) -> frozenset[str]:
    """Dotted names that a file imports, `from a import b` as both `a` and `a.b`."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def module_names(path: str) -> tuple[str, ...]:
    """Dotted names under which a source file may be imported, the longest first."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return tuple(".".join(parts[start:]) for start in range(len(parts)))


def related_tests(tree: Tree, targets: Iterable[str]) -> tuple[str, ...]:
    """Test files worth running beside `targets`, their own files first, at most `MAX_RELATED_FILES`."""
    own = list(dict.fromkeys(test_file(test) for test in targets))
    wanted = frozenset().union(*(imported_modules(tree.read(f).data) for f in own if tree.kind(f) == "file"))
    local = {name for path in source_files(tree) for name in module_names(path)}
    shared = wanted & local
    stems = {name.rpartition(".")[2] for name in shared}
    ranked: list[tuple[int, str]] = []
    for path in tree.paths():
        if path in own or not is_runnable_test(tree, path):
            continue
        common = len(shared & imported_modules(tree.read(path).data))
        named = any(stem and stem in path.rsplit("/", 1)[-1] for stem in stems)
        if common or named:
            ranked.append((-common - 3 * named, path))
    return (*own, *(path for _, path in sorted(ranked)[: max(0, MAX_RELATED_FILES - len(own))]))


def is_runnable_test(tree: Tree, path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    looks = path.endswith(".py") and (name.startswith("test") or name.endswith("_test.py"))
    return looks and tree.kind(path) == "file" and len(tree.read(path).data) <= MAX_TEST_FILE_BYTES


def source_files(tree: Tree) -> Sequence[str]:
    """Python files that are not tests."""
    return [p for p in tree.paths() if p.endswith(".py") and not is_test_path(p) and tree.kind(p) == "file"]
