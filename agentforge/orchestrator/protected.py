"""What a candidate may not change: the tests that judge it, and what decides how they run.

Tests are known by evidence first: every file that gave a test id on the base, whatever its name.
Edits to protected files are left out of a candidate and reported; SWE-bench drops them, too.
"""

from __future__ import annotations

import configparser
import posixpath
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from agentforge.core.paths import file_of_test
from agentforge.core.state import RunState
from agentforge.core.tree import Changes, Tree, TreeFile

_COLLECTED = re.compile(r"^(test_.*|.*_test)\.py$")
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})
# How tests are found, run and reported; code that Python runs before anything else.
_HARNESS = re.compile(r"^(conftest\.py|\.?pytest\.(ini|toml)|tox\.ini|(site|user)customize\.py|.*\.pth)$")
_METADATA = re.compile(r"\.(egg-info|dist-info)(/|$)")
# What a test command usually goes through.
_RUNNERS = frozenset(
    {"makefile", "gnumakefile", "noxfile.py", "justfile", "taskfile.yml", "package.json", "tox.ini"}
)


@dataclass(frozen=True)
class Protected:
    """Decides by path; made once per candidate from what the run knows."""

    tree: Tree
    files: frozenset[str]
    folders: tuple[str, ...]
    by_command: bool = False

    def __call__(self, path: str) -> bool:
        name = posixpath.basename(path)
        return (
            path in self.files
            or bool(_COLLECTED.match(name) or _HARNESS.match(name) or _METADATA.search(path))
            or path.startswith(self.folders)
            or (self.by_command and (name.lower() in _RUNNERS or name.endswith(".mk")))
        )


def protected_paths(state: RunState, tree: Tree) -> Protected:
    """Test files by evidence and by name, their folders, and the files that the test command names."""
    ids = [*state.task.target_tests, *state.existing]
    if state.baseline is not None:
        ids += state.baseline.outcomes
    environment = state.environment
    by_command = environment is not None and environment.framework == "command"
    words = environment.test_command if environment is not None and by_command else ()
    files = {file_of_test(test) for test in ids if not _is_doctest(test)} | set(_named(words, tree))
    files |= {path for path in tree.paths() if _COLLECTED.match(posixpath.basename(path))}
    files |= {target for path in files if (target := _link_target(path, tree))}
    return Protected(tree, frozenset(files), _test_folders(files), by_command)


def split_protected(
    changes: Changes, protected: Protected
) -> tuple[dict[str, TreeFile | None], tuple[str, ...]]:
    """The changes that stay, and the paths whose changes are left out."""
    dropped = [
        path for path in changes if protected(path) or _configures_tests(path, changes[path], protected.tree)
    ]
    return {path: entry for path, entry in changes.items() if path not in dropped}, tuple(dropped)


def _is_doctest(test: str) -> bool:
    """A doctest's name is dotted, and its file is the code under repair."""
    return "." in test.partition("::")[2].partition("[")[0]


def _test_folders(files: Iterable[str]) -> tuple[str, ...]:
    """Folders called test(s) that hold a test file: their helpers and data belong to the tests."""
    found = set()
    for path in files:
        parts = path.split("/")[:-1]
        for end, part in enumerate(parts, 1):
            if part.lower() in _TEST_FOLDERS:
                found.add("/".join(parts[:end]) + "/")
    return tuple(sorted(found))


def _named(words: Iterable[str], tree: Tree) -> Iterable[str]:
    """Files of the tree that a command names, also inside one quoted argument."""
    for word in words:
        for piece in re.split(r"[\s;&|<>()'\"=]+", word):
            path = posixpath.normpath(piece) if piece else ""
            if tree.kind(path) in ("file", "symlink"):
                yield path


def _link_target(path: str, tree: Tree) -> str | None:
    """Where a link of the tree leads, one step, inside the tree."""
    if tree.kind(path) != "symlink":
        return None
    target = tree.read(path).data.decode("utf-8", "surrogateescape")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _configures_tests(path: str, entry: TreeFile | None, tree: Tree) -> bool:
    """Whether a change of pyproject.toml or setup.cfg touches the part that configures pytest."""
    name = posixpath.basename(path)
    if name not in ("pyproject.toml", "setup.cfg"):
        return False
    before = tree.read(path).data if tree.kind(path) == "file" else b""
    read = _pytest_table if name == "pyproject.toml" else _pytest_section
    return read(before) != read(entry.data if entry is not None else b"")


def _pytest_table(data: bytes) -> object:
    try:
        tool = tomllib.loads(data.decode("utf-8", "replace")).get("tool", {})
    except tomllib.TOMLDecodeError:
        return data
    return tool.get("pytest") if isinstance(tool, dict) else data


def _pytest_section(data: bytes) -> object:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return data
    return dict(parser.items("tool:pytest")) if parser.has_section("tool:pytest") else None
