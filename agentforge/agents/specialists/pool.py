"""A pool of topic specialists as data: who they are, and which notes each may quote (MARS, 3).

The notes of all specialists are one corpus; a specialist's slice is every note that shares one of its
tags, so that a note on a heap in a shortest path serves both topics.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, StringConstraints, ValidationError

from agentforge.core.base import Frozen
from agentforge.core.errors import ConfigError

MAX_POOL_BYTES = 2_000_000
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,59}$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]


class Note(Frozen):
    """A technique in a few sentences; `tags` say whom it serves."""

    id: Name
    title: Text
    tags: tuple[Text, ...] = Field(min_length=1)
    text: Text


class Specialist(Frozen):
    """A topic: what it is about, the words by which it is known, and the notes it brings."""

    name: Name
    title: Text
    description: Text
    tags: tuple[Text, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Pool:
    """Specialists in order of their names, and the corpus of all their notes."""

    name: str
    specialists: tuple[Specialist, ...]

    def __getitem__(self, name: str) -> Specialist:
        return next(item for item in self.specialists if item.name == name)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        return tuple(note for item in self.specialists for note in item.notes)

    def slice_of(self, specialist: Specialist) -> frozenset[str]:
        """Ids of the notes that share a tag with `specialist`."""
        own = frozenset(specialist.tags)
        brought = {note.id for note in specialist.notes}
        return frozenset(brought | {note.id for note in self.notes if own.intersection(note.tags)})

    @cached_property
    def hash(self) -> str:
        content = [item.model_dump(mode="json") for item in self.specialists]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def shipped_pools() -> tuple[str, ...]:
    """Names of the pools inside the package."""
    return tuple(sorted(entry.name for entry in _shipped().iterdir() if entry.is_dir()))


def load_pool(name: str) -> Pool:
    """A shipped pool by name, or the user's own: a folder of YAML files, one specialist each.

    Raises `ConfigError` naming the file and what is wrong with it.
    """
    if name in shipped_pools():
        return _checked(name, _files(_shipped() / name))
    folder = Path(name)
    if not folder.is_dir():
        raise ConfigError(
            f"unknown pool of specialists {name!r}",
            hint=f"one of: {', '.join(shipped_pools())}, or a folder of YAML files, one specialist each",
        )
    return _checked(folder.name, _files(folder))


def _shipped() -> Traversable:
    return resources.files("agentforge") / "configs" / "specialists"


def _files(folder: Traversable) -> list[tuple[str, str]]:
    """(file name, text) of the YAML files in `folder`, by name."""
    found = []
    room = MAX_POOL_BYTES
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if not entry.name.endswith((".yaml", ".yml")):
            continue
        try:
            content = entry.read_bytes()
            room -= len(content)
            if room < 0:
                raise ConfigError(f"pool of specialists {folder}: more than {MAX_POOL_BYTES} bytes")
            found.append((entry.name, content.decode("utf-8")))
        except UnicodeDecodeError:
            raise ConfigError(f"specialist {entry}: is not UTF-8 text") from None
        except OSError as error:
            raise ConfigError(f"specialist {entry}: cannot be read: {error.strerror}") from None
    return found


def _checked(name: str, files: Iterable[tuple[str, str]]) -> Pool:
    specialists = sorted((_specialist(*file) for file in files), key=lambda item: item.name)
    if not specialists:
        raise ConfigError(f"pool of specialists {name}: holds no YAML file")
    _refuse_twins(name, "specialist", (item.name for item in specialists))
    _refuse_twins(name, "note", (note.id for item in specialists for note in item.notes))
    return Pool(name, tuple(specialists))


def _refuse_twins(pool: str, what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(f"pool of specialists {pool}: {what} {name!r} is there {count} times")


def _specialist(file: str, text: str) -> Specialist:
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"specialist {file}{line}: is not valid YAML") from None
    try:
        specialist = Specialist.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"specialist {file}: {place or 'file'}: {first['msg']}") from None
    strangers = [note.id for note in specialist.notes if not set(note.tags) & set(specialist.tags)]
    if strangers:
        raise ConfigError(
            f"specialist {file}: note {strangers[0]!r} shares no tag with its specialist",
            hint=f"give it one of: {', '.join(specialist.tags)}",
        )
    return specialist
