"""Podman behind its Docker-compatible interface: what it is asked for and answers, in Docker's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker import DockerClient

# What Podman grants by default, and lists one by one as dropped when all are.
_DEFAULT_CAPABILITIES = frozenset(
    """CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE
    SETFCAP SETGID SETPCAP SETUID SYS_CHROOT""".split()  # noqa: SIM905
)
_PROCESSES = 30_000
_OWN_TMPFS = frozenset({"/run", "/var/tmp"})  # noqa: S108  mounted by Podman over a read-only root


def engine_name(version: Mapping[str, Any]) -> str:
    """Podman answers on Docker's interface, and names itself among its components."""
    names = " ".join(str(part.get("Name", "")) for part in version.get("Components") or [])
    return "Podman" if "podman" in names.lower() else "Docker"


def is_podman(client: DockerClient) -> bool:
    return engine_name(client.version()) == "Podman"


def adapted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Creation options as Podman takes them.

    It knows no inode cap of a tmpfs, and asks for more processes per user than it may have grant of
    where its own limit is lower, unless it is told a number.
    """
    from docker.types import Ulimit

    tmpfs = {
        path: ",".join(part for part in said.split(",") if not part.startswith("nr_inodes="))
        for path, said in (options.get("tmpfs") or {}).items()
    }
    processes = Ulimit(name="nproc", soft=_PROCESSES, hard=_PROCESSES)
    changed = {"ulimits": [*options["ulimits"], processes]} | ({"tmpfs": tmpfs} if tmpfs else {})
    return {**options, **changed}


def translated(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """Podman's inspect as Docker would have put it; whatever means less than Docker's stays as it is."""
    host = dict(inspected["HostConfig"])
    volumes = {mount.get("Name") for mount in inspected["Mounts"] if mount.get("Type") == "volume"}
    host["Binds"] = [bind for bind in host.get("Binds") or [] if bind.partition(":")[0] not in volumes]
    host["PidMode"] = "" if host.get("PidMode") == "private" else host.get("PidMode")
    # Its own namespace, which another container could be started into, and none of ours is.
    host["IpcMode"] = "private" if host.get("IpcMode") == "shareable" else host.get("IpcMode")
    dropped = {name.upper().removeprefix("CAP_") for name in host.get("CapDrop") or []}
    host["CapDrop"] = ["ALL"] if dropped >= _DEFAULT_CAPABILITIES else sorted(dropped)
    host["Tmpfs"] = {path: said for path, said in (host.get("Tmpfs") or {}).items() if path not in _OWN_TMPFS}
    host["Ulimits"] = [
        {**limit, "Name": limit["Name"].removeprefix("RLIMIT_").lower()}
        for limit in host.get("Ulimits") or []
        if limit["Name"] != "RLIMIT_NPROC"
    ]
    return {**inspected, "HostConfig": host}
