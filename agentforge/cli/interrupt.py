"""Ctrl-C, SIGTERM and SIGHUP while something asynchronous runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from agentforge.core.errors import ExitCode

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST = b"\ninterrupting: containers are being removed (once more to stop at once)\n"
_SHOW_CURSOR = b"\x1b[?25h"


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end. The first signal cancels it, the second ends the process at once.

    Raises KeyboardInterrupt when the cancelled work brought no result.
    """
    return asyncio.run(_supervise(work))


async def _supervise(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    with _signals_cancel(task):
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


@contextmanager
def _signals_cancel(task: asyncio.Future[Any]) -> Iterator[None]:
    loop = task.get_loop()
    seen: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        seen.append(signum)
        if len(seen) > 1:
            _say(_SHOW_CURSOR if os.isatty(2) else b"")
            os._exit(ExitCode.INTERRUPTED)
        _say(_FIRST)
        loop.call_soon_threadsafe(task.cancel)

    before = {
        number: signal.signal(number, interrupt)
        for number in SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: bytes) -> None:
    """On stderr, from a signal handler; that nobody reads it must not stop what is being done."""
    with suppress(OSError):
        os.write(2, text)
