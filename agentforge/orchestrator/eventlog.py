"""The event log of one run: numbers, stamps, redacts, writes and hands on every event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentforge.core.chat import Completion, Spend
from agentforge.core.errors import RecordError
from agentforge.core.events import (
    EVENT_ADAPTER,
    Event,
    EventBase,
    ModelCallFinished,
    ModelCallStarted,
    Notice,
    RunFinished,
    RunResumed,
    StreamReset,
    Token,
)
from agentforge.core.ports import Clock
from agentforge.core.redact import Redactor

Listener = Callable[[Event], None]
Write = Callable[[bytes, bool], None]


@dataclass(frozen=True)
class Prefix:
    """What a run had said before it was resumed: the lines of its own course, in order.

    `jumps` maps a number to the one after which numbering goes on: what lies between was said by endings
    that do not hold any more. The last jump, after the last line, is this resumption's.
    """

    lines: tuple[bytes, ...] = ()
    jumps: Mapping[int, int] = field(default_factory=dict)


_HELD: ContextVar[list[EventBase] | None] = ContextVar("held", default=None)


@contextmanager
def holding() -> Iterator[list[EventBase]]:
    """Durable events of this task are kept in the list instead of being told: a branch that runs beside
    others tells its events when they are done, so that their order is always the same."""
    events: list[EventBase] = []
    token = _HELD.set(events)
    try:
        yield events
    finally:
        _HELD.reset(token)


@contextmanager
def telling() -> Iterator[None]:
    """Inside of `holding`: what is emitted in the block is told."""
    token = _HELD.set(None)
    try:
        yield
    finally:
        _HELD.reset(token)


_STEP: ContextVar[str] = ContextVar("step", default="")


@contextmanager
def for_step(step: str) -> Iterator[None]:
    """The model calls of this task in the block are made for a step of the plan."""
    token = _STEP.set(step)
    try:
        yield
    finally:
        _STEP.reset(token)


class EventLog:
    """Durable events get the next number and go to `write`; tokens carry the number they follow.

    Events of the `prefix` are only compared with what was recorded: nobody hears of them again. When all
    were said once more, `on_resumed` is called, and then the first new event is written.
    """

    def __init__(
        self,
        clock: Clock,
        redactor: Redactor,
        write: Write,
        listener: Listener,
        prefix: Prefix = Prefix(),
        on_resumed: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._redactor = clock, redactor
        self._write, self._listener = write, listener
        self._on_resumed = on_resumed
        self._prefix = prefix
        self._seq = self._said = 0

    @property
    def last(self) -> int:
        """Number of the last durable event."""
        return self._seq

    @property
    def repeating(self) -> bool:
        """Whether the recorded past of a resumed run is still being gone through."""
        return self._said < len(self._prefix.lines)

    def emit(self, event: EventBase) -> None:
        held = _HELD.get()
        if held is not None and _waits(event, held):
            held.append(event)
            return
        if isinstance(event, Token):
            self.show(event)
            return
        was_repeating = self.repeating
        self._seq = self._prefix.jumps.get(self._seq, self._seq) + 1
        self._said += 1
        line = self._line(event, self._clock.now())
        if was_repeating:
            self._compare(line)
        else:
            self._tell(line, last=isinstance(event, RunFinished))

    def _line(self, event: EventBase, time: datetime) -> bytes:
        stamped = event.model_copy(update={"seq": self._seq, "time": time})
        clean = redact(stamped.model_dump(mode="json"), self._redactor)
        # Sorted, so that a replay that reads its input back from JSON writes the same bytes.
        return json.dumps(clean, ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode()

    def _tell(self, line: bytes, *, last: bool) -> None:
        self._write(line, last)
        self._listener(EVENT_ADAPTER.validate_json(line))

    def _compare(self, line: bytes) -> None:
        """Raises `RecordError` where the resumed run takes another way than the recorded one."""
        recorded = self._prefix.lines[self._said - 1]
        if line != recorded:
            raise RecordError(
                f"the run cannot be resumed: event {self._seq} was {recorded[:200]!r}, now {line[:200]!r}",
                hint="its code, configuration or input changed; start it anew",
            )
        if not self.repeating:
            self._resumed()

    def _resumed(self) -> None:
        """Say that the run goes on; by the machine's clock, for it is no part of the run's own course."""
        self._on_resumed()
        after, number = self._seq, self._prefix.jumps[self._seq]
        self._seq = number
        line = self._line(RunResumed(after=after), datetime.now(UTC))
        self._seq = after
        self._tell(line, last=False)

    def show(self, event: Token | Notice) -> None:
        """Hand on a transient event: tokens, and what a long preparation is doing just now."""
        if self.repeating:
            return
        text = self._redactor.text(event.text)
        self._listener(event.model_copy(update={"seq": self._seq, "text": text}))


def _waits(event: EventBase, held: list[EventBase]) -> bool:
    """Whether an event has to wait with those that are `held`.

    The start of a call does not: a run that is killed must know which calls were under way. Tokens do
    only behind a reset, which must void nothing but what came before it.
    """
    if isinstance(event, Token):
        return bool(held) and isinstance(held[-1], StreamReset | Token)
    return not isinstance(event, ModelCallStarted)


def redact(value: Any, redactor: Redactor) -> Any:
    """A JSON value with every string in it redacted."""
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {redactor.text(key): redact(entry, redactor) for key, entry in value.items()}
    if isinstance(value, list):
        return [redact(entry, redactor) for entry in value]
    return value


class ModelEvents:
    """Turns what the model port reports into events."""

    def __init__(self, emit: Callable[[EventBase], None]) -> None:
        self._emit = emit

    def on_start(self, call: int, agent: str, model: str) -> None:
        self._emit(ModelCallStarted(call=call, agent=agent, model=model, step=_STEP.get()))

    def on_token(self, call: int, agent: str, text: str) -> None:
        self._emit(Token(call=call, agent=agent, text=text))

    def on_reset(self, call: int, agent: str, reason: str) -> None:
        self._emit(StreamReset(call=call, agent=agent, reason=reason))

    def on_finish(self, call: int, agent: str, completion: Completion, spend: Spend) -> None:
        self._emit(
            ModelCallFinished(
                call=call,
                agent=agent,
                model=completion.model,
                finish_reason=completion.finish_reason,
                usage=completion.usage,
                cost_usd=completion.cost_usd,
                spend=spend,
            )
        )
