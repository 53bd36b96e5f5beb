"""What a failing test shows: the values in its frames, and the calls that it made of the repository.

Values belong to hostile code: `repr` may raise, hang, end the process or fill the memory. Each has a share
of processor time of its own; what was gathered before one that goes wrong is still told.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import reprlib
import signal
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from .processes import Write

MAX_NAMES = 12
MAX_CHARS = 120
MAX_FRAMES = 3
MAX_CALLS = 3
MAX_WATCHED = 500
"""Calls of one test after which no more are described; then none is told, for it could not be the last."""
VALUE_CPU_S = 0.05
SWALLOWED = 3
"""How often a value may catch what should end its `repr` before the whole child ends."""

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
HIDDEN = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)

PLAIN: Any = object.__repr__
Record = dict[str, Any]


class TooSlow(BaseException):
    """The `repr` of one value takes too long."""


class Text(reprlib.Repr):
    """`repr` with bounds; an object without one of its own is shown by its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, MAX_CHARS, MAX_CHARS, MAX_CHARS
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 12

    def repr_instance(self, x: Any, level: int) -> str:
        kind = type(x)
        if getattr(kind, "__repr__", None) is PLAIN and level > 0:
            own = object.__getattribute__(x, "__dict__") if hasattr(x, "__dict__") else {}
            parts = [f"{name}={self.repr1(own[name], level - 1)}" for name in list(own)[:MAX_NAMES]]
            return f"{kind.__name__}({', '.join(parts)})"
        return super().repr_instance(x, level)


class Witness:
    """Gathers what one failing test shows; `result` is what there is so far."""

    def __init__(self, root: str, test_path: str, write: Write) -> None:
        self.prefix, self.test_path, self.write = root + "/", os.path.realpath(test_path), write
        self.text, self.watched = Text(), 0
        self.frames: list[Record] = []
        self.calls: deque[Record] = deque(maxlen=MAX_CALLS)
        self.caught, self.showing = 0, False

    def result(self) -> Record:
        calls = [] if self.watched > MAX_WATCHED else list(self.calls)
        return {"v": "seen", "frames": self.frames, "calls": calls}

    # Values

    def start(self) -> None:
        signal.signal(signal.SIGVTALRM, self.too_slow)
        sys.settrace(self.enter)

    def too_slow(self, signum: int, frame: Any) -> None:
        if not self.showing:
            return
        self.caught += 1
        if self.caught > SWALLOWED:
            self.write(self.result())
            os._exit(1)
        raise TooSlow

    def show(self, value: Any) -> str:
        try:
            self.showing = True
            signal.setitimer(signal.ITIMER_VIRTUAL, VALUE_CPU_S, VALUE_CPU_S)
            try:
                text = str(self.text.repr(value))
            finally:
                self.showing = False
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except BaseException as error:
            return f"<no repr: {type(error).__name__}>"
        text = ADDRESS.sub("", text)
        return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 3] + "..."

    def named(self, values: dict[str, Any], found: list[list[str]], line: str = "") -> None:
        """Add name and value to `found` one by one, those named in `line` first."""
        words = set(re.findall(r"\w+", line))
        names = [name for name in list(values) if is_data(name, values[name])]
        names.sort(key=lambda name: name not in words)
        for name in names[:MAX_NAMES]:
            found.append([name, self.show(values[name])])

    # Frames

    def look(self, places: Iterable[tuple[Any, int, Any]]) -> None:
        """Describe the innermost frames of the repository, and the test's own, of (frame, line, span)s."""
        own = [place for place in places if self.inside(place[0].f_code.co_filename)]
        chosen = own[-MAX_FRAMES:]
        test = [place for place in own if self.of_test(place[0].f_code.co_filename)]
        if test and not any(place is test[-1] for place in chosen):
            chosen = [test[-1], *chosen[1:]]
        for frame, line, span in chosen:
            path = frame.f_code.co_filename
            record = {"path": path[len(self.prefix) :], "line": line, "function": frame.f_code.co_name}
            record["span"], record["values"] = span, []
            self.frames.append(record)
            self.named(frame.f_locals, record["values"], linecache.getline(path, line))

    def inside(self, path: str) -> bool:
        return path.startswith(self.prefix) and "/site-packages/" not in path

    def of_test(self, path: str) -> bool:
        return path == self.test_path or os.path.realpath(path) == self.test_path

    # Calls

    def enter(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        """Trace function: calls from the test's file into other files of the repository."""
        path, back = frame.f_code.co_filename, frame.f_back
        if back is None or not self.inside(path) or back.f_code.co_filename == path:
            return None
        if not self.of_test(back.f_code.co_filename) or frame.f_code.co_name == "<module>":
            return None
        self.watched += 1
        if self.watched > MAX_WATCHED:
            sys.settrace(None)
            return None
        code = frame.f_code
        call: Record = {"path": path[len(self.prefix) :], "line": code.co_firstlineno}
        call.update(function=code.co_name, returned=None, values=[], arguments=[])
        self.calls.append(call)
        self.named(frame.f_locals, call["arguments"])
        raised = False

        def step(frame: types.FrameType, event: str, arg: Any) -> Any:
            nonlocal raised
            if event == "return" and not raised and code.co_name == "__init__":
                self.calls = deque((other for other in self.calls if other is not call), MAX_CALLS)
            elif event == "return":
                values: list[list[str]] = []
                self.named(frame.f_locals, values)
                call["values"] = [pair for pair in values if pair not in call["arguments"]]
                call["returned"] = None if raised else self.show(arg)
            raised = event == "exception"
            return step

        return step


def is_data(name: str, value: Any) -> bool:
    """Whether a name is worth showing: no helper of pytest, no function, class or module."""
    return name.isidentifier() and not name.startswith("__") and not issubclass(type(value), HIDDEN)


def raised_in(error: BaseException) -> Iterator[tuple[Any, int, Any]]:
    """(frame, line, span of the expression) of a traceback, outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno, span_of(trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next


def running(frame: Any) -> list[tuple[Any, int, Any]]:
    """The same of a stack that still runs."""
    found: list[tuple[Any, int, Any]] = []
    while frame is not None and len(found) < 2000:
        found.append((frame, frame.f_lineno, None))
        frame = frame.f_back
    return found[::-1]


def span_of(code: types.CodeType, instruction: int) -> Any:
    """[line, end line, column, end column] of an instruction, columns in bytes; from Python 3.11 on."""
    if not hasattr(code, "co_positions"):
        return None
    with contextlib.suppress(IndexError, ValueError):
        span = list(code.co_positions())[instruction // 2]
        return list(span) if None not in span else None
    return None
