"""Starts pytest with our reporter in place before any code of the repository is loaded.

Run as `python -S launch.py SOCKET REQUEST [ROOT]`: without `site`, no path file, sitecustomize or
conftest has run when the connection to the collector is made. With `-` as REQUEST everything up to
the tests is done ahead, in a child; the order (files to lay over the tree, what to run, for how
long) comes on standard input. ROOT is the tree. The parent loads nothing but this file and holds the
time limit.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import gc
import hashlib
import importlib
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

CONNECT_S = 20.0
FAULT = 97
TIMED_OUT = 124
KILLED = 137
KILL_AFTER_S = 2.0
Send = Callable[[dict], None]  # type: ignore[type-arg]


def connect(path: str) -> socket.socket:
    """The collector starts at the same moment as we do: try until it listens."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(path)
        except OSError:
            channel.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return channel


def sender(channel: socket.socket) -> Send:
    """Every line is sealed by a key that went ahead of all foreign code: what others write into the
    channel spoils the report. What is used is bound now, so that replacing it later changes nothing."""
    encode, put, mac = json.JSONEncoder().encode, channel.sendall, hashlib.blake2b
    key = os.urandom(16)
    put(json.dumps({"kind": "key", "key": key.hex()}).encode("ascii") + b"\n")
    count, lock = 0, _thread.allocate_lock()

    def send(event: dict[str, Any]) -> None:
        nonlocal count
        line = encode(event).encode("ascii")
        # What a thread of the tests does may be told of, too.
        with lock:
            count += 1
            seal = mac(b"%d " % count + line, key=key, digest_size=16).hexdigest().encode("ascii")
            put(seal + b" " + line + b"\n")

    return send


def load(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quiet_plugins() -> list[str]:
    """Arguments that keep installed plugins from spreading, repeating or shuffling the tests."""
    wanted = {
        "xdist": ["-n0"],
        "pytest_cov": ["--no-cov"],
        "pytest_randomly": ["-p", "no:randomly"],
        "pytest_random_order": ["-p", "no:random_order"],
        "pytest_rerunfailures": ["-p", "no:rerunfailures"],
    }
    found = [arguments for module, arguments in wanted.items() if importlib.util.find_spec(module)]
    return [argument for arguments in found for argument in arguments]


def prepare(send: Send) -> Any:
    """The interpreter as `python` would have it, pytest and our reporter loaded; None without pytest."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]  # noqa: PTH100
    import site

    site.main()
    try:
        import pytest  # noqa: F401
    except ImportError as error:
        send({"kind": "fault", "what": f"pytest cannot be imported: {error}"})
        sys.stderr.write(f"pytest cannot be imported: {error}\n")
        return None
    return load(os.path.join(here, "report_plugin.py"), "agentforge_report")  # noqa: PTH118


def run(report: Any, send: Send, request: dict[str, Any]) -> int:
    import pytest

    # As `python -m pytest` does; a src folder comes last, for trees that were never installed.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    sys.path.extend(path for path in request["paths"] if path not in sys.path)
    arguments = [*request["arguments"], *quiet_plugins(), *request["targets"]]
    sys.argv = [pytest.__file__, *arguments]
    reporter = report.Reporter(send, request)
    audit = load(os.path.join(os.path.dirname(report.__file__), "audit.py"), "agentforge_audit")  # noqa: PTH118, PTH120
    audit.watch(request["root"], lambda names: send({"kind": "tampered", "names": names}))
    code = int(pytest.main(arguments, plugins=[reporter]))
    reporter.end(code)
    return code


def main(socket_path: str, request_path: str, root: str = "") -> int:
    channel = connect(socket_path)
    if request_path == "-":
        return ahead(channel, root)
    send = sender(channel)
    with open(request_path, encoding="utf-8") as stream:
        request = json.load(stream)
    report = prepare(send)
    return FAULT if report is None else run(report, send, request)


# -- ahead of time


def ahead(channel: socket.socket, root: str) -> int:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        return child_ahead(channel, reading, root)
    os.close(reading)
    channel.close()
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    order = read_order(0)
    if order is None:
        return FAULT
    with os.fdopen(writing, "wb") as pipe, contextlib.suppress(BrokenPipeError):
        pipe.write(order)
    return await_end(child, float(json.loads(order)["timeout_s"]))


def child_ahead(channel: socket.socket, reading: int, root: str) -> int:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    send = sender(channel)
    report = prepare(send)
    if report is None:
        return FAULT
    load_builtin_plugins()
    # What was loaded ahead lives to the end: collections during the tests need not walk through it.
    gc.collect()
    gc.freeze()
    send({"kind": "ready", "pure": not loaded_below(root)})
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    order = json.loads(data)
    lay_over(order["request"]["root"], order["write"], order["remove"])
    importlib.invalidate_caches()
    return run(report, send, order["request"])


def load_builtin_plugins() -> None:
    """Import what `pytest.main` would import first of all, whatever the repository says."""
    with contextlib.suppress(ImportError, AttributeError):
        from _pytest.config import default_plugins

        for name in default_plugins:
            importlib.import_module("_pytest." + name)


def read_order(stream: int) -> bytes | None:
    """One order: its length in eight bytes, then JSON."""
    head = read_exactly(stream, 8)
    return read_exactly(stream, struct.unpack(">Q", head)[0]) if head else None


def read_exactly(stream: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count > 0:
        part = os.read(stream, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def await_end(child: int, timeout_s: float) -> int:
    """Exit code of the child as a shell would say it; after `timeout_s` it is told to end, then made to."""
    strikes = 0

    def late(number: int, frame: Any) -> None:
        nonlocal strikes
        strikes += 1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGTERM if strikes == 1 else signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, KILL_AFTER_S)

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if strikes:
        return TIMED_OUT if strikes == 1 else KILLED
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def loaded_below(root: str) -> bool:
    """Whether a module of the tree is loaded already: then the candidate's version of it would not be."""
    for module in list(sys.modules.values()):
        places = [getattr(module, "__file__", None) or "", *map(str, getattr(module, "__path__", []))]
        if any(place.startswith(root + "/") for place in places):
            return True
    return False


def lay_over(root: str, write: dict[str, Any], remove: list[str]) -> None:
    """Make the tree the candidate's. Names were checked by whoever gave the order."""
    for path in remove:
        full = f"{root}/{path}"
        os.unlink(full)  # noqa: PTH108
        with contextlib.suppress(OSError):
            os.removedirs(os.path.dirname(full))  # noqa: PTH120
    for path, (mode, mtime, data) in write.items():
        full = f"{root}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)  # noqa: PTH103, PTH120
        with contextlib.suppress(FileNotFoundError):
            os.unlink(full)  # noqa: PTH108
        stream = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(stream, "wb") as file:
            file.write(base64.b64decode(data))
            os.fchmod(file.fileno(), mode)
        os.utime(full, (mtime, mtime))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
