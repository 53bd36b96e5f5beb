"""Trial records: one row a trial (ExecuGraph, 4.6), read strictly, refused where not to be pooled."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError

ROWS_FILE = "trials.jsonl"
"""The file of a batch folder that holds its rows."""

HARNESS_FAILURES = frozenset({"harness_error", "infra", "infra_error", "image_missing"})
"""Error classes that speak of the measuring apparatus, not of the candidate."""

CONSTANT_IN_A_RUN = ("condition", "recorded_condition", "model", "retry_budget", "config_hash", "harness")
"""What all trials of one run must agree on; a run in which they differ is several experiments."""


class TrialRow(Frozen):
    """One trial. Times are seconds of wall clock, tokens as the provider counted them."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    run: str = Field(min_length=1)
    problem: str = Field(min_length=1)
    category: str = ""
    repository: str = ""
    condition: str = ""
    recorded_condition: str = ""
    model: str = ""
    trial: int = 0
    seed: int | None = None
    retry_budget: int | None = None
    passed: bool
    tests_passed: int = Field(default=0, ge=0)
    tests_total: int = Field(default=0, ge=0)
    retries: int = Field(default=0, ge=0)
    error_class: str = "none"
    wallclock: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    test_source: str = ""
    config_hash: str = ""
    harness: str = ""
    stage: str = ""
    status: str = "final"
    """Of a batch: anything but "final" is superseded by a newer row of the trial and never pooled."""
    agents: dict[str, bool] = Field(default_factory=dict)
    """Which agents did their part (True) or failed at it, where the workflow has several."""
    specialists: list[str] = Field(default_factory=list)
    """Who was in the team, where the workflow chooses one (MARS)."""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    @property
    def key(self) -> tuple[str, str, int]:
        """What names a trial: a second row with the same key is a duplicate."""
        return self.run, self.problem, self.trial


class PoolingRefused(ConfigError):
    """Rows that must not be pooled; every reason is named."""


class Read(NamedTuple):
    """Rows that count, and those of trials that have no final row (yet): they are pooled with nothing."""

    rows: tuple[TrialRow, ...]
    unfinished: tuple[TrialRow, ...]


def read_rows(source: Path) -> tuple[TrialRow, ...]:
    """The rows that count of a JSON array, a JSON-lines file or a batch folder.

    Raises `ConfigError` naming file and row. A torn last line of a JSON-lines file is left out.
    """
    return read_all(source).rows


def read_all(source: Path) -> Read:
    """As `read_rows`, with what is left out because its trial has no final row."""
    path = source / ROWS_FILE if source.is_dir() else source
    rows = tuple(_checked(path, place, record) for place, record in _records(path, _text(path)))
    final = tuple(row for row in rows if row.status == "final")
    if not final:
        waiting = f" with a final row: {len(rows)} have none" if rows else ""
        raise ConfigError(
            f"{path}: holds no trial{waiting}", hint="give a file of trial rows, or a batch folder"
        )
    done = {row.key for row in final}
    unfinished = {row.key: row for row in rows if row.key not in done}
    return Read(final, tuple(unfinished.values()))


def by_run(rows: Iterable[TrialRow]) -> dict[str, tuple[TrialRow, ...]]:
    """The rows of each run, runs in the order of their first row."""
    grouped: dict[str, list[TrialRow]] = {}
    for row in rows:
        grouped.setdefault(row.run, []).append(row)
    return {run: tuple(members) for run, members in grouped.items()}


def by_problem(rows: Iterable[TrialRow]) -> dict[str, tuple[TrialRow, ...]]:
    """The rows of each problem, sorted by problem, so that a seeded resampling is the same every time."""
    grouped: dict[str, list[TrialRow]] = defaultdict(list)
    for row in rows:
        grouped[row.problem].append(row)
    return {problem: tuple(grouped[problem]) for problem in sorted(grouped)}


def refuse_unpoolable(rows: Sequence[TrialRow]) -> None:
    """Raise `PoolingRefused` naming duplicates, runs that mix experiments, and runs judged differently."""
    problems = [*_duplicates(rows), *_mixed(rows), *_categories(rows), *_impossible(rows), *_harnesses(rows)]
    if problems:
        raise PoolingRefused(
            "these rows cannot be pooled: " + "; ".join(problems),
            hint="keep one row a trial and one experiment a run; compare the clean files again",
        )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text", hint="trial rows are JSON") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", hint="give a file of trial rows or a batch folder"
        ) from None


def _records(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        try:
            for number, record in enumerate(json.loads(text), 1):
                yield f"row {number}", record
        except ValueError as error:
            raise ConfigError(f"{path}: is not valid JSON: {error}") from None
        return
    yield from _json_lines(path, text)


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except ValueError:
            if number == len(lines):  # no newline after it: the writer died in the middle of this row
                return
            raise ConfigError(f"{path}: line {number} is not valid JSON") from None


def _checked(path: Path, place: str, record: Any) -> TrialRow:
    try:
        return TrialRow.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        raise ConfigError(f"{path}: {place}: {field}: {first['msg']}") from None


def _duplicates(rows: Sequence[TrialRow]) -> Iterator[str]:
    repeated = {key: count for key, count in Counter(row.key for row in rows).items() if count > 1}
    if repeated:
        (run, problem, trial), _ = next(iter(repeated.items()))
        surplus = sum(repeated.values()) - len(repeated)
        yield f"{surplus} duplicate rows (first: run {run}, problem {problem}, trial {trial})"


def _mixed(rows: Sequence[TrialRow]) -> Iterator[str]:
    for run, members in by_run(rows).items():
        for field in CONSTANT_IN_A_RUN:
            values = sorted({str(getattr(row, field)) for row in members})
            if len(values) > 1:
                yield f"run {run} mixes {len(values)} values of {field}: {', '.join(values)}"


def _categories(rows: Sequence[TrialRow]) -> Iterator[str]:
    for problem, members in by_problem(rows).items():
        names = sorted({row.category for row in members})
        if len(names) > 1:
            yield f"problem {problem} is in several categories: {', '.join(names)}"


def _impossible(rows: Sequence[TrialRow]) -> Iterator[str]:
    """Rows that contradict themselves: they tell of a defect in what wrote them."""
    for row in rows:
        where = f"run {row.run}, problem {row.problem}, trial {row.trial}"
        if row.tests_passed > row.tests_total:
            yield f"{where}: {row.tests_passed} of {row.tests_total} tests passed"
        elif row.passed and row.tests_passed < row.tests_total:
            yield f"{where}: passed with {row.tests_passed} of {row.tests_total} tests"


def _harnesses(rows: Sequence[TrialRow]) -> Iterator[str]:
    """Runs judged by different harness versions are not comparable, even if each is clean in itself."""
    judges: Mapping[str, str] = {row.run: row.harness for row in rows if row.harness}
    if len(set(judges.values())) > 1:
        told = ", ".join(f"{run}: {harness}" for run, harness in judges.items())
        yield f"the runs were judged by different harness versions ({told})"
