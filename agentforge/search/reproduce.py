"""From an issue's claims to tests that are seen to fail on the base for the reason the issue gives."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentforge.core.patch import GeneratedTest
from agentforge.core.paths import is_test_path
from agentforge.core.ports import Environment, Sandbox, TestRequest
from agentforge.core.report import Outcome, TestFailure, TestReport
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile
from agentforge.search.examples import Example, extract, is_expression
from agentforge.search.localize import IDENTIFIER
from agentforge.search.related import is_runnable_test, module_names, source_files

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "capsys"}
TEST_ERRORS = ("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError")


@dataclass(frozen=True)
class Reproduction:
    """`tests` fail on the base for the issue's reason; `discarded` are (test, why it does not count);
    `existing` are failing tests of the base that the issue seems to speak of."""

    tests: tuple[GeneratedTest, ...] = ()
    discarded: tuple[tuple[str, str], ...] = ()
    existing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """One claim as a test function, with the imports it needs."""

    example: Example
    name: str
    imports: tuple[str, ...]
    lines: tuple[str, ...]


async def reproduce(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    issue: Issue,
    baseline: TestReport | None = None,
    timeout_s: float = 30.0,
) -> Reproduction:
    """Turn the issue's claims into tests, run them twice on the base, and keep those that fail rightly.

    Nothing is executed outside the sandbox. Raises what `sandbox.run_tests` raises.
    """
    existing = existing_targets(issue, baseline)
    written, discarded = write(tree, extract(f"{issue.title}\n\n{issue.text}"))
    if not written:
        return Reproduction(discarded=tuple(discarded), existing=existing)
    path = place(tree, environment.workdir, render(written))
    with_tests = tree.with_changes({path: TreeFile(render(written))})
    request = TestRequest(targets=(path,), timeout_s=timeout_s, scope="reproduction")
    reports = [await sandbox.run_tests(environment, with_tests, request) for _ in range(2)]
    kept: list[Written] = []
    for test in written:
        why = refusal(test, f"{path}::{test.name}", reports, path)
        if why:
            discarded.append((f"{path}::{test.name}", why))
        else:
            kept.append(test)
    kept = without_contradictions(kept)
    return Reproduction(tuple(generated(tree, environment.workdir, kept)), tuple(discarded), existing)


def without_contradictions(kept: list[Written]) -> list[Written]:
    """Of several expected values for one call, the first: extraction gives the most explicit first."""
    first: dict[tuple[str, tuple[str, ...]], Written] = {}
    for test in kept:
        first.setdefault((test.example.expression, test.example.setup), test)
    return list(first.values())


def generated(tree: Tree, workdir: str, kept: list[Written]) -> Iterable[GeneratedTest]:
    if kept:
        code = render(kept)
        path = place(tree, workdir, code)
        reasons = dict.fromkeys(describe(test.example) for test in kept)
        ids = tuple(f"{path}::{test.name}" for test in kept)
        yield GeneratedTest(path=path, code=code, test_ids=ids, reason="; ".join(reasons))


def describe(example: Example) -> str:
    if example.kind == "crash":
        return f"{example.expression} raises {example.error} ({example.origin})"
    if example.kind == "raises":
        return f"{example.expression} does not raise {example.error} ({example.origin})"
    if example.kind == "asserts":
        return f"{example.expression} does not hold ({example.origin})"
    return f"{example.expression} is not {example.expected} ({example.origin})"


# Writing


def write(tree: Tree, examples: Sequence[Example]) -> tuple[list[Written], list[tuple[str, str]]]:
    """Test functions for the claims whose names can be found; the others, with what is missing."""
    written: list[Written] = []
    discarded: list[tuple[str, str]] = []
    finder = Names(tree)
    for example in examples:
        lines = body(example)
        if lines is None:
            discarded.append((example.expression, "the claim is not valid Python"))
            continue
        imports, missing = finder.imports("\n".join(lines))
        if missing:
            discarded.append((example.expression, f"unknown names: {', '.join(sorted(missing))}"))
            continue
        digest = hashlib.sha256("\n".join([*imports, *lines]).encode()).hexdigest()[:6]
        written.append(
            Written(example, f"test_issue_{len(written) + 1}_{digest}", tuple(imports), tuple(lines))
        )
    return written, discarded


def body(example: Example) -> list[str] | None:
    """The statements of one test; None where they do not parse."""
    setup = "\n".join(example.setup).splitlines()
    lines = [*setup, *assertion(example)]
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return lines


def assertion(example: Example) -> list[str]:
    if example.kind in ("asserts", "crash"):
        return example.expression.splitlines()
    if example.kind == "raises":
        name = example.error.rpartition(".")[2]
        return [f"with pytest.raises({name}):", *(f"    {line}" for line in example.expression.splitlines())]
    if example.kind == "output":
        return [
            *example.expression.splitlines(),
            f"assert capsys.readouterr().out.strip() == {example.expected!r}",
        ]
    result = f"result = {example.expression.strip()}"
    if is_literal(example.expected):
        test = "is" if example.expected in ("None", "True", "False") else "=="
        return [*result.splitlines(), f"assert result {test} {example.expected}"]
    if example.origin.startswith("interactive"):
        return [
            *result.splitlines(),
            f"assert ' '.join(repr(result).split()) == {' '.join(example.expected.split())!r}",
        ]
    if is_expression(example.expected):
        return [*result.splitlines(), f"assert result == ({example.expected})"]
    return [*result.splitlines(), f"assert repr(result) == {example.expected!r}"]


def is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    return "\n" not in text.strip()


def render(tests: Sequence[Written]) -> bytes:
    """The pytest file."""
    imports = dict.fromkeys(line for test in tests for line in test.imports)
    if any(test.example.kind == "raises" for test in tests):
        imports = {"import pytest": None, **imports}
    parts = ['"""What the issue claims, as tests."""\n', "\n".join(imports) + "\n" if imports else ""]
    for test in tests:
        argument = "capsys" if test.example.kind == "output" else ""
        lines = "\n".join(f"    {line}" if line else "" for line in test.lines)
        parts.append(f"\n\ndef {test.name}({argument}):\n{lines}\n")
    return "".join(parts).encode()


def place(tree: Tree, workdir: str, code: bytes) -> str:
    """Next to the existing tests where there are any, else at the working directory's root."""
    name = f"test_agentforge_repro_{hashlib.sha256(code).hexdigest()[:8]}.py"
    inside = f"{workdir}/" if workdir else ""
    folders = Counter(
        p.rpartition("/")[0] for p in tree.paths() if p.startswith(inside) and is_runnable_test(tree, p)
    )
    if not folders:
        return inside + name
    folder = min(folders, key=lambda f: (-folders[f], f))
    return f"{folder}/{name}" if folder else name


