"""`agentforge bench swebench`: predictions by any workflow, graded by the official harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agentforge.cli.bench_options import run_suite, with_shared_options
from agentforge.cli.failures import error_document, report_failure, tell
from agentforge.cli.output import print_json
from agentforge.core.errors import AgentForgeError, ExitCode, UsageError

Dataset = Annotated[
    str,
    typer.Option(
        "--dataset", metavar="NAME|FILE", help="lite, verified, full, a hub name, or .json, .jsonl, .parquet."
    ),
]
Split = Annotated[str, typer.Option("--split", metavar="NAME", help="Split of a dataset of the hub.")]
CompleteFrom = Annotated[
    Path | None,
    typer.Option("--complete-from", metavar="FILE", help="Rows that have what the harness 5.x needs."),
]
Hints = Annotated[bool, typer.Option("--hints", help="Give the comments under the issue, too.")]
Tests = Annotated[
    Literal["related", "all"], typer.Option("--tests", help="Which tests a patch must keep passing.")
]
KeepTestEdits = Annotated[
    bool, typer.Option("--keep-test-edits", help="Submit what a patch does to tests, too.")
]
ImageMap = Annotated[
    Path | None,
    typer.Option("--image-map", metavar="FILE", help="Other images: a JSON object, or lines `ID IMAGE`."),
]
Mirrors = Annotated[
    Path | None,
    typer.Option("--mirrors", metavar="DIR", help="Take trees from clones DIR/OWNER__NAME, not from images."),
]
Pull = Annotated[bool, typer.Option("--pull/--no-pull", help="Fetch images that are not here.")]
CleanImages = Annotated[
    bool, typer.Option("--clean-images", help="At the end remove the images that this batch pulled.")
]
GradeWorkers = Annotated[
    int, typer.Option("--grade-workers", metavar="N", min=1, help="Instances graded at the same time.")
]
HarnessTimeout = Annotated[
    int, typer.Option("--harness-timeout", metavar="S", min=1, help="Seconds for one instance's tests.")
]
Predictions = Annotated[
    Path | None,
    typer.Option("--predictions", metavar="FILE", help="Grade these patches; no agent is run."),
]
PredictOnly = Annotated[bool, typer.Option("--predict-only", help="Make predictions, grade nothing.")]
GradeOnly = Annotated[
    bool, typer.Option("--grade-only", help="Grade the predictions that wait in --out, run no agent.")
]
CheckGold = Annotated[
    bool, typer.Option("--check-gold", help="First see that the reference patches resolve here.")
]
Submit = Annotated[bool, typer.Option("--submit", help="Hand the predictions over to sb-cli at the end.")]


@with_shared_options
def swebench(
    context: typer.Context,
    dataset: Dataset,
    split: Split = "test",
    complete_from: CompleteFrom = None,
    hints: Hints = False,
    tests: Tests = "related",
    keep_test_edits: KeepTestEdits = False,
    image_map: ImageMap = None,
    mirrors: Mirrors = None,
    pull: Pull = True,
    clean_images: CleanImages = False,
    grade_workers: GradeWorkers = 1,
    harness_timeout: HarnessTimeout = 1800,
    predictions: Predictions = None,
    predict_only: PredictOnly = False,
    grade_only: GradeOnly = False,
    check_gold: CheckGold = False,
    submit: Submit = False,
    **shared: Any,
) -> None:
    """SWE-bench: the agent in each instance's own image, the official harness as the judge.

    The harness runs its containers as root and with network; the agent's are as closed as ever.
    """
    raise typer.Exit(_bench(context.params))


def _bench(values: dict[str, Any]) -> int:
    from agentforge.evaluation.bench.protocol import SuiteSpec
    from agentforge.evaluation.swebench.options import SwebenchOptions

    try:
        values = _checked(values)
    except AgentForgeError as error:
        if values["as_json"]:
            print_json(error_document(error.what, error.hint, int(error.exit_code)))
        return report_failure(error)
    options = SwebenchOptions(
        dataset=_place(values["dataset"]),
        split=values["split"],
        complete_from=_path(values["complete_from"]),
        hints=values["hints"],
        tests=values["tests"],
        keep_test_edits=values["keep_test_edits"],
        image_map=_path(values["image_map"]),
        mirrors=_path(values["mirrors"]),
        pull=values["pull"],
        predictions=_path(values["predictions"]),
        predict_only=values["predict_only"],
        check_gold=values["check_gold"],
        grade_workers=values["grade_workers"],
        harness_timeout_s=values["harness_timeout"],
    )
    try:
        code = run_suite(SuiteSpec(name="swebench", options=options.model_dump(mode="json")), values)
    finally:
        trouble = _keep_predictions(values)
    if trouble is not None:
        return code or report_failure(trouble)
    return _afterwards(values, code)


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Options that exclude each other; with --grade-only, what waits. Raises `UsageError`."""
    from agentforge.evaluation.swebench.submit import subset_of

    if values["predict_only"] and (values["grade_only"] or values["predictions"] is not None):
        raise UsageError(
            "--predict-only makes predictions: it goes with neither --grade-only nor --predictions"
        )
    if values["submit"]:
        subset_of(values["dataset"])
    if not values["grade_only"] or values["predictions"] is not None:
        return values
    from agentforge.evaluation.swebench.bench import waiting_for_grades

    if values["out"] is None or not values["out"].is_dir():
        raise UsageError(
            "--grade-only needs the folder of a batch", hint="give it with --out, or --predictions"
        )
    waiting = waiting_for_grades(values["out"])
    return {**values, "resume": True, "instances": values["instances"] or [",".join(waiting)]}


def _keep_predictions(values: dict[str, Any]) -> AgentForgeError | None:
    """Whatever ended the batch, what its trials made is there; or why it is not."""
    from agentforge.evaluation.bench.batch import MANIFEST
    from agentforge.evaluation.swebench.bench import collect_predictions

    # Another tool's folder may have `artifacts` and a `preds.json` that is not ours to write.
    if values["dry_run"] or values["out"] is None or not (values["out"] / MANIFEST).is_file():
        return None
    try:
        collect_predictions(values["out"])
    except AgentForgeError as error:
        return error
    return None


def _afterwards(values: dict[str, Any], code: int) -> int:
    from agentforge.evaluation.swebench.images import remove_pulled
    from agentforge.evaluation.swebench.predictions import PREDICTIONS
    from agentforge.evaluation.swebench.submit import submit

    if values["dry_run"] or code not in (ExitCode.VERIFIED, ExitCode.ENVIRONMENT):
        return code
    try:
        if values["clean_images"]:
            gone = remove_pulled(values["out"])
            tell(f"removed {len(gone)} images that this batch pulled", label="images")
        if values["submit"]:
            _require_all(values["out"])
            name = values["name"] or values["out"].absolute().name
            submit(values["dataset"], values["split"], values["out"] / PREDICTIONS, name)
    except AgentForgeError as error:
        return report_failure(error)
    return code


def _require_all(folder: Path) -> None:
    """A submission cannot be taken back, and what it lacks counts as failed. Raises `UsageError`."""
    from agentforge.evaluation.swebench.bench import without_prediction

    missing = without_prediction(folder)
    if missing:
        raise UsageError(
            f"nothing was submitted: {len(missing)} instances have not been tried, {missing[0]} first",
            hint="go on with --resume --submit",
        )


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser().absolute())


def _place(dataset: str) -> str:
    """A local file by its whole path, any other name as it is."""
    path = Path(dataset).expanduser()
    return str(path.absolute()) if path.exists() else dataset
