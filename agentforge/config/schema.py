"""Questions to the settings' types: which keys exist, and what may stand there."""

from __future__ import annotations

import types
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from agentforge.config.settings import Settings

KeyPath = tuple[str, ...]

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def strip_optional(annotation: Any) -> tuple[Any, bool]:
    """The type without `None`, and whether `None` was allowed."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        return (rest[0] if len(rest) == 1 else annotation), len(rest) < len(get_args(annotation))
    return annotation, False


def is_section(annotation: Any) -> bool:
    """Whether keys may follow below."""
    bare, _ = strip_optional(annotation)
    return get_origin(bare) is dict or (isinstance(bare, type) and issubclass(bare, BaseModel))


def is_text(annotation: Any) -> bool:
    bare, _ = strip_optional(annotation)
    return get_origin(bare) is Literal or bare in (str, SecretStr, FilePath)


def child(annotation: Any, key: str) -> Any | None:
    """The type of `key` below `annotation`; None where there is no such key."""
    bare, _ = strip_optional(annotation)
    if get_origin(bare) is dict:
        key_type, value_type = get_args(bare)
        allowed = get_args(key_type) if get_origin(key_type) is Literal else None
        return value_type if allowed is None or key in allowed else None
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        field = bare.model_fields.get(key)
        return field.annotation if field else None
    return None


def keys_of(annotation: Any) -> tuple[str, ...]:
    """The names that may stand below `annotation`; empty where any name may."""
    bare, _ = strip_optional(annotation)
    if get_origin(bare) is dict:
        key_type = get_args(bare)[0]
        return get_args(key_type) if get_origin(key_type) is Literal else ()
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return tuple(bare.model_fields)
    return ()


def type_at(path: KeyPath) -> Any | None:
    """The type of a whole path below `Settings`."""
    annotation: Any = Settings
    for part in path:
        annotation = child(annotation, part)
        if annotation is None:
            return None
    return annotation


def in_words(annotation: Any) -> str:
    """What may stand there, for a person."""
    bare, optional = strip_optional(annotation)
    if get_origin(bare) is Literal:
        words = "one of " + ", ".join(str(choice) for choice in get_args(bare))
    elif bare is FilePath:
        words = "a path"
    elif is_section(bare):
        words = "a section of `key: value` lines"
    else:
        words = _WORDS.get(bare, "text")
    return f"{words} or null" if optional else words


def all_keys(annotation: Any = Settings, prefix: str = "") -> Iterator[str]:
    """Every dotted key; agents by name, free names (`model.prices`) as the section itself."""
    for name in keys_of(annotation):
        below = child(annotation, name)
        dotted = f"{prefix}{name}"
        if is_section(below) and keys_of(below):
            yield from all_keys(below, f"{dotted}.")
        else:
            yield dotted


def near_miss(path: KeyPath, annotation: Any) -> str:
    """The key that was probably meant by the last part of `path`, or "". Looks beside it, then everywhere."""
    prefix = "".join(f"{part}." for part in path[:-1])
    beside = get_close_matches(path[-1], keys_of(annotation), n=1, cutoff=0.6)
    if beside:
        return prefix + beside[0]
    same_name = [key for key in all_keys() if key.rsplit(".", 1)[-1] == path[-1]]
    if same_name:
        return same_name[0]
    close = get_close_matches(".".join(path), tuple(all_keys()), n=1, cutoff=0.75)
    return close[0] if close else ""