class Names:
    """Where the names of a claim come from: its own statements, the tree, or the standard library."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._defined: dict[str, list[str]] | None = None

    def imports(self, code: str) -> tuple[list[str], set[str]]:
        """Import lines for the free names of `code`, and the names nobody defines."""
        parsed = ast.parse(code)
        nodes = list(ast.walk(parsed))
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        bound |= {
            n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
        }
        bound |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bound |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in nodes):
            return [], set()
        used = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        free = [name for name in dict.fromkeys(used) if name not in bound and name not in BUILTINS]
        found = {name: self.find(name) for name in free if name != "pytest"}
        return [line for line in found.values() if line], {name for name, line in found.items() if not line}

    def find(self, name: str) -> str:
        """The import line for `name`, "" where it is unknown."""
        modules = self.defined().get(name, [])
        if modules:
            return f"from {modules[0]} import {name}"
        if any(name in roots(path) for path in source_files(self.tree)):
            return f"import {name}"
        return f"import {name}" if name in sys.stdlib_module_names else ""

    def defined(self) -> Mapping[str, list[str]]:
        """Top-level function and class names, and those a package re-exports -> modules, best first."""
        if self._defined is None:
            found: dict[str, list[tuple[bool, int, str]]] = {}
            for path in source_files(self.tree):
                for name, own in top_names(self.tree.read(path).data):
                    module = module_of(self.tree, path)
                    public = not any(part.startswith("_") for part in module.split("."))
                    found.setdefault(name, []).append((not own or not public, module.count("."), module))
            self._defined = {name: [m for _, _, m in sorted(places)] for name, places in found.items()}
        return self._defined


def top_names(code: bytes) -> list[tuple[str, bool]]:
    """(name, whether defined here rather than imported) of a module's functions, classes and re-exports."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    own = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    simple = [
        t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    ]
    near = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.level > 0]
    taken = [a.asname or a.name for n in near for a in n.names]
    return [(name, True) for name in (*own, *simple)] + [(name, False) for name in taken]


