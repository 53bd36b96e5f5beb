"""An image of the user's own: by its name, or built from a Dockerfile."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.tree import Tree, TreeFile
from agentforge.sandbox import labels
from agentforge.sandbox.archive import pack
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.builder import Progress, last_lines
from agentforge.sandbox.container import Guard, started
from agentforge.sandbox.engine import engine_errors
from agentforge.sandbox.limits import ContainerPlan

if TYPE_CHECKING:
    from docker import DockerClient

_DOCKERFILE = ".agentforge.Dockerfile"


def named_image(client: DockerClient, name: str) -> str:
    """The id of an image on this machine; never pulled. Raises `ImageError`."""
    found = get_image(client, name)
    if found is None:
        raise ImageError(
            f"the image {name} is not on this machine", hint=f"pull or build it first: docker pull {name}"
        )
    return str(found.id)


def built_image(
    client: DockerClient, settings: SandboxSettings, tree: Tree, dockerfile: str, progress: Progress
) -> str:
    """The id of the image that `dockerfile` makes of the tree, built once. Raises `ImageError`.

    The engine runs it: with network, and with the memory of a build. It is the user's word, not the
    repository's. A build that fails leaves no image and no container.
    """
    key = hashlib.sha256(f"{tree.digest}\0{dockerfile}".encode()).hexdigest()[:20]
    tag = f"{labels.ENV_REPOSITORY}:file-{key}"
    found = get_image(client, tag)
    if found is not None:
        return str(found.id)
    progress("building the image of the given Dockerfile")
    context = pack({**tree.files, _DOCKERFILE: TreeFile(dockerfile.encode())}, "", owner=1000)
    with engine_errors("listing images"):
        before = {image["Id"] for image in client.api.images(all=True)}
    memory = settings.build_memory_mb * 1024 * 1024
    made = {labels.ROLE: labels.ROLE_ENV, labels.RECIPE: key}
    made[labels.CREATED] = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        _run_build(client, context, tag, made, memory)
    except ImageError:
        _remove_untagged(client, before)
        raise
    return named_image(client, tag)


def _run_build(
    client: DockerClient, context: bytes, tag: str, image_labels: dict[str, str], memory: int
) -> None:
    import io

    from docker.errors import APIError

    lines: list[str] = []
    with engine_errors("building the given Dockerfile"):
        try:
            for event in client.api.build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile=_DOCKERFILE,
                tag=tag,
                labels=image_labels,
                rm=True,
                forcerm=True,
                decode=True,
                container_limits={"memory": memory, "memswap": memory},
            ):
                lines += str(event.get("stream") or event.get("error") or "").splitlines()
                del lines[:-200]
                if "error" in event:
                    raise ImageError(last_lines("the build of the Dockerfile failed", "\n".join(lines)))
        except APIError as error:
            raise ImageError(f"the Dockerfile cannot be built: {error.explanation}") from error


def _remove_untagged(client: DockerClient, before: set[str]) -> None:
    """Steps of a failed build stay as images without a name: only those that came since `before`."""
    from docker.errors import APIError

    with engine_errors("removing what a failed build left"):
        now = client.api.images(all=True, filters={"dangling": True})
    for image in now:
        if image["Id"] not in before:
            try:
                client.api.remove_image(image["Id"])
            except APIError:
                continue  # a parent of another one, or another build's


def find_python(client: DockerClient, settings: SandboxSettings, image: str, guard: Guard) -> str:
    """The name of Python in an image. Raises `ImageError` where there is none."""
    plan = ContainerPlan(
        image=image,
        labels=labels.owner_labels("probe"),
        memory_mb=settings.memory_mb,
        cpus=settings.cpus,
        pids=settings.pids,
        workspace_mb=16,
        tmp_mb=16,
    )
    output = bytearray()
    with started(client, plan, guard) as box:
        ended = box.run(("sh", "-c", "command -v python || command -v python3"), output.extend, timeout_s=20)
    found = re.findall(r"/\S+", output.decode("utf-8", "replace"))
    if ended.exit_code != 0 or not found:
        raise ImageError(
            f"there is no Python in the image {image[:19]}",
            hint="give an image with Python, or a command for the tests with --test",
        )
    return str(found[0])
