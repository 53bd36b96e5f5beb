"""SWE-bench rows from a local file or from the hub, and the choice among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentforge.core.errors import ConfigError, EnvironmentFault
from agentforge.evaluation.swebench.rows import HOW_TO_COMPLETE, Row, completed, read_row

HUB_NAMES = {
    "lite": "SWE-bench/SWE-bench_Lite",
    "verified": "SWE-bench/SWE-bench_Verified",
    "full": "SWE-bench/SWE-bench",
}
_SUFFIXES = (".json", ".jsonl", ".parquet")
_INSTALL = "install the extra `swebench` (pip install -e '.[swebench]')"


@dataclass(frozen=True)
class Dataset:
    """Rows in the file's order. `digest` is over their content, so it names what was measured."""

    name: str
    rows: tuple[Row, ...]
    digest: str


def load_dataset(source: str, split: str = "test", complete_from: str | None = None) -> Dataset:
    """`source`: lite, verified, full, a local .json, .jsonl or .parquet file, or a dataset's hub name.

    Blocks. Raises `ConfigError` for a file that is no dataset, `EnvironmentFault` where the hub is needed
    and cannot be had.
    """
    records = _objects(source, split)
    if complete_from is not None:
        others = {str(record.get("instance_id")): record for record in _objects(complete_from, split)}
        records = [completed(record, others) for record in records]
    rows = tuple(read_row(record, f"{source}: row {number}") for number, record in enumerate(records, 1))
    if not rows:
        raise ConfigError(f"{source}: holds no row")
    ids = [row.instance.instance_id for row in rows]
    doubled = sorted({each for each in ids if ids.count(each) > 1}) if len(set(ids)) < len(ids) else []
    if doubled:
        raise ConfigError(f"{source}: holds {doubled[0]} twice", hint="an instance is one row")
    return Dataset(source, rows, _digest(records))


def require_gradable(rows: Sequence[Row], source: str) -> None:
    """Raise `ConfigError` naming the fields that the harness would miss."""
    lacking = [row for row in rows if not row.gradable]
    if lacking:
        names = sorted({name for row in lacking for name in row.missing})
        raise ConfigError(
            f"{source}: {len(lacking)} of {len(rows)} rows have no {', '.join(names)}", hint=HOW_TO_COMPLETE
        )


def _objects(source: str, split: str) -> list[dict[str, Any]]:
    records = _records(source, split)
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise ConfigError(f"{source}: row {number}: is not an object")
    return records


def _records(source: str, split: str) -> list[dict[str, Any]]:
    path = Path(source).expanduser()
    if path.suffix in _SUFFIXES or path.exists():
        return _local(path)
    return _from_hub(HUB_NAMES.get(source.lower(), source), split)


def _local(path: Path) -> list[dict[str, Any]]:
    if path.is_dir() or path.suffix not in _SUFFIXES:
        raise ConfigError(
            f"{path}: is no file of rows", hint=f"give a file that ends in {', '.join(_SUFFIXES)}"
        )
    if path.suffix == ".parquet":
        return _parquet(path)
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", hint="give lite, verified or a file"
        ) from None
    if path.suffix == ".json":
        return _whole(path, text)
    return [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _whole(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid JSON: {error}") from None
    if isinstance(found, Mapping):
        found = list(found.values())
    if not isinstance(found, list):
        raise ConfigError(f"{path}: holds no list of rows")
    return found


def _line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{path}: line {number} is not valid JSON: {error}") from None
    return record


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError as error:
        raise EnvironmentFault(f"{path}: a Parquet file needs pyarrow", hint=_INSTALL) from error
    try:
        records: list[dict[str, Any]] = read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet: {error}") from None
    return records


def _from_hub(name: str, split: str) -> list[dict[str, Any]]:
    try:
        import datasets
        from httpx import HTTPError
    except ImportError as error:
        raise EnvironmentFault(f"{name}: a dataset of the hub needs `datasets`", hint=_INSTALL) from error
    try:
        loaded = datasets.load_dataset(name, split=split)
    except (OSError, ValueError, RuntimeError, HTTPError) as error:
        first = str(error).partition("\n")[0][:300]
        raise EnvironmentFault(
            f"the dataset {name} ({split}) cannot be fetched: {first}",
            hint="check the name and the network, or give a local .json, .jsonl or .parquet file",
        ) from error
    return [dict(record) for record in loaded]


def _digest(records: Sequence[Mapping[str, Any]]) -> str:
    """Over rows sorted by id, keys sorted: neither the order of a file nor its format matters."""
    lines = sorted(json.dumps(record, sort_keys=True, default=str) for record in records)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
