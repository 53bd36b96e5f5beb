"""A model that answers from a record: same question, same answer, no endpoint."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from agentforge.core import errors as core_errors
from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.errors import AgentForgeError, LimitReached, ModelError, RecordError
from agentforge.core.ports import TokenSink
from agentforge.core.redact import Redactor
from agentforge.models import errors as model_errors
from agentforge.models.errors import EndpointError
from agentforge.models.ledger import CallAccount, Ledger
from agentforge.models.record import (
    INTERRUPTED,
    CallFailure,
    CallRecord,
    asked_of,
    call_key,
    latest_of_each,
    load_calls,
    redacted,
)

SHOWN = 40


class ReplayModel:
    """A `Model` over a calls.jsonl. Equal requests are answered in recorded order, errors raised again.

    Streams through the sink what was streamed, taken-back text included, and enters the recorded charges
    into `ledger`. Raises `RecordError` for a request that is not in the record, naming how it differs.
    """

    def __init__(
        self,
        path: Path,
        ledger: Ledger | None = None,
        *,
        redactor: Redactor | None = None,
        without: frozenset[int] = frozenset(),
    ) -> None:
        self._path = path
        self._ledger = ledger
        self._redactor = redactor or Redactor()
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[CallRecord]] = defaultdict(deque)
        for record in latest_of_each(load_calls(path)):
            if record.call not in without:
                self._waiting[record.key].append(record)
        self._played = 0

    def following(self, request: ModelRequest) -> CallRecord | None:
        """The record that answers `request` next; None where there is none."""
        with self._lock:
            queue = self._waiting.get(self._key(request))
            return queue[0] if queue else None

    @property
    def unplayed(self) -> tuple[CallRecord, ...]:
        """Recorded calls that nobody has asked for, in order."""
        with self._lock:
            left = [record for queue in self._waiting.values() for record in queue]
        return tuple(sorted(left, key=lambda record: record.call))

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """The recorded request, with the parameters that were sent."""
        known = self.following(request)
        return known.request if known else request

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion:
        record = self._take(request)
        if account is not None:
            account.charges.extend(record.charges)
            account.notes.extend(record.notes)
            account.retries += record.retries
        await _stream(record, sink)
        if self._ledger is not None:
            self._ledger.restore(record.charges)
        if record.completion is None:
            raise _error(record)
        return record.completion

    def _key(self, request: ModelRequest) -> str:
        return call_key(redacted(request, self._redactor))

    def _take(self, request: ModelRequest) -> CallRecord:
        with self._lock:
            self._played += 1
            queue = self._waiting.get(self._key(request))
            if queue:
                return queue.popleft()
        raise self._diverged(redacted(request, self._redactor))

    def _diverged(self, request: ModelRequest) -> RecordError:
        """Which call it is and how it differs from the next one recorded for the same agent."""
        left = self.unplayed
        same_agent = [record for record in left if record.agent == request.agent]
        head = f"model call {self._played} of this replay ({request.agent}) is not in the record"
        hint = "the replayed run took another way: its code, configuration or input changed"
        if not left:
            return RecordError(f"{head}: every recorded call was used already", hint=hint)
        if not same_agent:
            following = f"the next one recorded is call {left[0].call} ({left[0].agent})"
            return RecordError(f"{head}: {following}", hint=hint)
        expected = same_agent[0]
        return RecordError(
            f"{head}: {_difference(expected, request)} in recorded call {expected.call}", hint=hint
        )


def _difference(record: CallRecord, request: ModelRequest) -> str:
    """The first difference between a recorded request and another."""
    was, now = record.asked.model_dump(), asked_of(request).model_dump()
    for name, value in was.items():
        if now[name] != value:
            return f"{name} is {now[name]!r}, it was {value!r}"
    if len(record.request.messages) != len(request.messages):
        return f"{len(request.messages)} messages, there were {len(record.request.messages)}"
    for number, (old, new) in enumerate(zip(record.request.messages, request.messages, strict=True), 1):
        if old != new:
            at = _first_difference(old.content, new.content)
            here, there = new.content[at : at + SHOWN], old.content[at : at + SHOWN]
            return f"message {number} ({new.role}) at character {at} says {here!r}, it was {there!r}"
    return "the JSON schema differs from the one"


def _first_difference(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))


async def _stream(record: CallRecord, sink: TokenSink | None) -> None:
    if sink is None:
        return
    for voided in record.voided:
        await _say(_words(voided.text), sink)
        sink.reset(voided.reason)
    if record.completion is not None:
        await _say(_pieces(record, record.completion.text), sink)


async def _say(pieces: Iterator[str], sink: TokenSink) -> None:
    for piece in pieces:
        sink.token(piece)
        await asyncio.sleep(0)


def _pieces(record: CallRecord, text: str) -> Iterator[str]:
    """`text` cut as it was streamed, or word by word where that is not known."""
    if sum(record.pieces) != len(text):
        yield from _words(text)
        return
    start = 0
    for length in record.pieces:
        yield text[start : start + length]
        start += length


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in re.finditer(r"\s*\S+|\s+", text))


def _error(record: CallRecord) -> AgentForgeError:
    """The recorded error as the same class."""
    failure = record.error or CallFailure(kind=INTERRUPTED, what="the call has no outcome")
    if failure.kind == INTERRUPTED:
        return RecordError(f"the recorded run was interrupted during model call {record.call}")
    kind = getattr(model_errors, failure.kind, None) or getattr(core_errors, failure.kind, None)
    if kind is LimitReached:
        return LimitReached(failure.limit, failure.what, hint=failure.hint)
    if isinstance(kind, type) and issubclass(kind, EndpointError):
        return kind(failure.what, hint=failure.hint, status=failure.status)
    if isinstance(kind, type) and issubclass(kind, AgentForgeError) and kind is not core_errors.PatchError:
        return kind(failure.what, hint=failure.hint)
    return ModelError(f"model call {record.call} failed with {failure.kind}: {failure.what}")
