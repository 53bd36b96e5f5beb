"""From a repository to an image in which its tests can run, built once per set of dependencies.

The build runs in a container with network; the runs that follow have none. The project itself is
installed editable at the path where every later run puts its tree, so what runs is the candidate's
code and not a copy. Files that an installation generates in the tree (a version module, an
extension module) are kept in the image and laid under each later tree.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.ports import Environment, EnvironmentSpec
from agentforge.core.tree import Tree
from agentforge.sandbox import labels
from agentforge.sandbox.archive import tree_archive
from agentforge.sandbox.base_image import ensure_base_image, get_image
from agentforge.sandbox.builder import ENV_DIR, Builder, Progress, build_container
from agentforge.sandbox.container import Guard, started
from agentforge.sandbox.dependencies import DependencyPlan, plan_dependencies
from agentforge.sandbox.limits import REPO, USER, WORKSPACE, ContainerPlan
from agentforge.sandbox.test_command import TestCommand, detect_test_command

if TYPE_CHECKING:
    from docker import DockerClient

ENV_REPOSITORY = "agentforge-env"
NOTES = "agentforge.notes"
GENERATED = "agentforge.generated"
GENERATED_DIR = f"{ENV_DIR}/.generated"
_RECIPE_VERSION = "1"
_HINT = "name what is missing with --setup 'pip install …', or bring an image of your own with --image"
# Our archives carry one old time, so whatever is newer was made by the installation.
_KEEP_GENERATED = f"""set -e
mkdir -p {GENERATED_DIR}
find . -type f -newermt 2021-01-01 -not -path '*/__pycache__/*' -not -path './build/*' \
 -not -path '*/.git/*' -print0 | head -c 1000000 | xargs -0 -r cp --parents -t {GENERATED_DIR}
find {GENERATED_DIR} -type f | wc -l
"""


def prepare_environment(
    client: DockerClient,
    settings: SandboxSettings,
    tree: Tree,
    spec: EnvironmentSpec,
    *,
    guard: Guard,
    progress: Progress,
) -> Environment:
    """Detect the test command and find or build the image. Blocks.

    Raises `ImageError`, `EngineUnavailable`, `UsageError`.
    """
    command = detect_test_command(tree, spec.test_command, spec.subdirectory)
    if spec.image is not None:
        return _own_image(client, settings, tree, spec, command, guard, progress)
    base = ensure_base_image(settings, progress)
    plan = plan_dependencies(tree, spec.subdirectory)
    if plan.empty and not spec.setup:
        notes = (*command.notes, "no dependency files: the base image is used as it is")
        return _environment(base, command, spec, notes)
    image, built = _cached(client, settings, tree, spec, base, plan, guard, progress)
    return _environment(image, command, spec, (*command.notes, *built))


def _environment(
    image: str, command: TestCommand, spec: EnvironmentSpec, notes: tuple[str, ...]
) -> Environment:
    return Environment(
        image=image,
        test_command=command.argv,
        framework=command.framework,
        notes=notes,
        workdir=spec.subdirectory.strip("/"),
    )


def _cached(
    client: DockerClient,
    settings: SandboxSettings,
    tree: Tree,
    spec: EnvironmentSpec,
    base: str,
    plan: DependencyPlan,
    guard: Guard,
    progress: Progress,
) -> tuple[str, tuple[str, ...]]:
    from filelock import FileLock

    key = environment_key(base, tree, plan, spec)
    tag = f"{ENV_REPOSITORY}:{key}"
    lock = Path(platformdirs.user_cache_dir("agentforge")) / f"env-{key}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        found = get_image(client, tag)
        if found is None:
            progress("building the environment image (once for these dependencies)")
            _build(client, settings, tree, spec, base, plan, tag, guard, progress)
            found = get_image(client, tag)
    if found is None:
        raise ImageError(f"the environment image {tag} vanished right after it was built", hint="try again")
    # Commands may hold secrets: they are told to the user, and not written into the image.
    notes = [*json.loads(found.labels.get(NOTES, "[]")), *(f"setup command: {each}" for each in spec.setup)]
    return str(found.id), tuple(notes)


def environment_key(base: str, tree: Tree, plan: DependencyPlan, spec: EnvironmentSpec) -> str:
    """Content of what an environment is built from: base image, dependency files, layout, commands."""
    total = hashlib.sha256()
    folders = {path.split("/")[0] for path in tree.files if "/" in path}
    folders |= {"/".join(path.split("/")[:2]) for path in tree.files if path.startswith("src/")}
    parts = [_RECIPE_VERSION, base, spec.subdirectory, *spec.setup, *sorted(folders)]
    for part in parts:
        total.update(part.encode("utf-8", "surrogateescape") + b"\0")
    for path in plan.files:
        total.update(path.encode() + b"\0" + hashlib.sha256(tree.read(path).data).digest())
    if spec.setup:
        total.update(tree.digest.encode())  # a command may read any file
    return total.hexdigest()[:20]


def _build(
    client: DockerClient,
    settings: SandboxSettings,
    tree: Tree,
    spec: EnvironmentSpec,
    base: str,
    plan: DependencyPlan,
    tag: str,
    guard: Guard,
    progress: Progress,
) -> None:
    folder = posixpath.join(REPO, spec.subdirectory).rstrip("/")
    own = spec.image is not None
    with build_container(client, base, settings, own_image=own, guard=guard) as builder:
        builder.container.put(WORKSPACE, tree_archive(tree, "repo"))
        notes = _install(builder, plan, folder, progress)
        _run_setup(builder, spec.setup, folder, progress)
        generated = "0" if own else _finish(builder)
        image_labels = {
            labels.ROLE: labels.ROLE_ENV,
            labels.RECIPE: tag.rpartition(":")[2],
            labels.CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
            NOTES: json.dumps(notes),
            GENERATED: generated,
        }
        builder.commit(tag, image_labels)


def _install(builder: Builder, plan: DependencyPlan, folder: str, progress: Progress) -> list[str]:
    notes: list[str] = []
    for step in plan.steps:
        progress(f"installing {step.why}")
        try:
            _pip(builder, step.arguments, folder, doing=f"installing {step.why}", version=plan.version)
        except ImageError as error:
            if not step.optional:
                raise
            notes.append(f"could not install {step.why}: {error.what.splitlines()[-1].strip()}")
        else:
            notes.append(f"installed {step.why}")
    if plan.project:
        progress("installing the project and its dependencies")
        notes += _install_project(builder, plan, folder)
    return notes


def _install_project(builder: Builder, plan: DependencyPlan, folder: str) -> list[str]:
    """Editable first; an old project may need the image's setuptools; at last its dependencies alone."""
    target = f".[{plan.extra}]" if plan.extra else "."
    named = f"the project, editable, with extra {plan.extra}" if plan.extra else "the project, editable"
    try:
        _pip(builder, ("-e", target), folder, doing="installing the project", version=plan.version)
    except ImageError as first:
        try:
            arguments = ("--no-build-isolation", "-e", target)
            _pip(builder, arguments, folder, doing="installing the project", version=plan.version)
        except ImageError:
            if not plan.dependencies:
                raise first from None
            doing = "installing the project's dependencies"
            _pip(builder, plan.dependencies, folder, doing=doing, version=plan.version)
            reason = first.what.splitlines()[-1].strip()
            return [f"installed the dependencies only; the project itself could not be installed: {reason}"]
        return [f"installed {named}, without build isolation"]
    return [f"installed {named}"]


