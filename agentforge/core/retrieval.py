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


class Retrieved(Frozen):
    """Top-k of both stores (AgentForge, III-C: k = 5)."""

    symbols: tuple[Symbol, ...] = ()
    episodes: tuple[Episode, ...] = ()
