"""What `bench swebench` was asked, as data that can travel."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen


class SwebenchOptions(Frozen):
    """Paths are text. `predictions`: a file of patches to grade in place of the agent's."""

    dataset: str
    split: str = "test"
    complete_from: str | None = None
    hints: bool = False
    tests: Literal["related", "all"] = "related"
    """What a candidate must keep passing; whole suites of these projects rarely end within the limits."""
    keep_test_edits: bool = False
    image_map: str | None = None
    mirrors: str | None = None
    pull: bool = True
    predictions: str | None = None
    predict_only: bool = False
    check_gold: bool = False
    grade_workers: int = Field(default=1, ge=1)
    harness_timeout_s: int = Field(default=1800, ge=1)
