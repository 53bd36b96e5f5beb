"""A pytest session in a container: the launcher, the collector beside it, and the record they feed.

Either is started when it is needed, or ahead of time in a container that waits (`pool`).
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from importlib import resources

from agentforge.core.errors import EnvironmentFault
from agentforge.sandbox.container import HOST_GRACE_S, Container, Ended
from agentforge.sandbox.limits import COLLECTOR_USER, JOB, REPO
from agentforge.sandbox.process import Relay, Sink
from agentforge.sandbox.record import MAX_RECORD, ExecutionRecord

INSIDE = ("audit.py", "collect.py", "launch.py", "report_plugin.py")
ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108  inside the container
    "TMPDIR": "/tmp",  # noqa: S108
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "LC_ALL": "C.UTF-8",
}
REQUEST = "request.json"
_READY_S = 60.0


def inside_files() -> dict[str, bytes]:
    """The programs that go under /job."""
    folder = resources.files("agentforge.sandbox") / "inside"
    return {name: (folder / name).read_bytes() for name in INSIDE}


@dataclass
class Channel:
    """A collector, under a user id of its own, that feeds `record`."""

    box: Container
    python: str
    record: ExecutionRecord = field(default_factory=ExecutionRecord)
    socket: str = field(default_factory=lambda: f"{JOB}/channel/{secrets.token_hex(16)}")

    def open(self) -> None:
        """Start the collector; it ends with the launcher, or with the container."""
        argv = (self.python, "-I", "-S", f"{JOB}/collect.py", self.socket, str(MAX_RECORD))
        try:
            self.box.process(argv, self.record.feed, user=COLLECTOR_USER, on_end=self.record.close)
        except EnvironmentFault:
            self.record.close()  # an incomplete record says so itself


def run_session(
    box: Container, python: str, workdir: str, timeout_s: float, sink: Sink
) -> tuple[Ended, ExecutionRecord]:
    """Run what `request.json` under /job asks for."""
    channel = Channel(box, python)
    channel.open()
    argv = (python, "-S", f"{JOB}/launch.py", channel.socket, f"{JOB}/{REQUEST}")
    ended = box.run(argv, sink, timeout_s=timeout_s, workdir=workdir, environment=ENVIRONMENT)
    return ended, channel.record


class WaitingSession:
    """A launcher that has loaded pytest and waits for its one order."""

    def __init__(self, box: Container, python: str, workdir: str) -> None:
        self._box = box
        self._channel = Channel(box, python)
        self._channel.open()
        self._output = Relay()
        argv = (python, "-S", f"{JOB}/launch.py", self._channel.socket, "-", REPO)
        self._launcher = box.process(argv, self._output, workdir=workdir, environment=ENVIRONMENT, stdin=True)

    def is_pure(self) -> bool:
        """Wait until it is ready. False: it loaded modules of the tree, or did not come up at all."""
        self._channel.record.ready.wait(_READY_S)
        return self._channel.record.pure

    @property
    def is_alive(self) -> bool:
        return not self._launcher.is_silent

    def run(self, order: bytes, timeout_s: float, sink: Sink) -> tuple[Ended, ExecutionRecord]:
        """Give the order. The launcher holds the time limit; the host kills the container after it."""
        self._output.connect(sink)
        begun = time.monotonic()
        self._launcher.send(order)
        code, killed = self._launcher.wait(begun + timeout_s + HOST_GRACE_S, self._box.kill)
        return Ended(code, time.monotonic() - begun, killed), self._channel.record
