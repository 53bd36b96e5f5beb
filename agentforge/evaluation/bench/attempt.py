"""One run for one trial, and what of it goes into the trial's row (ExecuGraph, 4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from agentforge.core import events
from agentforge.core.errors import RecordError
from agentforge.core.gate import GateDecision
from agentforge.evaluation.bench.protocol import Status, TrialContext
from agentforge.models.record import load_calls
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.past import has_record
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.resume import resume_run
from agentforge.orchestrator.store import RunRecord, RunStore

OF_THE_MODEL = frozenset({"ContextLengthError", "ContentFilterError", "EmptyAnswerError"})
"""Faults that are the model's answer to this task: they come again, and count as a failure."""
_OURS = frozenset({"environment", "defect", "usage", "model"})


@dataclass
class Witness:
    """A listener that keeps what the row tells and hands everything on."""

    listener: Listener
    models: set[str] = field(default_factory=set)
    """As the endpoint names them."""
    calls: dict[str, int] = field(default_factory=dict)
    proposed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    did: dict[str, bool] = field(default_factory=dict)
    earlier_s: float = 0.0
    """Seconds that processes before this one worked on the run; the time between them is nobody's."""
    _began: datetime | None = None
    _latest: datetime | None = None

    def __call__(self, event: events.Event) -> None:
        self._time(event)
        match event:
            case events.ModelCallFinished():
                self.models.add(event.model)
                self.calls[event.agent] = self.calls.get(event.agent, 0) + 1
            case events.PatchProposed():
                self.proposed.add(event.origin)
            case events.PatchRefused():
                self.refused.add(event.origin)
            case events.PlanMade():
                self.did["planner"] = True
            case events.TestsSynthesized():
                self.did["tester"] = self.did.get("tester", False) or bool(event.accepted)
            case events.CriticDecided():
                self.did["critic"] = event.verdict != "unparsed"
            case events.Explained():
                self.did["explainer"] = bool(event.text.strip())
        self.listener(event)

    def _time(self, event: events.Event) -> None:
        if isinstance(event, events.RunResumed) and self._began is not None and self._latest is not None:
            self.earlier_s += max(0.0, (self._latest - self._began).total_seconds())
            self._began = None
        self._began, self._latest = self._began or event.time, event.time or self._latest

    @property
    def agents(self) -> dict[str, bool]:
        """Agents that were asked: whether what they gave could be used."""
        return {agent: self._of_use(agent) for agent in sorted(self.calls)}

    def _of_use(self, agent: str) -> bool:
        if agent in self.proposed or agent in self.refused:
            return agent in self.proposed
        return self.did.get(agent, agent not in ("planner", "tester"))


@dataclass(frozen=True)
class Ran:
    """A run and what its listener saw."""

    run: RunResult
    witness: Witness


async def attempt(context: TrialContext, fresh: Callable[[Listener], Awaitable[RunResult]]) -> Ran:
    """The run of a trial: one whose process died is gone on with, so nothing is paid for twice; else `fresh`.

    `fresh` is given the listener and must run under `context.run_id`. A run that a signal ended raises
    `CancelledError`: the trial stays begun, and the next process goes on with it.
    """
    witness = Witness(context.listener)
    if context.resumes:
        settings = context.settings
        run = await resume_run(context.run_id, settings, listener=witness, limits=settings.limits)
        witness = _witness_of_all(context)
    else:
        run = await fresh(witness)
    if run.outcome == "interrupted":
        raise asyncio.CancelledError
    return Ran(run, witness)


def _witness_of_all(context: TrialContext) -> Witness:
    """The witness of a run that went on: of its whole record, not only of what came after."""
    whole = Witness(lambda event: None)
    directory = RunStore(context.settings.data_home).runs / context.run_id
    for event in RunRecord(directory).events():
        whole(event)
    return whole


def can_resume(data_home: Path, run_id: str, base_url: str | None) -> bool:
    """Whether the record of a dead process' run is there and speaks to the same endpoint."""
    directory = RunStore(data_home).runs / run_id
    if not has_record(directory):
        return False
    try:
        manifest = RunRecord(directory).manifest
    except RecordError:
        return False
    model = (manifest.get("settings") or {}).get("model") or {}
    return manifest.get("outcome") in (None, "interrupted") and model.get("base_url") == base_url


def paid(data_home: Path, run_id: str) -> tuple[float, int, int, int]:
    """(US dollars of known price, calls, tokens in, tokens out) of a run's record, however it ended."""
    path = RunStore(data_home).runs / run_id / "calls.jsonl"
    if not path.exists():
        return 0.0, 0, 0, 0
    charges = [charge for call in load_calls(path) for charge in call.charges]
    return (
        sum(charge.cost_usd or 0.0 for charge in charges),
        len(charges),
        sum(charge.prompt_tokens for charge in charges),
        sum(charge.completion_tokens for charge in charges),
    )


def status_of(run: RunResult) -> Status:
    """Whether a run speaks of the candidate. A cost limit is the user's own here; the runner knows better."""
    return "infra" if run.outcome in _OURS and run.fault not in OF_THE_MODEL else "final"


def measured(ran: Ran) -> dict[str, Any]:
    """The fields of a `TrialOutcome` that any run has; suite and judge add theirs."""
    run, state = ran.run, ran.run.state
    spend = run.spend
    return {
        "retries": state.round if state is not None else 0,
        "wallclock": round(run.duration_s + ran.witness.earlier_s, 3),
        "tokens_in": spend.prompt_tokens,
        "tokens_out": spend.completion_tokens,
        "calls": spend.calls,
        "cost_usd": None if spend.unpriced_calls else round(spend.cost_usd, 6),
        "stage": state.stage if state is not None else "",
        "agents": ran.witness.agents,
        "specialists": list(state.team.names) if state and state.team else [],
        "status": status_of(run),
        "extra": _evidence(ran),
    }


def _evidence(ran: Ran) -> dict[str, Any]:
    run = ran.run
    found: dict[str, Any] = {
        "run_id": run.run_id,
        "outcome": run.outcome,
        "exit_code": run.exit_code,
        "summary": run.summary[:300],
        "base_commit": run.base_commit,
        "model_reported": ", ".join(sorted(ran.witness.models)),
        "calls_by_agent": dict(sorted(ran.witness.calls.items())),
    }
    if run.fault:
        found["fault"] = run.fault
    if run.state is not None:
        found["turns"] = run.state.turn
        found["candidates"] = len(run.state.attempts)
    if run.state is not None and run.state.environment is not None:
        found["image"] = run.state.environment.image
    if run.decision is not None:
        found["gate"] = gate_evidence(run.decision)
    return found


def gate_evidence(decision: GateDecision) -> dict[str, Any]:
    """What the gate saw of the best candidate, in numbers; test ids are in the run's record."""
    return {
        "verdict": decision.verdict.value,
        "scope": decision.scope,
        "fail_to_pass": len(decision.fail_to_pass),
        "pass_to_pass": len(decision.pass_to_pass),
        "reasons": sorted({reason.kind.value for reason in decision.reasons}),
    }
