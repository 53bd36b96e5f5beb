"""From how a command ended and what was reported to a test report with an exact cause.

Nothing is believed for its own sake: a report counts only when it was finished, its exit code is
the process's, and every collected test has an outcome. Otherwise the cause says what is missing.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from agentforge.core.report import Cause, Outcome, TestFailure
from agentforge.sandbox.container import Ended
from agentforge.sandbox.counters import Counters
from agentforge.sandbox.record import ExecutionRecord, TestRecord

EXIT_INTERRUPTED = 2
EXIT_INTERNAL = 3
EXIT_USAGE = 4
EXIT_NO_TESTS = 5
_TIMEOUT_EXIT = 124
_KILLED = 137


@dataclass(frozen=True)
class Circumstances:
    """What the host knows about an execution."""

    ended: Ended
    counters: Counters
    timeout_s: float
    memory_mb: int
    container_running: bool = True
    disk_full: bool = False

    @property
    def timed_out(self) -> bool:
        late = self.ended.duration_s >= self.timeout_s
        return self.ended.host_killed or (late and self.ended.exit_code in (None, _TIMEOUT_EXIT, _KILLED))

    def notes(self) -> str:
        """What the kernel saw although the tests came to an end."""
        found = []
        if self.counters.oom_kills:
            found.append(f"a process was killed: out of memory ({self.memory_mb} MB)")
        if self.counters.pids_refused:
            found.append("the limit of processes was reached")
        if self.disk_full:
            found.append("the sandbox's disk was full")
        return "; ".join(found)


def command_cause(seen: Circumstances) -> tuple[Cause, str]:
    """Cause of a command that reports nothing but its exit code."""
    if seen.timed_out:
        return Cause.TIMEOUT, f"not finished after {seen.timeout_s:g} s"
    code = seen.ended.exit_code
    if seen.counters.oom_kills and (code is None or code >= 128):
        return Cause.OOM, f"out of memory ({seen.memory_mb} MB)"
    if code is None or not seen.container_running:
        return Cause.SIGNAL, "every process of the sandbox was killed from within"
    if code >= 128:
        return Cause.SIGNAL, f"killed by {_signal_name(code)}"
    return Cause.OK, seen.notes()


def _exhausted(seen: Circumstances) -> tuple[Cause, str]:
    """What ran out under a command that did not come to its own end; OK when nothing did."""
    if seen.counters.oom_kills:
        return Cause.OOM, f"out of memory ({seen.memory_mb} MB)"
    if seen.counters.pids_refused:
        return Cause.PIDS, "the limit of processes was reached"
    if seen.disk_full:
        return Cause.DISK_FULL, "the sandbox's disk was full"
    return Cause.OK, ""


def test_cause(seen: Circumstances, record: ExecutionRecord) -> tuple[Cause, str]:
    """Cause of a test run, by the record and the circumstances together."""
    code = seen.ended.exit_code
    finished = record.end_code is not None and not record.damage
    if not finished or record.end_code != code:
        return _unfinished(seen, record)
    if code == EXIT_USAGE:
        return Cause.INFRA, "pytest refused its arguments or configuration"
    if code == EXIT_INTERNAL or record.internal_error:
        return Cause.CRASH, "pytest itself failed: " + record.internal_error[-300:]
    if code == EXIT_INTERRUPTED:
        return Cause.CRASH, "the test session was interrupted from within" + _while(record, seen)
    if not record.tests and record.collection_errors:
        files = ", ".join(sorted(record.collection_errors)[:5])
        return Cause.COLLECTION_ERROR, f"no test could be collected; errors in {files}"
    if not record.tests:
        deselected = f" ({record.deselected} were deselected)" if record.deselected else ""
        return Cause.NO_TESTS, "no test was collected" + deselected
    return _cross_checked(seen, record)


def _cross_checked(seen: Circumstances, record: ExecutionRecord) -> tuple[Cause, str]:
    missing = [test for test in record.collected if not _is_over(record, test)]
    extra = set(record.tests) - set(record.collected)
    if missing:
        return Cause.CRASH, f"{len(missing)} collected tests have no outcome, first {missing[0]}"
    if extra:
        return Cause.CRASH, f"outcomes of tests that were never collected, first {min(extra)}"
    bad = [test for test, found in record.tests.items() if found.outcome in (Outcome.FAILED, Outcome.ERROR)]
    rewritten = [test for test, found in record.tests.items() if found.rewritten]
    if seen.ended.exit_code != 0 and not bad and not record.collection_errors:
        return Cause.INFRA, f"exit code {seen.ended.exit_code} although no reported test failed"
    if seen.ended.exit_code == 0 and (set(bad) - set(rewritten) or record.collection_errors):
        return Cause.INFRA, "exit code 0 although tests failed"
    notes = [seen.notes()]
    if rewritten:
        notes.append(
            f"{len(rewritten)} outcomes were rewritten by the repository's own hooks and are not believed"
        )
    if record.tampered:
        named = ", ".join(sorted(record.tampered)[:3])
        notes.append(f"the repository's code replaced parts of the test framework: {named}")
    return Cause.OK, "; ".join(note for note in notes if note)


def _is_over(record: ExecutionRecord, test: str) -> bool:
    found = record.tests.get(test, TestRecord())
    return found.finished and bool(found.phases)


def _unfinished(seen: Circumstances, record: ExecutionRecord) -> tuple[Cause, str]:
    cause, detail = command_cause(seen)
    if cause in (Cause.OK, Cause.SIGNAL):
        # Running out of something explains a signal better than the signal does.
        reason, why = _exhausted(seen)
        cause, detail = (reason, why) if reason is not Cause.OK else (cause, detail)
    if cause is not Cause.OK:
        return cause, detail + _while(record, seen)
    if record.fault:
        return Cause.INFRA, record.fault
    if not record.greeted:
        return Cause.INFRA, f"the test runner ended with exit code {seen.ended.exit_code} and no report"
    if record.damage:
        return Cause.CRASH, record.damage
    if record.end_code is None:
        what = f"the test process ended with exit code {seen.ended.exit_code} before its report was complete"
        return Cause.CRASH, what + _while(record, seen)
    return (
        Cause.CRASH,
        f"the report says exit code {record.end_code}, the process ended with {seen.ended.exit_code}",
    )


def _while(record: ExecutionRecord, seen: Circumstances) -> str:
    """Which test was running, and for how long."""
    if not record.running:
        return ""
    spent = max(seen.ended.ended_at - record.running_since, 0.0)
    return f", in {record.running} after {spent:.1f} s"


def outcomes(record: ExecutionRecord) -> tuple[dict[str, Outcome], dict[str, TestFailure]]:
    """Outcome per test id, and why those that went wrong did. A file that cannot be collected is an id."""
    found: dict[str, Outcome] = {}
    failures: dict[str, TestFailure] = {}
    for test, entry in record.tests.items():
        over = entry.finished or bool(entry.phases.get("teardown"))
        found[test] = entry.outcome if over else Outcome.ERROR
        if found[test] in (Outcome.FAILED, Outcome.ERROR):
            failures[test] = entry.failure if over else TestFailure(message="the test did not finish")
    for path, failure in record.collection_errors.items():
        found[path] = Outcome.ERROR
        failures[path] = failure
    return found, failures


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"signal {code - 128}"
