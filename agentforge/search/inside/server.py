"""The server: holds the collected tests and forks a child for each piece of work."""

from __future__ import annotations

import functools
import gc
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .items import brief, describe, frames_of, run_item, test_id
from .live import Live, load
from .processes import Write, become_subreaper, in_child
from .recorder import Recorder
from .tracer import Tracer
from .values import Witness, raised_in, running

Spec = dict[str, Any]
MAX_OUT_BYTES = 8 * 1024 * 1024
"""Work ends when the answers fill so much: with one more of the largest, they can still be fetched."""


def full(out: str) -> bool:
    return os.path.exists(out) and os.path.getsize(out) > MAX_OUT_BYTES


class Server:
    """Holds the collected tests and forks a child for each piece of work."""

    def __init__(self, spec: Spec, items: list[Any], imported: list[list[Any]]) -> None:
        self.spec, self.root = spec, spec["root"]
        self.items = {test_id(item, self.root): item for item in items}
        self.imported = imported
        now = time.monotonic()
        self.startup_s = now - spec["started"]
        # The budget begins once the tests are there; a server that had to be restarted gets no new one.
        self.deadline = min(now, spec["started"] + spec["slack_s"]) + spec["budget_s"]
        self.patience = spec.get("test_cpu_s", 0.0)

    def serve(self) -> None:
        become_subreaper()
        gc.collect()
        if self.spec["mode"] == "observe":
            self.observe()
        elif self.spec["mode"] == "compare":
            self.compare()
        else:
            self.screen()

    def late(self) -> bool:
        over: bool = time.monotonic() > self.deadline
        return over or full(self.spec["out"])

    def emit(self, record: dict[str, Any]) -> None:
        with open(self.spec["out"], "a") as out:
            out.write(json.dumps(record) + "\n")

    def observe(self) -> None:
        """Outcome and duration of each test, then the lines it ran; targets first."""
        head = {"tests": list(self.items), "imported": self.imported, "startup_s": round(self.startup_s, 2)}
        self.emit(head)
        gc.freeze()
        first = self.matching(self.spec["targets"])
        for test in dict.fromkeys(
            [*first, *self.matching(self.spec["guards"]), *self.others_by_nearness(first)]
        ):
            if self.late():
                return
            record = self.observed(test, test in first)
            if test in first[: self.spec["explain"]] and record["v"] in ("failed", "timeout"):
                # Values come after the test's own time: they get as much again, and patience with the clock.
                work, cpu_s = functools.partial(self.explain, test), self.patience + 0.5
                record["seen"] = in_child(work, cpu_s, 8 * cpu_s + 2, self.spec["memory_mb"])
            self.emit(record)

    def observed(self, test: str, target: bool) -> dict[str, Any]:
        """Outcome, time and lines. A passing test that is no target runs once, timed with the trace."""
        if not target:
            record = self.child(self.patience, functools.partial(self.watch, test, True))
            if record["v"] == "passed":
                return {**record, "test": test}
        record = self.child(self.patience, functools.partial(self.watch, test, False))
        # The same time again: with less, a test that prepares long is not traced to where it hangs.
        traced = self.child(self.patience, functools.partial(self.watch, test, True))
        if record["v"] == "timeout":
            self.patience = min(self.patience, self.spec["hung_cpu_s"])
        return {**record, "lines": traced.get("lines", {}), "test": test}

    def others_by_nearness(self, first: list[str]) -> list[str]:
        """The other tests: of the targets' classes or functions, then by distance in the order collected."""
        order = {test: number for number, test in enumerate(self.items)}
        at = sorted(order[test] for test in first) or [0]
        groups = {test.partition("[")[0].rpartition("::")[0] for test in first}
        groups |= {test.partition("[")[0] for test in first}

        def key(test: str) -> tuple[bool, int]:
            plain = test.partition("[")[0]
            near = plain in groups or (
                "::" in plain.partition("::")[2] and plain.rpartition("::")[0] in groups
            )
            return not near, min(abs(order[test] - place) for place in (at[0], at[-1]))

        chosen = set(first)
        return sorted((test for test in self.items if test not in chosen), key=key)

    def explain(self, test: str, write: Write) -> None:
        """Run a failing test once more and tell the values where it fails (or hangs)."""
        item = self.items[test]
        witness = Witness(self.root, str(item.path), write)

        def out_of_time(signum: int, frame: Any) -> None:
            sys.settrace(None)
            witness.look(running(frame))
            write(witness.result())
            os._exit(1)

        signal.signal(signal.SIGPROF, out_of_time)
        signal.setitimer(signal.ITIMER_PROF, self.patience)
        witness.start()
        error = run_item(item, None)[1]
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if error is not None:
            witness.look(raised_in(error))
        write(witness.result())

    def child(self, cpu_s: float, work: Callable[[Write], None]) -> dict[str, Any]:
        return in_child(work, cpu_s, 8 * cpu_s + 2, self.spec["memory_mb"])

    def matching(self, wanted: list[str]) -> list[str]:
        """The collected ids meant by `wanted`: exact, or all parameters, or all tests below."""
        found = [t for w in wanted for t in self.items if t == w or t.startswith((w + "[", w + "::"))]
        return list(dict.fromkeys(found))

    def watch(self, test: str, trace: bool, write: Write) -> None:
        tracer = Tracer(self.root)

        def out_of_time(signum: int, frame: Any) -> None:
            sys.settrace(None)
            hung = frames_of(frame, self.root)
            write({"v": "timeout", "lines": tracer.result(), "frames": hung})
            os._exit(1)

        signal.signal(signal.SIGPROF, out_of_time)
        # A test that waits, or a machine too busy to give it its time, still tells its lines.
        signal.signal(signal.SIGALRM, out_of_time)
        signal.setitimer(signal.ITIMER_REAL, 8 * self.patience + 1)
        start = time.process_time()
        if trace:
            tracer.start()
        outcome, error = run_item(self.items[test], None)
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        verdict = {"v": outcome, "cpu_s": time.process_time() - start, "lines": tracer.result()}
        write({**verdict, **(describe(error, self.root) if error is not None else {})})

    def screen(self) -> None:
        load(self.root, sorted({candidate["path"] for candidate in self.spec["candidates"]}))
        live = Live(self.root)
        gc.freeze()  # children then copy fewer pages ...
        gc.disable()  # ... and go through none of them to look for garbage
        targets = self.matching(self.spec["targets"])
        keep = [test for test in self.matching(self.spec["neighbours"]) if test not in set(targets)]
        left = float("inf")
        for candidate in self.spec["candidates"]:
            if self.late() or left <= 0:
                return
            left -= 1
            start = time.monotonic()
            record = in_child(
                functools.partial(self.judge, live, candidate, targets, keep),
                self.spec["cpu_s"] + self.spec["keep_cpu_s"],
                self.spec["wall_s"],
                self.spec["memory_mb"],
            )
            # Last, what the child may not decide: whose verdict it is.
            self.emit({**record, "id": candidate["id"], "s": round(time.monotonic() - start, 4)})
            if record["v"] == "plausible":
                left = min(left, self.spec["grace_count"])
                self.deadline = min(self.deadline, time.monotonic() + self.spec["grace_s"])

    def compare(self) -> None:
        """What the edited functions return in the passing tests: on the base, then for each candidate."""
        load(self.root, sorted({candidate["path"] for candidate in self.spec["candidates"]}))
        live = Live(self.root)
        gc.freeze()
        keep = self.matching(self.spec["neighbours"])
        for candidate in self.spec["candidates"]:
            if self.late():
                return
            for base in (True, False):
                work = functools.partial(self.record, live, candidate, keep, base)
                record = in_child(work, self.spec["cpu_s"], self.spec["wall_s"], self.spec["memory_mb"])
                self.emit({**record, "id": candidate["id"], "base": base})

    def record(self, live: Live, candidate: Spec, keep: list[str], base: bool, write: Write) -> None:
        path = os.path.realpath(os.path.join(self.root, candidate["path"]))
        functions = live.by_place.get((path, candidate["function"], candidate["line"]), [])
        if not functions or (not base and not live.patch(path, candidate)):
            return write({"v": "not_loaded"})
        name = functions[0].__code__.co_filename
        recorder = Recorder(name, candidate["function"], candidate["line"])
        for test in keep:
            recorder.start()
            run_item(self.items[test], None)
            sys.setprofile(None)
        return write({"v": "recorded", "results": recorder.results})

    def judge(self, live: Live, candidate: Spec, targets: list[str], keep: list[str], write: Write) -> None:
        path = os.path.realpath(os.path.join(self.root, candidate["path"]))
        try:
            patched = live.patch(path, candidate)
        except (SyntaxError, ValueError, StopIteration, RecursionError, MemoryError):
            return write({"v": "syntax"})
        except Exception as error:  # a new value's expression raises what it likes
            return write({"v": "failed", "n": 0, "why": brief(error)})
        if not patched:
            return write({"v": "not_loaded"})
        return self.run(targets, keep, write)

    def run(self, targets: list[str], keep: list[str], write: Write) -> None:
        """All of `targets`, then all of `keep`, stopping at the first that does not pass."""
        if not targets:
            return write({"v": "no_targets"})
        order = targets + keep
        signal.setitimer(signal.ITIMER_PROF, self.spec["cpu_s"])
        for index, test in enumerate(order):
            following = self.items[order[index + 1]] if index + 1 < len(order) else None
            outcome, error = run_item(self.items[test], following)
            if outcome != "passed":
                verdict = "failed" if index < len(targets) else "broke"
                return write({"v": verdict, "test": test, "n": index, "why": brief(error)})
            write(None)
            if index + 1 == len(targets):
                signal.setitimer(signal.ITIMER_PROF, self.spec["keep_cpu_s"])
        return write({"v": "plausible", "n": len(order)})


