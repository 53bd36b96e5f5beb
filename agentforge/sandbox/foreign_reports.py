"""Outcomes per test from what other tools write: JUnit files and unittest's verbose output.

Both come from the tests' own side and can be forged; `command_report` holds them against the exit code.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field

from agentforge.core.report import Outcome, TestFailure
from agentforge.sandbox.output import printable

MAX_JUNIT = 16 * 1024 * 1024
_MAX_LINE = 64 * 1024
_MAX_TESTS = 100_000
_MAX_TEXT = 6000


@dataclass
class Found:
    """Outcome per id, and why those that went wrong did."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failures: dict[str, TestFailure] = field(default_factory=dict)

    def add(self, test: str, outcome: Outcome, failure: TestFailure | None = None) -> None:
        """One that is reported twice keeps the worse outcome."""
        bad = (Outcome.FAILED, Outcome.ERROR)
        if len(self.outcomes) >= _MAX_TESTS or (self.outcomes.get(test) in bad and outcome not in bad):
            return
        self.outcomes[test] = outcome
        if outcome in bad:
            self.failures[test] = failure or TestFailure()

    @property
    def bad(self) -> list[str]:
        return sorted(self.failures)


def read_junit(data: bytes) -> Found:
    """Ids are `class name::name`. Raises `ValueError` for what is no JUnit report, or declares entities."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError("it declares a document type")
    try:
        root = ElementTree.fromstring(data)  # noqa: S314  no document type, so no entities to expand
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError(f"its root is <{printable(root.tag.encode('utf-8', 'replace'))[:40]}>")
    found = Found()
    for case in root.iter("testcase"):
        name = "::".join(part for part in (case.get("classname", ""), case.get("name", "")) if part)
        outcome, failure = _case(case)
        found.add(_shown(name or "unnamed"), outcome, failure)
    return found


def _case(case: ElementTree.Element) -> tuple[Outcome, TestFailure | None]:
    for tag, outcome in (("error", Outcome.ERROR), ("failure", Outcome.FAILED)):
        element = case.find(tag)
        if element is not None:
            return outcome, TestFailure(
                exception=_shown(element.get("type", "")),
                message=_shown(element.get("message", "")),
                traceback=_shown(element.text or ""),
            )
    return (Outcome.SKIPPED if case.find("skipped") is not None else Outcome.PASSED), None


def _shown(text: str) -> str:
    return printable(text[:_MAX_TEXT].encode("utf-8", "surrogatepass"))


# "test_a (pkg.test_x.T.test_a)" since Python 3.11, "test_a (pkg.test_x.T)" before; what follows may be the
# first line of the docstring on a line of its own; output of the test may stand before the word.
_NAMED = re.compile(r"^(?P<name>\w+) \((?P<where>[\w.]+)\)")
_ENDED = re.compile(
    r"(?:\.\.\. |^)(?:.*\.\.\. )?(?P<word>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$"
)
_SECTION = re.compile(r"^(?:FAIL|ERROR): (?P<name>\w+) \((?P<where>[\w.]+)\)")
_RAN = re.compile(r"^Ran (\d+) tests? in ")
_WORDS = {
    "ok": Outcome.PASSED,
    "FAIL": Outcome.FAILED,
    "ERROR": Outcome.ERROR,
    "expected failure": Outcome.XFAILED,
    "unexpected success": Outcome.XPASSED,
}


class UnittestOutput:
    """Reads `unittest -v` (and Django's `test -v 2`) line by line as it arrives, from standard error:
    what tests print stands on the other stream, and could come in between at any place."""

    def __init__(self, module_path: Callable[[str], str]) -> None:
        self.found = Found()
        self.ran: int | None = None
        """What the runner itself says it ran; None when it never came to the end."""
        self._module_path = module_path
        self._rest = bytearray()
        self._open = ""
        self._section = ""
        self._text: list[str] = []

    def write(self, chunk: bytes) -> None:
        self._rest += chunk
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest[-_MAX_LINE:])
        for line in lines:
            self._line(printable(line[-_MAX_LINE:]))

    def close(self) -> None:
        if self._rest:
            self._line(printable(bytes(self._rest)))
        self._end_section()
        if self._open:
            self.found.add(self._open, Outcome.ERROR, TestFailure(message="the test did not finish"))

    def _line(self, line: str) -> None:
        section = _SECTION.match(line)
        ran = _RAN.match(line)
        if section or ran or line.startswith("=" * 70):
            self._end_section()
        if section:
            self._section = self._id(section["name"], section["where"])
            return
        if ran:
            self.ran = int(ran.group(1))
            return
        if self._section:
            self._text = [*self._text[-200:], line]
            return
        named = _NAMED.match(line)
        if named:
            self._open = self._id(named["name"], named["where"])
        ended = _ENDED.search(line)
        if ended and self._open:
            outcome = _WORDS.get(ended["word"], Outcome.SKIPPED)
            self.found.add(self._open, outcome)
            self._open = ""

    def _end_section(self) -> None:
        if self._section:
            text = [line for line in self._text if line.strip("-= ")]
            exception, _, message = (text[-1] if text else "").partition(": ")
            failure = TestFailure(
                exception=exception, message=message, traceback="\n".join(text)[-_MAX_TEXT:]
            )
            before = self.found.outcomes.get(self._section, Outcome.ERROR)
            worse = before if before in (Outcome.FAILED, Outcome.ERROR) else Outcome.ERROR
            self.found.add(self._section, worse, failure)
        self._section, self._text = "", []

    def _id(self, name: str, where: str) -> str:
        """`file::Class::test` where the file is known, as pytest would call it."""
        parts = where.split(".")
        if parts[-1] == name:
            parts = parts[:-1]
        if where.startswith("unittest.loader._FailedTest"):
            path = self._module_path(name)
            return path or name
        for end in range(len(parts), 0, -1):
            path = self._module_path(".".join(parts[:end]))
            if path:
                return "::".join((path, *parts[end:], name))
        return "::".join((".".join(parts), name))
