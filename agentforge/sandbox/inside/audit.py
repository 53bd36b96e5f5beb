"""Says when code of the repository reaches for the means by which a reporter could be found or bent.

An audit hook cannot be removed, and it speaks before the operation happens: what was said cannot be
taken back. Nothing is refused here. The gate asks whether the base did the same.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable  # noqa: UP035

WATCHED = frozenset({
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.settrace", "sys.setprofile",
    "sys._current_frames", "ctypes.dlopen", "ctypes.dlsym", "ctypes.cdata", "ctypes.string_at",
})  # fmt: skip
FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
PLACES = ("/proc/", "/dev/fd")
LISTINGS = frozenset({"open", "os.listdir", "os.scandir"})


def watch(root: str, tell: Callable[[list[str]], None]) -> None:
    """From now on `tell` the name of each watched operation and the file of `root` that did it, once."""
    here, library = root + "/", os.path.dirname(os.__file__) + os.sep  # noqa: PTH120
    packages = os.sep + "site-packages" + os.sep
    mine, getframe, getpid = os.getpid(), sys._getframe, os.getpid
    told: set[str] = set()
    busy = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        name, through_library = wanted(event, arguments)
        if not name or busy:
            return
        busy = True
        try:
            # Frame 0 is the hook; a watched function written in C has none of its own.
            place = caller(getframe(1), through_library)
            what = f"{name} in {place}"
            if place and what not in told and getpid() == mine:
                told.add(what)
                tell([what])
        finally:
            busy = False

    def caller(frame: Any, through_library: bool) -> str:
        """The file of the tree that asked, "" where an installed package or the library did."""
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(here):
                return str(path[len(here) :])
            inside = path.startswith(library) and packages not in path
            if not (inside and (through_library or path.endswith("inspect.py"))):
                return ""
            frame = frame.f_back
        return ""

    sys.addaudithook(hook)


def wanted(event: str, arguments: tuple[Any, ...]) -> tuple[str, bool]:
    """The name to report, and whether asking by way of the standard library counts."""
    if event in WATCHED:
        return event, True
    if event == "sys._getframe":
        return event, False
    if event == "object.__getattr__" and len(arguments) > 1 and arguments[1] in FRAMES:
        return str(arguments[1]), False
    if event in LISTINGS and arguments and isinstance(arguments[0], str) and _is_secret(arguments[0]):
        return f"{event} of {arguments[0][:40]}", True
    return "", False


def _is_secret(path: str) -> bool:
    return path.startswith(PLACES) and ("/fd" in path or path.endswith("/mem"))
