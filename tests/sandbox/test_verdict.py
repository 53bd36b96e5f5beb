"""From events to outcomes and causes, without an engine: what counts as a pass, and what never does."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agentforge.core.report import Cause, Outcome
from agentforge.sandbox.container import Ended
from agentforge.sandbox.counters import Counters
from agentforge.sandbox.record import MAX_EVENT, ExecutionRecord
from agentforge.sandbox.verdict import Circumstances, command_cause, outcomes, test_cause

T = "t.py::test_a"


def event(kind: str, **values: Any) -> dict[str, Any]:
    return {"kind": kind, **values}


def phase(
    when: str, outcome: str = "passed", *, raw: str | None = None, xfail: bool = False
) -> list[dict[str, Any]]:
    failure = {"exception": "E", "message": "m", "frames": [["t.py", 3, "test_a"]]} if raw == "failed" else {}
    return [
        event("raw", id=T, when=when, outcome=raw or outcome, failure=failure),
        event("phase", id=T, when=when, outcome=outcome, xfail=xfail, duration=0.1, text=""),
    ]


def session(*phases: list[dict[str, Any]], code: int = 0) -> list[dict[str, Any]]:
    return [
        event("hello"),
        event("collected", ids=[T]),
        event("start", id=T),
        *(one for each in phases for one in each),
        event("finish", id=T),
        event("end", code=code),
    ]


def record_of(events: list[dict[str, Any]]) -> ExecutionRecord:
    record = ExecutionRecord()
    data = b"".join(json.dumps(one).encode() + b"\n" for one in events)
    for start in range(0, len(data), 7):  # events never arrive whole
        record.feed(data[start : start + 7])
    return record


def seen(code: int | None, **changes: Any) -> Circumstances:
    duration = changes.pop("duration", 1.0)
    killed = changes.pop("host_killed", False)
    values = {"counters": Counters(), "timeout_s": 30.0, "memory_mb": 512} | changes
    return Circumstances(ended=Ended(code, duration, killed), **values)


GREEN = session(phase("setup"), phase("call"), phase("teardown"))
RED = session(phase("setup"), phase("call", "failed", raw="failed"), phase("teardown"), code=1)


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        ([phase("setup"), phase("call"), phase("teardown")], Outcome.PASSED),
        ([phase("setup"), phase("call", "failed", raw="failed"), phase("teardown")], Outcome.FAILED),
        ([phase("setup", "failed", raw="failed"), phase("teardown")], Outcome.ERROR),
        ([phase("setup"), phase("call"), phase("teardown", "failed", raw="failed")], Outcome.ERROR),
        ([phase("setup"), phase("call", "failed", raw="failed"), phase("teardown", "failed")], Outcome.ERROR),
        ([phase("setup", "skipped"), phase("teardown")], Outcome.SKIPPED),
        ([phase("setup"), phase("call", "skipped"), phase("teardown")], Outcome.SKIPPED),
        (
            [phase("setup"), phase("call", "skipped", raw="failed", xfail=True), phase("teardown")],
            Outcome.XFAILED,
        ),
        ([phase("setup"), phase("call", "passed", xfail=True), phase("teardown")], Outcome.XPASSED),
        ([phase("setup"), phase("call", "failed", raw="passed"), phase("teardown")], Outcome.FAILED),
        ([phase("setup"), phase("call", "passed", raw="failed"), phase("teardown")], Outcome.FAILED),
        ([phase("setup"), phase("call", "skipped", raw="failed"), phase("teardown")], Outcome.FAILED),
        ([phase("setup"), phase("teardown")], Outcome.ERROR),
        ([phase("call")], Outcome.ERROR),
    ],
)
def test_phases_are_merged(phases: list[list[dict[str, Any]]], outcome: Outcome) -> None:
    found, _ = outcomes(record_of(session(*phases)))
    assert found == {T: outcome}


def test_a_failure_keeps_its_details() -> None:
    _, failures = outcomes(record_of(RED))
    assert failures[T].exception == "E"
    assert failures[T].frames == (("t.py", 3, "test_a"),)


@pytest.mark.parametrize(
    ("code", "events", "cause"),
    [
        (0, GREEN, Cause.OK),
        (1, RED, Cause.OK),
        (1, GREEN, Cause.CRASH),  # the process and the report disagree
        (0, RED, Cause.CRASH),
        (0, GREEN[:-1], Cause.CRASH),  # never finished
        (0, GREEN[:4], Cause.CRASH),
        (0, [], Cause.INFRA),  # no report at all
        (97, [event("fault", what="pytest cannot be imported")], Cause.INFRA),
        (0, [*GREEN[:1], event("collected", ids=[T, "t.py::test_b"]), *GREEN[2:]], Cause.CRASH),
        (0, [*GREEN[:1], *GREEN[2:]], Cause.CRASH),  # an outcome of a test that was never collected
        (0, [*GREEN[:-1], event("unheard_of"), GREEN[-1]], Cause.CRASH),
        (5, [event("hello"), event("end", code=5)], Cause.NO_TESTS),
        (2, [event("hello"), event("end", code=2)], Cause.CRASH),
        (3, [event("hello"), event("internal_error", text="boom"), event("end", code=3)], Cause.CRASH),
        (4, [event("hello"), event("end", code=4)], Cause.INFRA),
        (0, session(phase("setup"), phase("call", "failed", raw="failed"), phase("teardown")), Cause.INFRA),
        (1, session(phase("setup"), phase("call"), phase("teardown"), code=1), Cause.INFRA),
        (
            1,
            [
                event("hello"),
                event("collect_error", id="t.py", failure={"exception": "E", "message": "m", "text": ""}),
                event("end", code=1),
            ],
            Cause.COLLECTION_ERROR,
        ),
        (139, GREEN[:4], Cause.SIGNAL),
        (124, GREEN[:4], Cause.CRASH),  # somebody's own exit code, long before the limit
    ],
)
def test_cause_of_a_test_run(code: int, events: list[dict[str, Any]], cause: Cause) -> None:
    assert test_cause(seen(code), record_of(events))[0] is cause


test_cause.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("circumstances", "cause", "words"),
    [
        (seen(124, duration=30.1), Cause.TIMEOUT, "30 s"),
        (seen(137, duration=32.1), Cause.TIMEOUT, "30 s"),
        (seen(None, duration=36.0, host_killed=True), Cause.TIMEOUT, "30 s"),
        (seen(137, counters=Counters(oom_kills=1)), Cause.OOM, "512 MB"),
        (seen(137), Cause.SIGNAL, "SIGKILL"),
        (seen(139), Cause.SIGNAL, "SIGSEGV"),
        (seen(137, container_running=False), Cause.SIGNAL, "from within"),
        (seen(1), Cause.OK, ""),
        (seen(1, counters=Counters(oom_kills=2)), Cause.OK, "out of memory"),
        (seen(1, counters=Counters(pids_refused=2)), Cause.OK, "processes"),
        (seen(1, disk_full=True), Cause.OK, "disk"),
    ],
)
def test_cause_of_a_command(circumstances: Circumstances, cause: Cause, words: str) -> None:
    found, detail = command_cause(circumstances)
    assert found is cause
    assert words in detail


@pytest.mark.parametrize(
    ("circumstances", "cause", "words"),
    [
        (seen(1, counters=Counters(pids_refused=3)), Cause.PIDS, "limit of processes"),
        (seen(139, counters=Counters(pids_refused=3)), Cause.PIDS, "limit of processes"),
        (seen(1, disk_full=True), Cause.DISK_FULL, "disk was full"),
        (seen(1, counters=Counters(oom_kills=1, pids_refused=3)), Cause.OOM, "512 MB"),
        (seen(1), Cause.CRASH, "before its report was complete"),
        (seen(134), Cause.SIGNAL, "SIGABRT"),
        (seen(124, duration=31, counters=Counters(pids_refused=3)), Cause.TIMEOUT, "30 s"),
    ],
)
def test_what_cut_the_report_short_is_named(circumstances: Circumstances, cause: Cause, words: str) -> None:
    found, detail = test_cause(circumstances, record_of(GREEN[:4]))
    assert found is cause
    assert words in detail


def test_where_it_was_and_for_how_long_is_said() -> None:
    record = record_of(GREEN[:4])
    record.running_since = time.monotonic() - 31
    detail = test_cause(seen(124, duration=31), record)[1]
    assert detail == f"not finished after 30 s, in {T} after 31.0 s"


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'"x"',
        b"{}",
        b'{"kind": "feed"}',
        b'{"kind": "start"}',
        b'{"kind": "start", "id": 5}',
        b'{"kind": "collected", "ids": [null]}',
        b'{"kind": ["x"]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_malformed_event_spoils_the_record(line: bytes) -> None:
    record = record_of(GREEN[:-1])
    record.feed(line + b"\n" + json.dumps(GREEN[-1]).encode() + b"\n")
    assert record.damage
    assert test_cause(seen(0), record)[0] is Cause.CRASH


def test_a_flood_of_events_is_bounded() -> None:
    record = ExecutionRecord()
    for _ in range(20):
        record.feed(b"x" * (1 << 20))
    assert record.damage == "an event of the report is too large"
    assert len(record._buffer) <= MAX_EVENT + (1 << 20)
    small = ExecutionRecord(limit=100)
    small.feed(json.dumps(event("start", id="x" * 200)).encode() + b"\n")
    assert small.damage == "the report is too large"


def test_ids_are_made_safe_to_show() -> None:
    record = record_of([event("start", id="t.py::test[\x1b[2J\u202e\ud800]")])
    (name,) = record.tests
    assert name == "t.py::test[\\x1b[2J\\x202e\\xed\\xa0\\x80]"
