"""The view of a running repair, on stderr: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from agentforge.cli.failures import reader_may_leave
from agentforge.cli.sanitize import neutralise, one_line
from agentforge.cli.words import Line, describe, search_text, seconds, spent
from agentforge.core import events
from agentforge.core.chat import Spend

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Listener = Callable[[events.Event], None]
TAIL_CHARACTERS = 4000
TAIL_LINES = 6
REFRESHES_PER_SECOND = 8
PLAIN_LINE = 400
"""Longest plain line, in characters."""


@contextmanager
def watching(*, stream: bool, verbose: bool = False) -> Iterator[Listener]:
    """A listener for events, live when stderr is a terminal and `stream` is wanted."""
    console = error_console()
    if stream and console.is_terminal and not console.is_dumb_terminal:
        with _live(LiveView(console, verbose=verbose)) as view:
            yield _unwatched(view)
    else:
        yield _unwatched(PlainView(sys.stderr, verbose=verbose))


def _unwatched(view: Listener) -> Listener:
    """`view`, whose reader may go away (`2> >(head)`): the run goes on without it."""

    def show(event: events.Event) -> None:
        with reader_may_leave():
            view(event)

    return show


def error_console() -> Console:
    """A console on stderr; colours only on a terminal, and not where NO_COLOR is set."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=False)


class PlainView:
    """One line per event, with the seconds since the start."""

    def __init__(
        self, out: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._verbose, self._clock = out, verbose, clock
        self._start = clock()
        self._stage = ""

    def __call__(self, event: events.Event) -> None:
        elapsed = self._clock() - self._start
        for line in describe(event):
            if self._verbose or not line.detail or self._new_stage(event):
                text = one_line(line.text, PLAIN_LINE)
                print(f"[{elapsed:6.1f}s] {one_line(line.who, 20):<9} {text}", file=self._out, flush=True)

    def _new_stage(self, event: events.Event) -> bool:
        """Search reports often: a stage is said once."""
        if not isinstance(event, events.SearchProgress) or event.stage == self._stage:
            return False
        self._stage = event.stage
        return True


class LiveView:
    """Lines that stay; below them a region is redrawn: who does what, the answer's tail, the cost."""

    def __init__(
        self, console: Console, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console = console
        self._verbose, self._clock = verbose, clock
        self._start = clock()
        self._lock = Lock()
        self._lanes: dict[str, str] = {}
        self._tails: dict[int, str] = {}
        """What is being written, by call; several may be at once."""
        self._calls: dict[int, str] = {}
        """The lanes of the calls that are under way."""
        self._spend = Spend()
        self.refresh: Callable[[], None] = _nothing
        """Redraws the region at once."""

    def __call__(self, event: events.Event) -> None:
        with self._lock:
            self._follow(event)
        lines = [line for line in describe(event) if self._verbose or not line.detail]
        if lines:
            self.refresh()  # else the lines would be printed above what is already past
        for line in lines:
            self.console.print(styled(line))

    def __rich__(self) -> RenderableType:
        """Drawn by rich's refresh thread."""
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            lanes, spend = dict(self._lanes), self._spend
            tail = next(iter(self._tails.values()), "")
        width = self.console.width
        rows = [_row(who, doing, width) for who, doing in lanes.items()]
        shown = [Text(f"  │ {line}"[:width], "dim", no_wrap=True) for line in tail_lines(tail, width)]
        footer = Text(f"{seconds(self._clock() - self._start)} · {spent(spend)}", "cyan", no_wrap=True)
        return Group(*rows, *shown, footer)

    def _follow(self, event: events.Event) -> None:
        match event:
            case events.Token():
                self._token(event)
            case events.ModelCallStarted():
                if not event.step:  # then it is the only one
                    self._tails.clear()
                lane = self._calls[event.call] = f"{event.agent} {event.step}".strip()
                self._lanes[lane] = f"waits for {event.model}"
            case events.StreamReset():
                self._tails.pop(event.call, None)
            case events.ModelCallFinished():
                self._spend = event.spend
                self._ended(event.call)
            case events.TestsStarted():
                self._lanes["tests"] = f"running on {event.subject} (scope {event.scope})"
            case events.TestsFinished():
                self._lanes.pop("tests", None)
            case events.SearchProgress():
                self._lanes["search"] = search_text(event)
            case events.NodeStarted():
                self._lanes.setdefault(event.node, "at work")
            case events.NodeFinished():
                for call in tuple(self._calls):  # one that failed has no end of its own
                    self._ended(call)
                self._lanes.pop(event.node, None)
                self._lanes.pop("search", None)

    def _token(self, event: events.Token) -> None:
        self._tails[event.call] = (self._tails.get(event.call, "") + event.text)[-TAIL_CHARACTERS:]
        self._lanes[self._calls.setdefault(event.call, event.agent)] = "writes"

    def _ended(self, call: int) -> None:
        self._lanes.pop(self._calls.pop(call, ""), None)
        self._tails.pop(call, None)


def styled(line: Line, limit: int = 2000) -> Any:
    """A line as rich text: never markup, control characters made visible."""
    from rich.text import Text

    text = Text()
    text.append(f"{one_line(line.who, 20):<9} ", "bold blue")
    text.append(one_line(line.text, limit), line.style)
    return text


def tail_lines(tail: str, width: int) -> list[str]:
    """The last lines of an answer that is being written, cut to the terminal."""
    return [
        line.expandtabs(4)[: max(width - 4, 10)]
        for line in neutralise(tail).split("\n")[-TAIL_LINES:]
        if line
    ]


def _row(who: str, doing: str, width: int) -> Any:
    from rich.text import Text

    lane = (f"{one_line(who, 20):<10}", "bold")
    return Text.assemble(("▸ ", "cyan"), lane, one_line(doing, max(width - 14, 10)), no_wrap=True)


@contextmanager
def _live(view: LiveView) -> Iterator[LiveView]:
    from rich.live import Live

    live = Live(
        get_renderable=view.__rich__,
        console=view.console,
        transient=True,
        refresh_per_second=REFRESHES_PER_SECOND,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with live:
        view.refresh = live.refresh
        yield view


def _nothing() -> None:
    """No region is shown."""
