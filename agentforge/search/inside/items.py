"""One collected test: its id, its run, and what an exception tells."""

from __future__ import annotations

import os
from typing import Any


def test_id(item: Any, root: str) -> str:
    """`path/below/root.py::rest`, whatever pytest's own rootdir is."""
    path = os.path.relpath(str(item.path), root)
    _, sep, rest = item.nodeid.partition("::")
    return path + sep + rest if sep else path


def run_item(item: Any, following: Any) -> tuple[str, Any]:
    """Setup, call and teardown of one collected test: (outcome, exception or None)."""
    import pytest

    if getattr(item, "_request", None) is False:
        item._initrequest()
    if hasattr(item, "_excinfo"):
        item._excinfo = []
    outcome, error = "passed", None
    try:
        item.ihook.pytest_runtest_setup(item=item)
        item.ihook.pytest_runtest_call(item=item)
        _raise_kept(item)
    except pytest.skip.Exception:
        outcome = "skipped"
    except BaseException as raised:
        outcome, error = "failed", raised
    try:
        item.ihook.pytest_runtest_teardown(item=item, nextitem=following)
    except BaseException as raised:
        outcome, error = "failed", error or raised
    return outcome, error


def _raise_kept(item: Any) -> None:
    """unittest hands its failures to pytest, which keeps them until a report is made: raise the first."""
    kept = getattr(item, "_excinfo", None)
    if kept:
        raise kept[0].value


def describe(error: BaseException, root: str) -> dict[str, Any]:
    """Type, message and the frames of the repository, outermost first."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(root + "/"):
            frames.append([path[len(root) + 1 :], trace.tb_lineno, trace.tb_frame.f_code.co_name])
        trace = trace.tb_next
    try:
        message = str(error)[:2000]
    except BaseException:
        message = ""
    return {"exception": type(error).__name__, "message": message, "frames": frames[-40:]}


def brief(error: Any) -> str:
    """How a test ended, short enough to send for every candidate: type and the message's beginning."""
    if error is None:
        return ""
    try:
        message = str(error)[:160]
    except BaseException:
        message = ""
    return f"{type(error).__name__}: {message}"


def frames_of(frame: Any, root: str) -> list[list[Any]]:
    """The repository's frames of a running stack, outermost first."""
    frames: list[list[Any]] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(root + "/"):
            frames.append([frame.f_code.co_filename[len(root) + 1 :], frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    return frames[:40][::-1]
