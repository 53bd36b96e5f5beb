"""Branches of one node that ask the model at once and are told of as if they had taken turns.

A call has a number, a place in the event log and a place in the spend, and a replay must find all three
again, however fast which answer came. So the branches go in lockstep: calls start, in the order of the
branches, when every branch that is still at work has one to make; and what came of them is told, in that
order, before the next ones start. Only tokens are shown as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.errors import AgentForgeError, RecordError
from agentforge.core.events import EventBase, ModelCallFinished
from agentforge.core.ports import TokenSink
from agentforge.models.ledger import CallAccount, Charge, spend_of
from agentforge.models.record import AccountingModel
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.eventlog import holding, telling

T = TypeVar("T")
Branch = Callable[[RunContext], Awaitable[T]]


async def in_lockstep(context: RunContext, branches: Sequence[Branch[T]]) -> list[T | AgentForgeError]:
    """What came of each branch, errors included: one that fails leaves the others at work.

    Raises `RecordError` where a replay or a resumed run leaves the recorded way.
    """
    lockstep: _Lockstep[T] = _Lockstep(context, len(branches))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lockstep.run(*numbered)) for numbered in enumerate(branches)]
    outcomes = [task.result() for task in tasks]
    for outcome in outcomes:
        if isinstance(outcome, RecordError):
            raise outcome
    lockstep.tell()
    return outcomes


@dataclass
class _Lane:
    """One branch. `gate` is what its next call waits for; `account` is that of its last one."""

    events: list[EventBase] = field(default_factory=list)
    at_work: bool = True
    gate: asyncio.Future[None] | None = None
    account: CallAccount = field(default_factory=CallAccount)


class _Lockstep(Generic[T]):
    def __init__(self, context: RunContext, lanes: int) -> None:
        self._context = context
        self._lanes = [_Lane() for _ in range(lanes)]
        self._charges = self._charged()

    async def run(self, number: int, branch: Branch[T]) -> T | AgentForgeError:
        lane, model = self._lanes[number], self._context.model
        assert model is not None, "the workflow was checked to have a model"
        with holding() as lane.events:
            try:
                return await branch(replace(self._context, model=_LaneModel(model, self, lane)))
            except AgentForgeError as error:
                return error
            finally:
                lane.at_work = False
                self._go_on()

    async def turn(self, lane: _Lane) -> CallAccount:
        """Wait until it is time for the next call of `lane`; the account to keep it on."""
        lane.at_work, lane.gate = False, asyncio.get_running_loop().create_future()
        gate = lane.gate
        self._go_on()
        try:
            await gate
        finally:
            lane.gate = None
        lane.account = CallAccount()
        return lane.account

    def _go_on(self) -> None:
        """Tell what came of the last calls and start the next ones, once no branch is at work."""
        gates = [(lane, lane.gate) for lane in self._lanes if lane.gate is not None]
        waiting = [(lane, gate) for lane, gate in gates if not gate.done()]
        if not waiting or any(lane.at_work for lane in self._lanes):
            return
        failure: AgentForgeError | None = None
        try:
            self.tell()
        except AgentForgeError as error:
            failure = error
        for lane, gate in waiting:
            lane.at_work = True
            # Later, so that who came last waits like the others and is no sooner at work than they.
            asyncio.get_running_loop().call_soon(_open, gate, failure)

    def tell(self) -> None:
        """The spend that an event names is that of the calls told so far: others had no turn yet."""
        told = list(self._charges)
        for lane in self._lanes:
            told += lane.account.charges
            events, lane.events[:] = tuple(lane.events), ()
            for event in events:
                if isinstance(event, ModelCallFinished):
                    event = event.model_copy(update={"spend": spend_of(told)})
                with telling():
                    self._context.emit(event)
            lane.account = CallAccount()
        self._charges = self._charged()

    def _charged(self) -> tuple[Charge, ...]:
        ledger = self._context.ledger
        return ledger.charges if ledger is not None else ()


def _open(gate: asyncio.Future[None], failure: AgentForgeError | None) -> None:
    if gate.done():  # its branch was cancelled
        return
    if failure is None:
        gate.set_result(None)
    else:
        gate.set_exception(failure)


class _LaneModel:
    """The run's model as one branch has it. Between its turn and the call's number nothing may be awaited:
    branches go on in the order in which their gates were opened."""

    def __init__(self, model: AccountingModel, lockstep: _Lockstep[T], lane: _Lane) -> None:
        self._model, self._lockstep, self._lane = model, lockstep, lane

    async def complete(
        self, request: ModelRequest, sink: TokenSink | None = None, account: CallAccount | None = None
    ) -> Completion:
        own = await self._lockstep.turn(self._lane)
        try:
            return await self._model.complete(request, sink, own)
        finally:
            if account is not None:
                account.charges += own.charges
                account.notes += own.notes
                account.retries += own.retries
