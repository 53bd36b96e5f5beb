"""One container from creation to removal. Everything here blocks: call it from a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import EnvironmentFault, SandboxLost
from agentforge.sandbox.engine import API_TIMEOUT_S, engine_errors
from agentforge.sandbox.limits import USER, ContainerPlan

if TYPE_CHECKING:
    from docker import DockerClient

HOST_GRACE_S = 6.0
"""How long after the in-container limit the host waits before it kills the container."""
_POLL_S = 0.25
_DRAIN_S = 0.5


@dataclass(frozen=True)
class Ended:
    """How a command ended; `exit_code` is None when the container died or was killed under it."""

    exit_code: int | None
    duration_s: float
    host_killed: bool = False


@dataclass(frozen=True)
class Counters:
    """What the kernel counted in the container's cgroup."""

    oom_kills: int = 0
    pids_refused: int = 0


class Container:
    """A started container whose limits were read back and found in force."""

    def __init__(self, client: DockerClient, container_id: str, plan: ContainerPlan) -> None:
        self._api = client.api
        self._client = client
        self.id = container_id
        self.plan = plan

    def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive under `folder`, which must lie in a volume."""
        with engine_errors("copying files into the sandbox"):
            if not self._api.put_archive(self.id, folder, archive):
                raise EnvironmentFault("copying files into the sandbox: the engine reported a failure")

    def get(self, path: str, limit: int) -> bytes:
        """The tar archive of `path`, at most `limit` bytes. Raises `SandboxLost` when it is missing."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{self.id}/archive"
        data = bytearray()
        reading = self._api.get(url, params={"path": path}, stream=True, timeout=API_TIMEOUT_S)
        # Closed on every way out: the engine holds the container for as long as it sends.
        with engine_errors(f"reading {path} from the sandbox"), closing(reading) as answer:
            if answer.status_code != 200:
                raise SandboxLost(f"{path} cannot be read from the sandbox: {answer.text[:200]}")
            for chunk in answer.iter_content(64 * 1024):
                data += chunk
                if len(data) > limit:
                    raise EnvironmentFault(f"{path} in the sandbox is larger than {limit} bytes")
        return bytes(data)

    def run(
        self,
        argv: Sequence[str],
        sink: Callable[[bytes], object],
        *,
        timeout_s: float,
        workdir: str = "/",
        environment: Mapping[str, str] | None = None,
        user: str = USER,
    ) -> Ended:
        """Run a command under `timeout` inside and a deadline outside; `sink` gets its output.

        Ends when the command ends, even if a child of it keeps the output open.
        """
        limited = ["timeout", "-k", "2", f"{timeout_s:.3f}", *argv]
        started = time.monotonic()
        with engine_errors("running a command in the sandbox"):
            created = self._api.exec_create(
                self.id, limited, user=user, workdir=workdir, environment=dict(environment or {}), stdin=False
            )
            stream = self._api.exec_start(created["Id"], stream=True)
            reader = _Reader(stream, sink)
            killed = self._wait(created["Id"], reader, started + timeout_s + HOST_GRACE_S)
            state = self._api.exec_inspect(created["Id"])
        return Ended(None if killed else state["ExitCode"], time.monotonic() - started, killed)

    def _wait(self, exec_id: str, reader: _Reader, deadline: float) -> bool:
        """Wait for the end of an exec; True when the host had to kill the container."""
        while not reader.done.wait(_POLL_S):
            if self._killed_at(deadline):
                reader.done.wait(_DRAIN_S)
                return True
            if self._is_over(exec_id):  # a child of it keeps the output open
                reader.done.wait(_DRAIN_S)
                return False
        reader.raise_error()
        while not self._is_over(exec_id):
            if self._killed_at(deadline):
                return True
            time.sleep(0.01)
        return False

    def _is_over(self, exec_id: str) -> bool:
        """An exec that has not begun is "not running" too: only one with an exit code is over."""
        state = self._api.exec_inspect(exec_id)
        return not state["Running"] and state["ExitCode"] is not None

    def _killed_at(self, deadline: float) -> bool:
        if time.monotonic() <= deadline:
            return False
        self.kill()
        return True

    def counters(self) -> Counters:
        """Read the cgroup's counters, version 1 or 2; zeros when they cannot be read."""
        files = (
            "/sys/fs/cgroup/memory/memory.oom_control",
            "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/pids/pids.events",
            "/sys/fs/cgroup/pids.events",
        )
        output = bytearray()
        try:
            self.run(("cat", *files), output.extend, timeout_s=5)
        except EnvironmentFault:
            return Counters()
        values: dict[str, int] = {}
        for line in output.decode("ascii", "replace").splitlines():
            name, _, value = line.strip().partition(" ")
            if value.isdigit():
                values[name] = values.get(name, 0) + int(value)
        return Counters(values.get("oom_kill", 0), values.get("max", 0) if "max" in values else 0)

    def state(self) -> Mapping[str, Any]:
        """`State` of the engine's inspect. Raises `SandboxLost` when the container is gone."""
        with engine_errors("looking at the sandbox"):
            state: Mapping[str, Any] = self._api.inspect_container(self.id)["State"]
        return state

    def kill(self) -> None:
        """End every process in it; a container that is gone already is fine."""
        from docker.errors import APIError
        from requests.exceptions import RequestException

        try:
            self._api.kill(self.id)
        except (APIError, RequestException):
            return

    def remove(self) -> None:
        remove_container(self._client, self.id)


class _Reader:
    """Drains a stream into a sink in a thread of its own, so that waiting has a deadline."""

    def __init__(self, stream: Iterator[bytes], sink: Callable[[bytes], object]) -> None:
        self.done = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._drain, args=(stream, sink), daemon=True, name="sandbox-output"
        )
        self._thread.start()

    def raise_error(self) -> None:
        if self._error is not None:
            raise SandboxLost(f"the output of the sandbox broke off: {self._error}")

    def _drain(self, stream: Iterator[bytes], sink: Callable[[bytes], object]) -> None:
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


def remove_container(client: DockerClient, container_id: str) -> None:
    """Remove with volumes; one that is gone, or that somebody else is removing, is fine."""
    from docker.errors import APIError, NotFound

    for _ in range(20):
        try:
            client.api.remove_container(container_id, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:
                raise
            time.sleep(0.1)
        else:
            return


@contextmanager
def started(client: DockerClient, plan: ContainerPlan, guard: Guard | None = None) -> Iterator[Container]:
    """A running container that is removed with its volumes on every way out."""
    guard = guard or Guard()
    guard.check()
    with engine_errors("creating the sandbox"):
        made = client.containers.create(**plan.create_options())
    container = Container(client, str(made.id), plan)
    try:
        plan.assert_in_force(made.attrs)
        guard.watch(container)
        with engine_errors("starting the sandbox"):
            client.api.start(container.id)
        yield container
    finally:
        guard.release(container)
        with engine_errors("removing the sandbox"):
            container.remove()


class Guard:
    """Lets another thread abort a piece of work: its containers are killed, new ones refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, Container] = {}
        self.aborted = False

    def check(self) -> None:
        if self.aborted:
            raise SandboxLost("the run was cancelled")

    def watch(self, container: Container) -> None:
        with self._lock:
            self.check()
            self._live[container.id] = container

    def release(self, container: Container) -> None:
        with self._lock:
            self._live.pop(container.id, None)

    def abort(self) -> None:
        """Kill what runs now and let nothing new start."""
        with self._lock:
            self.aborted = True
            live = list(self._live.values())
        for container in live:
            container.kill()
