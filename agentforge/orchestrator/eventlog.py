"""The event log of one run: numbers, stamps, redacts, writes and hands on every event."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agentforge.core.chat import Completion, Spend
from agentforge.core.events import (
    EVENT_ADAPTER,
    Event,
    EventBase,
    ModelCallFinished,
    ModelCallStarted,
    Notice,
    RunFinished,
    StreamReset,
    Token,
)
from agentforge.core.ports import Clock
from agentforge.core.redact import Redactor

Listener = Callable[[Event], None]
Write = Callable[[bytes, bool], None]


class EventLog:
    """Durable events get the next number and go to `write`; tokens carry the number they follow."""

    def __init__(self, clock: Clock, redactor: Redactor, write: Write, listener: Listener) -> None:
        self._clock, self._redactor = clock, redactor
        self._write, self._listener = write, listener
        self._seq = 0

    @property
    def last(self) -> int:
        """Number of the last durable event."""
        return self._seq

    def emit(self, event: EventBase) -> None:
        if isinstance(event, Token):
            self.show(event)
            return
        self._seq += 1
        stamped = event.model_copy(update={"seq": self._seq, "time": self._clock.now()})
        clean = redact(stamped.model_dump(mode="json"), self._redactor)
        # Sorted, so that a replay that reads its input back from JSON writes the same bytes.
        line = json.dumps(clean, ensure_ascii=True, separators=(",", ":"), sort_keys=True).encode()
        self._write(line, isinstance(event, RunFinished))
        self._listener(EVENT_ADAPTER.validate_json(line))

    def show(self, event: Token | Notice) -> None:
        """Hand on a transient event: tokens, and what a long preparation is doing just now."""
        text = self._redactor.text(event.text)
        self._listener(event.model_copy(update={"seq": self._seq, "text": text}))


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
        self._emit(ModelCallStarted(call=call, agent=agent, model=model))

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
