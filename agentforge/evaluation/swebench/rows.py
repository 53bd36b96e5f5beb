"""One row of a SWE-bench file: what the agent may know, and what only the harness may.

The gold patch, the test patch, the names of the tests and the script that runs them are sealed: an
`Instance` holds no reference to them, and whatever makes a task takes an `Instance`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Never

from pydantic import Field, ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError

CLASSIC = (
    "repo",
    "instance_id",
    "base_commit",
    "patch",
    "test_patch",
    "problem_statement",
    "hints_text",
    "created_at",
    "version",
    "FAIL_TO_PASS",
    "PASS_TO_PASS",
    "environment_setup_commit",
)
"""The twelve fields of the dataset as it was first published."""
ADDED = ("image", "eval_script", "log_parser", "eval_type")
"""What the harness 5.x reads from a row beyond them."""
HOW_TO_COMPLETE = (
    "the harness reads them from the row since 5.0: use a current revision of the dataset (`--dataset lite` "
    "or `verified` fetches it), or complete the file with --complete-from ROWS, a file that has them for "
    "the same instances; --predict-only needs none of them but an image"
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TOLD = ("instance_id", "repo", "base_commit", "problem_statement")


class Instance(Frozen):
    """What the agent's side knows of an instance. `hints` are comments written after the issue."""

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    hints: str = Field(default="", repr=False)
    version: str = ""
    created_at: str = ""
    image: str


class Sealed:
    """A row in full, for the harness alone: it cannot be printed, pickled or written by accident."""

    __slots__ = ("__row",)

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.__row = dict(row)

    def for_the_harness(self, image: str) -> dict[str, Any]:
        """The row as the harness is to read it, with the image that is on this machine."""
        return {**self.__row, "image": image}

    def __repr__(self) -> str:
        return "<sealed row>"

    def __reduce__(self) -> Never:
        raise TypeError("a sealed row does not travel")


class Row:
    """An instance and, apart from it, its sealed rest."""

    def __init__(self, instance: Instance, sealed: Sealed, missing: tuple[str, ...]) -> None:
        self.instance, self.sealed, self.missing = instance, sealed, missing
        """`missing` names what the harness would need and the row has not."""

    def with_image(self, image: str) -> Row:
        return Row(self.instance.model_copy(update={"image": image}), self.sealed, self.missing)

    @property
    def gradable(self) -> bool:
        return not self.missing


def read_row(record: Mapping[str, Any], where: str) -> Row:
    """Raises `ConfigError` naming `where` and what is wrong."""
    if not isinstance(record, Mapping):
        raise ConfigError(f"{where}: is not an object")
    absent = [name for name in _TOLD if not record.get(name)]
    if absent:
        raise ConfigError(f"{where}: is no SWE-bench row: {', '.join(absent)} missing")
    identity = record["instance_id"]
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        raise ConfigError(f"{where}: {identity!r} is no instance id")
    _check_names(record["repo"], record["base_commit"], where)
    try:
        instance = Instance(
            instance_id=identity,
            repo=record["repo"],
            base_commit=record["base_commit"],
            problem_statement=record["problem_statement"],
            hints=record.get("hints_text") or "",
            version=str(record.get("version") or ""),
            created_at=str(record.get("created_at") or ""),
            image=record.get("image") or official_image(identity),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    missing = tuple(name for name in (*CLASSIC[8:11], *ADDED) if name not in record)
    tests = {name: _tests(record[name], f"{where}: {name}") for name in CLASSIC[9:11] if name in record}
    return Row(instance, Sealed({**record, **tests}), missing)


def _check_names(repo: Any, commit: Any, where: str) -> None:
    """They become the name of a mirror's folder and arguments of git: a row must not lead elsewhere."""
    if not isinstance(repo, str) or not _REPOSITORY.fullmatch(repo):
        raise ConfigError(f"{where}: {str(repo)[:80]!r} is no repository OWNER/NAME")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ConfigError(f"{where}: {str(commit)[:80]!r} is no commit in hexadecimal")


def official_image(instance_id: str) -> str:
    """The published image of an instance, by the convention of its registry's names."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"


def completed(record: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The record with the fields it lacks taken from the row of the same instance in another file."""
    other = others.get(str(record.get("instance_id")), {})
    return {**{name: other[name] for name in ADDED if name in other}, **record}


def _tests(value: Any, where: str) -> list[str]:
    """Names of tests, which the published files hold now as a list and now as JSON text."""
    try:
        names = json.loads(value) if isinstance(value, str) else list(value)
    except (ValueError, TypeError):
        raise ConfigError(f"{where}: is neither a list nor a list written as JSON") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{where}: is not a list of test names")
    return names
