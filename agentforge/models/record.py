"""Every model call on disk: one JSON line each, durable before the answer is used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from agentforge.core.base import Frozen
from agentforge.core.chat import Completion, Message, ModelRequest, Spend
from agentforge.core.errors import AgentForgeError, LimitReached, RecordError
from agentforge.core.ports import TokenSink
from agentforge.core.redact import Redactor
from agentforge.models.ledger import CallAccount, Charge, Ledger, estimate_prompt_tokens

RECORD_VERSION = 1
INTERRUPTED = "interrupted"


class AccountingModel(Protocol):
    """A `core.ports.Model` that also says what a call was billed: it is added to `account`."""

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion: ...


class MeteredModel(AccountingModel, Protocol):
    """One that also says what it would send."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """`request` with every default filled in, as it would be sent."""


class CallListener(Protocol):
    """Told of every call as it goes; `call` counts from 1 over a run."""

    def on_start(self, call: int, agent: str, model: str) -> None: ...

    def on_token(self, call: int, agent: str, text: str) -> None: ...

    def on_reset(self, call: int, agent: str, reason: str) -> None: ...

    def on_finish(self, call: int, agent: str, completion: Completion, spend: Spend) -> None: ...


class Asked(Frozen):
    """What the agent itself set; None where it left the choice to the settings."""

    model: str | None = None
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None


class CallFailure(Frozen):
    """How a call failed: the error's class name, its line and hint; `limit` where one was reached."""

    kind: str
    what: str
    hint: str = ""
    limit: str = ""
    status: int | None = None


class VoidedStream(Frozen):
    """Text that was shown and taken back, with the reason."""

    text: str
    reason: str


class CallRecord(Frozen):
    """One line of calls.jsonl. Texts are redacted; `request` is what was sent, `asked` what the agent set.

    `pieces` are the lengths of the streamed pieces of the answer, in characters. `cost_usd` covers all
    attempts (`charges`), failed ones too; None where a price is unknown or nothing was billed.
    """

    v: int = RECORD_VERSION
    call: int
    key: str
    agent: str
    model: str
    request: ModelRequest
    asked: Asked
    completion: Completion | None = None
    error: CallFailure | None = None
    charges: tuple[Charge, ...] = ()
    cost_usd: float | None = None
    retries: int = 0
    latency_s: float = 0.0
    started: datetime
    ended: datetime
    pieces: tuple[int, ...] = ()
    voided: tuple[VoidedStream, ...] = ()
    notes: tuple[str, ...] = ()
    spend: Spend = Spend()


def asked_of(request: ModelRequest) -> Asked:
    return Asked(
        model=request.model,
        temperature=request.temperature,
        seed=request.seed,
        max_tokens=request.max_tokens,
    )