def module_of(tree: Tree, path: str) -> str:
    """The dotted name under which `path` is imported: from the first folder that is no package."""
    parts = path.removesuffix(".py").split("/")
    start = len(parts) - 1
    while start > 0 and tree.kind("/".join([*parts[:start], "__init__.py"])) == "file":
        start -= 1
    names = parts[start:]
    return ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)


def roots(path: str) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in module_names(path))


# Judging on the base


def refusal(test: Written, test_id: str, reports: Sequence[TestReport], path: str) -> str:
    """Why a test does not count; "" where it fails on the base for the issue's reason, twice."""
    outcomes = {report.outcomes.get(test_id) for report in reports}
    if outcomes == {None}:
        return f"it was not run ({reports[0].cause.value}: {reports[0].cause_detail or 'no outcome'})"
    if len(outcomes) > 1:
        return "it is flaky: two runs on the base differ"
    if outcomes == {Outcome.PASSED}:
        return "it passes on the base"
    if outcomes != {Outcome.FAILED}:
        return "it cannot be set up"
    return wrong_reason(test.example, reports[0].failures.get(test_id, TestFailure()), path)


def wrong_reason(example: Example, failure: TestFailure, path: str) -> str:
    """Why the failure is not the one the issue speaks of, "" where it is."""
    name = failure.exception.rpartition(".")[2]
    deeper = any(place != path and not is_test_path(place) for place, _, _ in failure.frames)
    if example.kind == "crash":
        wanted = example.error.rpartition(".")[2]
        return "" if name == wanted else f"it raises {name or 'something else'}, not {wanted}"
    if name in TEST_ERRORS and not deeper:
        return f"it cannot be set up: {name}: {failure.message[:120]}"
    if example.kind == "raises" and name == "Failed":
        return ""
    if name == "AssertionError" or deeper:
        return ""
    if (
        example.kind == "value"
        and name in ("TypeError", "AttributeError", "ValueError")
        and name in failure.message
    ):
        return f"it fails in the test itself: {name}"
    return "" if name == "" else f"it fails with {name} outside the repository's code"


def existing_targets(issue: Issue, baseline: TestReport | None) -> tuple[str, ...]:
    """Failing tests of the base whose name, or whose failure, shares telling words with the issue."""
    if baseline is None:
        return ()
    text = f"{issue.title}\n{issue.text}"
    quoted = " ".join(a or b for a, b in re.findall(r"`([^`\n]+)`|(\w+)\(", text))
    words = set(IDENTIFIER.findall(quoted)) | {w for w in IDENTIFIER.findall(text) if "_" in w or "." in w}
    named = [
        test for test in sorted(baseline.failed) if speaks_of(test, baseline.failures.get(test), words, text)
    ]
    return tuple(named)


def speaks_of(test: str, failure: TestFailure | None, words: set[str], text: str) -> bool:
    name = test.rpartition("::")[2].partition("[")[0]
    if name in text or test in text:
        return True
    parts = {name.removeprefix("test_").removeprefix("test"), *name.split("_")}
    frames = {function for _, _, function in failure.frames} if failure else set()
    return bool(words & (parts | frames))
