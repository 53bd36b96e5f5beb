"""The base image: Python, pytest, coverage, git and patch, kept as long as its recipe is unchanged."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.sandbox import debian, labels
from agentforge.sandbox.builder import ENV_DIR, build_container
from agentforge.sandbox.engine import connect, engine_errors
from agentforge.sandbox.python_needs import DEFAULT

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

PYTHON_PACKAGES = ("pip>=25.1", "pytest>=8.3,<10", "coverage>=7.6,<8", "setuptools", "wheel")
SOURCE = "agentforge.source"
VERSIONS = "agentforge.versions"
_PROVISION = f"""set -e
id -u agent >/dev/null 2>&1 || useradd --uid 1000 --create-home --shell /bin/sh agent
mkdir -p {ENV_DIR} /workspace /job
chown 1000:1000 {ENV_DIR}
"""
_VERSION_PROBE = """import json, platform, importlib.metadata as m, subprocess as s
names = ["pytest", "coverage", "pip", "setuptools", "wheel"]
found = {"python": platform.python_version(), **{name: m.version(name) for name in names}}
found["git"] = s.run(["git", "--version"], capture_output=True, text=True).stdout.split()[-1]
print(json.dumps(found))
"""


def recipe_hash(python: str = DEFAULT) -> str:
    """Changes with everything the image is made from, and with nothing else."""
    parts = [
        *([] if python == DEFAULT else [python]),
        _dockerfile(),
        *PYTHON_PACKAGES,
        _PROVISION,
        debian.SUITE,
        *debian.PACKAGES,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def ensure_base_image(
    settings: SandboxSettings, progress: Callable[[str], None] = lambda _: None, python: str = DEFAULT
) -> str:
    """The id of the base image, built when it is missing or its recipe has changed. Blocks.

    An image of that name which we did not make is the user's own and taken as it is. One with another
    `python` than the default lies beside it, and needs a registry. Raises `ImageError`,
    `EngineUnavailable`.
    """
    from filelock import FileLock

    lock = Path(platformdirs.user_cache_dir("agentforge")) / "base-image.lock"
    with closing(connect()) as client:
        found = find_base_image(client, settings, python)
        if found is not None:
            return found
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            found = find_base_image(client, settings, python)
            return found or _build(client, settings, progress, python)


def _name(settings: SandboxSettings, python: str) -> str:
    return settings.base_image if python == DEFAULT else f"{settings.base_image}-py{python}"


def find_base_image(client: DockerClient, settings: SandboxSettings, python: str = DEFAULT) -> str | None:
    """The id of a usable base image, or None where one must be built."""
    image = get_image(client, _name(settings, python))
    if image is None:
        return None
    recipe = image.labels.get(labels.RECIPE)
    return str(image.id) if recipe in (None, recipe_hash(python)) else None


def _build(
    client: DockerClient, settings: SandboxSettings, progress: Callable[[str], None], python: str
) -> str:
    root_tag = f"agentforge-root:{recipe_hash(python)}"
    source = f"python:{python}-slim"
    name = _name(settings, python)
    try:
        if get_image(client, root_tag) is None:
            progress(f"building the sandbox base image {name} from {source}")
            _build_dockerfile(client, root_tag, source)
    except ImageError as error:
        if python != DEFAULT:
            raise
        progress(f"cannot build from {source}: {error.what}")
        progress("building from Debian packages instead")
        source = f"debian:{debian.SUITE} (debootstrap)"
        debian.import_debian(client, root_tag, progress)
    progress("installing " + ", ".join(PYTHON_PACKAGES))
    image_id = _provision(client, root_tag, settings, source, python)
    # Layers of the root image live on in the base image; only the name goes.
    with engine_errors("removing the intermediate image name"):
        client.api.remove_image(root_tag, noprune=True)
    progress(f"{name} is ready ({source})")
    return image_id


def _build_dockerfile(client: DockerClient, tag: str, source: str) -> None:
    from docker.errors import APIError, BuildError

    try:
        with engine_errors("building the base image"):
            try:
                events = client.api.build(
                    fileobj=_context(),
                    custom_context=True,
                    tag=tag,
                    rm=True,
                    forcerm=True,
                    decode=True,
                    buildargs={"BASE": source},
                )
                _raise_on_error(events)
            except (APIError, BuildError) as error:
                raise ImageError(f"the engine's build failed: {error}") from error
    except OSError as error:
        raise ImageError(f"the engine's build broke off: {error}") from error


def _raise_on_error(events: Iterable[Any]) -> None:
    for event in events:
        if isinstance(event, dict) and "error" in event:
            raise ImageError(" ".join(str(event["error"]).split())[:300])


def _provision(
    client: DockerClient, root_tag: str, settings: SandboxSettings, source: str, python: str
) -> str:
    with build_container(client, root_tag, settings, trusted_root=True) as builder:
        builder.run(["sh", "-c", _PROVISION], user="0:0", doing="preparing the base image")
        builder.run(["python3", "-m", "venv", ENV_DIR], doing="creating the base environment")
        pip = [f"{ENV_DIR}/bin/python", "-m", "pip", "install", "--no-cache-dir"]
        builder.run(
            [*pip, *PYTHON_PACKAGES],
            doing="installing pytest into the base image",
            hint="containers must reach a package index; the pip settings of this host are passed on",
        )
        versions = builder.run([f"{ENV_DIR}/bin/python", "-c", _VERSION_PROBE], doing="reading versions")
        image_labels = {
            labels.ROLE: labels.ROLE_BASE,
            labels.RECIPE: recipe_hash(python),
            SOURCE: source,
            VERSIONS: json.dumps(json.loads(versions.splitlines()[-1]), sort_keys=True),
        }
        return builder.commit(_name(settings, python), image_labels)


def _context() -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        data = _dockerfile().encode()
        header = tarfile.TarInfo("Dockerfile")
        header.size = len(data)
        archive.addfile(header, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def _dockerfile() -> str:
    return (resources.files("agentforge.sandbox") / "images" / "Dockerfile").read_text(encoding="utf-8")


def get_image(client: DockerClient, name: str) -> Image | None:
    """The image called `name` on this machine, or None. Never pulls."""
    from docker.errors import ImageNotFound

    try:
        with engine_errors("looking for the base image"):
            try:
                return client.images.get(name)
            except ImageNotFound:
                return None
    except ImageError:
        return None
