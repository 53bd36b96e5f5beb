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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.ports import Environment, EnvironmentSpec
from agentforge.core.tree import Tree
from agentforge.sandbox import labels
from agentforge.sandbox.apt import with_packages
from agentforge.sandbox.archive import tree_archive
from agentforge.sandbox.base_image import ensure_base_image, get_image
from agentforge.sandbox.builder import ENV_DIR, Builder, Progress, build_container
from agentforge.sandbox.container import Guard
from agentforge.sandbox.dependencies import DependencyPlan, plan_dependencies
from agentforge.sandbox.install import HINT, Installer
from agentforge.sandbox.limits import REPO, USER, WORKSPACE
from agentforge.sandbox.own_image import built_image, find_python, named_image
from agentforge.sandbox.python_needs import DEFAULT
from agentforge.sandbox.test_command import TestCommand, detect_test_command

if TYPE_CHECKING:
    from docker import DockerClient

NOTES = "agentforge.notes"
GENERATED = "agentforge.generated"
GENERATED_DIR = f"{ENV_DIR}/.generated"
_RECIPE_VERSION = "2"
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
    build = _Build(client, settings, tree, spec, guard, progress)
    if build.own:
        return _own_image(build, command)
    plan = plan_dependencies(tree, spec.subdirectory)
    notes = list(command.notes)
    base = build.with_packages(build.base(plan, notes), notes)
    if plan.empty and not spec.setup:
        notes.append("no dependency files: the base image is used as it is")
        return _environment(base, command, spec, tuple(notes))
    image, built = build.cached(base, plan)
    return _environment(image, command, spec, (*notes, *built))


def _environment(
    image: str, command: TestCommand, spec: EnvironmentSpec, notes: tuple[str, ...]
) -> Environment:
    return Environment(
        image=image,
        test_command=command.argv,
        framework=command.framework,
        notes=notes,
        workdir=spec.subdirectory.strip("/"),
        reads=command.reads,
        junit=spec.junit,
    )


@dataclass(frozen=True)
class _Build:
    """One preparation: what it is for, and who may stop it."""

    client: DockerClient
    settings: SandboxSettings
    tree: Tree
    spec: EnvironmentSpec
    guard: Guard
    progress: Progress

    @property
    def own(self) -> bool:
        return self.spec.image is not None or self.spec.dockerfile is not None

    def base(self, plan: DependencyPlan, notes: list[str]) -> str:
        """The base image, with the Python that the repository wants where that can be had."""
        python = plan.need.choose()
        if python == DEFAULT:
            return ensure_base_image(self.settings, self.progress)
        wish = f"{plan.need.source} wants Python {plan.need.specifier}"
        if python:
            try:
                image = ensure_base_image(self.settings, self.progress, python)
            except ImageError as error:
                self.progress(f"no image with Python {python}: {error.what}")
            else:
                notes.append(f"{wish}: Python {python} is used")
                return image
        notes.append(f"{wish}, which cannot be had here: Python {DEFAULT} is used; --image brings another")
        return ensure_base_image(self.settings, self.progress)

    def with_packages(self, image: str, notes: list[str]) -> str:
        if not self.spec.apt:
            return image
        notes.append("Debian packages: " + ", ".join(self.spec.apt))
        return with_packages(
            self.client,
            self.settings,
            image,
            self.spec.apt,
            own_image=self.own,
            guard=self.guard,
            progress=self.progress,
        )

    def cached(self, base: str, plan: DependencyPlan) -> tuple[str, tuple[str, ...]]:
        """The environment image over `base`, and notes on what is in it."""
        from filelock import FileLock

        key = environment_key(base, self.tree, plan, self.spec)
        tag = f"{labels.ENV_REPOSITORY}:{key}"
        lock = Path(platformdirs.user_cache_dir("agentforge")) / f"env-{key}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            found = get_image(self.client, tag)
            if found is None:
                self.progress("building the environment image (once for these dependencies)")
                self._make(base, plan, tag)
                found = get_image(self.client, tag)
        if found is None:
            raise ImageError(
                f"the environment image {tag} vanished right after it was built", hint="try again"
            )
        # Commands may hold secrets: they are told to the user, and not written into the image.
        notes = json.loads(found.labels.get(NOTES, "[]"))
        return str(found.id), (*notes, *(f"setup command: {each}" for each in self.spec.setup))

    def _make(self, base: str, plan: DependencyPlan, tag: str) -> None:
        folder = posixpath.join(REPO, self.spec.subdirectory).rstrip("/")
        with build_container(
            self.client, base, self.settings, own_image=self.own, guard=self.guard
        ) as builder:
            builder.container.put(WORKSPACE, tree_archive(self.tree, "repo"))
            notes = Installer(builder, plan, folder, self.progress).install()
            _run_setup(builder, self.spec.setup, folder, self.progress)
            generated = "0" if self.own else _finish(builder)
            image_labels = {
                labels.ROLE: labels.ROLE_ENV,
                labels.RECIPE: tag.rpartition(":")[2],
                labels.CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
                NOTES: json.dumps(notes),
                GENERATED: generated,
            }
            builder.commit(tag, image_labels)


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
        hint=HINT,
    )
    counted = builder.run(["sh", "-c", _KEEP_GENERATED], workdir=REPO, doing="keeping generated files")
    return counted.split()[-1]


def _own_image(build: _Build, command: TestCommand) -> Environment:
    """The user's image as it is, or with system packages and the setup commands on top."""
    spec, settings = build.spec, build.settings
    if spec.dockerfile is not None:
        image = built_image(build.client, settings, build.tree, spec.dockerfile, build.progress)
        notes = ["the image of the given Dockerfile is used; dependencies are not installed"]
    else:
        image = named_image(build.client, spec.image or "")
        notes = [f"the given image {spec.image} is used; dependencies are not installed"]
    image = build.with_packages(image, notes)
    if spec.setup:
        nothing = DependencyPlan(False, "", (), (), (), "0.0.0")
        image, built = build.cached(image, nothing)
        notes += built
    if command.framework == "pytest":
        python = find_python(build.client, settings, image, build.guard)
        command = replace(command, argv=(python, *command.argv[1:]))
    return _environment(image, command, spec, (*command.notes, *notes))
