"""Cognitive deadlock: the same failure after an edit at the same place (AgentForge, failure modes).

Pure functions over the history of a run. Each deadlock moves on to the next strategy; after the last
the run stops instead of paying for the same again.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from agentforge.agents.context import split_lines
from agentforge.agents.symbols import changes_between, decode, enclosing, python_symbols
from agentforge.core.base import Frozen
from agentforge.core.report import TestFailure, TestReport
from agentforge.core.tree import Tree


class Strategy(StrEnum):
    """How the next round differs; in the order in which they are tried."""

    NORMAL = "normal"
    WIDER_CONTEXT = "wider_context"
    OTHER_PLACE = "other_place"
    HIGHER_TEMPERATURE = "higher_temperature"
    STOP = "stop"


_ORDER = (Strategy.WIDER_CONTEXT, Strategy.OTHER_PLACE, Strategy.HIGHER_TEMPERATURE, Strategy.STOP)


class Attempt(Frozen):
    """One executed candidate: how it failed, and which places it edits."""

    signature: str
    places: tuple[str, ...] = ()


class Decision(Frozen):
    """What to do next. `failed_places` are the edit places of the repeated attempt."""

    strategy: Strategy = Strategy.NORMAL
    signature: str = ""
    failed_places: tuple[str, ...] = ()

    @property
    def deadlock(self) -> bool:
        return self.strategy is not Strategy.NORMAL


NO_DEADLOCK = Decision()


def next_strategy(attempts: Sequence[Attempt]) -> Decision:
    """NORMAL unless the last attempt repeats an earlier one; then as many steps on as there were repeats.

    A repeat has the signature of an earlier attempt and edits no place that one did not.
    """
    repeats = [place for place in range(len(attempts)) if _repeats(attempts[place], attempts[:place])]
    if not repeats or repeats[-1] != len(attempts) - 1:
        return NO_DEADLOCK
    last = attempts[-1]
    tried = sorted({name for item in attempts if item.signature == last.signature for name in item.places})
    strategy = _ORDER[min(len(repeats), len(_ORDER)) - 1]
    return Decision(strategy=strategy, signature=last.signature, failed_places=tuple(tried))


def _repeats(attempt: Attempt, earlier: Iterable[Attempt]) -> bool:
    return any(
        other.signature == attempt.signature and set(attempt.places) <= set(other.places) for other in earlier
    )


def failure_signature(report: TestReport) -> str:
    """Which tests fail and how, without what varies between runs (addresses, times, line numbers).

    Readable in front, exact by the hash behind: equal strings mean equal failures.
    """
    parts = [f"{report.cause.value}"]
    for test in sorted(report.failed):
        failure = report.failures.get(test, TestFailure())
        parts.append(f"{test}|{failure.exception}|{normalise(failure.message)}")
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:12]
    kinds = sorted({failure.exception for failure in report.failures.values() if failure.exception})
    shown = ", ".join(kinds[:3]) or report.cause.value
    return f"{shown} in {len(report.failed)} tests #{digest}"


_VARYING = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x"),
    (re.compile(r"(?:/[\w.+-]+){2,}"), "/path"),
    (re.compile(r"\bline \d+|:\d+(?=:|\b)"), "line"),
    (re.compile(r"\b\d+\.\d+ ?s(?:econds)?\b"), "time"),
    (re.compile(r"\s+"), " "),
)


def normalise(message: str) -> str:
    """`message` without addresses, absolute paths, line numbers and durations."""
    for pattern, stand_in in _VARYING:
        message = pattern.sub(stand_in, message)
    return message.strip()


def edit_places(base: Tree, candidate: Tree) -> tuple[str, ...]:
    """Where `candidate` differs from `base`: "path::Class.method", or "path:line" outside of symbols,
    or "path" for a new, deleted or binary file. Lines and names are the base's."""
    found: set[str] = set()
    for path, entry in changes_between(base, candidate).items():
        before = base.files.get(path)
        if before is None or entry is None or b"\0" in before.data + entry.data:
            found.add(path)
        else:
            found.update(_places_in(path, before.data, entry.data))
    return tuple(sorted(found))


def _places_in(path: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = decode(before), decode(after)
    spans = python_symbols(old)
    for start, end in _changed_ranges(split_lines(old), split_lines(new)):
        for line in range(start + 1, max(end, start + 1) + 1):
            span = enclosing(spans, line)
            yield f"{path}::{span.name}" if span else f"{path}:{line}"


def _changed_ranges(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Changed ranges of `old`, 0-based, end excluded. Common ends go first, since matching is quadratic."""
    limit = min(len(old), len(new))
    head = next((place for place in range(limit) if old[place] != new[place]), limit)
    rest = range(1, limit - head + 1)
    tail = next((back - 1 for back in rest if old[-back] != new[-back]), limit - head)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) > 2000)
    for tag, start, end, _, _ in matcher.get_opcodes():
        if tag != "equal":
            yield head + start, head + end
