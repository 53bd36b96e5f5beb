"""How a repository's tests are run: detection, in words, and the pytest call for a request."""

from __future__ import annotations

import configparser
import posixpath
import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentforge.core.errors import UsageError
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.tree import Tree
from agentforge.sandbox.limits import REPO

PYTEST = ("python", "-m", "pytest")
_LOOKED_FOR = re.compile(r"test_.*\.py$|.*_test\.py$")
_SHELL_SIGNS = ("&&", "||", "|", ";", ">", "<", "$", "`", "*", "\n")


@dataclass(frozen=True)
class TestCommand:
    """A detected or given test command; `notes` say why."""

    __test__ = False

    argv: tuple[str, ...]
    framework: str
    notes: tuple[str, ...]
    reads: str = ""


@dataclass(frozen=True)
class PytestCall:
    """One pytest session: what is collected, which of it is kept, and how it is shown to people."""

    python: str
    arguments: tuple[str, ...]
    targets: tuple[str, ...]
    select: tuple[str, ...]
    workdir: str
    shown: tuple[str, ...]
    test_timeout_s: float

    def request(self) -> dict[str, object]:
        """The request file of the launcher."""
        return {
            "arguments": self.arguments,
            "targets": self.targets,
            "select": self.select,
            "test_timeout_s": self.test_timeout_s,
            "root": REPO,
            "paths": [f"{REPO}/src", f"{self.workdir}/src"],
        }

    def without_ini_options(self) -> PytestCall:
        """The same without the options that the repository's configuration adds."""
        return replace(self, arguments=(*self.arguments, "-o", "addopts="))


def plan_pytest(
    environment: Environment, tree: Tree, request: TestRequest, test_timeout_s: float
) -> PytestCall:
    """Files are given to pytest, ids are selected by our plugin: an id that is gone stops nothing.

    No single test may take more than `test_timeout_s`, nor a third of the whole run's time.
    """
    python, extra = environment.test_command[0], environment.test_command[3:]
    workdir = posixpath.join(REPO, environment.workdir).rstrip("/")
    kept = [target for target in request.targets if tree.kind(_file(target)) in ("file", "directory")]
    files = list(dict.fromkeys(_file(target) for target in kept))
    targets = [f"{REPO}/{path}" for path in files] if files else []
    if request.targets and not files:
        targets = [f"{REPO}/{_file(request.targets[0])}"]
    given = [
        argument for argument in extra if not (files and _is_target(argument, tree, environment.workdir))
    ]
    arguments = (
        f"--rootdir={REPO}",
        "--continue-on-collection-errors",
        "--color=no",
        "-o",
        "cache_dir=/tmp/.pytest_cache",
        "-rfE",
        *given,
        "--maxfail=0",
    )
    select = tuple(kept) if any("::" in target for target in kept) else ()
    shown = (*PYTEST, *given, *request.targets)
    limit = min(test_timeout_s, request.timeout_s / 3)
    return PytestCall(python, arguments, tuple(targets), select, workdir, shown, limit)


def detect_test_command(tree: Tree, given: str | None, subdirectory: str = "") -> TestCommand:
    """The user's command, or what the repository's own files say. Raises `UsageError`."""
    if given is not None:
        return _given(given)
    django = _django_project(tree, subdirectory)
    if django is not None:
        return django
    odd = _oddly_named(tree, subdirectory)
    if odd:
        note = f"tests run with pytest, given {', '.join(odd)}: no file has a name that it looks for"
        return TestCommand((*PYTEST, *odd), "pytest", (note,))
    for name, why in _pytest_hints(tree, subdirectory):
        notes = [f"tests run with pytest: {name} {why}"]
        if tree.kind(name) == "file" and b"--doctest-" in tree.read(name).data:
            notes.append(f"doctests are among the tests: {name} asks for them")
        return TestCommand(PYTEST, "pytest", tuple(notes))
    return TestCommand(PYTEST, "pytest", ("tests run with pytest: nothing says otherwise",))


def _given(command: str) -> TestCommand:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the test command cannot be read: {error}", hint="check its quotes") from error
    if not words:
        raise UsageError("the test command is empty", hint="leave --test out to have it detected")
    pytest = _as_pytest(words)
    if pytest is not None:
        return TestCommand(pytest, "pytest", (f"tests run with the given pytest command: {command}",))
    if not any(sign in command for sign in _SHELL_SIGNS):
        found = _as_unittest(words) or _as_django(words) or _as_doctest(words)
        if found is not None:
            return replace(found, notes=(f"{found.notes[0]}: {command}",))
    shell = any(sign in command for sign in _SHELL_SIGNS) or "=" in words[0]
    argv = ("sh", "-c", command) if shell else tuple(words)
    return TestCommand(argv, "command", (f"tests run with the given command, as one test: {command}",))


def _as_pytest(words: Sequence[str]) -> tuple[str, ...] | None:
    if any(sign in word for word in words for sign in ("&&", "||", ";", "|")):
        return None
    if words[0] in ("pytest", "py.test"):
        return (*PYTEST, *words[1:])
    interpreter = posixpath.basename(words[0])
    if interpreter.startswith("python") and list(words[1:3]) == ["-m", "pytest"]:
        return tuple(words)
    return None


def _as_unittest(words: Sequence[str]) -> TestCommand | None:
    """`python -m unittest`: pytest runs its cases too, where the call says no more than where they are."""
    if not _is_module(words, "unittest"):
        return None
    rest = list(words[3:])
    places = _unittest_places(rest)
    if places is not None:
        note = "tests run with pytest, which collects what this unittest command does"
        return TestCommand((*PYTEST, *places), "pytest", (note,))
    verbose = rest if {"-v", "--verbose"} & set(rest) else [*rest, "-v"]
    if rest[:1] == ["discover"] and "-v" not in rest:
        verbose = ["discover", "-v", *rest[1:]]
    note = "tests run with unittest, outcomes are read from its output"
    return TestCommand((*words[:3], *verbose), "command", (note,), reads="unittest")


