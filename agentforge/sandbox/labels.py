"""Labels: which containers and images are ours, and whether their owner still lives."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

RUN = "agentforge.run"
PID = "agentforge.pid"
STARTED = "agentforge.started"
HOST = "agentforge.host"
ROLE = "agentforge.role"
RECIPE = "agentforge.recipe"
CREATED = "agentforge.created"

ENV_REPOSITORY = "agentforge-env"

ROLE_BASE = "base-image"
ROLE_ENV = "env-image"
ROLE_RUN = "run"
ROLE_BUILD = "build"


def owner_labels(run_id: str, role: str = ROLE_RUN) -> dict[str, str]:
    """Labels that name this process as the owner of what it creates."""
    pid = os.getpid()
    return {
        RUN: run_id,
        ROLE: role,
        PID: str(pid),
        STARTED: process_start(pid),
        HOST: host_identity(),
    }


def owner_is_alive(labels: Mapping[str, str]) -> bool | None:
    """Whether the process that created something still runs; None when it is not ours to tell.

    A process is its pid, its start time (pids are reused) and the host and boot it ran on.
    """
    if labels.get(HOST, "").partition("/")[0] != host_identity().partition("/")[0]:
        return None
    if labels.get(HOST) != host_identity():
        return False
    pid = labels.get(PID, "")
    return pid.isdigit() and process_start(int(pid)) == labels.get(STARTED)


def host_identity() -> str:
    """Host name, boot id and pid namespace: where a pid has its meaning."""
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{platform.node()}:{namespace}/{boot}"


def process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot; "" when there is none."""
    # The command name, in parentheses, may itself hold spaces and parentheses.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
