"""One container from creation to removal. Everything here blocks: call it from a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import EnvironmentFault, SandboxLost
from agentforge.sandbox import counters
from agentforge.sandbox.counters import Counters
from agentforge.sandbox.engine import API_TIMEOUT_S, engine_errors
from agentforge.sandbox.limits import USER, ContainerPlan
from agentforge.sandbox.podman import adapted, is_podman, translated
from agentforge.sandbox.process import Process, Sink

if TYPE_CHECKING:
    from docker import DockerClient

HOST_GRACE_S = 6.0
"""How long after the in-container limit the host waits before it kills the container."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; `exit_code` is None when the container died or was killed under it."""

    exit_code: int | None
    duration_s: float
    host_killed: bool = False
    ended_at: float = field(default_factory=time.monotonic)


class Container:
    """A started container whose limits were read back and found in force."""

    def __init__(self, client: DockerClient, container_id: str, plan: ContainerPlan) -> None:
        self._api = client.api
        self._client = client
        self.id = container_id
        self.plan = plan
        self._made = int(time.time()) - 1

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
        sink: Sink,
        *,
        timeout_s: float,
        workdir: str = "/",
        environment: Mapping[str, str] | None = None,
        user: str = USER,
        errors: Sink | None = None,
    ) -> Ended:
        """Run a command under `timeout` inside and a deadline outside; `sink` gets its output,
        `errors` what of it went to standard error: of two streams at once the order is anybody's guess.

        Ends when the command ends, even if a child of it keeps the output open.
        """
        limited = ["timeout", "-k", "2", f"{timeout_s:.3f}", *argv]
        started = time.monotonic()
        process = self.process(
            limited, sink, workdir=workdir, environment=environment, user=user, errors=errors
        )
        code, killed = process.wait(started + timeout_s + HOST_GRACE_S, self.kill)
        return Ended(code, time.monotonic() - started, killed)

    def process(
        self,
        argv: Sequence[str],
        sink: Sink,
        *,
        workdir: str = "/",
        environment: Mapping[str, str] | None = None,
        user: str = USER,
        stdin: bool = False,
        on_end: Callable[[], object] | None = None,
        errors: Sink | None = None,
    ) -> Process:
        """Start a command and come back at once; whoever starts it limits its time."""
        return Process(
            self._api,
            self.id,
            argv,
            sink,
            user=user,
            workdir=workdir,
            environment=environment,
            stdin=stdin,
            on_end=on_end,
            errors=errors,
        )

    def counters(self) -> Counters:
        """What the kernel counted, seen from the host, else from inside, else by the engine's events."""
        return counters.first_known(self._counters_of_host, self._counters_inside, self._counters_of_events)

    def _counters_of_host(self) -> Counters | None:
        try:
            pid = int(self.state().get("Pid") or 0)
        except EnvironmentFault:
            return None
        return counters.of_process(pid, self.id) if pid else None

    def _counters_inside(self) -> Counters | None:
        output = bytearray()
        command = 'for f; do [ -r "$f" ] && echo "== $f" && cat "$f"; done; true'
        try:
            self.run(("sh", "-c", command, "sh", *counters.INSIDE), output.extend, timeout_s=5)
        except EnvironmentFault:
            return None
        parts = output.decode("ascii", "replace").split("== ")[1:]
        files = [(name, text) for name, _, text in (part.partition("\n") for part in parts)]
        return counters.parse(files) if files else None

    def _counters_of_events(self) -> Counters | None:
        wanted = {"container": self.id, "event": "oom"}
        try:
            with engine_errors("reading the engine's events"):
                found = self._api.events(
                    since=self._made, until=int(time.time()) + 1, filters=wanted, decode=True
                )
                return counters.of_events(found)
        except EnvironmentFault:
            return None

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
    container = start(client, plan, guard)
    try:
        yield container
    finally:
        dispose(container, guard)


def start(client: DockerClient, plan: ContainerPlan, guard: Guard) -> Container:
    """A running container whose limits were read back; the caller ends it with `dispose`."""
    guard.check()
    with engine_errors("creating the sandbox"):
        podman = is_podman(client)
        options = plan.create_options()
        made = client.containers.create(**(adapted(options) if podman else options))
    container = Container(client, str(made.id), plan)
    try:
        plan.assert_in_force(translated(made.attrs) if podman else made.attrs)
        guard.watch(container)
        with engine_errors("starting the sandbox"):
            client.api.start(container.id)
    except BaseException:
        dispose(container, guard)
        raise
    return container


def dispose(container: Container, guard: Guard) -> None:
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
