"""The runner on a suite whose trials are given: what is run, kept, paid, graded, stopped and gone on with."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from agentforge.config.settings import ModelSettings, Price, Settings
from agentforge.core.chat import Message, ModelRequest
from agentforge.core.errors import ConfigError, EnvironmentFault, LimitReached, RecordError, UsageError
from agentforge.core.events import Event
from agentforge.evaluation.bench import runner
from agentforge.evaluation.bench.batch import BatchFolder, Key, read_manifest, read_trials
from agentforge.evaluation.bench.executor import LOST
from agentforge.evaluation.bench.protocol import (
    Bench,
    BenchTask,
    Grade,
    SuiteSpec,
    TrialContext,
    TrialOutcome,
    TrialSpec,
    Ungraded,
)
from agentforge.evaluation.bench.runner import BatchEnd, BatchRequest, run_batch
from agentforge.evaluation.bench.selection import Selection
from agentforge.evaluation.suites.protocol import SelfCheck
from agentforge.evaluation.trials import TrialRow
from agentforge.models.ledger import Charge
from agentforge.models.record import Asked, CallRecord
from tests.support.model_server import ScriptedModel

PRICED = ModelSettings(base_url="http://127.0.0.1:9/v1", name="m", prices={"m": Price(input=1, output=1)})
"""Nobody listens there: what the endpoint says of its model is not known then."""
Play = Callable[[BenchTask, TrialContext], TrialOutcome]


def passed(task: BenchTask, context: TrialContext) -> TrialOutcome:
    return TrialOutcome(passed=True, tests_passed=1, tests_total=1, cost_usd=0.1, calls=1)


@dataclass
class Suite:
    """A suite whose trials take no time and end as `play` says."""

    play: Play = passed
    size: int = 4
    check: SelfCheck | None = None
    name: str = "given"
    dataset_hash: str = "d1"
    harness: str = "h1"
    conditions: Mapping[str, Any] = field(default_factory=dict)
    seen: list[tuple[str, int, int, float | None]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    second: asyncio.Event = field(default_factory=asyncio.Event)
    """The second trial has begun."""

    def tasks(self) -> tuple[BenchTask, ...]:
        return tuple(BenchTask(id=f"t{number}", category="c") for number in range(self.size))

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        """Nothing is needed."""

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        return self.check

    async def run(self, task: BenchTask, context: TrialContext) -> TrialOutcome:
        self.seen.append((task.id, context.trial, context.seed, context.settings.limits.max_cost_usd))
        if len(self.seen) == 2:
            self.second.set()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return self.play(task, context)


class Graded(Suite):
    """Its judge runs in batch."""

    async def grade(
        self, pending: Sequence[Ungraded], folder: Path, settle: Callable[[Ungraded, Grade], None]
    ) -> None:
        for waiting in pending:
            diff = (waiting.artifacts / "patch.diff").read_bytes()
            settle(waiting, Grade(passed=diff == b"right\n", error_class="none", extra={"judge": "batch"}))


class Silent:
    """A watcher that only counts."""

    def __init__(self) -> None:
        self.rows: list[TrialRow] = []

    def opened(self, folder: Path, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        """Not of interest."""

    def phase(self, text: str) -> None:
        """Not of interest."""

    def started(self, worker: int, spec: TrialSpec) -> None:
        # What an executor on another machine would be sent.
        assert pickle.loads(pickle.dumps(spec)) == spec

    def event(self, worker: int, event: Event) -> None:
        """Not of interest."""

    def finished(self, worker: int | None, row: TrialRow) -> None:
        self.rows.append(row)


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    async def run(suite: Suite, **changes: Any) -> BatchEnd:
        def given(spec: SuiteSpec, settings: Settings) -> Bench:
            return suite

        monkeypatch.setattr(runner, "open_bench", given)
        settings = changes.pop("settings", Settings(workflow="retry", model=PRICED))
        request = BatchRequest(SuiteSpec(name="given"), settings, tmp_path / "out", **changes)
        return await run_batch(request, Silent())

    return run


async def test_every_trial_has_its_seed_and_repetitions_come_after_a_whole_round(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    suite = Suite(size=2)
    end = await batch(suite, trials=2, seed=10, run="named")
    assert [(task, trial, seed) for task, trial, seed, _ in suite.seen] == [
        ("t0", 0, 10), ("t1", 0, 10), ("t0", 1, 11), ("t1", 1, 11),
    ]  # fmt: skip
    rows = read_trials(tmp_path / "out")
    assert [(row.run, row.problem, row.trial, row.seed) for row in rows] == [
        ("named", "t0", 0, 10), ("named", "t1", 0, 10), ("named", "t0", 1, 11), ("named", "t1", 1, 11),
    ]  # fmt: skip
    assert {(row.condition, row.model, row.retry_budget, row.category) for row in rows} == {
        ("retry", "m", 3, "c")
    }
    assert end.summary["outcomes"] == {"passed": 4}
    assert end.stopped is None


async def test_workers_share_the_trials_and_none_is_run_twice(batch: Callable[..., Any]) -> None:
    suite = Suite(size=7)
    await batch(suite, workers=3)
    assert sorted(task for task, *_ in suite.seen) == [f"t{number}" for number in range(7)]
    assert suite.most_at_once == 3


async def test_resumed_with_more_trials_only_the_new_ones_are_run(batch: Callable[..., Any]) -> None:
    suite = Suite(size=2)
    await batch(suite)
    with pytest.raises(UsageError, match="holds a batch already"):
        await batch(suite)
    suite.seen.clear()
    end = await batch(suite, trials=2, resume=True)
    assert [(task, trial) for task, trial, *_ in suite.seen] == [("t0", 1), ("t1", 1)]
    assert end.summary["final"] == 4


async def test_the_batch_stops_at_its_cost_limit_and_goes_on_with_a_higher_one(
    batch: Callable[..., Any],
) -> None:
    suite = Suite(size=5)
    end = await batch(suite, max_cost_usd=0.25)
    assert isinstance(end.stopped, LimitReached)
    assert "--resume" in end.stopped.hint
    assert (end.summary["final"], end.summary["not_run"]) == (3, 2)
    assert [round(limit or 0, 2) for *_, limit in suite.seen] == [0.25, 0.15, 0.05], "the rest is the limit"
    suite.seen.clear()
    end = await batch(suite, max_cost_usd=1.0, resume=True)
    assert end.stopped is None
    assert [task for task, *_ in suite.seen] == ["t3", "t4"]
    assert suite.seen[0][3] == pytest.approx(0.7), "what was spent before counts"


async def test_a_trial_that_the_batch_had_too_little_for_is_no_failure(batch: Callable[..., Any]) -> None:
    def starved(task: BenchTask, context: TrialContext) -> TrialOutcome:
        enough = (context.settings.limits.max_cost_usd or 0) >= 0.3
        extra = {} if enough else {"fault": "cost", "outcome": "limit"}
        return TrialOutcome(passed=enough, error_class="empty_output", cost_usd=0.3, extra=extra)

    end = await batch(Suite(starved, size=3), max_cost_usd=0.4)
    assert end.summary["outcomes"] == {"passed": 1, "cost": 1}
    assert isinstance(end.stopped, LimitReached)
    own = Settings(workflow="retry", model=PRICED)
    per_trial = own.model_copy(update={"limits": own.limits.model_copy(update={"max_cost_usd": 0.2})})
    with pytest.raises(UsageError, match="was made differently"):
        await batch(Suite(starved), settings=per_trial, resume=True)


async def test_the_limit_of_one_instance_is_the_candidates_own(batch: Callable[..., Any]) -> None:
    def poor(task: BenchTask, context: TrialContext) -> TrialOutcome:
        return TrialOutcome(
            error_class="empty_output", extra={"fault": "cost", "outcome": "limit"}, cost_usd=0.1
        )

    own = Settings(workflow="retry", model=PRICED)
    settings = own.model_copy(update={"limits": own.limits.model_copy(update={"max_cost_usd": 0.1})})
    end = await batch(Suite(poor, size=2), settings=settings, max_cost_usd=1.0)
    assert end.summary["outcomes"] == {"limit: cost": 2}
    assert end.summary["final"] == 2


async def test_eg16_our_own_trouble_is_repeated_and_never_counted(batch: Callable[..., Any]) -> None:
    def flaky(task: BenchTask, context: TrialContext) -> TrialOutcome:
        if task.id == "t1" and len(suite.seen) <= 4:
            raise EnvironmentFault("the engine went away")
        return passed(task, context)

    suite = Suite(flaky)
    end = await batch(suite)
    assert end.summary["outcomes"] == {"passed": 3, "infra": 1}
    assert end.summary["pass_rate"] == 1.0
    suite.seen.append(("", 0, 0, None))
    end = await batch(suite, resume=True)
    assert end.summary["outcomes"] == {"passed": 4}
    assert suite.seen[-1][0] == "t1"


async def test_af40_a_crash_that_comes_again_counts_as_a_failure(batch: Callable[..., Any]) -> None:
    def broken(task: BenchTask, context: TrialContext) -> TrialOutcome:
        if task.id == "t0":
            raise KeyError("a defect")
        return passed(task, context)

    end = await batch(Suite(broken))
    assert end.summary["outcomes"] == {"passed": 3, "infra": 1}
    end = await batch(Suite(broken), resume=True)
    assert end.summary["outcomes"] == {"passed": 3, "crash": 1}
    assert end.summary["pass_rate"] == 0.75


async def test_no_secret_comes_into_a_row(batch: Callable[..., Any], tmp_path: Path) -> None:
    def quoting(task: BenchTask, context: TrialContext) -> TrialOutcome:
        raise EnvironmentFault("the endpoint said: bad key hush-hush-4711")

    keyed = PRICED.model_copy(update={"api_key": SecretStr("hush-hush-4711")})
    await batch(Suite(quoting, size=1), settings=Settings(workflow="retry", model=keyed))
    kept = "".join(path.read_text() for path in (tmp_path / "out").glob("*.json*"))
    assert "bad key [redacted]" in kept
    assert "hush" not in kept


async def test_a_machine_that_does_nothing_but_fail_stops_the_batch(batch: Callable[..., Any]) -> None:
    def down(task: BenchTask, context: TrialContext) -> TrialOutcome:
        raise EnvironmentFault("no engine")

    suite = Suite(down, size=20)
    end = await batch(suite)
    assert len(suite.seen) == runner.INFRA_IN_A_ROW
    assert end.stopped is not None
    assert "no engine" in end.stopped.what


async def test_a_judge_that_cannot_be_trusted_scores_nothing(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    bad = SelfCheck(suite="given", references=4, mutants=4, problems=("t1: the reference fails",))
    suite = Suite(check=bad)
    with pytest.raises(EnvironmentFault, match="t1: the reference fails"):
        await batch(suite)
    assert suite.seen == []
    with pytest.raises(EnvironmentFault, match="t1: the reference fails"):
        await batch(suite, resume=True)
    await batch(suite, resume=True, skip_self_check=True)
    assert read_manifest(tmp_path / "out")["self_check"]["skipped"], "and the manifest says so"
    assert len(suite.seen) == 4


async def test_tasks_that_a_batch_grows_by_are_checked_too(batch: Callable[..., Any], tmp_path: Path) -> None:
    suite = Suite(check=SelfCheck(suite="given", references=1, mutants=1))
    await batch(suite, selection=Selection(instances=("t0",)))
    suite.check = SelfCheck(suite="given", references=1, mutants=1, problems=("t1: the reference fails",))
    await batch(suite, selection=Selection(instances=("t0",)), trials=2, resume=True)
    with pytest.raises(EnvironmentFault, match="t1: the reference fails"):
        await batch(suite, selection=Selection(instances=("t1",)), resume=True)
    assert [task for task, *_ in suite.seen] == ["t0", "t0"]
    assert read_manifest(tmp_path / "out")["tasks"] == ["t0", "t1"]


async def test_a_check_that_is_asked_for_later_is_made(batch: Callable[..., Any]) -> None:
    suite = Suite(size=1)
    await batch(suite)
    suite.check = SelfCheck(suite="given", references=1, mutants=0, problems=("t0: does not resolve",))
    with pytest.raises(EnvironmentFault, match="t0: does not resolve"):
        await batch(suite, trials=2, resume=True)


async def test_every_row_names_its_run_so_that_no_trial_is_told_twice(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    def missing(task: BenchTask, context: TrialContext) -> TrialOutcome:
        return TrialOutcome(status="infra", error_class="image_missing", extra={"verdict": "image_missing"})

    await batch(Suite(missing, size=1))
    await batch(Suite(size=1), resume=True)
    assert [row.status for row in read_trials(tmp_path / "out")] == ["infra", "final"]


async def test_a_trial_lost_with_its_machine_is_begun_again_out_of_money_of_its_own(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    def lost_once(task: BenchTask, context: TrialContext) -> TrialOutcome:
        if len(suite.seen) > 1:
            return passed(task, context)
        return TrialOutcome(status="infra", error_class="infra", cost_usd=0.5, extra={"fault": LOST})

    suite = Suite(lost_once, size=1)
    own = Settings(workflow="retry", model=PRICED)
    settings = own.model_copy(update={"limits": own.limits.model_copy(update={"max_cost_usd": 0.5})})
    end = await batch(suite, settings=settings, max_cost_usd=0.8)
    assert [round(limit or 0, 2) for *_, limit in suite.seen] == [0.5, 0.3], "never more than the batch has"
    first, second = read_trials(tmp_path / "out")
    assert (first.status, first.cost_usd, second.status, second.passed) == ("infra", 0.5, "final", True)
    assert end.summary["cost_usd"] == pytest.approx(0.6)


async def test_a_trial_that_is_always_lost_ends(batch: Callable[..., Any]) -> None:
    def lost(task: BenchTask, context: TrialContext) -> TrialOutcome:
        return TrialOutcome(status="infra", error_class="infra", extra={"fault": LOST})

    suite = Suite(lost, size=1)
    end = await batch(suite)
    assert len(suite.seen) == 1 + runner.LOST_NODES
    assert (end.summary["final"], end.summary["unpriced_trials"]) == (0, 4), "nobody knows what they cost"


async def test_what_ends_one_worker_ends_the_others_before_the_folder_is_given_away(
    batch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, keep = Suite(size=30), BatchFolder.append

    def full_at_first(self: BatchFolder, row: TrialRow, artifacts: Mapping[str, bytes] | None = None) -> None:
        if row.problem == "t0":
            raise RecordError("no space left")
        keep(self, row, artifacts)

    monkeypatch.setattr(BatchFolder, "append", full_at_first)
    with pytest.raises(RecordError, match="no space"):
        await batch(suite, workers=2)
    seen = len(suite.seen)
    await asyncio.sleep(0.1)
    assert len(suite.seen) == seen < 10


async def test_a_judge_in_batch_grades_what_waits_and_the_trial_is_paid_once(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    def predicted(task: BenchTask, context: TrialContext) -> TrialOutcome:
        diff = b"right\n" if task.id == "t0" else b"wrong\n"
        extra = {"run_id": context.run_id}
        return TrialOutcome(
            status="ungraded", cost_usd=0.1, calls=1, artifacts={"patch.diff": diff}, extra=extra
        )

    end = await batch(Graded(predicted, size=2))
    assert end.summary["final"] == 2
    assert end.summary["passed"] == 1
    assert end.summary["cost_usd"] == pytest.approx(0.2)
    assert [row.status for row in read_trials(tmp_path / "out")] == ["ungraded", "ungraded", "final", "final"]


async def test_predictions_are_all_there_is_to_do_where_nobody_grades(batch: Callable[..., Any]) -> None:
    def predicted(task: BenchTask, context: TrialContext) -> TrialOutcome:
        return TrialOutcome(status="ungraded", artifacts={"patch.diff": b"right\n"})

    assert (await batch(Suite(predicted, size=1))).complete
    assert not (await batch(Suite(lambda *_: TrialOutcome(status="infra"), size=2), resume=True)).complete
    assert (await batch(Graded(predicted, size=2), resume=True)).complete


async def test_cancelled_it_leaves_a_folder_to_go_on_with(batch: Callable[..., Any], tmp_path: Path) -> None:
    suite = Suite(size=3)
    task = asyncio.ensure_future(batch(suite))
    await suite.second.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert read_manifest(tmp_path / "out")["run"] == "out"
    done = {row.problem for row in read_trials(tmp_path / "out")}
    assert done == {"t0"}
    suite.seen.clear()
    assert (await batch(suite, resume=True)).summary["passed"] == 3
    assert [name for name, *_ in suite.seen] == ["t1", "t2"]


async def test_eg30_another_model_under_the_same_name_is_refused(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    small = {"id": "m", "created": 1, "meta": {"n_params": 5, "ftype": "Q4"}}
    with ScriptedModel(cards=[small]) as server:
        settings = Settings(workflow="retry", model=ModelSettings(base_url=server.base_url, name="m"))
        await batch(Suite(size=1), settings=settings)
        assert read_manifest(tmp_path / "out")["model_card"]["meta"] == {"n_params": 5, "ftype": "Q4"}
        server.cards[0] = small | {"created": 2}
        await batch(Suite(size=2), settings=settings, resume=True)
        server.cards[0] = small | {"meta": {"n_params": 5, "ftype": "Q8"}}
        with pytest.raises(ConfigError, match=r"model_card\.meta\.ftype was Q4, now Q8"):
            await batch(Suite(size=3), settings=settings, resume=True)


def paid_call(cost_usd: float) -> str:
    """A line of calls.jsonl."""
    request = ModelRequest(agent="coder", messages=(Message(role="user", content="x"),), model="m")
    now = datetime.now(UTC)
    call = CallRecord(
        call=1, key="k", agent="coder", model="m", request=request, asked=Asked(), started=now, ended=now,
        charges=(Charge(agent="coder", model="m", prompt_tokens=7, completion_tokens=3, cost_usd=cost_usd),),
    )  # fmt: skip
    return call.model_dump_json() + "\n"


async def test_a_dead_run_that_cannot_go_on_was_paid_for_all_the_same(
    batch: Callable[..., Any], tmp_path: Path
) -> None:
    suite = Suite(size=2)
    task = asyncio.ensure_future(batch(suite))
    await suite.second.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [dead] = [json.loads(line) for line in (tmp_path / "out/started.jsonl").read_text().splitlines()][1:]
    record = tmp_path / "out/runs" / dead["run_id"]
    record.mkdir(parents=True)
    (record / "calls.jsonl").write_text(paid_call(0.2))  # and no run.json: it cannot be gone on with
    suite.seen.clear()
    end = await batch(suite, resume=True, max_cost_usd=1.0)
    assert [name for name, *_ in suite.seen] == ["t1"]
    assert suite.seen[0][3] == pytest.approx(1.0 - 0.1 - 0.2), "what the dead run cost is gone"
    lost, final = read_trials(tmp_path / "out")[1:]
    assert (lost.status, lost.cost_usd, lost.calls, lost.tokens) == ("interrupted", 0.2, 1, 10)
    assert (final.status, final.problem) == ("final", "t1")
    assert end.summary["cost_usd"] == pytest.approx(0.4)
    assert end.summary["outcomes"] == {"passed": 2}


def test_eg30_instances_are_named_filtered_shuffled_and_sliced_in_this_order() -> None:
    from agentforge.evaluation.bench.selection import select

    tasks = [BenchTask(id=f"Suite/{number}") for number in range(12)]

    def ids(**options: Any) -> list[str]:
        return [task.id for task in select(tasks, Selection(**options))]

    assert ids(instances=("3", "Suite/1", "3")) == ["Suite/3", "Suite/1"]
    assert ids(pattern="1$", piece="1:") == ["Suite/11"]
    assert ids(shuffle_seed=1) == ids(shuffle_seed=1) != ids(shuffle_seed=2)
    assert sorted(ids(shuffle_seed=1)) == sorted(ids())
    assert ids(shuffle_seed=1, piece="2:4") == ids(shuffle_seed=1)[2:4]
