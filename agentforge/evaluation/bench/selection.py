"""Which instances of a suite, in which order: named, filtered, shuffled, sliced; in this order."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from difflib import get_close_matches

from agentforge.core.base import Frozen
from agentforge.core.errors import UsageError
from agentforge.evaluation.bench.protocol import BenchTask


class Selection(Frozen):
    """`instances`: ids (or their last part); `pattern`: a regular expression searched in the id;
    `shuffle_seed`: None keeps the suite's order; `piece`: a Python slice `START:STOP[:STEP]`."""

    instances: tuple[str, ...] = ()
    pattern: str = ""
    shuffle_seed: int | None = None
    piece: str = ""


def select(tasks: Sequence[BenchTask], selection: Selection) -> tuple[BenchTask, ...]:
    """Raises `UsageError` for an unknown id, a bad pattern or slice, and where nothing is left."""
    chosen = [_named(tasks, name) for name in selection.instances] or list(tasks)
    chosen = list({task.id: task for task in chosen}.values())
    if selection.pattern:
        pattern = _compiled(selection.pattern)
        chosen = [task for task in chosen if pattern.search(task.id)]
    if selection.shuffle_seed is not None:
        random.Random(selection.shuffle_seed).shuffle(chosen)  # noqa: S311
    if selection.piece:
        chosen = chosen[_slice(selection.piece)]
    if not chosen:
        raise UsageError(
            f"none of {len(tasks)} instances is left", hint="widen --filter, --slice or --instances"
        )
    return tuple(chosen)


def _named(tasks: Sequence[BenchTask], name: str) -> BenchTask:
    found = [task for task in tasks if task.id == name] or [
        task for task in tasks if task.id.rpartition("/")[2] == name
    ]
    if len(found) == 1:
        return found[0]
    close = get_close_matches(name, [task.id for task in tasks], n=3, cutoff=0.4)
    what = f"no instance {name!r}" if not found else f"{name!r} names {len(found)} instances"
    raise UsageError(what, hint=f"did you mean {', '.join(close)}?" if close else "see --dry-run for all ids")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--filter {pattern!r} is no regular expression: {error}") from None


def _slice(text: str) -> slice:
    try:
        parts = [int(part) if part.strip() else None for part in text.split(":")]
        if not 2 <= len(parts) <= 3 or (len(parts) == 3 and parts[2] == 0):
            raise ValueError
    except ValueError:
        raise UsageError(f"--slice {text!r} is not START:STOP or START:STOP:STEP") from None
    return slice(*parts)
