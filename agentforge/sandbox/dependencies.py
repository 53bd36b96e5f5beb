"""What a repository says it needs, read from its own files without running any of them."""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentforge.core.tree import Tree
from agentforge.sandbox.lockfiles import LOCK_FILES, lock_constraints
from agentforge.sandbox.python_needs import PythonNeed, python_need

TEST_NAMES = ("test", "tests", "testing", "dev", "develop")
_EXTENSION_SOURCES = (".pyx", ".pxd", ".c", ".cc", ".cpp", ".h", ".rs")
_METADATA = (
    *("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "PKG-INFO", "tox.ini", "noxfile.py"),
    *("Pipfile", ".python-version", *LOCK_FILES),
)
_REQUIREMENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*([<>=!~;@].*)?$")


@dataclass(frozen=True)
class Step:
    """One `pip install`; where it is optional, its failure is a note and not the end."""

    arguments: tuple[str, ...]
    why: str
    optional: bool = False


@dataclass(frozen=True)
class DependencyPlan:
    """What is installed, in order. `project` is true where the repository itself is a distribution.

    `files` decide the content of the environment: their bytes are part of its cache key.
    """

    project: bool
    extra: str
    dependencies: tuple[str, ...]
    steps: tuple[Step, ...]
    files: tuple[str, ...]
    version: str
    need: PythonNeed = field(default_factory=PythonNeed)
    constraints: tuple[str, ...] = ()
    """`name==version` of the lock file called `lock`."""
    lock: str = ""

    @property
    def empty(self) -> bool:
        return not (self.project or self.steps)


def plan_dependencies(tree: Tree, subdirectory: str = "") -> DependencyPlan:
    """Read pyproject, setup.cfg, setup.py, Pipfile, requirements and lock files, tox and nox hints."""
    files = _Files(tree, subdirectory)
    pyproject, setup_cfg, setup_py = (
        files.toml("pyproject.toml"),
        files.ini("setup.cfg"),
        files.text("setup.py"),
    )
    project = _is_project(pyproject, setup_cfg, setup_py)
    extra = _test_extra(_extras(pyproject, setup_cfg, setup_py))
    pipfile = files.toml("Pipfile")
    steps = [*_group_steps(pyproject), *_pipfile_steps(pipfile), *_requirement_steps(files, project)]
    if not extra and not steps:
        steps = _hint_steps(files)
    table = _mapping(pyproject, "project")
    lock = next((name for name in LOCK_FILES if files.text(name)), "")
    dependencies = _strings(table.get("dependencies")) + _strings(
        _mapping(table, "optional-dependencies").get(extra)
    )
    return DependencyPlan(
        project=project,
        extra=extra,
        dependencies=dependencies or _lines(setup_cfg.get("options", "install_requires", fallback="")),
        steps=tuple(steps),
        files=tuple(sorted(_deciding_files(files))),
        version=_version(files),
        need=python_need(pyproject, setup_cfg, setup_py, pipfile, files.text(".python-version")),
        constraints=lock_constraints(lock, files.text(lock)) if lock else (),
        lock=lock,
    )


class _Files:
    """Text files of one folder of the tree; what is missing or broken reads as empty."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self.tree = tree
        self.folder = folder

    def at(self, name: str) -> str:
        return posixpath.join(self.folder, name)

    def text(self, name: str) -> str:
        path = self.at(name)
        return self.tree.read(path).data.decode("utf-8", "replace") if self.tree.kind(path) == "file" else ""

    def toml(self, name: str) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text(name))
        except tomllib.TOMLDecodeError:
            return {}

    def ini(self, name: str) -> configparser.RawConfigParser:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(self.text(name))
        except configparser.Error:
            return configparser.RawConfigParser()
        return parser

    def names(self) -> list[str]:
        """Paths of the folder, relative to it."""
        prefix = self.folder + "/" if self.folder else ""
        return [path[len(prefix) :] for path in self.tree.paths() if path.startswith(prefix)]


def _is_project(pyproject: Mapping[str, Any], setup_cfg: configparser.RawConfigParser, setup_py: str) -> bool:
    declared = (
        "project" in pyproject or "build-system" in pyproject or "poetry" in _mapping(pyproject, "tool")
    )
    return declared or setup_cfg.has_section("metadata") or bool(setup_py)


def _extras(pyproject: Mapping[str, Any], setup_cfg: configparser.RawConfigParser, setup_py: str) -> set[str]:
    found = set(_mapping(_mapping(pyproject, "project"), "optional-dependencies"))
    found |= set(_mapping(_mapping(_mapping(pyproject, "tool"), "poetry"), "extras"))
    if setup_cfg.has_section("options.extras_require"):
        found |= set(setup_cfg.options("options.extras_require"))
    if "extras_require" in setup_py:
        found |= _extras_of_script(setup_py)
    return found


def _extras_of_script(source: str) -> set[str]:
    """Keys of what is passed as `extras_require`, never executed; of every dict where that is no literal."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    for node in ast.walk(module):
        if not isinstance(node, ast.keyword) or node.arg != "extras_require":
            continue
        if isinstance(node.value, ast.Dict):
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            return {key for key in keys if isinstance(key, str)}
    # A name that turns out not to be an extra costs one warning of pip.
    return set(re.findall(r"""["'](\w+)["']\s*[:\]]""", source))


def _test_extra(extras: Iterable[str]) -> str:
    known = set(extras)
    return next((name for name in TEST_NAMES if name in known), "")


def _group_steps(pyproject: Mapping[str, Any]) -> list[Step]:
    groups = _mapping(pyproject, "dependency-groups")
    name = _test_extra(groups)
    if name:
        return [Step(("--group", name), f"dependency group {name}", optional=True)]
    poetry = _mapping(_mapping(pyproject, "tool"), "poetry")
    poetry_groups = {key: _mapping(value, "dependencies") for key, value in _mapping(poetry, "group").items()}
    poetry_groups.setdefault("dev", _mapping(poetry, "dev-dependencies"))
    name = _test_extra(key for key, value in poetry_groups.items() if value)
    wanted = tuple(_requirement_of(key, value) for key, value in poetry_groups.get(name, {}).items())
    if wanted:
        return [Step(wanted, f"poetry group {name}", optional=True)]
    return _tool_steps(_mapping(pyproject, "tool"))


def _tool_steps(tool: Mapping[str, Any]) -> list[Step]:
    """Development dependencies as uv, pdm and hatch kept them before dependency groups existed."""
    pdm = _mapping(_mapping(tool, "pdm"), "dev-dependencies")
    hatch = _mapping(_mapping(tool, "hatch"), "envs")
    found = {
        "uv": _strings(_mapping(tool, "uv").get("dev-dependencies")),
        "pdm": _strings(pdm.get(_test_extra(pdm))),
        "hatch": _strings(_mapping(hatch, _test_extra(hatch) or "default").get("dependencies"))
        + _strings(_mapping(hatch, _test_extra(hatch) or "default").get("extra-dependencies")),
    }
    return [
        Step(plain, f"development dependencies of {name}", optional=True)
        for name, wanted in found.items()
        if (plain := tuple(line for line in wanted if _REQUIREMENT.match(line)))
    ]


def _pipfile_steps(pipfile: Mapping[str, Any]) -> list[Step]:
    steps = []
    for section in ("packages", "dev-packages"):
        table = _mapping(pipfile, section)
        wanted = tuple(_requirement_of(key, value) for key, value in table.items() if _from_index(value))
        if wanted:
            steps.append(Step(wanted, f"Pipfile {section}", optional=section == "dev-packages"))
    return steps


def _from_index(constraint: object) -> bool:
    """Not a folder, an address or the project itself."""
    return not isinstance(constraint, dict) or not {"path", "git", "file", "url"} & set(constraint)


def _requirement_of(name: str, constraint: object) -> str:
    """A table's entry of Poetry or a Pipfile. A caret or tilde becomes a lower bound, for the resolver."""
    version = constraint.get("version", "*") if isinstance(constraint, dict) else constraint
    if isinstance(constraint, dict) and _strings(constraint.get("extras")):
        name = f"{name}[{','.join(_strings(constraint['extras']))}]"
    if not isinstance(version, str) or version in ("*", ""):
        return name
    if version[0] in "^~":
        return f"{name}>={version.lstrip('^~=')}"
    return f"{name}{version}" if version[0] in "<>=!~" else f"{name}=={version}"


def _requirement_steps(files: _Files, project: bool) -> list[Step]:
    """A project's own requirements files are often pinned workstations: only those for tests count."""
    pattern = re.compile(r"^(requirements([-_/].*)?|.*[-_]requirements)\.(txt|in)$|^requirements/.*\.txt$")
    found = [name for name in files.names() if pattern.match(name) and name.count("/") <= 1]
    tests = [name for name in found if re.search(r"test", name) and name.endswith(".txt")]
    steps = []
    if not project and "requirements.txt" in found:
        steps.append(Step(("-r", "requirements.txt"), "requirements.txt"))
    if not tests and not steps:
        tests = [name for name in found if re.search(r"dev", name) and name.endswith(".txt")]
    return steps + [Step(("-r", name), name, optional=True) for name in tests[:2]]


def _hint_steps(files: _Files) -> list[Step]:
    """What tox or nox would install for their tests, as far as it is plain text."""
    tox = _lines(files.ini("tox.ini").get("testenv", "deps", fallback=""))
    plain = tuple(line for line in tox if _REQUIREMENT.match(line))
    if plain:
        return [Step(plain, "tox.ini", optional=True)]
    nox = tuple(dict.fromkeys(_nox_installs(files.text("noxfile.py"))))
    return [Step(nox, "noxfile.py", optional=True)] if nox else []


def _nox_installs(source: str) -> list[str]:
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef) or "test" not in node.name:
            continue
        for call in ast.walk(node):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "install"
            ):
                found += [item.value for item in call.args if isinstance(item, ast.Constant)]
    return [word for word in found if isinstance(word, str) and _REQUIREMENT.match(word)]


def _deciding_files(files: _Files) -> list[str]:
    def decides(name: str) -> bool:
        depth = name.count("/")
        named = (depth == 0 and name in _METADATA) or (depth <= 1 and "requirements" in name)
        return named or name.endswith(_EXTENSION_SOURCES)

    return [files.at(name) for name in files.names() if decides(name)]


def _version(files: _Files) -> str:
    """The version an sdist carries; a checkout without history has none to offer."""
    match = re.search(r"^Version: *(\S+)$", files.text("PKG-INFO"), re.MULTILINE)
    return match.group(1) if match else "0.0.0"


def _mapping(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {}) if isinstance(table, Mapping) else {}
    return value if isinstance(value, Mapping) else {}


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _lines(text: str) -> tuple[str, ...]:
    return tuple(
        line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")
    )
