"""What is to be repaired: repository, issue and the user's wishes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen
from agentforge.core.problem import Problem


class Issue(Frozen):
    """The issue as text. `source` says where it came from: "text", "file:…", "stdin" or a URL."""

    text: str
    title: str = ""
    source: str = "text"


class RepositoryRef(Frozen):
    """Where the repository is: a local path (may be a subdirectory of one) or a git URL."""

    source: str
    revision: str | None = None
    include_uncommitted: bool = False
    addresses: tuple[str, ...] = ()
    """Where the host of an https URL may be asked, and no redirect is followed; () for anywhere."""


class RepairTask(Frozen):
    """Repository + base + issue, and what the user adds. Paths are relative to the repository's root."""

    repository: RepositoryRef
    issue: Issue
    subdirectory: str = ""
    target_tests: tuple[str, ...] = ()
    test_command: str | None = None
    setup: tuple[str, ...] = ()
    image: str | None = None
    apt: tuple[str, ...] = ()
    """Debian packages of the environment."""
    dockerfile: str | None = None
    """Text of a Dockerfile that makes the image; excludes `image`."""
    junit: str = ""
    """Where the test command leaves a JUnit report, "" for nowhere."""
    tests_scope: Literal["related", "all"] = "all"
    problem: Problem | None = None
    """The problem whose small repository this is; None for a repository of the user's."""


class Limits(Frozen):
    """Ceilings of one run; `None` means none. Money in US dollars, time in seconds."""

    max_cost_usd: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_calls: int | None = Field(default=None, ge=0)
    time_limit_s: float | None = Field(default=None, gt=0)
