"""What memory hands to the planner."""

from __future__ import annotations

from agentforge.core.base import Frozen


class Symbol(Frozen):
    """A piece of the repository with exact lines (1-based, inclusive) and why it was chosen."""

    path: str
    name: str
    kind: str
    start_line: int
    end_line: int
    text: str
    score: float = 0.0
    why: tuple[str, ...] = ()


class FailedAttempt(Frozen):
    """What was tried before the fix and refuted: the change, and the evidence against it."""

    patch: str
    reason: str = ""
    """Why the gate refused it, in one line."""
    tests: tuple[str, ...] = ()
    """Tests that failed with it."""


class Episode(Frozen):
    """A verified fix of the past: untrusted reference text for prompts."""

    id: str
    repository: str
    issue: str
    patch: str
    summary: str = ""
    tests: tuple[str, ...] = ()
    base: str = ""
    workflow: str = ""
    model: str = ""
    cost_usd: float | None = None
    created: str = ""
    score: float = 0.0
    plan: str = ""
    failures: tuple[str, ...] = ()
    """Types of the exceptions with which the target tests failed on the base."""
    attempts: tuple[FailedAttempt, ...] = ()
    retracted: str = ""
    """Why this fix is no longer believed, e.g. a later regression; such an episode is never retrieved."""


class Insight(Frozen):
    """A short general lesson from several episodes: untrusted reference text for prompts.

    `weight` (0..1) is how far to trust it: supporting episodes and later outcomes, counted with doubt.
    """

    id: str
    lesson: str
    failure: str = ""
    edit: str = ""
    episodes: tuple[str, ...] = ()
    opposed: int = 0
    """Verified repairs of the same failure by another kind of edit."""
    helped: int = 0
    misled: int = 0
    weight: float = 0.0
    created: str = ""
    retracted: str = ""
    score: float = 0.0


class Commit(Frozen):
    """A past change: what was said of it and which files it touched. `time` in seconds since 1970."""

    id: str
    time: int
    message: str
    paths: tuple[str, ...] = ()


class Retrieved(Frozen):
    """Top-k of the stores (AgentForge, III-C: k = 5)."""

    symbols: tuple[Symbol, ...] = ()
    episodes: tuple[Episode, ...] = ()
    insights: tuple[Insight, ...] = ()
    warnings: tuple[FailedAttempt, ...] = ()
    """What failed in similar situations."""
