"""Containers made ahead: started, limits asserted, the base tree in place, pytest loaded and waiting.

Each serves one execution and is then removed, off the caller's path. They carry their owner's
labels like any other container, so the reaper finds those of a process that was killed.
"""

from __future__ import annotations

import logging
import posixpath
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agentforge.core.errors import EnvironmentFault
from agentforge.core.ports import Environment
from agentforge.core.tree import Tree
from agentforge.sandbox.archive import tree_archive
from agentforge.sandbox.container import Container, Guard, dispose
from agentforge.sandbox.limits import REPO
from agentforge.sandbox.overlay import Overlay, overlay
from agentforge.sandbox.provision import Provisioner
from agentforge.sandbox.session import WaitingSession, inside_files

logger = logging.getLogger(__name__)
_WORKERS = 2


@dataclass(frozen=True)
class Recipe:
    """What is made ahead: one image, one base tree (packed once), one way to start tests."""

    environment: Environment
    tree: Tree
    archive: bytes

    @property
    def workdir(self) -> str:
        return posixpath.join(REPO, self.environment.workdir).rstrip("/")

    def serves(self, environment: Environment) -> bool:
        mine = self.environment
        return (mine.image, mine.workdir, mine.test_command[0]) == (
            environment.image,
            environment.workdir,
            environment.test_command[0],
        )


@dataclass(frozen=True)
class Waiting:
    """A container that waits for its one execution, and what makes its tree the candidate's."""

    box: Container
    session: WaitingSession
    changes: Overlay


class WarmPool:
    """At most `size` waiting containers. Thread-safe; threads exist from the first `stock` on."""

    def __init__(self, provisioner: Provisioner, size: int) -> None:
        self._provisioner = provisioner
        self._size = size
        self._guard = Guard()
        self._changed = threading.Condition()
        self._ready: deque[tuple[Container, WaitingSession]] = deque()
        self._making = 0
        self._recipe: Recipe | None = None
        self._closed = False
        self._workers: ThreadPoolExecutor | None = None

    def stock(self, environment: Environment, tree: Tree) -> None:
        """Make containers for `environment` with `tree` as base, in the background."""
        if environment.framework != "pytest":
            return
        with self._changed:
            known = self._recipe
            if self._closed or (known and known.serves(environment) and known.tree.digest == tree.digest):
                return
            self._recipe = Recipe(environment, tree, tree_archive(tree, "repo"))
            stale = self._drain()
        for box in stale:
            self.dispose_later(box, self._guard)
        self._top_up()

    def take(self, environment: Environment, tree: Tree, guard: Guard) -> Waiting | None:
        """A container for one execution, from now on watched by `guard`; None when none is ready."""
        recipe = self._recipe
        if recipe is None or not recipe.serves(environment):
            return None
        changes = overlay(recipe.tree, tree)
        found = self._pop(recipe) if changes is not None else None
        if found is None or changes is None:
            return None
        box, session = found
        self._guard.release(box)
        try:
            guard.watch(box)
        except BaseException:
            dispose(box, guard)
            raise
        return Waiting(box, session, changes)

    def _pop(self, recipe: Recipe) -> tuple[Container, WaitingSession] | None:
        """A waiting container that still lives."""
        while True:
            with self._changed:
                if not self._ready or recipe is not self._recipe:
                    return None
                box, session = self._ready.popleft()
            if session.is_alive:
                return box, session
            self.dispose_later(box, self._guard)

    def dispose_later(self, box: Container, guard: Guard) -> None:
        """Remove a container in the background, then make another in its place."""
        with self._changed:
            workers = None if self._closed else self._crew()
            if workers is not None:
                workers.submit(self._dispose, box, guard)
        if workers is None:
            dispose(box, guard)
        self._top_up()

    def wait_ready(self, count: int, timeout_s: float) -> bool:
        """Block until `count` containers wait; False when none are made, or not in time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) >= count or self._recipe is None, timeout_s)
            return len(self._ready) >= count

    def close(self) -> None:
        """Remove everything and end the threads; what others hold is theirs to dispose of."""
        with self._changed:
            self._closed = True
            left = self._drain()
            workers = self._workers
        self._guard.abort()
        for box in left:
            self._dispose(box, self._guard)
        if workers is not None:
            workers.shutdown(wait=True)

    def _drain(self) -> list[Container]:
        left = [box for box, _ in self._ready]
        self._ready.clear()
        return left

    def _crew(self) -> ThreadPoolExecutor:
        if self._workers is None:
            self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="sandbox-pool")
        return self._workers

    def _top_up(self) -> None:
        with self._changed:
            recipe = self._recipe
            while recipe and not self._closed and len(self._ready) + self._making < self._size:
                self._making += 1
                self._crew().submit(self._make, recipe)

    def _make(self, recipe: Recipe) -> None:
        made: tuple[Container, WaitingSession] | None = None
        try:
            made = self._built(recipe)
        except EnvironmentFault as error:
            # Not worth a word to the user: the execution itself will meet the same fault, or none.
            logger.info("no container was made ahead: %s", error)
        with self._changed:
            self._making -= 1
            kept = made is not None and not self._closed and recipe is self._recipe
            if kept and made is not None:
                self._ready.append(made)
            elif made is None and recipe is self._recipe:
                self._recipe = None  # try no more with this one
            self._changed.notify_all()
        if made is not None and not kept:
            self._dispose(made[0], self._guard)

    def _built(self, recipe: Recipe) -> tuple[Container, WaitingSession]:
        box = self._provisioner.furnished(
            recipe.environment, recipe.tree, inside_files(), self._guard, archive=recipe.archive
        )
        try:
            session = WaitingSession(box, recipe.environment.test_command[0], recipe.workdir)
            if not session.is_pure():
                raise EnvironmentFault("the environment loads parts of the tree by itself")
        except BaseException:
            dispose(box, self._guard)
            raise
        return box, session

    def _dispose(self, box: Container, guard: Guard) -> None:
        try:
            dispose(box, guard)
        except EnvironmentFault as error:
            logger.warning("a container was left to the reaper: %s", error)
