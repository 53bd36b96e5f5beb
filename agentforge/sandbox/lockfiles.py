"""Versions that a repository's lock file pins, as constraints: they choose versions and add nothing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator

LOCK_FILES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
_VERSION = re.compile(r"^[0-9][A-Za-z0-9.!+_-]*$")
# Ours, or so old that the sandbox's own pytest cannot be replaced by them.
_NEVER = frozenset({"pip", "setuptools", "wheel", "coverage"})
_OLDEST_PYTEST = 7


def lock_constraints(name: str, text: str) -> tuple[str, ...]:
    """`name==version` lines of a lock file; () where it cannot be read.

    A package that is locked in several versions (for several platforms) is left to the resolver.
    """
    reader: Callable[[str], Iterator[tuple[str, str]]] = _pipfile if name == "Pipfile.lock" else _packages
    versions: dict[str, set[str]] = {}
    try:
        for package, version in reader(text):
            if _NAME.match(package) and _VERSION.match(version) and package.lower() not in _NEVER:
                versions.setdefault(package.lower(), set()).add(version)
    except (ValueError, TypeError, AttributeError):
        return ()
    if _is_old(versions.get("pytest", set())):
        versions = {package: found for package, found in versions.items() if not package.startswith("pytest")}
    single = {package: found for package, found in versions.items() if len(found) == 1}
    return tuple(f"{package}=={next(iter(found))}" for package, found in sorted(single.items()))


def _packages(text: str) -> Iterator[tuple[str, str]]:
    """`[[package]]` tables, as poetry, uv and pdm write them; what comes from a folder or git is left out."""
    for package in tomllib.loads(text).get("package", []):
        source = package.get("source", {})
        local = {"editable", "virtual", "directory", "git", "path"} & set(source) or source.get("type") in (
            "git",
            "directory",
            "file",
        )
        if not local:
            yield str(package.get("name", "")), str(package.get("version", ""))


def _pipfile(text: str) -> Iterator[tuple[str, str]]:
    document = json.loads(text)
    for section in ("default", "develop"):
        for name, entry in document.get(section, {}).items():
            yield name, str(entry.get("version", "")).removeprefix("==")


def _is_old(versions: set[str]) -> bool:
    return any(int(re.split(r"\D", version)[0]) < _OLDEST_PYTEST for version in versions)
