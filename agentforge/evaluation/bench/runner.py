"""Runs a suite: workers, resumption, one ledger, durable rows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from agentforge.config.settings import Settings
from agentforge.core.errors import AgentForgeError, EnvironmentFault, LimitReached, UsageError
from agentforge.core.events import Event
from agentforge.evaluation.bench.attempt import can_resume, paid
from agentforge.evaluation.bench.batch import BatchFolder, Key, open_batch, refuse_other_identity
from agentforge.evaluation.bench.executor import DEFECT, LOST, Executor, LocalExecutor
from agentforge.evaluation.bench.identity import about_batch, identity_of, lasting, session
from agentforge.evaluation.bench.preflight import check_room
from agentforge.evaluation.bench.protocol import (
    Bench,
    BenchTask,
    Grade,
    Grader,
    SuiteSpec,
    TrialOutcome,
    TrialSpec,
    Ungraded,
)
from agentforge.evaluation.bench.purse import Claim, Purse
from agentforge.evaluation.bench.selection import Selection, select
from agentforge.evaluation.bench.suites import open_bench
from agentforge.evaluation.bench.summary import batch_summary, paid_rows
from agentforge.evaluation.trials import TrialRow
from agentforge.models.factory import build_redactor, model_card
from agentforge.models.prices import prices_for
from agentforge.orchestrator.eventlog import redact
from agentforge.orchestrator.ports import asks_model
from agentforge.orchestrator.service import choose_workflow
from agentforge.orchestrator.store import new_run_id
from agentforge.orchestrator.workflow import Workflow

INFRA_IN_A_ROW = 5
"""So many trials spoiled by our own trouble, one after the other, and the batch stops."""
LOST_NODES = 3
"""So often is a trial begun again whose node or worker went away."""


@dataclass(frozen=True)
class BatchRequest:
    """What is to be run. `settings.limits` hold for each instance; `max_cost_usd` for the whole batch.

    Trial n has the seed `seed` + n. `run` names the rows for comparisons; "" takes the folder's name.
    """

    suite: SuiteSpec
    settings: Settings
    folder: Path
    selection: Selection = field(default_factory=Selection)
    trials: int = 1
    workers: int = 1
    seed: int = 0
    max_cost_usd: float | None = None
    run: str = ""
    resume: bool = False
    skip_self_check: bool = False


class Watcher(Protocol):
    """Follows a batch. Called from the loop; must not block or raise."""

    def opened(self, folder: Path, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        """`rows` are those of the planned trials so far, superseded ones before the one that holds."""

    def phase(self, text: str) -> None: ...

    def started(self, worker: int, spec: TrialSpec) -> None: ...

    def event(self, worker: int, event: Event) -> None: ...

    def finished(self, worker: int | None, row: TrialRow) -> None:
        """A row was written; `worker` None: by the judge of the batch."""


@dataclass(frozen=True)
class BatchEnd:
    """`stopped`: why not everything was run (the batch's money, too much trouble); None: all of it was.

    `complete`: every trial has its final row, or its prediction where nobody was asked to grade.
    """

    summary: dict[str, Any]
    stopped: AgentForgeError | None = None
    complete: bool = True


@dataclass(frozen=True)
class Plan:
    """The suite, opened, and what of it is to be run."""

    bench: Bench
    workflow: Workflow
    tasks: tuple[BenchTask, ...]
    keys: tuple[Key, ...]


def plan_batch(request: BatchRequest) -> Plan:
    """Open the suite and choose; nothing is run or written. Blocks. Raises `UsageError`, `ConfigError`."""
    workflow = choose_workflow(request.settings)
    model, limited = request.settings.model, request.settings.limits.max_cost_usd is not None
    limited = limited or request.max_cost_usd is not None
    if limited and workflow.file.needs_model and model.name not in prices_for(model):
        raise UsageError(
            f"a cost limit is set, but the price of model {model.name!r} is not known",
            hint="set model.prices (US dollars per million tokens), or limit tokens instead",
        )
    bench = open_bench(request.suite, request.settings)
    tasks = select(bench.tasks(), request.selection)
    keys = tuple((task.id, trial) for trial in range(request.trials) for task in tasks)
    return Plan(bench, workflow, tasks, keys)


MakeExecutor = Callable[[Bench, BatchRequest], Executor]


def local_executor(bench: Bench, request: BatchRequest) -> Executor:
    return LocalExecutor(bench, request.workers)


async def run_batch(
    request: BatchRequest, watcher: Watcher, make_executor: MakeExecutor = local_executor
) -> BatchEnd:
    """Run what is missing. Cancelled, it leaves a folder that `resume` goes on with.

    Raises `AgentForgeError` for what is wrong before the first trial.
    """
    plan = await asyncio.to_thread(plan_batch, request)
    identity = await asyncio.to_thread(identity_of, plan.bench, plan.workflow, request.settings)
    about = about_batch(plan.tasks)
    with open_batch(request.folder, identity, about, run=request.run, resume=request.resume) as folder:
        check_room(request.folder)
        limits = {
            "max_cost_usd": request.max_cost_usd,
            "max_cost_usd_per_instance": request.settings.limits.max_cost_usd,
        }
        begun = session(request.workers, len(plan.tasks), request.trials, request.seed, limits)
        chosen = dict.fromkeys([*folder.manifest.get("tasks", ()), *about["tasks"]])
        folder.note(sessions=[*folder.manifest.get("sessions", ()), begun], tasks=list(chosen))
        batch = Batch(request, plan, folder, watcher, make_executor(plan.bench, request))
        return await batch.carry_out()


@dataclass
class Batch:
    """One process at work on a batch."""

    request: BatchRequest
    plan: Plan
    folder: BatchFolder
    watcher: Watcher
    executor: Executor
    stopped: AgentForgeError | None = None
    _infra: int = 0
    _todo: deque[Key] = field(default_factory=deque)
    _begun: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._redactor = build_redactor(self.request.settings)
        self._tasks = {task.id: task for task in self.plan.tasks}

    async def carry_out(self) -> BatchEnd:
        known = self.folder.current
        done = {key for key, row in known.items() if row.status in ("final", "ungraded")}
        self._todo.extend(key for key in self.plan.keys if key not in done)
        planned = set(self.plan.keys)
        held = [row for row in self.folder.rows if (row.problem, row.trial) in planned]
        self.watcher.opened(self.folder.path, self.plan.keys, held, self.request.workers)
        try:
            if self._todo:
                await self._before_the_first()
                await self._work()
            await self._grade()
        finally:
            summary = self._summarized()
        return BatchEnd(summary, self.stopped, self._complete())

    def _complete(self) -> bool:
        enough = {"final"} if isinstance(self.plan.bench, Grader) else {"final", "ungraded"}
        known = self.folder.current
        return all(key in known and known[key].status in enough for key in self.plan.keys)

    async def _before_the_first(self) -> None:
        tasks = [self._tasks[name] for name in dict.fromkeys(name for name, _ in self._todo)]
        self.watcher.phase("checking the machine")
        await self.plan.bench.preflight(tasks)
        await self._identify_model()
        known = self.folder.manifest.get("self_check")
        if known is not None and (known.get("skipped") or self._vouched(known)):
            return
        if self.request.skip_self_check:
            self.folder.note(self_check={**(known or {}), "skipped": True})
            return
        self.watcher.phase("self-check of the judge: references must pass, known-bad programs must fail")
        check = await self.plan.bench.self_check(self.plan.tasks)
        if check is None:
            self.folder.note(self_check=known or {"available": False})
            return
        covered = () if known is None or known.get("problems") else known.get("tasks", ())
        told = {**check.model_dump(mode="json"), "tasks": list(dict.fromkeys((*covered, *self._tasks)))}
        self.folder.note(self_check=told)
        if check.problems:
            raise EnvironmentFault(
                f"the judge of {check.suite} cannot be trusted: {'; '.join(check.problems[:3])}"
                + (f"; and {len(check.problems) - 3} more" if len(check.problems) > 3 else ""),
                hint="leave these out by --filter, or score all the same with --resume --skip-self-check",
            )

    def _vouched(self, known: dict[str, Any]) -> bool:
        """Whether an earlier self-check covers these tasks too: a batch may grow."""
        return not known.get("problems") and set(self._tasks) <= set(known.get("tasks", ()))

    async def _identify_model(self) -> None:
        """Keep what the endpoint says of its model; refuse another one under the same name."""
        if not asks_model(self.request.settings, self.plan.workflow):
            return
        card, known = await model_card(self.request.settings), self.folder.manifest.get("model_card")
        if card is None:
            return
        if known is None:
            self.folder.note(model_card=card)
        else:
            told = ({"model_card": lasting(each)} for each in (known, card))
            refuse_other_identity(self.folder.path, *told)

    async def _work(self) -> None:
        self._begun = self.folder.begun()
        spent = sum(row.cost_usd or 0.0 for row in paid_rows(self.folder.rows))
        spent += sum(self._paid_by_the_dead(run_id)["cost_usd"] or 0.0 for run_id in self._begun.values())
        limits = self.request.settings.limits
        slots = min(self.executor.slots, len(self._todo))
        self._purse = Purse(self.request.max_cost_usd, limits.max_cost_usd, slots=slots, spent=spent)
        await _all_or_none([asyncio.ensure_future(self._worker(number)) for number in range(slots)])

    async def _worker(self, number: int) -> None:
        while self._todo and self.stopped is None:
            try:
                claim = await self._purse.claim()
            except LimitReached as error:
                self.stopped = error
                return
            cost = 0.0
            try:
                if self._todo and self.stopped is None:
                    cost = await self._trial(number, self._todo.popleft(), claim)
            finally:
                await self._purse.settle(claim, cost)

    async def _trial(self, worker: int, key: Key, claim: Claim) -> float:
        """One trial and its row; what it cost this process, in US dollars."""
        earlier, begun = 0.0, self._begun.pop(key, None)
        home, base_url = self.folder.path, self.request.settings.model.base_url
        resumes = begun is not None and self.executor.resumes and can_resume(home, begun, base_url)
        if begun is not None and resumes:
            earlier = paid(home, begun)[0]
        elif begun is not None:
            await self._keep(worker, self._lost(key, begun), {})
        run_id = begun if begun is not None and resumes else new_run_id(datetime.now(UTC))
        spec = self._spec(key, run_id, claim, earlier, resumes=resumes)
        if not resumes:
            away = not self.executor.resumes
            usd = spec.settings.limits.max_cost_usd if spec.settings.model.configured else 0.0
            await _durably(lambda: self.folder.begin(run_id, key, away=away, max_cost_usd=usd))
        self.watcher.started(worker, spec)
        outcome = await self.executor.run(spec, lambda event: self.watcher.event(worker, event))
        outcome = self._crashed_again(key, self._judged_by_the_purse(self._priced(spec, outcome), claim))
        await self._keep(worker, self._row(spec, outcome), outcome.artifacts)
        if outcome.extra.get("fault") == LOST and self._times(key, LOST) <= LOST_NODES:
            self._todo.append(key)  # with a claim of its own
        self._watch_trouble(outcome)
        return max(0.0, (outcome.cost_usd or 0.0) - earlier)

    def _spec(self, key: Key, run_id: str, claim: Claim, earlier: float, *, resumes: bool) -> TrialSpec:
        settings, (name, trial) = self.request.settings, key
        seed = self.request.seed + trial
        usd = claim.usd
        if usd is not None and earlier:  # what the dead process paid is in the run's ledger already
            usd = usd + earlier if claim.tight else usd
        changes: dict[str, Any] = {
            "data_home": self.folder.path.absolute(),
            "model": settings.model.model_copy(update={"seed": seed}),
            "limits": settings.limits.model_copy(update={"max_cost_usd": usd}),
        }
        return TrialSpec(
            suite=self.request.suite,
            task=self._tasks[name],
            trial=trial,
            seed=seed,
            run_id=run_id,
            folder=self.folder.path.absolute(),
            settings=settings.model_copy(update=changes),
            resumes=resumes,
        )

    def _priced(self, spec: TrialSpec, outcome: TrialOutcome) -> TrialOutcome:
        """A trial that broke down was paid for all the same: its run's record says how much."""
        told = outcome.calls or outcome.cost_usd is not None or outcome.extra.get("fault") == LOST
        if outcome.status != "infra" or told:
            return outcome
        return outcome.model_copy(update=_spend(self.folder.path, spec.run_id))

    def _judged_by_the_purse(self, outcome: TrialOutcome, claim: Claim) -> TrialOutcome:
        """A trial that ended because the batch had no more for it is no failure of the candidate."""
        failed = outcome.status in ("final", "ungraded") and not outcome.passed
        if not (claim.tight and failed and outcome.extra.get("fault") == "cost"):
            return outcome
        self.stopped = self.stopped or LimitReached(
            "cost",
            f"the batch's cost limit of ${self.request.max_cost_usd:g} left too little for another trial",
            hint="raise --max-cost and go on with --resume",
        )
        return outcome.model_copy(update={"status": "cost"})

    def _crashed_again(self, key: Key, outcome: TrialOutcome) -> TrialOutcome:
        """A defect of ours may be bad luck once; where it comes again it is our failure, and it counts."""
        if outcome.extra.get("fault") != DEFECT:
            return outcome
        if not self._times(key, DEFECT):
            return outcome
        return outcome.model_copy(update={"status": "final", "error_class": "crash"})

    def _times(self, key: Key, fault: str) -> int:
        rows = (row for row in self.folder.rows if (row.problem, row.trial) == key)
        return sum((row.model_extra or {}).get("fault") == fault for row in rows)

    def _watch_trouble(self, outcome: TrialOutcome) -> None:
        self._infra = self._infra + 1 if outcome.status == "infra" else 0
        if self._infra >= INFRA_IN_A_ROW and self.stopped is None:
            self.stopped = EnvironmentFault(
                f"{self._infra} trials in a row could not be carried out; "
                f"the last one: {outcome.extra.get('summary', '')}",
                hint="mend that and go on with --resume",
            )

    def _row(self, spec: TrialSpec, outcome: TrialOutcome) -> TrialRow:
        fields = outcome.model_dump(exclude={"extra", "artifacts"})
        # Errors quote what endpoints and containers said.
        extra = redact(dict(outcome.extra), self._redactor)
        return TrialRow.model_validate(
            {
                **self._common(spec.task, spec.trial),
                "seed": spec.seed,
                "recorded_condition": extra.pop("workflow", self.plan.workflow.name),
                **fields,
                "artifacts": sorted(outcome.artifacts),
                "written": datetime.now(UTC).isoformat(timespec="seconds"),
                "run_id": spec.run_id,
                **extra,
            }
        )

    def _lost(self, key: Key, run_id: str) -> TrialRow:
        """The row of a run whose process died and that cannot be gone on with."""
        name, trial = key
        extra = {"run_id": run_id, "summary": "its process died", "status": "interrupted"}
        row = {**self._common(self._tasks[name], trial), "passed": False, "error_class": "infra", **extra}
        return TrialRow.model_validate(row | self._paid_by_the_dead(run_id))

    def _paid_by_the_dead(self, run_id: str) -> dict[str, Any]:
        """Of a run elsewhere nobody can say it: its whole limit counts, and none is an unknown price."""
        known = _spend(self.folder.path, run_id)
        away, limit = self.folder.granted(run_id)
        return {**known, "cost_usd": limit} if away and not known["calls"] else known

    def _common(self, task: BenchTask, trial: int) -> dict[str, Any]:
        identity = self.folder.manifest["identity"]
        rounds = self.plan.workflow.file.rounds
        return {
            "run": self.folder.run,
            "problem": task.id,
            "category": task.category,
            "repository": task.repository,
            "condition": identity["workflow"],
            "model": identity["model"],
            "trial": trial,
            "retry_budget": self.request.settings.retries if rounds is None else rounds,
            "config_hash": identity["config_hash"],
            "harness": identity["harness"],
            "workflow_hash": identity["workflow_hash"],
            "dataset_hash": identity["dataset_hash"],
        }

    async def _keep(self, worker: int, row: TrialRow, artifacts: dict[str, bytes]) -> None:
        await _durably(lambda: self.folder.append(row, artifacts))
        self.watcher.finished(worker, row)

    async def _grade(self) -> None:
        planned = set(self.plan.keys)
        waiting = [
            Ungraded(row, self.folder.artifacts(row.problem, row.trial))
            for key, row in self.folder.current.items()
            if row.status == "ungraded" and key in planned
        ]
        bench = self.plan.bench
        if waiting and isinstance(bench, Grader):
            self.watcher.phase(f"the judge of the batch has {len(waiting)} to grade")
            await bench.grade(waiting, self.folder.path, self._settle)

    def _settle(self, waiting: Ungraded, grade: Grade) -> None:
        changes = {
            "passed": grade.passed,
            "error_class": grade.error_class,
            "tests_passed": grade.tests_passed,
            "tests_total": grade.tests_total,
            "status": grade.status if grade.status == "final" else "ungraded",
            **(grade.extra or {}),
        }
        row = TrialRow.model_validate(waiting.row.model_dump() | changes)
        self.folder.append(row)
        self.watcher.finished(None, row)

    def _summarized(self) -> dict[str, Any]:
        folder = self.folder
        summary = batch_summary(folder.run, self.plan.keys, folder.current, folder.rows)
        folder.write_summary(summary)
        return summary


def _spend(home: Path, run_id: str) -> dict[str, Any]:
    cost, calls, tokens_in, tokens_out = paid(home, run_id)
    return {"cost_usd": cost, "calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out}


async def _all_or_none(workers: Sequence[asyncio.Future[None]]) -> None:
    """To the end of all; what ends one ends the others, before the folder is given to somebody else."""
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _durably(work: Callable[[], None]) -> None:
    """Blocking work in a thread, to its end even when we are cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
