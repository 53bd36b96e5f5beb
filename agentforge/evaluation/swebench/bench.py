"""SWE-bench as a suite of the runner: trials make predictions, the official harness grades them in batch."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.errors import AgentForgeError, ConfigError, ImageError, RecordError, UsageError
from agentforge.core.events import Notice
from agentforge.evaluation.bench.attempt import Ran, attempt, measured
from agentforge.evaluation.bench.batch import artifacts_of, read_manifest, read_trials
from agentforge.evaluation.bench.preflight import check_engine
from agentforge.evaluation.bench.protocol import BenchTask, Grade, TrialContext, TrialOutcome, Ungraded
from agentforge.evaluation.suites.protocol import SelfCheck
from agentforge.evaluation.swebench import harness
from agentforge.evaluation.swebench.dataset import load_dataset, require_gradable
from agentforge.evaluation.swebench.images import check_engines_room, images_here, note_pulled
from agentforge.evaluation.swebench.instance import (
    ImageMissing,
    Premises,
    prepare,
    repository,
    task_of,
)
from agentforge.evaluation.swebench.options import SwebenchOptions
from agentforge.evaluation.swebench.outcomes import ERROR_CLASSES, REPEATED, Judged, Outcome
from agentforge.evaluation.swebench.predictions import (
    PREDICTIONS,
    Prediction,
    Submission,
    model_label,
    read_predictions,
    submission,
    write_predictions,
)
from agentforge.evaluation.swebench.rows import Row
from agentforge.evaluation.trials import TrialRow
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import choose_workflow, run_fix, scratch_folder

PREDICTION = "prediction.json"
NO_HARNESS = "swebench (not installed)"


class SwebenchPredictions:
    """The suite without its judge (`--predict-only`)."""

    name = "swebench"

    def __init__(self, options: SwebenchOptions, settings: Settings) -> None:
        self._options, self._settings = options, settings
        dataset = load_dataset(options.dataset, options.split, options.complete_from)
        self._digest, self._source = dataset.digest[:16], dataset.name
        images = _image_map(options.image_map)
        self._rows = {row.instance.instance_id: _with_image(row, images) for row in dataset.rows}
        self._given = None if options.predictions is None else read_predictions(Path(options.predictions))
        strange = sorted(set(self._given or ()) - set(self._rows))
        if strange:
            raise ConfigError(f"{options.predictions}: {strange[0]} is not in {options.dataset}")

    @property
    def dataset_hash(self) -> str:
        return self._digest

    @property
    def harness(self) -> str:
        try:
            return harness.harness_version()
        except AgentForgeError:
            return NO_HARNESS

    @property
    def conditions(self) -> Mapping[str, Any]:
        options = self._options
        given = {name: each.digest for name, each in sorted((self._given or {}).items())}
        return {
            "hints": options.hints,
            "tests": options.tests,
            "keep_test_edits": options.keep_test_edits,
            "harness_timeout_s": options.harness_timeout_s,
            "tree": "mirror" if options.mirrors else "image",
            "predictions": hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16] if given else "",
        }

    def tasks(self) -> tuple[BenchTask, ...]:
        """With given predictions: the instances that have one."""
        chosen = [row.instance for row in self._rows.values()]
        if self._given is not None:
            chosen = [each for each in chosen if each.instance_id in self._given]
        return tuple(BenchTask(id=each.instance_id, repository=each.repo) for each in chosen)

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        """Engine and images. Some images may be missing: their instances say so; all of them may not."""
        await check_engine()
        names = list(dict.fromkeys(self._rows[task.id].instance.image for task in tasks))
        here = await asyncio.to_thread(images_here, names)
        if self._options.pull and len(here) < len(names):
            await asyncio.to_thread(check_engines_room)
        elif names and not here:
            raise ImageError(
                f"none of {len(names)} images is on this machine, {names[0]} is the first",
                hint="pull or build them, name others with --image-map, or leave out --no-pull",
            )

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        return None

    async def run(self, task: BenchTask, context: TrialContext) -> TrialOutcome:
        if self._given is not None:
            return _given(self._given[task.id])
        try:
            ran = await attempt(context, partial(self._fix, task.id, context))
        except ImageMissing as error:
            extra = {"verdict": Outcome.IMAGE_MISSING.value, "summary": error.what}
            return TrialOutcome(status="infra", error_class=Outcome.IMAGE_MISSING.value, extra=extra)
        return self._outcome(task.id, ran, context.settings)

    async def _fix(self, name: str, context: TrialContext, listener: Listener) -> RunResult:
        options, instance = self._options, self._rows[name].instance
        mirrors = Path(options.mirrors) if options.mirrors else None
        settings = context.settings.model_copy(update={"tests_scope": options.tests})
        premises = Premises(settings.sandbox, mirrors, options.pull, partial(note_pulled, context.folder))
        with scratch_folder(settings.data_home, "swebench") as scratch:
            prepared = await prepare(instance, premises, scratch, lambda text: listener(Notice(text=text)))
            if prepared.pulled:
                await asyncio.to_thread(note_pulled, context.folder, prepared.image)
            with repository(prepared.tree, scratch) as source:
                task = task_of(
                    instance, str(source), prepared.image, hints=options.hints, python=prepared.python
                )
                return await run_fix(task, settings, listener=listener, run_id=context.run_id)

    def _outcome(self, name: str, ran: Ran, settings: Settings) -> TrialOutcome:
        fields = measured(ran)
        diff = ran.run.patch.diff if ran.run.patch is not None else b""
        given = submission(diff, keep_test_edits=self._options.keep_test_edits)
        fields["extra"] |= _about(given)
        if fields["status"] != "final":
            return TrialOutcome(**fields, error_class="infra")
        if not given.text and ran.run.outcome == "limit":
            ended = "cost" if ran.run.fault == "cost" else "limit"
            fields["extra"]["verdict"] = ended
            return TrialOutcome(**fields, error_class=ended)
        label = model_label(
            choose_workflow(settings).name, settings.model.name if settings.model.configured else ""
        )
        prediction = Prediction(instance_id=name, model_name_or_path=label, model_patch=given.text)
        artifacts = {"patch.diff": diff, PREDICTION: prediction.model_dump_json(indent=1).encode()}
        fields["status"] = "ungraded"
        return TrialOutcome(**fields, error_class="ungraded", artifacts=artifacts)


class Swebench(SwebenchPredictions):
    """The suite with its judge."""

    async def preflight(self, tasks: Sequence[BenchTask]) -> None:
        self._require_judge([task.id for task in tasks])
        await super().preflight(tasks)

    def _require_judge(self, names: Sequence[str]) -> None:
        harness.harness_version()
        require_gradable([self._rows[name] for name in names], self._source)

    async def self_check(self, tasks: Sequence[BenchTask]) -> SelfCheck | None:
        """Reference patches must resolve, where `--check-gold` asks for it: it costs as much as grading."""
        if not self._options.check_gold:
            return None
        rows = {task.id: self._whole(task.id) for task in tasks}
        unknown = [name for name, row in rows.items() if not isinstance(row.get("patch"), str)]
        if unknown:
            raise ConfigError(f"{self._source}: {unknown[0]} has no reference patch to check by")
        gold = [
            Prediction(instance_id=name, model_name_or_path="gold", model_patch=row["patch"])
            for name, row in rows.items()
        ]
        found: dict[str, Judged] = {}
        folder = self._settings.data_home / "swebench-gold"
        await harness.grade(self._order(gold), folder, found.__setitem__)
        wrong = [f"{name}: {judged.outcome} {judged.detail}".strip() for name, judged in found.items()]
        right = {name for name, judged in found.items() if judged.outcome is Outcome.RESOLVED}
        return SelfCheck(
            suite=self.name,
            references=len(gold),
            mutants=0,
            problems=tuple(text for text in wrong if text.partition(":")[0] not in right),
        )

    async def grade(
        self, pending: Sequence[Ungraded], folder: Path, settle: Callable[[Ungraded, Grade], None]
    ) -> None:
        """One call of the harness for the trials of one number, since it knows one patch an instance."""
        self._require_judge([each.row.problem for each in pending])
        await check_engine()
        for trial in sorted({each.row.trial for each in pending}):
            waiting = {each.row.problem: each for each in pending if each.row.trial == trial}
            predictions = [_kept(each) for each in waiting.values()]
            order = self._order(predictions)

            def tell(name: str, judged: Judged, group: Mapping[str, Ungraded] = waiting) -> None:
                settle(group[name], grade_of(judged))

            await harness.grade(order, folder / harness.FOLDER, tell)

    def _order(self, predictions: Sequence[Prediction]) -> harness.Order:
        return harness.Order(
            tuple(predictions),
            {each.instance_id: self._whole(each.instance_id) for each in predictions},
            self._digest,
            self._options.grade_workers,
            self._options.harness_timeout_s,
        )

    def _whole(self, name: str) -> dict[str, Any]:
        row = self._rows[name]
        return row.sealed.for_the_harness(row.instance.image)


def open_swebench(options: Mapping[str, Any], settings: Settings) -> SwebenchPredictions:
    """Raises `ConfigError` for rows, predictions or images that cannot be read, `EnvironmentFault`."""
    parsed = SwebenchOptions.model_validate(options)
    return (SwebenchPredictions if parsed.predict_only else Swebench)(parsed, settings)


def grade_of(judged: Judged) -> Grade:
    return Grade(
        passed=judged.outcome is Outcome.RESOLVED,
        error_class=ERROR_CLASSES.get(judged.outcome, judged.outcome.value),
        tests_passed=judged.tests_passed,
        tests_total=judged.tests_total,
        status="infra" if judged.outcome in REPEATED else "final",
        extra={
            "verdict": judged.outcome.value,
            "judge_detail": judged.detail,
            "failed_tests": list(judged.failed[:20]),
        },
    )


def collect_predictions(folder: Path) -> Path:
    """`preds.json` of a batch folder, rebuilt from what its trials left: the first trial of each instance.

    A trial that does not count (the batch's money ended in it), or that has left no patch this time, gives
    none. Raises `RecordError` where a prediction is damaged.
    """
    rows = {row.problem: row for row in read_trials(folder) if row.trial == 0}
    kept = [name for name, row in sorted(rows.items()) if _predicted(row)]
    target = folder / PREDICTIONS
    write_predictions(target, [_read(artifacts_of(folder, name, 0) / PREDICTION) for name in kept])
    return target


def _predicted(row: TrialRow) -> bool:
    left = (row.model_extra or {}).get("artifacts") or ()
    return row.status in ("final", "ungraded") and PREDICTION in left


def without_prediction(folder: Path) -> tuple[str, ...]:
    """Instances of a batch folder whose first trial is still to be made."""
    planned = read_manifest(folder).get("tasks", ())
    rows = {row.problem: row for row in read_trials(folder) if row.trial == 0}
    made = {name for name, row in rows.items() if row.status in ("final", "ungraded")}
    return tuple(name for name in dict.fromkeys((*planned, *rows)) if name not in made)


def _kept(waiting: Ungraded) -> Prediction:
    return _read(waiting.artifacts / PREDICTION)


def _read(place: Path) -> Prediction:
    try:
        return Prediction.model_validate_json(place.read_bytes())
    except (OSError, ValueError) as error:
        raise RecordError(f"{place}: the prediction cannot be read: {error}") from None


def _given(prediction: Prediction) -> TrialOutcome:
    text = prediction.model_dump_json(indent=1).encode()
    extra = {"workflow": "given predictions", "model_name_or_path": prediction.model_name_or_path}
    return TrialOutcome(
        status="ungraded", error_class="ungraded", cost_usd=0.0, extra=extra, artifacts={PREDICTION: text}
    )


def _about(given: Submission) -> dict[str, Any]:
    told: dict[str, Any] = {"patch_sha256": hashlib.sha256(given.text.encode()).hexdigest()[:16]}
    if given.dropped:
        told["test_edits_dropped"] = list(given.dropped)
    return told | ({"unfit": given.unfit} if given.unfit else {})


def _with_image(row: Row, images: Mapping[str, str]) -> Row:
    other = images.get(row.instance.instance_id)
    return row if other is None else row.with_image(other)


def _image_map(path: str | None) -> dict[str, str]:
    """Image by instance id, from a JSON object or lines `ID IMAGE`. Raises `ConfigError`."""
    if path is None:
        return {}
    try:
        text = Path(path).read_text("utf-8")
        if text.lstrip().startswith("{"):
            pairs = list(json.loads(text).items())
        else:
            pairs = [tuple(line.split()) for line in text.splitlines() if line.strip()]
        return {str(name): str(image) for name, image in pairs}
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{path}: no map of images: {error}", hint='give {"instance id": "image"} or lines `ID IMAGE`'
        ) from None


def waiting_for_grades(folder: Path) -> tuple[str, ...]:
    """Instances of a batch folder whose prediction is there and whose grade is not. Raises `UsageError`."""
    newest = {(row.problem, row.trial): row for row in read_trials(folder)}
    found = [name for (name, _), row in newest.items() if row.status == "ungraded"]
    if not found:
        raise UsageError(f"{folder}: no prediction waits for its grade")
    return tuple(dict.fromkeys(found))
