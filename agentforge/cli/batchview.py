"""The view of a running batch, on stderr: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TextIO

from agentforge.cli.failures import reader_may_leave
from agentforge.cli.sanitize import one_line
from agentforge.cli.view import REFRESHES_PER_SECOND, error_console
from agentforge.cli.words import describe, plural, seconds
from agentforge.core.events import Event, Notice
from agentforge.evaluation.bench.batch import Key
from agentforge.evaluation.bench.protocol import TrialSpec
from agentforge.evaluation.bench.summary import outcomes, paid_rows, verdict
from agentforge.evaluation.trials import TrialRow

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from agentforge.evaluation.bench.runner import Watcher


@contextmanager
def watching_batch(*, stream: bool) -> Iterator[Watcher]:
    """A watcher, live when stderr is a terminal and `stream` is wanted."""
    console = error_console()
    if stream and console.is_terminal and not console.is_dumb_terminal:
        from rich.live import Live

        view = LiveBatch(console)
        with Live(
            get_renderable=view.__rich__,
            console=console,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND / 2,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield view
    else:
        yield PlainBatch(sys.stderr)


class Progress:
    """What both views show. Times in seconds, cost in US dollars."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self.start = clock, clock()
        self.planned: frozenset[Key] = frozenset()
        self.rows: dict[Key, TrialRow] = {}
        self.every: list[TrialRow] = []
        self.workers = 1
        self._begun: dict[int, float] = {}
        self._took: list[float] = []

    @property
    def elapsed(self) -> float:
        return self._clock() - self.start

    @property
    def done(self) -> int:
        return sum(row.status in ("final", "ungraded") for row in self.rows.values())

    @property
    def passed(self) -> int:
        return sum(row.passed and row.status == "final" for row in self.rows.values())

    @property
    def cost(self) -> float:
        return sum(row.cost_usd or 0.0 for row in paid_rows(self.every))

    def left_s(self) -> float | None:
        """Expected seconds to the end, by the mean of the trials so far; None before the first."""
        if not self._took:
            return None
        left = len(self.planned) - self.done
        return left * sum(self._took) / len(self._took) / max(1, min(self.workers, left))

    def opened(self, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        self.planned, self.workers = frozenset(planned), workers
        self.rows = {(row.problem, row.trial): row for row in rows}
        self.every = list(rows)

    def started(self, worker: int) -> None:
        self._begun[worker] = self._clock()

    def finished(self, worker: int | None, row: TrialRow) -> None:
        self.rows[row.problem, row.trial] = row
        self.every.append(row)
        began = self._begun.pop(worker, None) if worker is not None else None
        if began is not None:
            self._took.append(self._clock() - began)


class PlainBatch:
    """One line when a trial starts and one when it ends."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._progress = out, Progress(clock)

    def opened(self, folder: Path, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        self._progress.opened(planned, rows, workers)
        done, at_work = self._progress.done, plural(workers, "worker")
        self._say(f"{plural(len(planned), 'trial')} in {folder}, {done} done already, {at_work}")

    def phase(self, text: str) -> None:
        self._say(text)

    def started(self, worker: int, spec: TrialSpec) -> None:
        self._progress.started(worker)
        self._say(f"{'goes on with' if spec.resumes else 'starts'} {named(spec.task.id, spec.trial)}", worker)

    def event(self, worker: int, event: Event) -> None:
        if isinstance(event, Notice) and event.level != "info":
            self._say(event.text, worker)

    def finished(self, worker: int | None, row: TrialRow) -> None:
        self._progress.finished(worker, row)
        progress = self._progress
        eta = progress.left_s()
        told = f"{named(row.problem, row.trial)}: {verdict(row)}, {spend_of(row)}"
        if row.status not in ("final", "ungraded"):
            told += f" ({why(row)})"
        told += f"  [{progress.done} of {len(progress.planned)}, {progress.passed} passed"
        told += f", ${progress.cost:.4f}"
        self._say(told + (f", {seconds(eta)} left]" if eta else "]"), worker)

    def _say(self, text: str, worker: int | None = None) -> None:
        who = "batch" if worker is None else f"worker {worker + 1}"
        with reader_may_leave():
            print(
                f"[{self._progress.elapsed:7.1f}s] {who:<9} {one_line(text, 400)}", file=self._out, flush=True
            )


class LiveBatch:
    """Bar, outcomes, cost and remaining time; below them what each worker does."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._progress, self._lock = console, Progress(clock), Lock()
        self._phase = "opening"
        self._trouble = ""
        self._lanes: dict[int, tuple[str, float, str]] = {}
        self._clock = clock

    def opened(self, folder: Path, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        with self._lock:
            self._progress.opened(planned, rows, workers)

    def phase(self, text: str) -> None:
        with self._lock:
            self._phase = text

    def started(self, worker: int, spec: TrialSpec) -> None:
        with self._lock:
            self._phase = ""
            self._progress.started(worker)
            self._lanes[worker] = (named(spec.task.id, spec.trial), self._clock(), "")

    def event(self, worker: int, event: Event) -> None:
        lines = [line for line in describe(event) if not line.detail]
        with self._lock:
            if lines and worker in self._lanes:
                name, began, _ = self._lanes[worker]
                self._lanes[worker] = (name, began, f"{lines[-1].who}: {lines[-1].text}")

    def finished(self, worker: int | None, row: TrialRow) -> None:
        with self._lock:
            self._progress.finished(worker, row)
            if row.status not in ("final", "ungraded"):
                self._trouble = f"{named(row.problem, row.trial)}: {why(row)}"
            if worker is not None:
                self._lanes.pop(worker, None)

    def __rich__(self) -> RenderableType:
        """Drawn by rich's refresh thread."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            progress, total = self._progress, len(self._progress.planned)
            bar = ProgressBar(
                total=max(total, 1), completed=progress.done, width=min(60, self._console.width)
            )
            head = Table.grid()
            head.add_row(bar)
            head.add_row(Text(self._footer(), "cyan", no_wrap=True))
            parts: list[RenderableType] = [head]
            if progress.rows:
                parts.append(self._table())
            if self._trouble:
                parts.append(Text(one_line(self._trouble, self._console.width), "yellow", no_wrap=True))
            if self._phase:
                parts.append(Text(one_line(self._phase, self._console.width), "dim", no_wrap=True))
            parts += [self._lane(worker) for worker in sorted(self._lanes)]
        return Group(*parts)

    def _footer(self) -> str:
        progress, eta = self._progress, self._progress.left_s()
        left = f" · about {seconds(eta)} left" if eta else ""
        return (
            f"{progress.done} of {plural(len(progress.planned), 'trial')} · {progress.passed} passed · "
            f"${progress.cost:.4f} · {seconds(progress.elapsed)}{left}"
        )

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for name, count in outcomes(self._progress.rows.values()).items():
            table.add_row(Text(name, "green" if name == "passed" else ""), Text(str(count)))
        return table

    def _lane(self, worker: int) -> RenderableType:
        from rich.text import Text

        name, began, doing = self._lanes[worker]
        text = f"{worker + 1} {name} {seconds(self._clock() - began)}  {doing}"
        return Text(f"▸ {one_line(text, max(self._console.width - 4, 20))}", no_wrap=True)


def named(task: str, trial: int) -> str:
    return f"{task} (trial {trial})" if trial else task


def why(row: TrialRow) -> str:
    """What is told of a trial that does not count."""
    return str((row.model_extra or {}).get("summary") or verdict(row))


def spend_of(row: TrialRow) -> str:
    """Calls, tokens and cost of one trial in words."""
    cost = "price unknown" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    return f"{plural(row.calls, 'call')}, {plural(row.tokens, 'token')}, {cost}, {seconds(row.wallclock)}"
