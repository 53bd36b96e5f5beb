"""What the kernel counted for a container: kills for lack of memory, forks refused.

Read from the host's own view of the cgroup where there is one, since a command inside needs a free
process slot; then from inside; what happened to a container that is dead is told by the engine's events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_FILES = {
    "memory": ("memory.oom_control", "memory.events"),
    "pids": ("pids.events",),
}
INSIDE = (
    "/sys/fs/cgroup/memory/memory.oom_control",
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/pids/pids.events",
    "/sys/fs/cgroup/pids.events",
)
"""The same files as a process of the container sees them, version 1 and 2."""
_PLAIN_CGROUP = re.compile(r"^[\w./:@-]+$")
_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Counters:
    """What the kernel counted in the container's cgroup."""

    oom_kills: int = 0
    pids_refused: int = 0


def parse(files: Iterable[tuple[str, str]]) -> Counters:
    """Counters of (file name, text) pairs: `oom_kill` of memory, `max` of pids; zero when absent."""
    oom = refused = 0
    for name, text in files:
        values = dict(_values(text))
        if "pids" in Path(name).name:
            refused = max(refused, values.get("max", 0))
        else:
            oom = max(oom, values.get("oom_kill", 0))
    return Counters(oom, refused)


def _values(text: str) -> Iterable[tuple[str, int]]:
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if value.isdigit():
            yield name, int(value)


def of_process(
    pid: int, container_id: str, *, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
) -> Counters | None:
    """Counters of the container whose first process is `pid` on this host; None when it is not ours to see.

    The cgroup's path must name the container: an engine elsewhere has other process ids.
    """
    found = []
    for controllers, path in _memberships(_read(proc / str(pid) / "cgroup")):
        if container_id not in path or not _PLAIN_CGROUP.match(path) or ".." in path:
            continue
        for controller in controllers:
            folder = cgroups / controller / path.lstrip("/") if controller else cgroups / path.lstrip("/")
            kinds = _FILES.get(controller, ()) if controller else _FILES["memory"] + _FILES["pids"]
            found += [(name, text) for name in kinds if (text := _read(folder / name))]
    return parse(found) if found else None


def _memberships(text: str) -> Iterable[tuple[tuple[str, ...], str]]:
    """(controllers, path) of each hierarchy; version 2 is the one without a controller's name."""
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield tuple(parts[1].split(",")), parts[2]


def first_known(*sources: Callable[[], Counters | None]) -> Counters:
    """The first source that knows anything."""
    for source in sources:
        counters = source()
        if counters is not None:
            return counters
    return Counters()


def of_events(events: Iterable[Mapping[str, object]]) -> Counters | None:
    """What the engine's events tell of a container that is gone: `oom` each time the kernel killed."""
    kills = sum(1 for event in events if event.get("Action") == "oom" or event.get("status") == "oom")
    return Counters(oom_kills=kills) if kills else None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_LIMIT).decode("ascii", "replace")
    except OSError:
        return ""
