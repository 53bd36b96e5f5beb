"""Is this machine fit to run a sandbox? Each check acts, and each failure names its remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentforge.config.settings import SandboxSettings
from agentforge.core.base import Frozen
from agentforge.core.errors import AgentForgeError, EngineUnavailable
from agentforge.sandbox import labels
from agentforge.sandbox.base_image import SOURCE, VERSIONS, find_base_image
from agentforge.sandbox.container import started
from agentforge.sandbox.engine import connect, engine_errors
from agentforge.sandbox.limits import ContainerPlan
from agentforge.sandbox.podman import engine_name
from agentforge.sandbox.reaper import orphaned_containers, orphaned_volumes

if TYPE_CHECKING:
    from docker import DockerClient

_LEAST_FREE_GB = 2.0
_PROBE_MEMORY_MB = 96
# Run inside: tries what the limits forbid and reports what happened.
_PROBE = """
import json, os, subprocess, sys
def refused(work):
    try:
        work()
    except OSError:
        return True
    return False
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
hog = "data = bytearray(HOG_MB << 20)"
children = []
def many():
    for _ in range(400):
        children.append(os.fork())
        if not children[-1]:
            import time; time.sleep(20); os._exit(0)
seen = {
    "non-root user": os.getuid() == 1000,
    "no capabilities": int(status["CapEff"], 16) == 0,
    "no new privileges": status["NoNewPrivs"].strip() == "1",
    "seccomp filter": status["Seccomp"].strip() == "2",
    "no network": os.listdir("/sys/class/net") == ["lo"],
    "read-only root": refused(lambda: open("/probe", "w")),
    "memory limit": subprocess.run([sys.executable, "-c", hog], capture_output=True).returncode != 0,
    "disk limit": refused(lambda: open("fill", "wb").write(bytes(40 << 20))),
    "process limit": refused(many),
}
for child in filter(None, children):
    os.kill(child, 9)
    os.waitpid(child, 0)
print(json.dumps(seen))
""".replace("HOG_MB", str(3 * _PROBE_MEMORY_MB))


class Check(Frozen):
    """One finding. `advice` says what to do when it is not ok."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


def diagnose(settings: SandboxSettings) -> tuple[Check, ...]:
    """All checks, in the order in which they depend on each other. Blocks for a few seconds."""
    try:
        client = connect(timeout_s=20)
    except EngineUnavailable as error:
        return (Check(name="engine", ok=False, detail=error.what, advice=error.hint),)
    info = _engine_info(client)
    checks = [_engine(client, info), _runtime(settings, info), _disk(info), _base_image(client, settings)]
    if checks[-1].ok:
        checks.append(_limits(client, settings))
    return (*checks, _leftovers(client))


def _engine_info(client: DockerClient) -> Mapping[str, Any]:
    with engine_errors("asking the engine about itself"):
        info: Mapping[str, Any] = client.info()
    return info


def _engine(client: DockerClient, info: Mapping[str, Any]) -> Check:
    version = client.version()
    parts = [
        f"{engine_name(version)} {version.get('Version', '?')} (API {version.get('ApiVersion', '?')})",
        f"cgroup v{info.get('CgroupVersion', '?')}",
        f"storage {info.get('Driver', '?')}",
    ]
    missing = [
        name
        for key, name in (("MemoryLimit", "memory"), ("PidsLimit", "pids"), ("CpuCfsQuota", "cpu"))
        if not info.get(key)
    ]
    return Check(
        name="engine",
        ok=not missing,
        detail=", ".join(parts) + (f"; the kernel has no {' and '.join(missing)} limits" if missing else ""),
        advice="enable the memory, pids and cpu control groups of this kernel" if missing else "",
    )


def _runtime(settings: SandboxSettings, info: Mapping[str, Any]) -> Check:
    known = sorted(info.get("Runtimes") or {})
    wanted = settings.runtime or str(info.get("DefaultRuntime", "?"))
    whose = "chosen" if settings.runtime else "the engine's default"
    ok = settings.runtime is None or settings.runtime in known
    return Check(
        name="runtime",
        ok=ok,
        detail=f"{wanted} ({whose}); the engine knows {', '.join(known) or 'none by name'}",
        advice=""
        if ok
        else f"install {wanted} and name it in the engine's configuration, or unset sandbox.runtime",
    )


def _disk(info: Mapping[str, Any]) -> Check:
    root = Path(str(info.get("DockerRootDir", "")))
    if not root.is_dir():
        return Check(name="disk", ok=True, detail="the engine's disk is not on this machine")
    free = shutil.disk_usage(root).free / 1e9
    return Check(
        name="disk",
        ok=free >= _LEAST_FREE_GB,
        detail=f"{free:.1f} GB free at {root}",
        advice="`agentforge sandbox prune` removes what we hold; then free space there",
    )


def _base_image(client: DockerClient, settings: SandboxSettings) -> Check:
    image_id = find_base_image(client, settings)
    if image_id is None:
        return Check(
            name="base image",
            ok=False,
            detail=f"{settings.base_image} is missing or out of date",
            advice="`agentforge sandbox build` makes it",
        )
    found = client.images.get(image_id).labels
    versions = json.loads(found.get(VERSIONS, "{}"))
    shown = ", ".join(f"{name} {version}" for name, version in versions.items()) or "an image of your own"
    return Check(
        name="base image",
        ok=True,
        detail=f"{settings.base_image} from {found.get(SOURCE, 'elsewhere')}: {shown}",
    )


def _limits(client: DockerClient, settings: SandboxSettings) -> Check:
    """Start a container with small limits, read them back, and try to break each from inside."""
    plan = ContainerPlan(
        image=settings.base_image,
        labels=labels.owner_labels("doctor"),
        memory_mb=_PROBE_MEMORY_MB,
        cpus=max(settings.cpus, 0.5),
        pids=settings.pids,
        workspace_mb=16,
        tmp_mb=16,
        runtime=settings.runtime,
    )
    output = bytearray()
    try:
        with started(client, plan) as box:
            # The volume itself is root's; /job/out does not exist yet, so the probe fills /tmp.
            ended = box.run(("python", "-c", _PROBE), output.extend, timeout_s=30, workdir="/tmp")  # noqa: S108
            spinning = box.run(("sh", "-c", "while :; do :; done"), output.extend, timeout_s=1)
        seen = json.loads(output.decode("utf-8", "replace").splitlines()[-1])
    except (AgentForgeError, ValueError, IndexError) as error:
        return Check(name="limits", ok=False, detail=f"the probe did not run: {error}", advice=_LIMITS_ADVICE)
    seen["time limit"] = ended.exit_code == 0 and spinning.exit_code in (124, 137)
    broken = [name for name, holds in seen.items() if not holds]
    detail = f"not enforced: {', '.join(broken)}" if broken else f"enforced: {', '.join(seen)}"
    return Check(name="limits", ok=not broken, detail=detail, advice=_LIMITS_ADVICE if broken else "")


_LIMITS_ADVICE = "this engine must not run foreign code as it is: use a current Docker with runc on Linux"


def _leftovers(client: DockerClient) -> Check:
    containers, volumes = len(orphaned_containers(client)), len(orphaned_volumes(client))
    some = containers + volumes > 0
    return Check(
        name="leftovers",
        ok=True,
        detail=f"{containers} containers and {volumes} volumes of dead runs",
        advice="the next run removes them, or `agentforge sandbox prune`" if some else "",
    )