def collect(spec: Spec, use: Callable[[list[Any], list[list[Any]]], None]) -> int:
    """Run pytest up to the collected items and hand them to `use` in place of running them."""
    import pytest

    tracer = Tracer(spec["root"])

    class Plugin:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: Any) -> bool:
            sys.settrace(None)
            use(session.items, tracer.functions())
            return True

    base = ["--capture=no", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    base += ["--rootdir=" + spec["root"], *quiet_plugins()]
    files = [os.path.join(spec["root"], path) for path in spec["files"]]
    code = 0
    for extra in ([], ["-o", "addopts="]):
        if spec["mode"] == "observe":
            tracer.start()
        code = int(pytest.main(base + extra + files, plugins=[Plugin()]))
        sys.settrace(None)
        if code != int(pytest.ExitCode.USAGE_ERROR):
            break
    return code


def quiet_plugins() -> list[str]:
    """Arguments that keep installed plugins from spreading, shuffling or measuring the tests."""
    wanted = {
        "xdist": ["-n0"],
        "pytest_cov": ["--no-cov"],
        "pytest_randomly": ["-p", "no:randomly"],
        "pytest_random_order": ["-p", "no:random_order"],
    }
    found = [arguments for module, arguments in wanted.items() if importlib.util.find_spec(module)]
    return [argument for arguments in found for argument in arguments]