def _pip(builder: Builder, arguments: tuple[str, ...], folder: str, *, doing: str, version: str) -> None:
    """A tree without history tells version plug-ins nothing; they take the version from here."""
    told = [
        f"{name}={version}"
        for name in ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION")
    ]
    pip = [f"{ENV_DIR}/bin/python", "-m", "pip", "install", "--no-cache-dir", "--progress-bar=off"]
    builder.run(["env", *told, *pip, *arguments], workdir=folder, doing=doing, hint=_HINT)


def _run_setup(builder: Builder, commands: tuple[str, ...], folder: str, progress: Progress) -> None:
    for command in commands:
        progress(f"setup: {command}")
        builder.run(
            ["sh", "-c", command],
            workdir=folder,
            user="0:0" if builder.own_image else USER,
            doing=f"the setup command `{command}`",
            hint="it runs as an ordinary user; what needs root belongs into an image given with --image",
        )


def _finish(builder: Builder) -> str:
    """Check that pytest survived; keep what was generated in the tree, and return how many files."""
    builder.run(
        [f"{ENV_DIR}/bin/python", "-c", "import pytest"],
        doing="importing pytest after the installation",
        hint=_HINT,
    )
    counted = builder.run(["sh", "-c", _KEEP_GENERATED], workdir=REPO, doing="keeping generated files")
    return counted.split()[-1]


def _own_image(
    client: DockerClient,
    settings: SandboxSettings,
    tree: Tree,
    spec: EnvironmentSpec,
    command: TestCommand,
    guard: Guard,
    progress: Progress,
) -> Environment:
    """The user's image as it is, or with the setup commands on top."""
    name = spec.image or ""
    found = get_image(client, name)
    if found is None:
        raise ImageError(
            f"the image {name} is not on this machine",
            hint=f"pull or build it first: docker pull {name}",
        )
    image = str(found.id)
    notes: tuple[str, ...] = (f"the given image {name} is used; dependencies are not installed",)
    if spec.setup:
        nothing = DependencyPlan(False, "", (), (), (), "0.0.0")
        image, built = _cached(client, settings, tree, spec, image, nothing, guard, progress)
        notes += built
    if command.framework == "pytest":
        python = _find_python(client, settings, image, guard)
        command = TestCommand((python, *command.argv[1:]), command.framework, command.notes)
    return _environment(image, command, spec, (*command.notes, *notes))


def _find_python(client: DockerClient, settings: SandboxSettings, image: str, guard: Guard) -> str:
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
    if ended.exit_code != 0:
        raise ImageError(
            f"there is no Python in the image {image[:19]}",
            hint="give an image with Python, or a command for the tests with --test",
        )
    return output.decode("utf-8", "replace").split()[0]
