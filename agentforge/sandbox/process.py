"""One command inside a container: its output flows away as it comes, its end is awaited with a deadline."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import SandboxLost
from agentforge.sandbox.engine import engine_errors

if TYPE_CHECKING:
    from docker import APIClient

_POLL_S = 0.25
_SETTLE_S = 0.005
_DRAIN_S = 0.5
_STDERR = 2

Sink = Callable[[bytes], object]


class Process:
    """A started exec. A thread drains its output into `sink`, then calls `on_end`.

    `errors` gets what went to standard error once more. With `stdin` the process waits for what `send`
    gives it. Raises `SandboxLost` when the container is not running any more.
    """

    def __init__(
        self,
        api: APIClient,
        container_id: str,
        argv: Sequence[str],
        sink: Sink,
        *,
        user: str,
        workdir: str = "/",
        environment: Mapping[str, str] | None = None,
        stdin: bool = False,
        on_end: Callable[[], object] | None = None,
        errors: Sink | None = None,
    ) -> None:
        self._api = api
        self._socket: Any = None
        self._exit_code: int | None = None
        with engine_errors("running a command in the sandbox"):
            created = api.exec_create(
                container_id,
                list(argv),
                user=user,
                workdir=workdir,
                environment=dict(environment or {}),
                stdin=stdin,
            )
            self._id: str = created["Id"]
            stream = self._attached(errors)
        self._reader = _Reader(stream, sink, on_end)

    def _attached(self, errors: Sink | None) -> Iterator[bytes]:
        from docker.utils.socket import frames_iter

        reading = self._api.exec_start(self._id, socket=True)
        # docker-py hands out the reading half of a socket; the whole one is beneath.
        self._socket = getattr(reading, "_sock", reading)
        frames: Iterator[tuple[int, bytes]] = frames_iter(reading, tty=False)  # type: ignore[no-untyped-call]
        return _closing(reading, frames, errors)

    def send(self, data: bytes) -> None:
        """Write to the standard input of a process that was started with `stdin`."""
        with engine_errors("giving the sandbox its order"):
            self._socket.sendall(data)

    @property
    def is_silent(self) -> bool:
        """Whether its output has ended, most likely since it has."""
        return self._reader.done.is_set()

    def wait(self, deadline: float, kill: Callable[[], None]) -> tuple[int | None, bool]:
        """Exit code, and whether `kill` was called because `deadline` (monotonic) had passed.

        Ends when the command ends, even if a child of it keeps the output open.
        """
        with engine_errors("waiting for a command in the sandbox"):
            over = False
            while not self._reader.done.wait(min(_POLL_S, max(deadline - time.monotonic(), 0.01))):
                if self._is_late(deadline, kill):
                    return None, True
                over = self._is_over()
                if over:  # a child of it keeps the output open
                    break
            self._reader.done.wait(_DRAIN_S)
            self._reader.raise_error()
            while not (over or self._is_over()):
                if self._is_late(deadline, kill):
                    return None, True
                time.sleep(_SETTLE_S)
            return self._exit_code, False

    def _is_late(self, deadline: float, kill: Callable[[], None]) -> bool:
        if time.monotonic() <= deadline:
            return False
        kill()
        self._reader.done.wait(_DRAIN_S)
        return True

    def _is_over(self) -> bool:
        """An exec that has not begun is "not running" too: only one with an exit code is over."""
        state = self._api.exec_inspect(self._id)
        self._exit_code = state["ExitCode"]
        return not state["Running"] and self._exit_code is not None


class Relay:
    """A sink whose destination is named later; what comes before is kept, up to a limit."""

    _EARLY = 64 * 1024

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early = bytearray()
        self._sink: Sink | None = None

    def __call__(self, chunk: bytes) -> None:
        with self._lock:
            if self._sink is not None:
                self._sink(chunk)
            else:
                self._early += chunk[: self._EARLY - len(self._early)]

    def connect(self, sink: Sink) -> None:
        with self._lock:
            self._sink = sink
            if self._early:
                sink(bytes(self._early))
                self._early.clear()


class _Reader:
    """Drains a stream into a sink in a thread of its own, so that waiting has a deadline."""

    def __init__(self, stream: Iterator[bytes], sink: Sink, on_end: Callable[[], object] | None) -> None:
        self.done = threading.Event()
        self._error: BaseException | None = None
        self._on_end = on_end
        self._thread = threading.Thread(
            target=self._drain, args=(stream, sink), daemon=True, name="sandbox-output"
        )
        self._thread.start()

    def raise_error(self) -> None:
        if self._error is not None:
            raise SandboxLost(f"the output of the sandbox broke off: {self._error}")

    def _drain(self, stream: Iterator[bytes], sink: Sink) -> None:
        from docker.errors import DockerException
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        try:
            for chunk in stream:
                sink(chunk)
        except (DockerException, RequestException, HTTPError, OSError, ValueError) as error:
            self._error = error
        finally:
            self.done.set()
            if self._on_end is not None:
                self._on_end()


def _closing(reading: Any, frames: Iterator[tuple[int, bytes]], errors: Sink | None) -> Iterator[bytes]:
    """The frames' data. The engine took over a connection that no pool gets back: all of it is closed."""
    try:
        for stream, data in frames:
            if errors is not None and stream == _STDERR:
                errors(data)
            yield data
    finally:
        for part in (getattr(reading, "_response", reading), getattr(reading, "_sock", reading)):
            with contextlib.suppress(OSError, ValueError):
                part.close()
