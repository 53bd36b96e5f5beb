"""Finds the program under test, and compares by value *and* type. Copied beside the tests.

A bool is no number, an int no float (but a whole number may come where a float is expected), a list no
tuple; NaN equals NaN; sets and the keys of dicts compare by type, too.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
from types import ModuleType
from typing import Any

_loaded: dict[str, ModuleType] = {}


def _folder(test_file: str) -> str:
    """The folder of the solution: the one above the tests."""
    return os.path.dirname(os.path.dirname(os.path.abspath(test_file)))


def module(test_file: str) -> ModuleType:
    """The solution as a module, loaded once."""
    path = os.path.join(_folder(test_file), "solution.py")
    if path not in _loaded:
        name = "solution" if "solution" not in sys.modules else f"solution_{len(_loaded)}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        try:
            spec.loader.exec_module(made)
        except BaseException:
            del sys.modules[name]
            raise
        _loaded[path] = made
    return _loaded[path]


def names(test_file: str) -> dict[str, Any]:
    """Everything the solution defines, but nothing that pytest would take for a test."""
    found = vars(module(test_file)).items()
    return {name: value for name, value in found if not name.startswith(("__", "test", "Test", "pytest_"))}


def entry(test_file: str, wanted: str) -> Any:
    """The function or class `wanted`; under another name where that is without doubt.

    First the name itself, then one that differs in case and underscores only, then the only public
    function or class that the solution defines itself. Raises `AttributeError`.
    """
    solution = module(test_file)
    if hasattr(solution, wanted):
        return getattr(solution, wanted)
    own = {
        name: value
        for name, value in vars(solution).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == solution.__name__
    }
    plain = wanted.replace("_", "").lower()
    alike = [value for name, value in own.items() if name.replace("_", "").lower() == plain]
    for found in (alike, list(own.values())):
        if len(found) == 1:
            return found[0]
    raise AttributeError(f"solution.py defines no {wanted}")


def same(
    expected: Any, got: Any, tolerance: float = 1e-9, loose: bool = False, unordered: bool = False
) -> bool:
    """Equality by value and type. `unordered` is about the outermost list only."""
    if unordered and isinstance(expected, (list, tuple)):
        return _alike(expected, got, loose) and _same_bag(list(expected), list(got), tolerance, loose)
    if isinstance(expected, float) and not isinstance(expected, bool):
        return type(got) in (int, float) and _near(expected, got, tolerance)
    if isinstance(expected, (list, tuple)):
        return (
            _alike(expected, got, loose)
            and len(expected) == len(got)
            and all(same(one, other, tolerance, loose) for one, other in zip(expected, got))
        )
    if isinstance(expected, (set, frozenset)):
        return isinstance(got, (set, frozenset)) and _same_bag(list(expected), list(got), tolerance, loose)
    if isinstance(expected, dict):
        return isinstance(got, dict) and _same_bag(
            list(expected.items()), list(got.items()), tolerance, loose
        )
    return type(expected) is type(got) and bool(expected == got)


def _alike(expected: Any, got: Any, loose: bool) -> bool:
    """Whether both are the same kind of sequence; a subclass (a named tuple) is its base."""
    if loose:
        return isinstance(got, (list, tuple))
    return isinstance(got, list if isinstance(expected, list) else tuple)


def _near(expected: float, got: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    return math.isclose(expected, got, rel_tol=tolerance, abs_tol=tolerance)


def _same_bag(expected: list[Any], got: list[Any], tolerance: float, loose: bool) -> bool:
    """The same elements in any order, each as often."""
    if len(expected) != len(got):
        return False
    if all(type(item) is int or type(item) is str for item in (*expected, *got)):
        return sorted(expected, key=_sort_key) == sorted(got, key=_sort_key)
    left = list(got)
    for one in expected:
        place = next(
            (number for number, other in enumerate(left) if same(one, other, tolerance, loose)), None
        )
        if place is None:
            return False
        del left[place]
    return True


def _sort_key(item: Any) -> tuple[str, Any]:
    return type(item).__name__, item


class exactly:  # noqa: N801
    """An expected value. It stands on the left of `==`, so that what came has no say in the comparison."""

    def __init__(
        self, value: Any, *, tolerance: float = 1e-9, loose: bool = False, unordered: bool = False
    ) -> None:
        self._value = value
        self._how = (tolerance, loose, unordered)

    def __eq__(self, got: object) -> bool:
        return same(self._value, got, *self._how)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value)


class printed:  # noqa: N801
    """Expected output: lines compare without blanks at their ends, blank lines at the end do not count.

    With a tolerance, words that are numbers with a point may differ by it.
    """

    def __init__(self, text: str, *, tolerance: float = 0.0) -> None:
        self._lines = _lines(text)
        self._tolerance = tolerance

    def __eq__(self, got: object) -> bool:
        if not isinstance(got, str):
            return False
        lines = _lines(got)
        return len(lines) == len(self._lines) and all(map(self._same_line, self._lines, lines))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr("\n".join(self._lines))

    def _same_line(self, expected: str, got: str) -> bool:
        if expected == got:
            return True
        pairs = list(zip(expected.split(), got.split()))
        same_length = len(expected.split()) == len(got.split())
        return bool(self._tolerance) and same_length and all(self._same_word(*pair) for pair in pairs)

    def _same_word(self, expected: str, got: str) -> bool:
        if expected == got:
            return True
        try:
            return "." in expected and _near(float(expected), float(got), self._tolerance)
        except ValueError:
            return False


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def run(test_file: str, stdin: str, time_s: float = 10.0) -> str:
    """What the program prints for `stdin`. Raises `AssertionError` where it fails or does not end."""
    command = _command(_folder(test_file))
    try:
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, timeout=time_s, check=False)
    except subprocess.TimeoutExpired:
        raise AssertionError(
            f"the program did not end within {time_s:g} s for the input {stdin[:200]!r}"
        ) from None
    if done.returncode:
        error = done.stderr.decode("utf-8", "replace")[-2000:]
        raise AssertionError(
            f"the program ended with exit code {done.returncode} for {stdin[:200]!r}:\n{error}"
        )
    return done.stdout.decode("utf-8", "replace").rstrip()


_compiled: dict[str, str] = {}


def _command(folder: str) -> list[str]:
    source = os.path.join(folder, "solution.cpp")
    if not os.path.exists(source):
        return [sys.executable, os.path.join(folder, "solution.py")]
    if source not in _compiled:
        target = os.path.join(tempfile.mkdtemp(), "solution")
        command = ["g++", "-std=c++17", "-O2", "-o", target, source]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise AssertionError(
                "solution.cpp does not compile:\n" + done.stderr.decode("utf-8", "replace")[:3000]
            )
        _compiled[source] = target
    return [_compiled[source]]


def loads(test_file: str) -> bool:
    """Whether the program can be loaded at all: the weakest evidence there is."""
    path = os.path.join(_folder(test_file), "solution.py")
    if not os.path.exists(path):
        return bool(_command(_folder(test_file)))
    with open(path, "rb") as file:
        compile(file.read(), path, "exec")
    return True
