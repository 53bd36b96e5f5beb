"""The model of a resumed run: recorded answers as long as there are any, then the endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.ports import TokenSink
from agentforge.core.redact import Redactor
from agentforge.models.ledger import CallAccount, Ledger
from agentforge.models.record import (
    INTERRUPTED,
    CallListener,
    CallRecord,
    CallTape,
    MeteredModel,
    latest_of_each,
    load_calls,
)
from agentforge.models.replay import ReplayModel


class ResumedModel:
    """A `Model` over the calls in `path` and, for what is not among them, `live`, which appends to them.

    No call that was answered is made again: its answer, its error or its charges come from the record.
    `reopened` are calls without an answer that is to be kept; they are made anew.
    """

    def __init__(
        self,
        path: Path,
        live: MeteredModel,
        ledger: Ledger,
        listener: CallListener | None,
        *,
        reopened: Iterable[int],
        redactor: Redactor,
    ) -> None:
        path.touch(mode=0o600)
        self._live, self._ledger, self._listener = live, ledger, listener
        self._past = ReplayModel(path, ledger, redactor=redactor, without=frozenset(reopened))

    def resolve(self, request: ModelRequest) -> ModelRequest:
        known = self._past.following(request)
        return self._live.resolve(request) if known is None else known.request

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion:
        known = self._past.following(request)
        if known is None:
            return await self._live.complete(request, sink, account)
        if self._listener is None:
            return await self._past.complete(request, sink, account)
        tape = CallTape(known.call, request.agent, sink, self._listener)
        self._listener.on_start(known.call, request.agent, str(known.request.model))
        completion = await self._past.complete(request, tape, account)
        self._listener.on_finish(known.call, request.agent, completion, self._ledger.spend)
        return completion


def unanswered(path: Path, started: Iterable[int], *, ended_by_error: bool) -> dict[int, CallRecord | None]:
    """Calls to be made anew, by number: those `started` without a record, and those that were interrupted.

    `ended_by_error`: the last recorded call failed and thereby ended the run, so it is made anew, too, with
    all that failed while it was under way.
    """
    records = latest_of_each(load_calls(path)) if path.exists() else []
    known = {record.call: record for record in records}
    found: dict[int, CallRecord | None] = {call: None for call in started if call not in known}
    found |= {r.call: r for r in records if r.error is not None and r.error.kind == INTERRUPTED}
    if ended_by_error and records:
        last = max(records, key=lambda record: record.ended)
        if last.error is not None:
            found |= {r.call: r for r in records if r.error is not None and r.ended >= last.started}
    return found