def call_key(request: ModelRequest) -> str:
    """What decides an answer, as the agent asked for it: agent, messages, parameters (SHA-256, hex)."""
    canonical = json.dumps(request.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def redacted(request: ModelRequest, redactor: Redactor) -> ModelRequest:
    """`request` without secrets."""
    messages = tuple(
        Message(role=message.role, content=redactor.text(message.content)) for message in request.messages
    )
    return request.model_copy(update={"messages": messages})


@dataclass
class CallTape:
    """The sink of one call: passes everything on and keeps it."""

    call: int
    agent: str
    sink: TokenSink | None
    listener: CallListener | None
    pieces: list[str] = field(default_factory=list)
    voided: list[tuple[str, str]] = field(default_factory=list)

    def token(self, text: str) -> None:
        self.pieces.append(text)
        if self.listener is not None:
            self.listener.on_token(self.call, self.agent, text)
        if self.sink is not None:
            self.sink.token(text)

    def reset(self, reason: str) -> None:
        self.voided.append(("".join(self.pieces), reason))
        self.pieces.clear()
        if self.listener is not None:
            self.listener.on_reset(self.call, self.agent, reason)
        if self.sink is not None:
            self.sink.reset(reason)


class RecordingModel:
    """A `Model` around another: appends each call to `path` and tells `listener`.

    The line is on disk (fsync) before the answer is handed on. A torn last line, left by a kill, is cut
    off first; numbering goes on where the file ends. Failed and interrupted calls are recorded too.
    `reopened` are calls of a resumed run that have no answer yet, by number, with their record where there
    is one: their numbers are given out again, and what they had cost is entered with the new attempt.
    """

    def __init__(
        self,
        inner: MeteredModel,
        path: Path,
        ledger: Ledger,
        listener: CallListener | None = None,
        *,
        redactor: Redactor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        reopened: Mapping[int, CallRecord | None] | None = None,
    ) -> None:
        self._inner = inner
        self._path = path
        self._ledger = ledger
        self._listener = listener
        self._redactor = redactor or Redactor()
        self._now = now
        self._lock = threading.Lock()
        self._reopened = dict(reopened or {})
        self._used = {record.call for record in _opened(path)} - self._reopened.keys()

    def resolve(self, request: ModelRequest) -> ModelRequest:
        return self._inner.resolve(request)

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion:
        """As the inner model's; recorded."""
        sent = self._inner.resolve(request)
        model = str(sent.model)
        tape = CallTape(self._next_call(), request.agent, sink, self._listener)
        account = account or CallAccount()
        self._enter_lost_attempt(tape.call, sent, account)
        started = self._now()
        if self._listener is not None:
            self._listener.on_start(tape.call, request.agent, model)
        try:
            completion = await self._inner.complete(request, tape, account)
        except BaseException as error:
            self._keep(request, sent, tape, account, started, error=self._failure(error))
            raise
        self._keep(request, sent, tape, account, started, completion=completion)
        if self._listener is not None:
            self._listener.on_finish(tape.call, request.agent, completion, self._ledger.spend)
        return completion

    def _next_call(self) -> int:
        with self._lock:
            number = next(number for number in count(1) if number not in self._used)
            self._used.add(number)
            return number

    def _enter_lost_attempt(self, call: int, sent: ModelRequest, account: CallAccount) -> None:
        """The process died while this call was under way: what it may have been billed counts."""
        if call not in self._reopened:
            return
        record = self._reopened.pop(call)
        if record is not None:
            charges = list(record.charges)
        else:
            # As much as was reserved for it: nobody knows how far it came, and the limits must hold.
            prompt, output = estimate_prompt_tokens(sent.messages), sent.max_tokens or 0
            lost = Charge(
                agent=sent.agent,
                model=str(sent.model),
                prompt_tokens=prompt,
                completion_tokens=output,
                cost_usd=self._ledger.price(prompt, output, 0, str(sent.model)),
                estimated=True,
            )
            charges = [lost]
        account.charges.extend(charges)
        self._ledger.restore(charges)

    def _keep(
        self,
        request: ModelRequest,
        sent: ModelRequest,
        tape: CallTape,
        account: CallAccount,
        started: datetime,
        completion: Completion | None = None,
        error: CallFailure | None = None,
    ) -> None:
        clean = self._redactor.text
        ended = self._now()
        kept = completion and completion.model_copy(update={"text": clean(completion.text)})
        unchanged = completion is not None and kept is not None and kept.text == completion.text
        self._append(
            CallRecord(
                call=tape.call,
                key=call_key(redacted(request, self._redactor)),
                agent=request.agent,
                model=completion.model if completion else str(sent.model),
                request=redacted(sent, self._redactor),
                asked=asked_of(request),
                completion=kept,
                error=error,
                charges=tuple(account.charges),
                cost_usd=account.cost_usd,
                retries=account.retries,
                latency_s=completion.latency_s if completion else (ended - started).total_seconds(),
                started=started,
                ended=ended,
                pieces=tuple(len(piece) for piece in tape.pieces) if unchanged else (),
                voided=tuple(VoidedStream(text=clean(text), reason=clean(why)) for text, why in tape.voided),
                notes=tuple(account.notes),
                spend=self._ledger.spend,
            )
        )

    def _failure(self, error: BaseException) -> CallFailure:
        clean = self._redactor.text
        if isinstance(error, AgentForgeError):
            return CallFailure(
                kind=type(error).__name__,
                what=clean(error.what),
                hint=clean(error.hint),
                limit=error.limit if isinstance(error, LimitReached) else "",
                status=getattr(error, "status", None),
            )
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            return CallFailure(kind=INTERRUPTED, what="the call was interrupted")
        return CallFailure(kind=type(error).__name__, what=clean(str(error)))

    def _append(self, record: CallRecord) -> None:
        # Not in a thread: an interrupted call must leave its line too, and a line takes milliseconds.
        line = record.model_dump_json().encode() + b"\n"
        with self._lock, open(self._path, "ab", opener=_private) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    """A new record is for its owner alone: prompts hold other people's code."""
    return os.open(path, flags, 0o600)


def load_calls(path: Path) -> list[CallRecord]:
    """The calls in `path`, in the order they ended. A torn last line is left out.

    Raises `RecordError` where the file is missing or another line is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read the model calls in {path}: {error.strerror}") from error
    *lines, torn = data.split(b"\n")
    records = [_parsed(line, path, number) for number, line in enumerate(lines, 1) if line]
    if torn:
        records += _whole_after_all(torn)
    return records


def latest_of_each(records: Iterable[CallRecord]) -> list[CallRecord]:
    """The last record of each call, by number: one that was cut off is made again by a resumed run."""
    return sorted({record.call: record for record in records}.values(), key=lambda record: record.call)


def _parsed(line: bytes, path: Path, number: int) -> CallRecord:
    try:
        return CallRecord.model_validate_json(line)
    except ValidationError as error:
        why = _first_error(error)
        raise RecordError(f"{path}, line {number}, is not a recorded model call: {why}") from error


def _whole_after_all(line: bytes) -> list[CallRecord]:
    """The last line where only its newline is missing."""
    try:
        return [CallRecord.model_validate_json(line)]
    except ValidationError:
        return []


def _first_error(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])} {first['msg']}".strip()


def _opened(path: Path) -> list[CallRecord]:
    """The calls already in `path`. A torn last line is cut off; one that lacks only its newline gets it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return []
    records = load_calls(path)
    with path.open("r+b") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        if _whole_after_all(data[end:]):
            file.write(b"\n")
        else:
            file.truncate(end)
    return records
