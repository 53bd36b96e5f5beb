"""What the reporter inside sent, read as what it is: the word of an untrusted process."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from agentforge.core.report import Outcome, TestFailure
from agentforge.sandbox.output import printable

MAX_RECORD = 64 * 1024 * 1024
"""Bytes of events accepted from one execution."""
MAX_EVENT = 8 * 1024 * 1024


@dataclass
class Phase:
    """Setup, call or teardown of a test: what pytest caught (`raw`) and what its report said."""

    raw: str = ""
    reported: str = ""
    xfail: bool = False
    failure: TestFailure = field(default_factory=TestFailure)


@dataclass
class TestRecord:
    __test__ = False

    phases: dict[str, Phase] = field(default_factory=dict)
    finished: bool = False
    duration_s: float = 0.0

    def phase(self, when: str) -> Phase:
        return self.phases.setdefault(when, Phase())

    @property
    def rewritten(self) -> bool:
        """An exception was caught, and the report, without an xfail mark, says otherwise."""
        return any(_is_rewritten(phase) for phase in self.phases.values())

    @property
    def outcome(self) -> Outcome:
        """All phases as one. An error in setup or teardown is an error whatever the call did."""
        setup, call, teardown = (self.phases.get(when, Phase()) for when in ("setup", "call", "teardown"))
        if _failed(setup) or _failed(teardown):
            return Outcome.ERROR
        if _failed(call):
            return Outcome.FAILED
        for phase in (setup, call):
            if phase.reported == "skipped":
                return Outcome.XFAILED if phase.xfail else Outcome.SKIPPED
        if call.xfail:
            return Outcome.XPASSED
        complete = call.reported == "passed" and call.raw == "passed" and teardown.reported == "passed"
        return Outcome.PASSED if complete else Outcome.ERROR

    @property
    def failure(self) -> TestFailure:
        for when in ("call", "setup", "teardown"):
            phase = self.phases.get(when)
            if phase is not None and _failed(phase):
                return phase.failure
        return TestFailure()


def _is_rewritten(phase: Phase) -> bool:
    return phase.raw == "failed" and phase.reported in ("passed", "skipped") and not phase.xfail


def _failed(phase: Phase) -> bool:
    return phase.reported == "failed" or _is_rewritten(phase)


class ExecutionRecord:
    """Events of one execution, fed as they arrive from another thread.

    An event that does not parse marks the record as damaged; a damaged record is never a pass.
    """

    def __init__(self, limit: int = MAX_RECORD) -> None:
        self.greeted = False
        self.ready = threading.Event()
        """Set when a launcher started ahead waits for its order, or will never do so."""
        self.pure = False
        """Whether that launcher had loaded nothing of the tree."""
        self.fault = ""
        self.damage = ""
        self.collected: list[str] = []
        self.tests: dict[str, TestRecord] = {}
        self.collection_errors: dict[str, TestFailure] = {}
        self.internal_error = ""
        self.deselected = 0
        self.tampered: set[str] = set()
        """Parts of the test framework that code of the repository replaced."""
        self.running = ""
        self.coverage: dict[str, dict[str, tuple[int, ...]]] = {}
        self.end_code: int | None = None
        self.closed = threading.Event()
        """Set when nothing more will come, or the report is complete."""
        self.running_since = 0.0
        self._buffer = bytearray()
        self._left = limit
        self._key: bytes | None = None
        self._count = 0

    def feed(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            self.damage = self.damage or "the report is too large"
            return
        self._buffer += chunk
        if b"\n" not in chunk:
            self._check_line()
            return
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            self._event(line)

    def _check_line(self) -> None:
        if len(self._buffer) > MAX_EVENT:
            self.damage = "an event of the report is too large"
            self._left = 0

    def _event(self, line: bytes) -> None:
        try:
            event = json.loads(self._opened(line))
            handler = getattr(self, "_on_" + event["kind"])
            handler(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.damage = self.damage or f"an event of the report is malformed: {printable(line[:80])}"

    def _test(self, event: dict[str, Any]) -> TestRecord:
        return self.tests.setdefault(_text(event["id"]), TestRecord())

    def _on_hello(self, event: dict[str, Any]) -> None:
        self.greeted = True

    def _opened(self, line: bytes) -> bytes:
        """The event of a line, its seal checked: the first line brings the key (`inside/launch.py`)."""
        if self._key is None:
            return line
        self._count += 1
        seal, _, text = line.partition(b" ")
        wanted = hashlib.blake2b(b"%d " % self._count + text, key=self._key, digest_size=16).hexdigest()
        if not hmac.compare_digest(seal, wanted.encode()):
            raise ValueError("not sealed")
        return text

    def _on_key(self, event: dict[str, Any]) -> None:
        self._key = bytes.fromhex(event["key"])

    def _on_tampered(self, event: dict[str, Any]) -> None:
        self.tampered.update(_text(name) for name in event["names"])

    def _on_ready(self, event: dict[str, Any]) -> None:
        self.pure = event["pure"] is True
        self.ready.set()

    def close(self) -> None:
        """Nothing more will come."""
        self.closed.set()
        self.ready.set()

    def _on_fault(self, event: dict[str, Any]) -> None:
        self.fault = _text(event["what"])

    def _on_collected(self, event: dict[str, Any]) -> None:
        self.collected.extend(_text(test) for test in event["ids"])

    def _on_collect_error(self, event: dict[str, Any]) -> None:
        self.collection_errors[_text(event["id"])] = _failure(
            event["failure"], _text(event["failure"]["text"])
        )

    def _on_internal_error(self, event: dict[str, Any]) -> None:
        self.internal_error = _text(event["text"])

    def _on_deselected(self, event: dict[str, Any]) -> None:
        self.deselected += int(event["count"])

    def _on_start(self, event: dict[str, Any]) -> None:
        self.running = _text(event["id"])
        self.running_since = time.monotonic()
        self._test(event)

    def _on_raw(self, event: dict[str, Any]) -> None:
        phase = self._test(event).phase(_text(event["when"]))
        phase.raw = "failed" if phase.raw == "failed" else _text(event["outcome"])
        if event["failure"]:
            phase.failure = _failure(event["failure"], phase.failure.traceback)

    def _on_phase(self, event: dict[str, Any]) -> None:
        test = self._test(event)
        phase = test.phase(_text(event["when"]))
        reported = _text(event["outcome"])
        phase.reported = "failed" if "failed" in (phase.reported, reported) else reported
        phase.xfail = phase.xfail or bool(event["xfail"])
        test.duration_s += float(event["duration"])
        if event["text"]:
            phase.failure = phase.failure.model_copy(update={"traceback": _text(event["text"])})

    def _on_finish(self, event: dict[str, Any]) -> None:
        self._test(event).finished = True
        self.running = ""

    def _on_coverage(self, event: dict[str, Any]) -> None:
        files = {_text(path): tuple(int(line) for line in lines) for path, lines in event["files"].items()}
        self.coverage[_text(event["id"])] = files

    def _on_end(self, event: dict[str, Any]) -> None:
        self.end_code = int(event["code"])
        self.closed.set()


def _failure(event: dict[str, Any], traceback: str) -> TestFailure:
    frames = tuple((_text(path), int(line), _text(name)) for path, line, name in event.get("frames", []))
    return TestFailure(
        exception=_text(event["exception"]),
        message=_text(event["message"]),
        traceback=traceback,
        frames=frames,
    )


def _text(value: object) -> str:
    """A string that is safe to show and to write; anything else is a malformed event."""
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return printable(value.encode("utf-8", "surrogatepass"))
