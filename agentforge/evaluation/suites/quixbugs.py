"""The Python programs of QuixBugs as small repositories: half of the test cases given, half held out.

A local checkout of the public benchmark is read; nothing of it is kept here.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cached_property
from pathlib import Path

from agentforge.core.errors import EnvironmentFault, UsageError
from agentforge.core.ports import EnvironmentSpec, Sandbox, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.evaluation.suites.protocol import SelfCheck

CONFTEST = b"import pytest\n\npytest.use_correct = False\npytest.run_slow = False\n"
JUDGE_S = 60.0
_HELPERS = ("python_testcases/load_testdata.py", "python_testcases/node.py")


class QuixBugs:
    """A checkout. `half` is 0 or 1: which of the test cases, by their index modulo 2."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not self.names:
            raise UsageError(
                f"{path} is no checkout of QuixBugs: it has no python_testcases/test_*.py",
                hint="clone the public repository and give its folder",
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        tests = sorted((self.path / "python_testcases").glob("test_*.py"))
        return tuple(test.stem.removeprefix("test_") for test in tests)

    @cached_property
    def hash(self) -> str:
        """Over everything that a trial or its judge reads."""
        digest = hashlib.sha256()
        for name in self.names:
            for half in (0, 1):
                digest.update(self.tree(name, half).digest.encode())
            digest.update(self._read(f"correct_python_programs/{name}.py"))
        return digest.hexdigest()[:16]

    def tree(self, name: str, half: int) -> Tree:
        """The program, its helpers and half of the test cases."""
        return Tree({place: TreeFile(data) for place, data in self._files(name, half).items()})

    def judged_tree(self, name: str, half: int, changes: Changes) -> Tree:
        """Half of the cases with what a candidate did to the program and its helpers, and nothing else.

        A test, a conftest or a configuration of pytest that it brings must not judge it.
        """
        own = (program_path(name), *_HELPERS[1:])
        return self.tree(name, half).with_changes({path: changes[path] for path in own if path in changes})

    def whole_tree(self, names: tuple[str, ...], *, correct: bool) -> Tree:
        """Several programs, as they are or as they should be, with all their test cases."""
        files: dict[str, bytes] = {}
        for name in names:
            files |= self._files(name, None)
            if correct:
                files[program_path(name)] = self._read(f"correct_python_programs/{name}.py")
        return Tree({place: TreeFile(data) for place, data in files.items()})

    def _files(self, name: str, half: int | None) -> dict[str, bytes]:
        files = {program_path(name): self._read(program_path(name)), "conftest.py": CONFTEST}
        files |= {helper: self._read(helper) for helper in _HELPERS}
        test, cases = self._read(cases_path(name)), self.path / f"json_testcases/{name}.json"
        if cases.exists():
            lines = [line for line in cases.read_bytes().splitlines(keepends=True) if line.strip()]
            files[f"json_testcases/{name}.json"] = b"".join(lines if half is None else lines[half::2])
        elif half is not None:
            test = keep_half(test, half)
        files[cases_path(name)] = test
        return files

    def _read(self, place: str) -> bytes:
        try:
            return (self.path / place).read_bytes()
        except OSError as error:
            raise UsageError(f"{self.path / place} cannot be read: {error.strerror}") from None


def program_path(name: str) -> str:
    return f"python_programs/{name}.py"


def cases_path(name: str) -> str:
    return f"python_testcases/test_{name}.py"


def keep_half(code: bytes, half: int) -> bytes:
    """A test module without every second of its test functions."""
    tree = ast.parse(code)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    dropped = set(map(id, tests)) - set(map(id, tests[half::2]))
    tree.body = [node for node in tree.body if id(node) not in dropped]
    return ast.unparse(tree).encode() + b"\n"


async def run_half(sandbox: Sandbox, tree: Tree, name: str) -> TestReport:
    """The test cases of `tree`."""
    environment = await sandbox.prepare(tree, EnvironmentSpec())
    request = TestRequest(targets=(cases_path(name),), timeout_s=JUDGE_S)
    return await sandbox.run_tests(environment, tree, request)


async def failing_half(sandbox: Sandbox, suite: QuixBugs, name: str) -> int:
    """The first half of the cases that shows the bug. Raises `EnvironmentFault` where it could not be run."""
    report = await run_half(sandbox, suite.tree(name, 0), name)
    if report.cause is Cause.INFRA:
        raise EnvironmentFault(f"{name}: its test cases could not be run", hint="see that the engine is well")
    return 0 if report.failed or not report.passed else 1


async def check_quixbugs(
    suite: QuixBugs, patient: Sandbox, hasty: Sandbox, names: tuple[str, ...], timeout_s: float
) -> SelfCheck:
    """The corrected programs pass all their cases, the programs as they are fail at least one.

    Many bugs are endless loops, so these run in `hasty`, whose limit of one test may be short.
    """
    found: list[str] = []
    for sandbox, correct in ((patient, True), (hasty, False)):
        tree = suite.whole_tree(names, correct=correct)
        environment = await sandbox.prepare(tree, EnvironmentSpec())
        request = TestRequest(targets=tuple(map(cases_path, names)), timeout_s=timeout_s)
        report = await sandbox.run_tests(environment, tree, request)
        found += [told for name in names for told in _odd(report, name, correct)]
    return SelfCheck(suite="quixbugs", references=len(names), mutants=len(names), problems=tuple(found))


def _odd(report: TestReport, name: str, correct: bool) -> list[str]:
    own = {test for test in report.outcomes if test.split("::")[0] == cases_path(name)}
    failed = own & set(report.failed)
    if not own:
        return [f"{name}: did not run ({report.cause.value})"]
    if correct and failed:
        return [f"{name}: the reference fails {len(failed)} of {len(own)} cases"]
    return [] if correct or failed else [f"{name}: the program with the bug passes"]
