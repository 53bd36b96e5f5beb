"""Which generated tests count: those seen to fail on the base for the issue's reason.

The rule, in this order. A test is discarded as

1. **broken** where the file could not be collected, or the failure lies in the test file itself
   (syntax, unknown name, missing fixture, a module that cannot be imported, set-up errors);
2. **always green** where it passes on the base, **not failing** where it is skipped or expected to fail;
3. **flaky** where two runs on the base differ in outcome, exception or message;
4. **unrelated** where the environment failed (network, permissions), or an exception was raised in the
   test's own frame, as by a call of what does not exist or with a wrong signature.

It is accepted where an assertion of the test failed (an expected exception that did not come
included), where the exception was raised in the repository's own code, where it does not end and the
issue speaks of that, or where the issue names the exception, which, raised in the test's own frame,
must not be about the call itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentforge.agents.deadlock import normalise
from agentforge.agents.expectations import stated_tests
from agentforge.agents.extract import parse_python, test_functions
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.task import Issue

_BROKEN = frozenset(
    {"SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError", "FixtureLookupError"}
)
_IMPORT = frozenset({"ImportError", "ModuleNotFoundError"})
_ENVIRONMENT = frozenset(
    {"ConnectionError", "ConnectionRefusedError", "gaierror", "URLError", "PermissionError", "MemoryError"}
)
_ASSERTION = frozenset({"AssertionError", "Failed"})
_ABOUT_THE_CALL = re.compile(
    r"unexpected keyword argument|positional argument|required keyword-only|has no attribute|"
    r"object is not callable|takes no arguments|cannot import name",
)
_NEVER_ENDED = {
    Cause.TIMEOUT: re.compile(
        r"\b(hang\w*|infinite|endless|never (?:return|terminat|finish|end|stop)\w*|time[sd]? ?out|forever)\b"
    ),
    Cause.OOM: re.compile(r"\bmemory\b"),
}


@dataclass(frozen=True)
class Admission:
    """`accepted` test ids, `discarded` as (test id or file, why), and the reason of each accepted one.

    `stated` are those accepted whose expected values or exceptions all stand in the issue: the others
    may expect what the model made up, and are the first to doubt where no candidate passes them.
    """

    accepted: tuple[str, ...] = ()
    discarded: tuple[tuple[str, str], ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    stated: tuple[str, ...] = ()


def problem_of(admission: Admission) -> str:
    """Why nothing counted, for the tester's next attempt; "" where something did."""
    if admission.accepted:
        return ""
    return "; ".join(f"{test.rsplit('::', 1)[-1]}: {why}" for test, why in admission.discarded[:5])


def admit_tests(base: TestReport, rerun: TestReport, code: bytes, issue: Issue, path: str) -> Admission:
    """Judge the tests of the file `path` by two runs on the base.

    `code` is the file's text: a test in it that did not run is discarded by name.
    """
    ids = sorted({*_of_file(base, path), *_of_file(rerun, path)})
    accepted: dict[str, str] = {}
    discarded = [(name, "broken: it did not run") for name in _not_run(code, ids, path)]
    if not ids:
        return Admission((), ((path, _why_nothing(base)),))
    for test in ids:
        why = _why_not(test, base, rerun, issue, path)
        if why:
            discarded.append((test, why))
        else:
            accepted[test] = _reason(base.failures.get(test, TestFailure()))
    known = stated_tests(code, issue)
    stated = tuple(test for test in accepted if test.removeprefix(f"{path}::").split("[", 1)[0] in known)
    return Admission(tuple(accepted), tuple(discarded), accepted, stated)


def _of_file(report: TestReport, path: str) -> list[str]:
    return [test for test in report.outcomes if test == path or test.startswith(f"{path}::")]


def _not_run(code: bytes, ids: list[str], path: str) -> list[str]:
    module = parse_python(code)
    names = test_functions(module) if module else ()
    ran = {test.split("[", 1)[0] for test in ids}
    return [f"{path}::{name}" for name in names if ids and f"{path}::{name}" not in ran]


def _why_nothing(report: TestReport) -> str:
    detail = report.cause_detail or report.cause.value
    if report.cause in (Cause.OK, Cause.NO_TESTS):
        return "broken: no test of the file ran"
    return f"broken: the file could not be run ({detail})"


def _why_not(test: str, base: TestReport, rerun: TestReport, issue: Issue, path: str) -> str:
    first, second = base.outcomes.get(test), rerun.outcomes.get(test)
    failure = base.failures.get(test, TestFailure())
    if first is not second or (first in _RED and _differs(failure, rerun.failures.get(test, TestFailure()))):
        return f"flaky: two runs on the base differ ({_shown(first)}, {_shown(second)})"
    if first in (Outcome.PASSED, Outcome.XPASSED):
        return "always green: it passes on the base"
    if first not in _RED:
        return f"not failing: {_shown(first)} on the base"
    if test == path:
        return f"broken: the file cannot be collected ({failure.exception}: {_first_line(failure.message)})"
    if base.cause in _NEVER_ENDED and not failure.exception:
        named = _NEVER_ENDED[base.cause].search(_text(issue).lower())
        return "" if named else f"unrelated: it did not finish ({base.cause.value})"
    return _unrelated(failure, issue, path)


_RED = (Outcome.FAILED, Outcome.ERROR)


def _shown(outcome: Outcome | None) -> str:
    return outcome.value if outcome else "not run"


def _differs(first: TestFailure, second: TestFailure) -> bool:
    return first.exception != second.exception or normalise(first.message) != normalise(second.message)


def _unrelated(failure: TestFailure, issue: Issue, path: str) -> str:
    """Why a failure does not show the issue; "" where it does."""
    kind = failure.exception.rsplit(".", 1)[-1]
    in_test = not failure.frames or failure.frames[-1][0] == path
    named = _names_it(issue, kind, failure.message)
    if re.search(r"fixture '.*' not found", failure.message):
        return "broken: it asks for a fixture that does not exist"
    if in_test and kind in _BROKEN:
        return f"broken: {kind} in the test itself"
    if kind in _IMPORT and (in_test or not named):
        return f"broken: {kind}: {_first_line(failure.message)}"
    if kind in _ENVIRONMENT and not named:
        return f"unrelated: the environment refused something ({kind})"
    if kind in _ASSERTION or (not kind and failure.message.startswith("assert ")) or not in_test:
        return ""
    if named and not _ABOUT_THE_CALL.search(failure.message):
        return ""
    if _quotes(issue, failure.message):
        return ""
    return f"unrelated: {kind or 'an unknown failure'} raised by the test itself, not by the code under test"


def _names_it(issue: Issue, kind: str, message: str) -> bool:
    return bool(kind and re.search(rf"\b{re.escape(kind)}\b", _text(issue))) or _quotes(issue, message)


def _quotes(issue: Issue, message: str) -> bool:
    """Whether the issue holds the exception's message (short ones could be chance)."""
    line = _first_line(message)
    return len(line) >= 12 and line in " ".join(_text(issue).split())


def _text(issue: Issue) -> str:
    return f"{issue.title}\n{issue.text}"


def _first_line(message: str) -> str:
    return " ".join(message.split("\n", 1)[0].split())[:200]


def _reason(failure: TestFailure) -> str:
    line = _first_line(failure.message)
    where = ""
    if failure.frames:
        path, number, function = failure.frames[-1]
        where = f" at {path}:{number} in {function}"
    said = ": ".join(part for part in (failure.exception, line) if part) or "a failure"
    return f"fails on the base with {said}{where}"
