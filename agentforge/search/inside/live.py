"""Patching a candidate into functions that are already loaded."""

from __future__ import annotations
import __future__

import gc
import os
import types
from collections.abc import Iterator
from typing import Any

FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


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
        """Give the function around the edit its new code. False where it is not loaded."""
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


def nested(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def walk(code: types.CodeType) -> Iterator[types.CodeType]:
    for inner in nested(code):
        yield inner
        yield from walk(inner)
