"""The limits of a container: how they are asked for, and how they are read back.

What holds and how (docs/sandbox.md): the writable places are two volumes and /tmp, all of them
tmpfs with a size and an inode cap, so a disk filler meets ENOSPC (or the memory limit, since
what the container writes there is charged to it) and never the host's disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import EnvironmentFault

if TYPE_CHECKING:
    from docker.types import Mount

MB = 1024 * 1024
WORKSPACE = "/workspace"
REPO = "/workspace/repo"
JOB = "/job"
USER = "1000:1000"
COLLECTOR_USER = "1001:1001"
KEEPER = ("tail", "-f", "/dev/null")
_TMP_INODES = 20_000
_OPEN_FILES = 1024


@dataclass(frozen=True)
class ContainerPlan:
    """Everything a container is asked for. Sizes in MB.

    `workspace_mb` and `job_mb` are capacities of the two volumes, `inodes` the files they may hold.
    A build has network and a writable root, and its volumes lie on the engine's disk.
    """

    image: str
    labels: Mapping[str, str]
    memory_mb: int
    cpus: float
    pids: int
    workspace_mb: int
    tmp_mb: int
    inodes: int = 100_000
    job_mb: int = 64
    build: bool = False
    runtime: str | None = None
    """OCI runtime by the engine's name for it; None is the engine's default."""
    trusted_root: bool = False
    """Keep the engine's default capabilities: only for our own provisioning commands."""

    def create_options(self) -> dict[str, Any]:
        """Keyword arguments of docker-py's `containers.create`."""
        from docker.types import Ulimit

        ulimits = [
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES),
            Ulimit(name="fsize", soft=self._file_size, hard=self._file_size),
        ]
        options: dict[str, Any] = {
            "image": self.image,
            "command": list(KEEPER),
            "entrypoint": [],
            "user": "0:0" if self.trusted_root else USER,
            "labels": dict(self.labels),
            "working_dir": "/",
            "environment": {},
            "mem_limit": self.memory_mb * MB,
            "memswap_limit": self.memory_mb * MB,
            "nano_cpus": round(self.cpus * 1_000_000_000),
            "pids_limit": self.pids,
            "security_opt": ["no-new-privileges:true"],
            "ipc_mode": "private",
            "init": True,
            "ulimits": ulimits,
            "mounts": self._mounts(),
            "log_config": {"Type": "none"},
            "healthcheck": {"test": ["NONE"]},
            "use_config_proxy": False,
            "stop_signal": "SIGKILL",
        }
        if self.runtime is not None:
            options["runtime"] = self.runtime
        if not self.trusted_root:
            options["cap_drop"] = ["ALL"]
        if not self.build:
            tmpfs = f"rw,exec,nosuid,nodev,mode=1777,size={self.tmp_mb}m,nr_inodes={_TMP_INODES}"
            options |= {"network_mode": "none", "read_only": True, "tmpfs": {"/tmp": tmpfs}}  # noqa: S108
        return options

    @property
    def _file_size(self) -> int:
        return max(self.workspace_mb, self.memory_mb) * MB

    def _mounts(self) -> list[Mount]:
        from docker.types import DriverConfig, Mount

        def volume(target: str, size_mb: int) -> Mount:
            capped = {"type": "tmpfs", "device": "tmpfs"}
            capped["o"] = f"size={size_mb}m,nr_inodes={self.inodes},mode=0755,nosuid,nodev"
            driver = None if self.build else DriverConfig("local", capped)
            return Mount(
                target=target,
                source=None,
                type="volume",
                no_copy=True,
                labels=dict(self.labels),
                driver_config=driver,
            )

        return [volume(JOB, self.job_mb), volume(WORKSPACE, self.workspace_mb)]

    def mismatches(self, inspected: Mapping[str, Any]) -> list[str]:
        """What the engine made that differs from what was asked: [] when every limit is in force."""
        host = inspected["HostConfig"]
        config = inspected["Config"]
        wanted: list[tuple[str, object, object]] = [
            ("memory", host.get("Memory"), self.memory_mb * MB),
            ("memory+swap", host.get("MemorySwap"), self.memory_mb * MB),
            ("cpus", host.get("NanoCpus"), round(self.cpus * 1_000_000_000)),
            ("pids", host.get("PidsLimit"), self.pids),
            ("privileged", host.get("Privileged"), False),
            ("added capabilities", host.get("CapAdd") or [], []),
            ("no-new-privileges", _no_new_privileges(host), True),
            ("ipc", host.get("IpcMode"), "private"),
            ("init", host.get("Init"), True),
            ("host mounts", host.get("Binds") or [], []),
            ("devices", host.get("Devices") or [], []),
            ("mount kinds", {mount["Type"] for mount in inspected["Mounts"]} - {"volume", "tmpfs"}, set()),
            ("pid namespace", host.get("PidMode") or "", ""),
        ]
        if self.runtime is not None:
            wanted += [("runtime", host.get("Runtime"), self.runtime)]
        if not self.trusted_root:
            wanted += [("dropped capabilities", _upper(host.get("CapDrop")), ["ALL"])]
            wanted += [("user", config.get("User"), USER)]
        if not self.build:
            wanted += [
                ("network", host.get("NetworkMode"), "none"),
                ("read-only root", host.get("ReadonlyRootfs"), True),
            ]
            wanted += [("/tmp", sorted(host.get("Tmpfs") or {}), ["/tmp"])]  # noqa: S108
        ulimits = {limit["Name"]: limit["Hard"] for limit in host.get("Ulimits") or []}
        wanted += [("ulimits", ulimits, {"core": 0, "nofile": _OPEN_FILES, "fsize": self._file_size})]
        return [f"{name}: wanted {want!r}, got {got!r}" for name, got, want in wanted if got != want]

    def assert_in_force(self, inspected: Mapping[str, Any]) -> None:
        """Raises `EnvironmentFault` when a limit is not what was asked."""
        wrong = self.mismatches(inspected)
        if wrong:
            raise EnvironmentFault(
                "the engine did not enforce the sandbox limits, nothing was run: " + "; ".join(wrong),
                hint="`agentforge sandbox doctor` shows what this engine supports",
            )


def _no_new_privileges(host: Mapping[str, Any]) -> bool:
    options = host.get("SecurityOpt") or []
    unconfined = any("unconfined" in option for option in options)
    return not unconfined and any(option.startswith("no-new-privileges") for option in options)


def _upper(names: list[str] | None) -> list[str]:
    return [name.upper() for name in names or []]
