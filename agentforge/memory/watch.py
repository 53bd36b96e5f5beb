"""Keep the tree of a working directory current while people and programs edit it."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import RepositoryError
from agentforge.core.tree import Tree, TreeFile
from agentforge.memory.facts import is_indexed
from agentforge.memory.scan import IgnoreRules, Scan, read_source, scan_directory, walk

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

_EXHAUSTED = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE})
_MAX_TOP_WATCHES = 64
_INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
_INOTIFY_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
_READING = frozenset({"opened", "closed_no_write"})
_INSIDE = frozenset({"modified", "attrib"})
"""Events of a folder that only say something in it changed, which has an event of its own."""
_LONGEST_BURST = 20
_MANY_FILES = 20_000
_RULE_FILES = (".gitignore",)
Changed = Callable[[frozenset[str]], None]


class LiveTree:
    """The tree of `root`, updated by watchdog; `changed(paths)` is called after each settled burst.

    A burst is events that follow each other within `debounce_s` seconds. An event says only *where*
    something happened: what is there now is read when the burst settles, so it does not matter how an
    editor saves (in place, or beside and renamed) or in which order events come. Where the kernel has no
    watches left, the directory is polled every `poll_s` seconds, said once through `warn`.
    """

    def __init__(
        self,
        root: Path,
        changed: Changed,
        warn: Callable[[str], None],
        *,
        debounce_s: float = 0.1,
        poll_s: float = 2.0,
    ) -> None:
        self.root = root.resolve()
        self._changed = changed
        self._warn = warn
        self._debounce_s = debounce_s
        self._poll_s = poll_s
        self._rules = IgnoreRules(self.root)
        self._scan = Scan(Tree({}), ())
        self._dirty: set[str] = set()
        self._events = 0
        self._overflow = _number(_INOTIFY_QUEUE, 16_384) // 2
        self._wake = threading.Condition()
        self._stopping = False
        self._observer: BaseObserver | None = None
        self._watched: dict[str, tuple[int, int]] = {}
        self._worker = threading.Thread(target=self._settle_bursts, name="agentforge-watch", daemon=True)
        self.polling = False

    @property
    def tree(self) -> Tree:
        """The tree as of the last settled burst."""
        return self._scan.tree

    @property
    def skipped(self) -> dict[str, str]:
        """Files left out, and why."""
        return self._scan.skipped

    def start(self) -> None:
        """Watch first, then read, so that nothing between the two is missed. Raises `RepositoryError`."""
        first = scan_directory(self.root, self._rules)
        self._observe(first)
        self._scan = scan_directory(self.root, self._rules)
        self._worker.start()

    def stop(self) -> None:
        """Stop watching; returns when no thread of ours is left."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
        if self._worker.is_alive():
            self._worker.join()

    def __enter__(self) -> LiveTree:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _observe(self, scan: Scan) -> None:
        from watchdog.observers import Observer

        # An emitter that is stopped in mid-read complains to nobody's handler, which means to stderr.
        logging.getLogger("watchdog.observers").addHandler(logging.NullHandler())
        try:
            if len(scan.directories) > _watch_limit():
                raise OSError(errno.ENOSPC, "more directories than inotify watches")
            self._observer = self._started(Observer(), scan)
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self._warn(
                f"no file watches are left ({error.strerror}), so {self.root} is polled every "
                f"{self._poll_s:g} s; raise fs.inotify.max_user_watches or max_user_instances"
            )
            self.polling = True
            self._observer = self._started(self._polling_observer(), scan)

    def _started(self, observer: BaseObserver, scan: Scan) -> BaseObserver:
        """Watch the root by itself and each folder in it with all below: not `.git`, not what is ignored."""
        try:
            top = [folder for folder in scan.directories if folder and "/" not in folder]
            if self.polling or len(top) > _MAX_TOP_WATCHES:
                observer.schedule(self._handler(), str(self.root), recursive=True)
            else:
                observer.schedule(self._handler(), str(self.root), recursive=False)
                for folder in top:
                    stat = os.lstat(self.root / folder)
                    self._watched[folder] = (stat.st_dev, stat.st_ino)
                    observer.schedule(self._handler(), str(self.root / folder), recursive=True)
            observer.start()
        except OSError:
            observer.unschedule_all()
            raise
        return observer

    def _polling_observer(self) -> BaseObserver:
        from watchdog.observers.polling import PollingObserverVFS

        return PollingObserverVFS(stat=os.lstat, listdir=self._list_unignored, polling_interval=self._poll_s)

    def _list_unignored(self, folder: str | None) -> Any:
        place = Path(folder or ".")
        with os.scandir(place) as entries:
            for entry in entries:
                path = self._relative(entry.path)
                if path is not None and not self._rules.ignores_entry(path, directory=entry.is_dir()):
                    yield entry

    def _handler(self) -> Any:
        from watchdog.events import FileSystemEventHandler

        note = self._note

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                note(event)

        return Handler()

    def _note(self, event: FileSystemEvent) -> None:
        self._events += 1
        if event.event_type in _READING or (event.is_directory and event.event_type in _INSIDE):
            return
        places = {self._relative(os.fsdecode(p)) for p in (event.src_path, event.dest_path) if p}
        if event.is_directory and event.event_type in ("deleted", "moved"):
            self._watched.pop(self._relative(os.fsdecode(event.src_path)) or "", None)
        wanted = {place for place in places if place and self._matters(place, event.is_directory)}
        if not wanted:
            return
        with self._wake:
            self._dirty |= wanted
            self._wake.notify_all()

    def _matters(self, path: str, directory: bool) -> bool:
        if path.rpartition("/")[2] in _RULE_FILES:
            return True
        known = path in self._scan.tree.files or directory
        return known or (is_indexed(path) and not self._rules.ignores(path))

    def _relative(self, place: str) -> str | None:
        try:
            path = Path(place).relative_to(self.root).as_posix()
        except ValueError:
            return None
        return path if path != "." else None

    def _settle_bursts(self) -> None:
        while self._wait_for_burst():
            with self._wake:
                dirty, self._dirty = self._dirty, set()
                events, self._events = self._events, 0
            # The kernel drops events when its queue is full, and watchdog does not tell: after a burst
            # that may have filled it, nothing that was heard is trusted.
            changed = self._refresh(dirty, everything=events >= self._overflow)
            if changed:
                self._changed(changed)

    def _wait_for_burst(self) -> bool:
        """Wait until something happened and then nothing for a while; False when told to stop."""
        with self._wake:
            self._wake.wait_for(lambda: self._dirty or self._stopping)
            end = time.monotonic() + _LONGEST_BURST * self._debounce_s
            while not self._stopping and time.monotonic() < end and self._wake.wait(self._debounce_s):
                pass
            return not self._stopping

    def _refresh(self, dirty: set[str], *, everything: bool = False) -> frozenset[str]:
        """Read what is now at the dirty places (or everywhere); the paths whose content differs."""
        before = self._scan.tree.files
        try:
            if everything or any(path.rpartition("/")[2] in _RULE_FILES for path in dirty):
                self._rescan()
            else:
                changes: dict[str, TreeFile | None] = {}
                for path in dirty:
                    changes.update(self._look(path))
                changes.update(dict.fromkeys(self._vanished()))
                self._scan.tree = self._scan.tree.with_changes(changes)
        except (OSError, RepositoryError) as error:
            self._warn(f"{self.root} cannot be read: {error}")
            self._scan.tree = self._scan.tree.with_changes(dict.fromkeys(self._vanished()))
        after = self._scan.tree.files
        return frozenset(path for path in {*before, *after} if before.get(path) != after.get(path))

    def _vanished(self) -> list[str]:
        """Files that are gone: a move from one watched folder to another is told of its source late."""
        files = self._scan.tree.files
        if len(files) > _MANY_FILES:
            return []
        return [path for path in files if not os.path.lexists(self.root / path)]

    def _rescan(self) -> None:
        """The ignore rules changed or events were lost: anything may have come or gone."""
        known = set(self._scan.directories)
        self._rules = IgnoreRules(self.root)
        self._scan = scan_directory(self.root, self._rules)
        for folder in set(self._scan.directories) - known:
            self._watch_new(folder)

    def _look(self, path: str) -> dict[str, TreeFile | None]:
        below = f"{path}/"
        gone = [old for old in self._scan.tree.files if old == path or old.startswith(below)]
        found: dict[str, TreeFile | None] = dict.fromkeys(gone)
        place = self.root / path
        if self._rules.ignores(path, directory=place.is_dir()):
            return found
        if place.is_dir() and not place.is_symlink():
            self._watch_new(path)
            paths = [inner for inner, kind in walk(self.root, self._rules, {}, path) if kind == "file"]
        else:
            paths = [path] if is_indexed(path) else []
        found.update((inner, read_source(self.root, inner, self._scan.skipped)) for inner in paths)
        return found

    def _watch_new(self, folder: str) -> None:
        """A new folder in the root needs a watch of its own; deeper ones are watched already."""
        observer = self._observer
        if "/" in folder or self.polling or observer is None:
            return
        place = str(self.root / folder)
        try:
            stat = os.lstat(place)
            if self._watched.get(folder) == (stat.st_dev, stat.st_ino):
                return
            # A folder that was deleted and made again has a dead watch under the same name.
            for old in [emitter.watch for emitter in observer.emitters if emitter.watch.path == place]:
                observer.unschedule(old)
            self._watched[folder] = (stat.st_dev, stat.st_ino)
            observer.schedule(self._handler(), place, recursive=True)
        except OSError as error:
            self._warn(f"{place} cannot be watched: {error.strerror}")


def _watch_limit() -> int:
    """How many directories one user may watch; half of it is left to others."""
    return _number(_INOTIFY_LIMIT, 8192) // 2


def _number(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return otherwise
