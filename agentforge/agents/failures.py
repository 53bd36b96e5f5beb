"""Failing tests in words: the call, what was expected, what came (not a tail of noise)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from agentforge.agents.context import Place, clip
from agentforge.agents.extract import parse_python
from agentforge.core.paths import is_test_path
from agentforge.core.report import Cause, TestFailure, TestReport

_LARGEST = 20_000
"""Characters of a message or traceback that are looked at: its author may be hostile."""
_REPR = re.compile(r"<(?:bound method|function|class|module) '?([\w.<>]+)'?(?: (?:at|from|of) [^>]*)?>")
_WHERE = re.compile(r"^\s*\+?\s*where (?P<value>.+?) = (?P<call>[\w.]+\(.*\))\s*$", re.MULTILINE)
_UNITTEST = re.compile(
    r"^(?P<first>.+?) (?P<sign>!=|not less than|not greater than) (?P<second>.+?)(?: : .*)?$"
)


def describe_failures(
    report: TestReport, ids: Iterable[str] = (), *, tokens: int = 1500, most: int = 5
) -> str:
    """The failures of `report`, those in `ids` first, then how the run ended, then clipped output.

    Output is used only where no failure says anything. Empty where nothing failed.
    """
    wanted = list(dict.fromkeys(test for test in ids if test in report.failed))
    others = sorted(report.failed.difference(wanted))
    chosen = (wanted + others)[:most]
    each = max(60, tokens // max(1, len(chosen) + 1))
    parts = [clip(describe_failure(test, report.failures.get(test, TestFailure())), each) for test in chosen]
    left = len(wanted) + len(others) - len(chosen)
    if left:
        parts.append(f"... and {left} more failing tests")
    if report.cause is not Cause.OK:
        detail = f": {report.cause_detail}" if report.cause_detail else ""
        parts.append(f"The test run ended with {report.cause.value}{detail}.")
    if report.output and (not chosen or not any(report.failures.get(test) for test in chosen)):
        parts.append(clip(report.output, each))
    return "\n\n".join(parts)


def describe_failure(test: str, failure: TestFailure) -> str:
    """One failure: the test, call, expected and got where they can be told, else what was raised."""
    lines = [f"FAILED {test}"]
    compared = comparison(failure)
    if compared:
        call, expected, got = compared
        lines += [f"  call:     {call}"] if call else []
        lines += [f"  expected: {expected}", f"  got:      {got}"]
    else:
        lines += [f"  {line}" for line in _raised(failure)]
    lines += [f"  at {path}:{line} in {function}" for path, line, function in failure.frames[-3:]]
    return "\n".join(lines)


def _raised(failure: TestFailure) -> Iterator[str]:
    first = f"{failure.exception}: {failure.message}".strip(": ") or "no message"
    yield from first.split("\n")[:12]
    known = first
    for line in failure.traceback.split("\n"):
        if line.startswith((">", "E ")) and line[1:].strip() not in known:
            yield line


def comparison(failure: TestFailure) -> tuple[str, str, str] | None:
    """(call, expected, got) of a failed equality, or None.

    The side of the test's assert that holds the call is what came; else pytest's "where" line says so.
    Without either the common order (actual first) is assumed.
    """
    text = _REPR.sub(r"\1", (failure.message or _error_lines(failure.traceback))[:_LARGEST])
    sides = _assert_sides(text) or _unittest_sides(text)
    if sides is None:
        return None
    left, right = sides
    in_source = _called_side(failure.traceback[-_LARGEST:])
    if in_source:
        call, is_left = in_source
        return (call, right, left) if is_left else (call, left, right)
    calls = {found["value"]: found["call"] for found in _WHERE.finditer(text)}
    if left in calls:
        return calls[left], right, left
    if right in calls:
        return calls[right], left, right
    return "", right, left


_SOURCE_ASSERT = re.compile(r"^>?\s+(?P<statement>assert .+)$", re.MULTILINE)


def _called_side(traceback: str) -> tuple[str, bool] | None:
    """(call, whether it stands on the left) of the last assert in the traceback's source lines."""
    for found in reversed(list(_SOURCE_ASSERT.finditer(traceback))):
        tree = parse_python(found["statement"])
        node = tree.body[0] if tree and tree.body else None
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
            left, right = node.test.left, node.test.comparators[0]
            left_calls, right_calls = _holds_call(left), _holds_call(right)
            if left_calls is not right_calls:
                return _source(found["statement"], left if left_calls else right), left_calls
    return None


def _source(statement: str, node: ast.expr) -> str:
    """The text of `node`; unlike `ast.unparse` it does not recurse into what others nested."""
    return ast.get_source_segment(statement, node) or ""


def _holds_call(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def _error_lines(traceback: str) -> str:
    return "\n".join(line[1:].strip() for line in traceback.split("\n") if line.startswith("E "))


def _assert_sides(text: str) -> tuple[str, str] | None:
    for line in text.split("\n"):
        _, found, expression = line.partition("assert ")
        expression = expression.strip()
        tree = parse_python(expression) if found else None
        node = tree.body[0] if tree and len(tree.body) == 1 else None
        value = node.value if isinstance(node, ast.Expr) else None
        if (
            isinstance(value, ast.Compare)
            and len(value.ops) == 1
            and isinstance(value.ops[0], ast.Eq | ast.Is)
        ):
            return _source(expression, value.left), _source(expression, value.comparators[0])
    return None


def _unittest_sides(text: str) -> tuple[str, str] | None:
    first = text.split("\n", 1)[0][:2000].removeprefix("AssertionError: ")
    found = _UNITTEST.match(first)
    return (found["first"], found["second"]) if found and found["sign"] == "!=" else None


def failing_places(report: TestReport, ids: Sequence[str] = ()) -> tuple[Place, ...]:
    """Where failures passed through the repository's own code, innermost frames first."""
    tests = [test for test in ids if test in report.failures] or sorted(report.failures)
    places = [
        Place(path, "", line)
        for test in tests[:5]
        for path, line, _ in reversed(report.failures[test].frames)
        if not is_test_path(path)
    ]
    return tuple(dict.fromkeys(places))
