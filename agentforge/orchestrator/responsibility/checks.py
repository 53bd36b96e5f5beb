"""The nodes' own checks as one pytest file: words become evidence only by being executed
(AuditCoder, 3.1)."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agentforge.core.report import Cause, Outcome, TestReport
from agentforge.core.responsibility import Evidence, Responsibility
from agentforge.core.tree import Tree
from agentforge.search.reproduce import Names, place

_RESOURCE = (Cause.TIMEOUT, Cause.OOM, Cause.PIDS)


class CheckFile(NamedTuple):
    """`tests` maps each test id to (node id, number of the check, the expression)."""

    path: str
    code: bytes
    tests: Mapping[str, tuple[str, int, str]]


def check_file(nodes: Iterable[Responsibility], tree: Tree, workdir: str = "") -> CheckFile | None:
    """None where no node has a check whose names are known in `tree`."""
    names = Names(tree)
    parts: list[str] = []
    rows: list[tuple[str, tuple[str, int, str]]] = []
    for node in nodes:
        for number, check in enumerate(node.checks):
            expression = check.removeprefix("assert ").strip()
            imports, unknown = names.imports(expression)
            if unknown:
                continue
            name = f"test_{re.sub(r'[^A-Za-z0-9]', '_', node.id)}_{number}_{len(rows)}"
            parts.append(_function(name, imports, expression))
            rows.append((name, (node.id, number, expression)))
    if not rows:
        return None
    code = "\n\n".join(parts).encode()
    path = place(tree, workdir, code)
    folder, _, file = path.rpartition("/")
    digest = hashlib.sha256(code).hexdigest()[:8]
    path = f"{folder}/test_agentforge_local_{digest}.py" if folder else f"test_agentforge_local_{digest}.py"
    assert file
    return CheckFile(path, code, {f"{path}::{name}": row for name, row in rows})


def _function(name: str, imports: Iterable[str], expression: str) -> str:
    """Imports inside, so that one missing name fails one check only."""
    lines = "".join(f"    {line}\n" for line in imports)
    # Parsed and written anew: a line break inside the expression cannot leave the assert.
    return f"def {name}():\n{lines}    assert {ast.unparse(ast.parse(expression, mode='eval'))}\n"


def check_key(node: str, number: int) -> str:
    """The name of a check that stays the same from one file to the next."""
    return f"{node}#{number}"


def evidence_of(file: CheckFile, report: TestReport) -> tuple[tuple[Evidence, ...], frozenset[str]]:
    """What the checks say, node by node, and the keys of those that pass. One that did not run says
    nothing, unless the run was ended for its resources and one node alone was checked."""
    found: list[Evidence] = []
    passed: set[str] = set()
    for test, (node, number, expression) in file.tests.items():
        outcome = report.outcomes.get(test)
        if outcome is None:
            continue
        good = outcome is Outcome.PASSED
        if good:
            passed.add(check_key(node, number))
        seen = report.failures.get(test)
        timed = seen is not None and "timeout" in seen.exception.lower()
        said = "" if good or seen is None else f": {seen.exception} {seen.message[:200]}".rstrip()
        found.append(
            Evidence(
                node=node,
                kind="resource" if timed else "check",
                passed=good,
                text=f"{expression}{said}",
                test_id=check_key(node, number),
            )
        )
    return (*found, *_ended(file, report)), frozenset(passed)


def _ended(file: CheckFile, report: TestReport) -> tuple[Evidence, ...]:
    nodes = {node for node, _, _ in file.tests.values()}
    if report.cause not in _RESOURCE or len(nodes) != 1:
        return ()
    (node,) = nodes
    text = f"the checks of {node} alone ended with {report.cause.value}"
    return (Evidence(node=node, kind="resource", passed=False, text=text),)
