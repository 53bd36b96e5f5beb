"""Which Python a repository wants, read from its files, and which of ours that is."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT = "3.11"
KNOWN = tuple(f"3.{minor}" for minor in range(8, 15))
"""Versions for which an image is looked for."""
_CLAUSE = re.compile(r"\s*(~=|===?|!=|<=|>=|<|>|\^|~|)\s*v?(\d+(?:\.\d+)*)(\.\*|\.x)?\s*$")


@dataclass(frozen=True)
class PythonNeed:
    """A version specifier as the repository writes it, and the file that says so; "" for none."""

    specifier: str = ""
    source: str = ""

    def allows(self, version: str) -> bool:
        """Whether some release of `version` ("3.9") satisfies it. What cannot be read allows everything."""
        alternatives = [part.split(",") for part in self.specifier.split("||")]
        return any(all(_satisfied(clause, version) for clause in clauses) for clauses in alternatives)

    def choose(self) -> str:
        """The default where it is allowed, else the newest known version that is, else ""."""
        if self.allows(DEFAULT):
            return DEFAULT
        return next((version for version in reversed(KNOWN) if self.allows(version)), "")


def python_need(
    pyproject: Mapping[str, Any],
    setup_cfg: configparser.RawConfigParser,
    setup_py: str,
    pipfile: Mapping[str, Any],
    version_file: str,
) -> PythonNeed:
    """The first that speaks: a project's declared range counts more than a developer's own version."""
    poetry = _table(pyproject, "tool", "poetry", "dependencies").get("python")
    pip_requires = _table(pipfile, "requires")
    found = (
        (_table(pyproject, "project").get("requires-python"), "pyproject.toml"),
        (poetry, "pyproject.toml (poetry)"),
        (setup_cfg.get("options", "python_requires", fallback=None), "setup.cfg"),
        (_setup_keyword(setup_py, "python_requires"), "setup.py"),
        (_pinned(pip_requires.get("python_version")), "Pipfile"),
        (_pinned(version_file.strip().splitlines()[0] if version_file.strip() else None), ".python-version"),
    )
    for specifier, source in found:
        if isinstance(specifier, str) and specifier.strip():
            return PythonNeed(specifier.strip(), source)
    return PythonNeed()


def _satisfied(clause: str, version: str) -> bool:
    match = _CLAUSE.match(clause)
    if match is None:
        return True
    operator, number, _ = match.groups()
    wanted = tuple(map(int, number.split(".")))
    have = tuple(map(int, version.split(".")))
    short = wanted[:2]
    if operator in ("", "==", "==="):
        return have[: len(short)] == short
    if operator == "!=":
        return len(wanted) > 2 or have[: len(short)] != short
    if operator == "^" or (operator == "~=" and len(wanted) == 2):
        return have >= short and have[0] == wanted[0]
    if operator in ("~", "~="):
        return have[: len(short)] == short
    if operator == ">=":
        return have >= short
    if operator == ">":
        return have >= short if len(wanted) > 2 else have > short
    if operator == "<=":
        return have <= short if len(short) > 1 else have[0] <= short[0]
    return have <= short if len(wanted) > 2 and wanted[2] > 0 else have < short


def _pinned(version: object) -> str | None:
    match = re.match(r"\d+\.\d+", version) if isinstance(version, str) else None
    return f"=={match.group()}.*" if match else None


def _setup_keyword(source: str, name: str) -> str | None:
    """A literal keyword of the call of `setup`; the script is never run."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg == name and isinstance(node.value, ast.Constant):
            return node.value.value if isinstance(node.value.value, str) else None
    return None


def _table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        value = document.get(name, {})
        document = value if isinstance(value, Mapping) else {}
    return document
