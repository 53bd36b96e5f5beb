"""The pytest plugin that reports what happened, event by event, as it happens.

What a test raised is taken where pytest itself catches it, before any hook of the repository sees
it, so that a conftest which rewrites reports is contradicted by our own record (`raw`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import sys
import threading
import unittest.case  # noqa: F401  loaded early: `Integrity` watches it
from types import FunctionType, MethodType
from typing import Any, Callable, Iterator  # noqa: UP035

import pytest
from _pytest import runner

MAX_TEXT = 6000
MAX_FRAMES = 40
MAX_ID = 2000
CHUNK = 500

Send = Callable[[dict], None]  # type: ignore[type-arg]


class TestTimeout(BaseException):
    """One test took too long. Not an Exception, so that the code under test does not catch it."""

    __test__ = False


class Reporter:
    """One instance per session, registered as an object: no option can switch it off by name."""

    def __init__(self, send: Send, request: dict[str, Any]) -> None:
        self._send = send
        self._root = request["root"]
        self._select = request["select"]
        self._limit_s = float(request["test_timeout_s"])
        self._pid = os.getpid()
        self._current = ""
        self._tracer = _tracer(self._root) if request["coverage"] else None
        self._watch_calls()
        self._integrity = Integrity(self._root)
        self.emit("hello", python=sys.version.split()[0], pytest=pytest.__version__)

    def emit(self, kind: str, **values: Any) -> None:
        """Events of a forked child would be somebody else's story."""
        if os.getpid() == self._pid:
            self._send({"kind": kind, **values})

    def end(self, code: int) -> None:
        self.emit("end", code=code)

    # -- collection

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._select:
            items[:] = [item for item in items if self._wanted(item.nodeid)]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: Any) -> None:
        ids = [short_id(item.nodeid) for item in session.items]
        for start in range(0, len(ids), CHUNK):
            self.emit("collected", ids=ids[start : start + CHUNK])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.emit("collect_error", id=short_id(report.nodeid), failure=self._collect_failure(report))

    def pytest_deselected(self, items: list[Any]) -> None:
        self.emit("deselected", count=len(items))

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.emit("internal_error", text=clip(str(excrepr), MAX_TEXT))

    # -- execution

    def pytest_runtestloop(self) -> None:
        if self._tracer is not None:
            self._tracer.start()

    def pytest_sessionfinish(self) -> None:
        if self._tracer is not None:
            for test, files in self._tracer.finish():
                self.emit("coverage", id=short_id(test), files=files)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._current = nodeid
        self.emit("start", id=short_id(nodeid))
        if self._tracer is not None:
            self._tracer.switch(nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        """unittest's failures are handed to pytest only while its report is made."""
        before = call.excinfo
        yield
        if call.excinfo is not None and call.excinfo is not before and self._current:
            self._raw(call.when, call.excinfo)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        self.emit(
            "phase",
            id=short_id(report.nodeid),
            when=report.when,
            outcome=report.outcome,
            xfail=hasattr(report, "wasxfail"),
            duration=float(getattr(report, "duration", 0.0) or 0.0),
            text=clip(_longrepr(report), MAX_TEXT) if report.failed else "",
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        replaced = self._integrity.newly_replaced()
        if replaced:
            self.emit("tampered", names=[clip(name, MAX_ID) for name in replaced])
        self.emit("finish", id=short_id(nodeid))
        self._current = ""

    def _watch_calls(self) -> None:
        """See every setup, call and teardown end where pytest catches its exception."""
        original = runner.CallInfo.from_call.__func__  # type: ignore[attr-defined]
        reporter = self

        @functools.wraps(original)
        def from_call(cls: Any, func: Any, when: Any, *args: Any, **kwargs: Any) -> Any:
            if when in ("setup", "call", "teardown") and reporter._current:
                func = reporter._limited(func)
            call = original(cls, func, when, *args, **kwargs)
            if when in ("setup", "call", "teardown") and reporter._current:
                reporter._raw(when, call.excinfo)
            return call

        runner.CallInfo.from_call = classmethod(from_call)  # type: ignore[assignment]

    def _limited(self, func: Any) -> Any:
        """`func` with an alarm that rings again and again, should the code under test swallow it."""

        def late(number: int, frame: Any) -> None:
            raise TestTimeout(f"not finished after {self._limit_s:g} s")

        def call() -> Any:
            if threading.current_thread() is not threading.main_thread():
                return func()
            before = signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, 1.0)
            try:
                return func()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

        return call

    def _raw(self, when: str, excinfo: Any) -> None:
        outcome = "passed"
        failure: dict[str, Any] = {}
        if excinfo is not None:
            names = {kind.__name__ for kind in type.mro(excinfo.type)}
            if isinstance(excinfo.value, pytest.skip.Exception) or "SkipTest" in names:
                outcome = "skipped"
            elif isinstance(excinfo.value, pytest.xfail.Exception):
                outcome = "xfailed"
            else:
                outcome = "failed"
                failure = self._failure(excinfo)
        self.emit("raw", id=short_id(self._current), when=when, outcome=outcome, failure=failure)

    # -- details

    def _failure(self, excinfo: Any) -> dict[str, Any]:
        kind = excinfo.type
        name = (
            kind.__name__
            if kind.__module__ in ("builtins", "__main__")
            else f"{kind.__module__}.{kind.__name__}"
        )
        try:
            message = str(excinfo.value)
        except BaseException as error:  # noqa: BLE001  a hostile __str__ must not end the report
            message = f"<str() of the exception raised {type(error).__name__}>"
        return {"exception": name, "message": clip(message, MAX_TEXT), "frames": self._frames(excinfo.tb)}

    def _frames(self, traceback: Any) -> list[tuple[str, int, str]]:
        frames = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            path = relative(code.co_filename, self._root)
            if path:
                frames.append((path, traceback.tb_lineno, code.co_name))
            traceback = traceback.tb_next
        return frames[-MAX_FRAMES:]

    def _collect_failure(self, report: Any) -> dict[str, Any]:
        text = _longrepr(report)
        last = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
        name, _, message = (
            last[0] if last else text.strip().splitlines()[-1] if text.strip() else ""
        ).partition(": ")
        exception, message = (name, message) if name.isidentifier() else ("", "\n".join(last))
        return {"exception": exception, "message": clip(message, MAX_TEXT), "text": clip(text, MAX_TEXT)}

    def _wanted(self, nodeid: str) -> bool:
        """The id itself, a part of a selected one, or one of its parameters; never a mere prefix."""
        return any(
            wanted in (nodeid, short_id(nodeid))
            or nodeid.startswith((wanted + "::", wanted + "[", wanted.rstrip("/") + "/"))
            for wanted in self._select
        )


class Integrity:
    """Notices parts of the test framework that were replaced, unless by an installed package.

    Plugins do so for good reasons; code of the repository that does so decides its own verdict.
    """

    MODULES = (
        "_pytest.runner",
        "_pytest.python",
        "_pytest.unittest",
        "_pytest.reports",
        "_pytest.main",
        "_pytest.outcomes",
        "_pytest.skipping",
        "_pytest.raises",
        "_pytest.python_api",
        "_pytest.fixtures",
        "_pytest.nodes",
        "pluggy._callers",
        "pluggy._hooks",
        "pluggy._manager",
        "unittest.case",
        "json",
        "json.encoder",
    )

    def __init__(self, root: str) -> None:
        self._root = root + "/"
        self._told: set[str] = set()
        modules = [sys.modules[name] for name in self.MODULES if name in sys.modules]
        self._owners: list[tuple[str, Any]] = [(module.__name__, module) for module in modules]
        self._owners += [
            (f"{module.__name__}.{name}", value)
            for module in modules
            for name, value in list(vars(module).items())
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        self._known = {owner: dict(_functions(thing)) for owner, thing in self._owners}
        self._sizes = [(vars(thing), len(vars(thing))) for _, thing in self._owners]
        self._entries = [
            (vars(thing), name, value, inner, code)
            for owner, thing in self._owners
            for name, (value, inner, code) in self._known[owner].items()
        ]

    def newly_replaced(self) -> list[str]:
        """Called after every test, so the usual answer costs next to nothing."""
        if all(len(space) == size for space, size in self._sizes) and all(
            space.get(name) is value and inner.__code__ is code
            for space, name, value, inner, code in self._entries
        ):
            return []
        found = []
        for owner, thing in self._owners:
            now = dict(_functions(thing))
            found += [f"{owner}.{name}" for name in self._foreign(now, self._known[owner], thing)]
        new = [name for name in found if name not in self._told]
        self._told.update(new)
        self._sizes = [(vars(thing), len(vars(thing))) for _, thing in self._owners]
        return new

    def _foreign(self, now: dict[str, Any], before: dict[str, Any], thing: Any) -> list[str]:
        """Names that changed, or came anew and intercept access, by code that is not installed."""
        changed = [name for name, found in now.items() if name in before and found != before[name]]
        gone = [name for name in before if name not in now]
        added = [name for name in now if name not in before and _intercepts(thing, name)]
        return [name for name in changed + gone + added if not self._installed(now.get(name))]

    def _installed(self, found: Any) -> bool:
        if found is None:
            return False
        path = found[2].co_filename
        return os.path.isabs(path) and os.path.isfile(path) and not path.startswith(self._root)  # noqa: PTH113, PTH117


def _functions(thing: Any) -> Iterator[tuple[str, Any]]:
    """Functions of a module or class by name: as stored, the function within, the code it runs."""
    for name, value in list(vars(thing).items()):
        inner = _within(value)
        if type(inner) is FunctionType:
            yield name, (value, inner, inner.__code__)


def _within(value: Any) -> Any:
    """What a method or property is made of. By type: asking a foreign object for a name runs its code,
    and pytest's own maker of markers fails the session where it does not know the name."""
    kind = type(value)
    if issubclass(kind, (staticmethod, classmethod, MethodType)):
        return value.__func__
    return value.fget if issubclass(kind, property) else value


def _intercepts(thing: Any, name: str) -> bool:
    return isinstance(thing, type) and (isinstance(vars(thing)[name], property) or name.startswith("__get"))


class CoverageTracer:
    """Line coverage per test through coverage.py's contexts, in memory."""

    def __init__(self, root: str) -> None:
        import coverage

        self._root = root
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[root + "/*"], messages=False
        )

    def start(self) -> None:
        self._coverage.start()

    def switch(self, test: str) -> None:
        self._coverage.switch_context(test)

    def finish(self) -> Iterator[tuple[str, dict[str, list[int]]]]:
        self._coverage.stop()
        data = self._coverage.get_data()
        tests: dict[str, dict[str, list[int]]] = {}
        for path in sorted(data.measured_files()):
            name = relative(path, self._root)
            for line, contexts in sorted(data.contexts_by_lineno(path).items()):
                for test in contexts:
                    if test and name:
                        tests.setdefault(test, {}).setdefault(name, []).append(line)
        yield from tests.items()


class PlainTracer:
    """The same with `sys.settrace`, for images without coverage.py; slower."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lines: dict[str, dict[str, set[int]]] = {}
        self._now: dict[str, set[int]] = {}
        self._paths: dict[str, str] = {}

    def start(self) -> None:
        sys.settrace(self._call)

    def switch(self, test: str) -> None:
        self._now = self._lines.setdefault(test, {})

    def finish(self) -> Iterator[tuple[str, dict[str, list[int]]]]:
        sys.settrace(None)
        for test, files in self._lines.items():
            yield test, {path: sorted(lines) for path, lines in files.items()}

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        filename = frame.f_code.co_filename
        if filename not in self._paths:
            self._paths[filename] = relative(filename, self._root)
        return self._line if self._paths[filename] else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self._now.setdefault(self._paths[frame.f_code.co_filename], set()).add(frame.f_lineno)
        return self._line


def _tracer(root: str) -> CoverageTracer | PlainTracer:
    try:
        return CoverageTracer(root)
    except ImportError:
        return PlainTracer(root)


def _longrepr(report: Any) -> str:
    try:
        return str(report.longreprtext)
    except BaseException as error:  # noqa: BLE001  a hostile __repr__ must not end the report
        return f"<the failure cannot be shown: {type(error).__name__}>"


def relative(path: str, root: str) -> str:
    """`path` below `root` with forward slashes, "" when it lies elsewhere."""
    full = os.path.abspath(path)  # noqa: PTH100
    return full[len(root) + 1 :] if full.startswith(root + "/") else ""


def short_id(nodeid: str) -> str:
    """An enormous id by its ends and its hash: two of them stay two tests."""
    if len(nodeid) <= MAX_ID:
        return nodeid
    digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{nodeid[: MAX_ID // 2]}[... sha256 {digest} ...]{nodeid[-(MAX_ID // 2) :]}"


def clip(text: str, limit: int) -> str:
    """Head and tail of a long text."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} [... {len(text) - limit} characters left out ...] {text[-(limit // 2) :]}"
