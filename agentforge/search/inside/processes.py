"""Confined children: fork, limits, one verdict line, nothing left behind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
MAX_VERDICT_BYTES = 4 * 1024 * 1024
TIME_SIGNALS = (signal.SIGPROF, signal.SIGXCPU)

STEP = b"+"
"""The line by which a child says that it got one step further."""

Verdict = dict[str, Any]
Write = Callable[["Verdict | None"], None]
"""Sends a verdict, or None for one step."""


def become_subreaper() -> None:
    """Orphans of a child come to us, so that they can be found and killed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Process ids whose parent is this process."""
    own, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == own:
            found.append(int(name))
    return found


def reap(deadline_s: float = 2.0) -> None:
    """Kill and collect every remaining child, grandchildren included as they are orphaned."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for child in children():
                kill(child)
            time.sleep(0.002)


def kill(pid: int) -> None:
    for target in (os.killpg, os.kill):
        try:
            target(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def limit(kind: int, value: int) -> None:
    """Lower one resource limit, never above the hard one."""
    hard = resource.getrlimit(kind)[1]
    capped = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (capped, capped))


def confine(cpu_s: float, memory_mb: int) -> None:
    """In the child: own session, silent, capped; SIGPROF's default action ends it at `cpu_s` of CPU."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    with open("/proc/self/statm", "rb") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    limit(resource.RLIMIT_AS, size + memory_mb * 1024 * 1024)
    limit(resource.RLIMIT_FSIZE, 16 * 1024 * 1024)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, int(cpu_s) + 2)
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def read_verdict(fd: int, wall_s: float) -> tuple[str, bytes, int]:
    """How the child ended ("line", "eof" where it died, "timeout"), its verdict, and its `+` lines."""
    end, data, steps = time.monotonic() + wall_s, b"", 0
    while True:
        head, newline, rest = data.partition(b"\n")
        if newline and head != STEP:
            return "line", head, steps
        if newline:
            data, steps = rest, steps + 1
            continue
        left = end - time.monotonic()
        if left <= 0 or len(data) > MAX_VERDICT_BYTES:
            return "timeout", b"", steps
        if not select.select([fd], [], [], left)[0]:
            continue
        chunk = os.read(fd, 65536)
        if not chunk:
            return "eof", b"", steps
        data += chunk


def in_child(work: Callable[[Write], None], cpu_s: float, wall_s: float, memory_mb: int) -> dict[str, Any]:
    """Run `work` in a confined child; its verdict, or {"v": "timeout" | "crash", "n": steps done}."""
    read_fd, write_fd = os.pipe()
    pid = fork()
    if pid == 0:
        os.close(read_fd)
        child_main(work, write_fd, cpu_s, memory_mb)
    os.close(write_fd)
    ended, data, steps = read_verdict(read_fd, wall_s)
    os.close(read_fd)
    status = finish(pid)
    if ended == "line":
        try:
            verdict = json.loads(data)
        except ValueError:
            verdict = None
        told = isinstance(verdict, dict) and isinstance(verdict.get("v"), str)
        return verdict if told else {"v": "crash"}
    timed_out = ended == "timeout" or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in TIME_SIGNALS)
    return {"v": "timeout" if timed_out else "crash", "n": steps}


def fork() -> int:
    """Fork; where the process limit is hit, clear what is left over and try again."""
    for _ in range(20):
        try:
            return os.fork()
        except OSError:
            reap(0.2)
            time.sleep(0.05)
    return os.fork()


def finish(pid: int) -> int:
    """Wait for a child that has spoken or died, killing its group; its wait status."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        kill(pid)
        status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    reap()
    return status


def child_main(work: Callable[[Write], None], fd: int, cpu_s: float, memory_mb: int) -> None:
    """Never returns."""

    def write(verdict: Verdict | None) -> None:
        data = json.dumps(verdict).encode() + b"\n" if verdict is not None else STEP + b"\n"
        while data:
            data = data[os.write(fd, data) :]

    try:
        confine(cpu_s, memory_mb)
        work(write)
    except BaseException as error:
        try:
            write({"v": "crash", "error": type(error).__name__})
        finally:
            os._exit(1)
    os._exit(0)
