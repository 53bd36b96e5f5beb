"""What memory shows to an agent: lessons, fixes of similar issues and refuted attempts, within a budget.

Lessons are the shortest and come first; then *similar issue → what fixed it*; then what failed. A past
patch is given by its changed lines alone: its context belongs to another place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentforge.agents.context import clip
from agentforge.core.retrieval import Episode, FailedAttempt, Retrieved
from agentforge.models.ledger import estimate_tokens

MAX_TOKENS = 1200
"""Of the planner's prompt: past fixes are hints, the code at hand is what counts."""
_MAX_LESSONS = 3
_MAX_WARNINGS = 3
_LIKE_THE_BEST = 0.5
"""An episode less than half as similar as the best one says nothing that the best does not."""
_SMALLEST = 40
_LESSON_TOKENS = 60
_ABOUT_TOKENS = 90


@dataclass(frozen=True)
class Recalled:
    """Lessons; (issue, changed lines) of fixes; (why it was refused, changed lines) of failed attempts."""

    lessons: tuple[str, ...] = ()
    fixes: tuple[tuple[str, str], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()


def recall(retrieved: Retrieved, tokens: int = MAX_TOKENS) -> Recalled:
    """What of `retrieved` fits into `tokens`, the most useful first; nothing where there is no room."""
    left = min(tokens, MAX_TOKENS)
    lessons = []
    for insight in retrieved.insights[:_MAX_LESSONS]:
        lesson = clip(insight.lesson, _LESSON_TOKENS)
        if (cost := estimate_tokens(lesson) + 2) <= left:
            lessons.append(lesson)
            left -= cost
    fixes = _fitting([_fix(one) for one in _similar(retrieved.episodes)], left * 3 // 4)
    left -= sum(map(_cost, fixes))
    warnings = _fitting([_warning(one) for one in retrieved.warnings[:_MAX_WARNINGS]], left)
    return Recalled(tuple(lessons), fixes, warnings)


def changed_lines(patch: str) -> str:
    """The names of the files and the changed lines of a unified diff, without its context."""
    return "\n".join(_changed(patch))


def _changed(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        if line.startswith("+++ "):
            yield line.removeprefix("+++ ").removeprefix("b/")
        elif line.startswith("@@"):
            yield f"@@{line.rpartition('@@')[2]}"
        elif line.startswith(("+", "-")) and not line.startswith("--- "):
            yield line


def _similar(episodes: Sequence[Episode]) -> list[Episode]:
    best = max((one.score for one in episodes), default=0.0)
    return [one for one in episodes if one.score >= _LIKE_THE_BEST * best]


def _fix(episode: Episode) -> tuple[str, str]:
    about = clip(episode.issue.strip(), _ABOUT_TOKENS)
    if episode.summary:
        about = f"{about}\nWhat was wrong: {clip(episode.summary.strip(), _ABOUT_TOKENS)}"
    return about, changed_lines(episode.patch)


def _warning(attempt: FailedAttempt) -> tuple[str, str]:
    tests = f" ({', '.join(attempt.tests[:3])})" if attempt.tests else ""
    return clip(f"{attempt.reason or 'refused'}{tests}", _ABOUT_TOKENS), changed_lines(attempt.patch)


def _fitting(pairs: Sequence[tuple[str, str]], tokens: int) -> tuple[tuple[str, str], ...]:
    """The first pairs that fit; the last of them may be clipped, but not to a stump."""
    kept: list[tuple[str, str]] = []
    for about, patch in pairs:
        left = tokens - sum(map(_cost, kept)) - estimate_tokens(about)
        if left < _SMALLEST:
            break
        kept.append((about, clip(patch, left)))
    return tuple(kept)


def _cost(pair: tuple[str, str]) -> int:
    return estimate_tokens(pair[0]) + estimate_tokens(pair[1])
