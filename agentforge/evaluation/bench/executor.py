"""Where trials are carried out. A trial is data (`TrialSpec`), so another machine can do it as well."""

from __future__ import annotations

import logging
from typing import Protocol

from agentforge.core.errors import AgentForgeError
from agentforge.evaluation.bench.protocol import Bench, TrialContext, TrialOutcome, TrialSpec
from agentforge.orchestrator.eventlog import Listener

logger = logging.getLogger(__name__)
DEFECT = "defect"
"""The fault of a trial that an unforeseen exception ended."""
LOST = "node_lost"
"""The fault of a trial whose machine went away; the runner begins it again."""


class Executor(Protocol):
    """Carries out trials, `slots` at a time."""

    @property
    def slots(self) -> int: ...

    @property
    def resumes(self) -> bool:
        """Whether it can go on with a run whose record lies in the batch folder."""

    async def run(self, spec: TrialSpec, listener: Listener) -> TrialOutcome:
        """One trial; never raises but on cancellation. Events may not reach `listener` from elsewhere."""


class LocalExecutor:
    """In this process; the work itself happens in containers and at the model's endpoint."""

    def __init__(self, bench: Bench, slots: int) -> None:
        self._bench, self._slots = bench, slots

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def resumes(self) -> bool:
        return True

    async def run(self, spec: TrialSpec, listener: Listener) -> TrialOutcome:
        return await carry_out(self._bench, spec, listener)


async def carry_out(bench: Bench, spec: TrialSpec, listener: Listener) -> TrialOutcome:
    """One trial. Our own trouble, a defect too, is an outcome: it must not end the other trials."""
    context = TrialContext(
        settings=spec.settings,
        trial=spec.trial,
        seed=spec.seed,
        run_id=spec.run_id,
        folder=spec.folder,
        listener=listener,
        resumes=spec.resumes,
    )
    try:
        return await bench.run(spec.task, context)
    except AgentForgeError as error:
        return infra(spec, str(error), type(error).__name__)
    except Exception as defect:
        logger.error("trial %d of %s ended in a defect", spec.trial, spec.task.id, exc_info=defect)
        return infra(spec, f"a defect in agentforge: {type(defect).__name__}: {defect}"[:300], DEFECT)


def infra(spec: TrialSpec, what: str, fault: str) -> TrialOutcome:
    """A trial that says nothing of the candidate; what its run had paid for is looked up by the runner."""
    extra = {"run_id": spec.run_id, "summary": what, "fault": fault}
    return TrialOutcome(status="infra", error_class="infra", extra=extra)
