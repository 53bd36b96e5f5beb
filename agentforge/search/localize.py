"""Fault localization: which lines to suspect, and why.

Spectrum-based suspiciousness with the Ochiai coefficient (Abreu, Zoeteweij and van Gemund 2006),
raised by the frames of the failures' tracebacks and by what the issue names.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentforge.search.batch import Observation
from agentforge.search.source import FUNCTIONS, Source

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
DEFINITION_SHARE = 0.4
"""A function's `def` line is suspected this much of its most suspicious line (defaults live there)."""


@dataclass(frozen=True)
class SuspiciousLine:
    """`score` is between 0 and about 2, higher is more suspicious; `why` is for people."""

    path: str
    line: int
    score: float
    why: tuple[str, ...] = ()


def ochiai(failed_here: int, passed_here: int, failed_total: int) -> float:
    """failed(s) / sqrt(total failed * (failed(s) + passed(s))); 0 where nothing failed here."""
    below = math.sqrt(failed_total * (failed_here + passed_here))
    return failed_here / below if below else 0.0


def localize(
    observations: Sequence[Observation],
    targets: Iterable[str],
    sources: Mapping[str, Source],
    issue_text: str = "",
) -> list[SuspiciousLine]:
    """Lines of `sources` that failing `targets` ran, most suspicious first.

    Statements over several lines are suspected on each of their lines; a function that ran is
    suspected at its `def` line too.
    """
    wanted = set(targets)
    failing = [o for o in observations if o.test in wanted and not o.passed]
    passing = [o for o in observations if o.passed and o.test not in wanted]
    failed, passed = tally(failing, sources), tally(passing, sources)
    marks: dict[tuple[str, int], list[str]] = {place: [] for place in failed}
    scores = {place: ochiai(n, passed.get(place, 0), len(failing)) for place, n in failed.items()}
    for place, count in failed.items():
        marks[place].append(f"run by {count} failing and {passed.get(place, 0)} passing tests")
    raise_by_frames(failing, scores, marks)
    raise_by_names(issue_text, sources, scores, marks)
    lines = [
        SuspiciousLine(path, line, round(s, 4), tuple(marks[path, line]))
        for (path, line), s in scores.items()
    ]
    return sorted(lines, key=lambda item: (-item.score, item.path, item.line))


def tally(observations: Iterable[Observation], sources: Mapping[str, Source]) -> dict[tuple[str, int], int]:
    """How many observations ran each line of `sources`."""
    groups = {path: spread(source) for path, source in sources.items()}
    counts: dict[tuple[str, int], int] = {}
    for seen in observations:
        places = {(path, line) for path in groups if path in seen.lines for line in seen.lines[path]}
        wide = {(path, line) for path, start in places for line in groups[path].get(start, (start,))}
        for place in wide:
            counts[place] = counts.get(place, 0) + 1
    return counts


def spread(source: Source) -> dict[int, tuple[int, ...]]:
    """A line -> all lines of the simple statement, or the header of the compound one, it belongs to."""
    found: dict[int, tuple[int, ...]] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) or not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        end = body[0].lineno - 1 if body else node.end_lineno
        lines = tuple(range(node.lineno, max(node.lineno, end or 0) + 1))
        for line in lines:
            found[line] = lines
    return found


def raise_by_frames(
    failing: Sequence[Observation],
    scores: dict[tuple[str, int], float],
    marks: dict[tuple[str, int], list[str]],
) -> None:
    """The innermost repository frames of a failure are more suspicious, the last one most."""
    for seen in failing:
        own = [(path, line) for path, line, _ in seen.frames if (path, line) in scores]
        for depth, place in enumerate(dict.fromkeys(reversed(own[-5:]))):
            scores[place] += 0.5 / (1 + depth) / max(1, len(failing)) * min(3, len(failing))
            marks[place].append(f"in the traceback of {seen.test}: {seen.exception}")


def raise_by_names(
    issue_text: str,
    sources: Mapping[str, Source],
    scores: dict[tuple[str, int], float],
    marks: dict[tuple[str, int], list[str]],
) -> None:
    """Functions that the issue names count more; the `def` lines of suspects are suspected a little."""
    words = set(IDENTIFIER.findall(issue_text))
    for path, source in sources.items():
        for node in ast.walk(source.tree):
            if not isinstance(node, FUNCTIONS):
                continue
            inside = [(path, n) for n in range(node.body[0].lineno, (node.end_lineno or 0) + 1)]
            present = [place for place in inside if place in scores]
            if not present:
                continue
            best = max(scores[place] for place in present)
            for line in range(node.lineno, node.body[0].lineno):
                scores.setdefault((path, line), best * DEFINITION_SHARE)
                marks.setdefault((path, line), []).append(f"defines {node.name}")
            if node.name in words:
                for place in present:
                    scores[place] *= 1.3
                    marks[place].append(f"the issue names {node.name}")
