"""YAML with a line number for every key, so that a complaint can point at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentforge.core.errors import ConfigError


@dataclass(frozen=True)
class Scalar:
    """One value of the file: as YAML reads it, and as it was written (`off` is text to a text field)."""

    value: Any
    raw: str
    line: int


@dataclass(frozen=True)
class Mark:
    """A mapping of the file: its entries with the line of each key (1-based)."""

    entries: Mapping[str, tuple[int, Mark | Scalar]]
    line: int


def read_yaml(path: Path) -> Mark:
    """The mapping in `path`. Raises `ConfigError` with file, line and what is wrong."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"configuration file {path} does not exist", hint="check the path after --config"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})", hint="save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> Mark:
    """The mapping in `text`; `name` is what errors call it. Nothing is constructed but plain data."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return Mark({}, 1)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{name}:1: expected `key: value` lines, found {_kind(root)}")
        return _mapping(loader, root, name, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError(
            f"{place}: not valid YAML: {error.problem or error.context}",
            hint="check indentation, colons and quotes on that line and the one before",
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from None
    finally:
        loader.dispose()


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, name: str, above: tuple[int, ...]) -> Mark:
    if id(node) in above:
        raise ConfigError(f"{name}:{_line(node)}: this mapping contains itself")
    entries: dict[str, tuple[int, Mark | Scalar]] = {}
    for key, line, value in _pairs(node, name):
        if key in entries:
            raise ConfigError(f"{name}:{line}: `{key}` is set twice (first on line {entries[key][0]})")
        if isinstance(value, yaml.MappingNode):
            entries[key] = (line, _mapping(loader, value, name, (*above, id(node))))
        else:
            entries[key] = (line, _scalar(loader, value))
    return Mark(entries, _line(node))


def _pairs(node: yaml.MappingNode, name: str) -> Iterator[tuple[str, int, yaml.Node]]:
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{name}:{_line(key)}: a key must be plain text")
        yield key.value, _line(key), value


def _scalar(loader: yaml.SafeLoader, node: yaml.Node) -> Scalar:
    raw = node.value if isinstance(node, yaml.ScalarNode) else ""
    return Scalar(loader.construct_object(node, deep=True), raw, _line(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
