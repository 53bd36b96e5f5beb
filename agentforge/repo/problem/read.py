"""A problem from a file: plain text, our own JSON, or a record of a public data set."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from agentforge.core.errors import UsageError
from agentforge.core.problem import Problem, ProblemRecord
from agentforge.repo.problem.examples import call_examples, parses, sample_examples
from agentforge.repo.problem.records import SHAPES, read_own

MAX_BYTES = 512 * 1024 * 1024
_SIGNATURE = re.compile(r"^[ \t>`]*((?:async )?def (\w+)\([^\n]*?\)(?:\s*->\s*[^:\n`]+)?)\s*:?`*\s*$", re.M)
_CLASS = re.compile(r"^[ \t>`]*class (\w+)(\([^\n]*\))?:", re.M)
_READS_INPUT = re.compile(r"\b(standard input|stdin|read from input|input\(\))", re.I)


def read_record(path: Path, index: int | None = None, wanted: str | None = None) -> ProblemRecord:
    """The problem in `path`; of several the one at `index` (from 0) or with the id `wanted`.

    `.json`, `.jsonl` (also `.gz`) hold records, everything else is a statement. Raises `UsageError`.
    """
    records = read_records(path)
    if wanted is not None:
        found = [record for record in records if wanted in _ids(record)]
        if not found:
            some = ", ".join(record.problem.id for record in records[:4])
            raise UsageError(f"{path} holds no problem {wanted!r}", hint=f"it holds {some}, …")
        return found[0]
    if index is None and len(records) > 1:
        raise UsageError(f"{path} holds {len(records)} problems", hint="choose one with --index or --id")
    if index is not None and not 0 <= index < len(records):
        raise UsageError(f"--index {index}: {path} holds {len(records)} problems, counted from 0")
    return records[index or 0]


def _ids(record: ProblemRecord) -> tuple[str, ...]:
    problem = record.problem
    return problem.id, problem.id.rpartition("/")[2], problem.entry_point or problem.id


def read_records(path: Path) -> list[ProblemRecord]:
    """Every problem of a file. Raises `UsageError` naming the file and the record."""
    text = _text(path)
    name = path.name.removesuffix(".gz")
    if not name.endswith((".json", ".jsonl")):
        return [from_text(text, path.stem)]
    rows = _rows(text, path, lines=name.endswith(".jsonl"))
    if not rows:
        raise UsageError(f"{path} holds no problem")
    return [from_row(row, number, str(path)) for number, row in enumerate(rows)]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 2**20} MB")
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile):
        raise UsageError(f"{path} is not UTF-8 text") from None


def _rows(text: str, path: Path, *, lines: bool) -> list[Any]:
    pieces = [line for line in text.split("\n") if line.strip()] if lines else [text]
    rows: list[Any] = []
    for number, piece in enumerate(pieces, 1):
        try:
            row = json.loads(piece)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}, record {number}: is not JSON: {error}") from None
        rows += row if isinstance(row, list) and not lines else [row]
    return rows


def from_row(row: Any, number: int, where: str) -> ProblemRecord:
    """A record by its shape. Raises `UsageError`."""
    if not isinstance(row, dict):
        raise UsageError(f"{where}, record {number}: a problem is a JSON object")
    try:
        for fits, read in SHAPES:
            if fits(row):
                return read(row, number)
        statement = next((row[key] for key in ("statement", "description", "prompt") if key in row), None)
        if not isinstance(statement, str):
            raise UsageError(
                f"{where}, record {number}: no statement",
                hint="give `statement`, or a HumanEval, MBPP, APPS, CodeContests or ClassEval record",
            )
        return read_own(row, from_text(statement, str(row.get("id", number)), row))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        told = f"{type(error).__name__}: {error}".split("\n")[0]
        raise UsageError(f"{where}, record {number}: cannot be read ({told})") from None


def from_text(text: str, name: str, row: dict[str, Any] | None = None) -> ProblemRecord:
    """A statement: the signature and the examples it holds say what kind of program is wanted."""
    row = row or {}
    statement = text.strip()
    if not statement:
        raise UsageError("the problem is empty", hint="write its statement into the file")
    title = str(row.get("title") or statement.split("\n")[0].lstrip("# ").strip()[:100])
    common: dict[str, Any] = {"id": name, "title": title, "statement": statement, "source": "text"}
    signature = _SIGNATURE.search(str(row.get("signature") or statement))
    cls = _CLASS.search(str(row.get("signature") or statement))
    if signature and parses(f"{signature[1]}: ..."):
        entry = signature[2]
        stub = f"{signature[1]}:\n    raise NotImplementedError\n"
        problem = Problem(**common, entry_point=entry, stub=stub, examples=call_examples(statement, entry))
    elif cls:
        stub = f"class {cls[1]}:\n    pass\n"
        examples = call_examples(statement, cls[1])
        problem = Problem(**common, kind="class", entry_point=cls[1], stub=stub, examples=examples)
    else:
        problem = _program(common, statement, row)
    return ProblemRecord(problem=problem)


def _program(common: dict[str, Any], statement: str, row: dict[str, Any]) -> Problem:
    samples = sample_examples(statement)
    given = row.get("kind") == "stdio" or any(_is_io(item) for item in row.get("examples") or ())
    if not (samples or given or _READS_INPUT.search(statement)):
        raise UsageError(
            "the problem names neither a function nor input and output",
            hint="add the line `def name(arguments) -> type`, or an example with `Input` and `Output`",
        )
    return Problem(**common, kind="stdio", examples=samples, language=row.get("language", "python"))


def _is_io(item: Any) -> bool:
    return isinstance(item, dict) and ("input" in item or "stdin" in item)
