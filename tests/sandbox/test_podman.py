"""Podman's words in Docker's: what means the same is accepted, what means less is not."""

from __future__ import annotations

from typing import Any

import pytest

from agentforge.sandbox.limits import USER, ContainerPlan
from agentforge.sandbox.podman import adapted, engine_name, translated

PLAN = ContainerPlan("image", {}, memory_mb=512, cpus=0.5, pids=64, workspace_mb=256, tmp_mb=16)
DEFAULT = """CAP_CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID
SYS_CHROOT AUDIT_WRITE MKNOD NET_RAW"""
DROPPED = DEFAULT.split()


def inspected(**changes: Any) -> dict[str, Any]:
    """What Podman 4.3 answers for a container of `PLAN`."""
    host = {
        "Memory": 512 << 20,
        "MemorySwap": 512 << 20,
        "NanoCpus": 500_000_000,
        "PidsLimit": 64,
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": DROPPED,
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "shareable",
        "PidMode": "private",
        "Init": True,
        "Binds": ["v1:/workspace:rw,nosuid,nodev,rbind"],
        "Devices": [],
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": "", "/run": "", "/var/tmp": ""},
        "Ulimits": [
            {"Name": "RLIMIT_CORE", "Soft": 0, "Hard": 0},
            {"Name": "RLIMIT_NOFILE", "Soft": 1024, "Hard": 1024},
            {"Name": "RLIMIT_FSIZE", "Soft": 512 << 20, "Hard": 512 << 20},
            {"Name": "RLIMIT_NPROC", "Soft": 30000, "Hard": 30000},
        ],
    }
    return {
        "HostConfig": host | changes,
        "Config": {"User": USER},
        "Mounts": [{"Type": "volume", "Name": "v1", "Destination": "/workspace"}],
    }


def test_a_container_as_asked_for_is_accepted() -> None:
    assert PLAN.mismatches(translated(inspected())) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"Binds": ["/etc:/workspace:rw"]},
        {"PidMode": "host"},
        {"IpcMode": "host"},
        {"CapDrop": DROPPED[:-4]},
        {"CapDrop": []},
        {"Tmpfs": {"/tmp": "", "/data": ""}},
        {"Ulimits": []},
        {"NetworkMode": "bridge"},
        {"Memory": 0},
    ],
)
def test_whatever_means_less_is_refused(changes: dict[str, Any]) -> None:
    assert PLAN.mismatches(translated(inspected(**changes)))


def test_it_is_asked_for_what_it_understands() -> None:
    options = PLAN.create_options()
    asked = adapted(options)
    assert "nr_inodes" in options["tmpfs"]["/tmp"]
    assert asked["tmpfs"]["/tmp"] == "rw,exec,nosuid,nodev,mode=1777,size=16m"
    assert {limit["Name"] for limit in asked["ulimits"]} == {"core", "nofile", "fsize", "nproc"}
    assert len(options["ulimits"]) == 3


def test_engines_are_told_apart() -> None:
    assert engine_name({"Components": [{"Name": "Podman Engine"}]}) == "Podman"
    assert engine_name({"Components": [{"Name": "Engine"}, {"Name": "containerd"}]}) == "Docker"
    assert engine_name({}) == "Docker"