def _unittest_places(rest: Sequence[str]) -> list[str] | None:
    """Arguments for pytest, None where unittest's own loading is asked for."""
    words = [word for word in rest if word not in ("-v", "--verbose", "-q", "--quiet", "-b", "--buffer")]
    if words[:1] == ["discover"]:
        words = words[1:]
    elif any(word.startswith("-") for word in words):
        return None
    elif all(word.endswith(".py") for word in words):
        return words or ["-o", "python_files=test*.py"]
    else:
        return None  # a dotted name may be a module, a class or a method
    folder, pattern = "", "test*.py"
    while words:
        word = words.pop(0)
        if word in ("-s", "--start-directory") and words:
            folder = words.pop(0)
        elif word in ("-p", "--pattern") and words:
            pattern = words.pop(0)
        elif not word.startswith("-") and not folder:
            folder = word
        else:
            return None
    return ["-o", f"python_files={pattern}", *([folder] if folder not in ("", ".") else [])]


def _as_django(words: Sequence[str]) -> TestCommand | None:
    """Django's runner, made verbose so that it names each test."""
    script = words[1:] if posixpath.basename(words[0]).startswith("python") else words
    if len(script) < 2 or posixpath.basename(script[0]) not in ("manage.py", "runtests.py"):
        return None
    rest = list(script[1:])
    if posixpath.basename(script[0]) == "manage.py" and rest[0] != "test":
        return None
    rest = [word for word in rest if not re.match(r"-v\d?$|--verbosity", word) and not word.isdigit()]
    head = list(words[: len(words) - len(script) + 1])
    note = "tests run with Django's runner, outcomes are read from its output"
    return TestCommand((*head, *rest, "-v", "2", "--noinput"), "command", (note,), reads="unittest")


def _as_doctest(words: Sequence[str]) -> TestCommand | None:
    files = [word for word in words[3:] if word != "-v"]
    if not _is_module(words, "doctest") or not files or any(word.startswith("-") for word in files):
        return None
    option = "--doctest-modules" if all(word.endswith(".py") for word in files) else "--doctest-glob=*"
    return TestCommand((*PYTEST, option, *files), "pytest", ("doctests run with pytest",))


def _is_module(words: Sequence[str], name: str) -> bool:
    return posixpath.basename(words[0]).startswith("python") and list(words[1:3]) == ["-m", name]


def _django_project(tree: Tree, subdirectory: str) -> TestCommand | None:
    """A manage.py, and nothing that prepares pytest for Django: Django's own runner."""
    manage = posixpath.join(subdirectory, "manage.py")
    if tree.kind(manage) != "file" or b"DJANGO_SETTINGS_MODULE" not in tree.read(manage).data:
        return None
    for path in _configurations(tree, subdirectory):
        if b"DJANGO_SETTINGS_MODULE" in tree.read(path).data or b"--ds" in tree.read(path).data:
            return None
    note = "tests run with Django's runner: there is a manage.py, and no pytest configuration names settings"
    return TestCommand(
        ("python", "manage.py", "test", "-v", "2", "--noinput"), "command", (note,), reads="unittest"
    )


def _pytest_hints(tree: Tree, subdirectory: str) -> list[tuple[str, str]]:
    hints = []
    for folder in dict.fromkeys((subdirectory, "")):
        hints += [(path, "configures it") for path in _configurations(tree, folder)]
        for name in ("tests", "test"):
            path = posixpath.join(folder, name)
            if tree.kind(path) == "directory":
                hints.append((path + "/", "holds tests (unittest cases run under pytest too)"))
    return hints


def _oddly_named(tree: Tree, subdirectory: str) -> tuple[str, ...]:
    """Files called test.py or tests.py, where none has a name that pytest looks for by itself."""
    prefix = subdirectory.strip("/") + "/" if subdirectory.strip("/") else ""
    names = [path for path in tree.paths() if path.startswith(prefix) and path.endswith(".py")]
    if any(_LOOKED_FOR.match(posixpath.basename(path)) for path in names):
        return ()
    found = [path[len(prefix) :] for path in names if posixpath.basename(path) in ("test.py", "tests.py")]
    return tuple(path for path in found if path.count("/") <= 2)


def _configurations(tree: Tree, folder: str) -> list[str]:
    readers: dict[str, Callable[[bytes], bool]] = {
        "pytest.ini": lambda data: True,
        "pyproject.toml": _toml_has_pytest,
        "tox.ini": lambda data: _ini_has(data, "pytest"),
        "setup.cfg": lambda data: _ini_has(data, "tool:pytest"),
    }
    paths = {posixpath.join(folder, name): reader for name, reader in readers.items()}
    return [
        path for path, reader in paths.items() if tree.kind(path) == "file" and reader(tree.read(path).data)
    ]


def _toml_has_pytest(data: bytes) -> bool:
    try:
        return "pytest" in tomllib.loads(data.decode("utf-8", "replace")).get("tool", {})
    except (tomllib.TOMLDecodeError, AttributeError):
        return False


def _ini_has(data: bytes, section: str) -> bool:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return False
    return parser.has_section(section)


def _file(target: str) -> str:
    return posixpath.normpath(target.partition("::")[0])


def _is_target(argument: str, tree: Tree, workdir: str) -> bool:
    """A path among the user's own arguments: it gives way when a request names targets."""
    if argument.startswith("-"):
        return False
    return tree.kind(posixpath.normpath(posixpath.join(workdir, _file(argument)))) in ("file", "directory")
