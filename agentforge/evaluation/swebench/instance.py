"""From an instance to a task: a tree without history, in a repository of one commit, and the agent's image.

Nothing here takes a `Row`: whoever makes a task has no way to the gold patch, the tests or the script
that runs them. Later commits, which hold the fix, are in no repository and no image the agent meets.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import AgentForgeError, EnvironmentFault, ImageError, RepositoryError
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree
from agentforge.evaluation.swebench.rows import Instance
from agentforge.repo.intake import open_repository
from agentforge.repo.workspace import GitWorkspace
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.builder import Progress
from agentforge.sandbox.container import Guard
from agentforge.sandbox.engine import connect, engine_errors
from agentforge.sandbox.instance_image import agent_image, python_of, read_checkout

RUNNERS = {"django/django": "python tests/runtests.py --parallel 1"}
"""Projects whose own runner no file of theirs names; every other one is detected."""
REPORTED_FROM = (3, 7)
"""What our reporter for pytest needs; older environments run theirs as one command with a JUnit report."""
JUNIT = ".agentforge-junit.xml"
OLD_PYTEST = f"env python -m pytest -p no:cacheprovider --junitxml={JUNIT}"
_OTHER_IMAGE = "pull or build it, or name another one with --image-map"


class ImageMissing(ImageError):
    """The image of an instance is not here and cannot be had."""


def _nobody(image: str) -> None:
    """Nobody removes it later."""


@dataclass(frozen=True)
class Premises:
    """Where an instance's tree comes from. `mirrors` is a folder of repositories `owner__name`, each a
    local clone; None takes the tree from the image. `pull` fetches an image that is not here."""

    settings: SandboxSettings
    mirrors: Path | None = None
    pull: bool = True
    pulled: Callable[[str], None] = _nobody
    """Told of an image as soon as it was fetched; called from a thread."""


@dataclass(frozen=True)
class Prepared:
    """The tree that is to be repaired and the image its tests run in; `pulled`: it was not here before."""

    tree: Tree
    image: str
    pulled: bool = False
    python: tuple[int, int] = (0, 0)


async def prepare(instance: Instance, premises: Premises, scratch: Path, progress: Progress) -> Prepared:
    """Raises `ImageError` where the image cannot be had or is another instance's, `RepositoryError`."""
    guard = Guard()
    work = asyncio.ensure_future(asyncio.to_thread(_prepare, instance, premises, scratch, guard, progress))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.to_thread(guard.abort)
        with contextlib.suppress(AgentForgeError):
            await work
        raise


@contextlib.contextmanager
def repository(tree: Tree, scratch: Path) -> Iterator[Path]:
    """A bare repository whose one commit is `tree`; gone afterwards. Blocks."""
    with GitWorkspace(tree, scratch) as workspace:
        yield workspace.git_dir


def task_of(
    instance: Instance, source: str, image: str, *, hints: bool = False, python: tuple[int, int] = (0, 0)
) -> RepairTask:
    """The issue as it was written; `hints` adds what was said under it later."""
    text = instance.problem_statement
    if hints and instance.hints.strip():
        text = f"{text.rstrip()}\n\nComments on the issue:\n\n{instance.hints}"
    title = instance.problem_statement.strip().partition("\n")[0].strip()[:200]
    runner = RUNNERS.get(instance.repo)
    old = runner is None and (0, 0) < python < REPORTED_FROM
    return RepairTask(
        repository=RepositoryRef(source=source),
        issue=Issue(text=text, title=title, source=instance.instance_id),
        image=image,
        test_command=OLD_PYTEST if old else runner,
        junit=JUNIT if old else "",
    )


def _prepare(
    instance: Instance, premises: Premises, scratch: Path, guard: Guard, progress: Progress
) -> Prepared:
    client = connect()
    try:
        pulled = False
        if get_image(client, instance.image) is None:
            pull_image(instance.image, pull=premises.pull, progress=progress)
            pulled = True
            premises.pulled(instance.image)
        if premises.mirrors is not None:
            tree = _mirrored(instance, premises.mirrors, scratch)
        else:
            tree = read_checkout(client, premises.settings, instance.image, instance.base_commit, guard).tree
        image = agent_image(client, premises.settings, instance.image, guard, progress)
        return Prepared(tree, image, pulled, python_of(client, image))
    finally:
        client.close()


def pull_image(name: str, *, pull: bool, progress: Progress) -> None:
    """Fetch an image that is not here. Raises `ImageMissing`. Blocks."""
    if not pull:
        raise ImageMissing(f"the image {name} is not on this machine", hint=_OTHER_IMAGE)
    progress(f"pulling {name}")
    client = connect(3600)
    try:
        with engine_errors(f"pulling {name}"):
            client.images.pull(name)
    except EnvironmentFault as error:
        raise ImageMissing(f"the image {name} cannot be had: {error.what}", hint=_OTHER_IMAGE) from error
    finally:
        client.close()


def _mirrored(instance: Instance, mirrors: Path, scratch: Path) -> Tree:
    owner, _, name = instance.repo.partition("/")
    places = [mirrors / f"{owner}__{name}{end}" for end in ("", ".git")]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise RepositoryError(f"no mirror of {instance.repo} in {mirrors}", hint=f"clone it to {places[0]}")
    folder = scratch / f"mirror-{instance.instance_id}"
    folder.mkdir(parents=True)
    return open_repository(RepositoryRef(source=str(found), revision=instance.base_commit), folder).tree
