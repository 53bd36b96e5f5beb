"""Patching a candidate into functions that are already loaded."""

from __future__ import annotations
import __future__

import contextlib
import gc
import importlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


def load(root: str, paths: list[str]) -> None:
    """Import those files that no test has imported yet, as the first import path that holds them names them.

    Tests that import inside their functions then find the module loaded, with its functions patched.
    """
    loaded = {os.path.realpath(getattr(m, "__file__", None) or "") for m in list(sys.modules.values())}
    for path in paths:
        whole = os.path.realpath(os.path.join(root, path))
        name = module_name(whole)
        if whole not in loaded and name:
            with contextlib.suppress(BaseException):  # the repository's code may raise anything
                importlib.import_module(name)


def module_name(path: str) -> str:
    """The dotted name of a file below an entry of `sys.path`, its packages all being packages."""
    parts = path[: -len(".py")].split("/")
    start = len(parts) - 1
    while start > 1 and os.path.exists("/".join([*parts[:start], "__init__.py"])):
        start -= 1
    roots = {os.path.realpath(entry or ".") for entry in sys.path}
    names = parts[start:-1] if parts[-1] == "__init__" else parts[start:]
    return ".".join(names) if "/".join(parts[:start]) in roots else ""


class Live:
    """The live functions of the repository's files, by file, name and first line."""

    def __init__(self, root: str) -> None:
        self.by_place: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        self.by_code: dict[int, list[types.FunctionType]] = {}
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType and thing.__code__.co_filename.startswith(root):
                code = thing.__code__
                place = (os.path.realpath(code.co_filename), code.co_name, code.co_firstlineno)
                self.by_place.setdefault(place, []).append(thing)
                self.by_code.setdefault(id(code), []).append(thing)

    def patch(self, path: str, candidate: dict[str, Any]) -> bool:
        """Give the function around the edit its new code, or the variable its new value.

        False where it is not loaded. A new value may raise whatever its expression raises.
        """
        if "variable" in candidate:
            return assign(path, candidate["owners"], candidate["variable"], candidate["source"])
        name, line = candidate["function"], candidate["line"]
        functions = self.by_place.get((path, name, line))
        if not functions:
            return False
        code = functions[0].__code__
        flags = code.co_flags & FUTURES
        module = compile(candidate["source"], code.co_filename, "exec", flags, True)
        new = next(code for code in walk(module) if code.co_name == name and code.co_firstlineno == line)
        replaced = [self.replace(code, new) for code in {f.__code__: None for f in functions}]
        return all(replaced)

    def replace(self, old: types.CodeType, new: types.CodeType) -> bool:
        """Swap `old` for `new` in live functions, and their nested code where that lives on its own."""
        if len(old.co_freevars) != len(new.co_freevars):
            return False
        for function in self.by_code.get(id(old), ()):
            if function.__code__ is old:
                function.__code__ = new.replace(co_freevars=old.co_freevars)
        pairs = zip(nested(old), nested(new))  # noqa: B905  (`strict` came with Python 3.10)
        replaced = [self.replace(was, now) for was, now in pairs if id(was) in self.by_code]
        return all(replaced)


def assign(path: str, owners: list[str], variable: str, text: str) -> bool:
    """Run one assignment of a loaded module or class again, in its namespace; False where it is not loaded.

    Modules that imported the variable under its name get the new value too.
    """
    module = next((m for m in list(sys.modules.values()) if real_path(m) == path), None)
    place: Any = module
    for owner in owners:
        place = getattr(place, owner, None)
    if module is None or place is None or variable not in vars(place):
        return False
    old, made = vars(place)[variable], dict(vars(place)) if owners else {}
    exec(compile(text, path, "exec"), vars(module), made)  # noqa: S102  (this is the candidate)
    setattr(place, variable, made[variable])
    for other in list(sys.modules.values()) if not owners else ():
        if getattr(other, "__dict__", {}).get(variable) is old:
            setattr(other, variable, made[variable])
    return True


def real_path(module: Any) -> str:
    return os.path.realpath(getattr(module, "__file__", None) or "")


def nested(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def walk(code: types.CodeType) -> Iterator[types.CodeType]:
    for inner in nested(code):
        yield inner
        yield from walk(inner)
