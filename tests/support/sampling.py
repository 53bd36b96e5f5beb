"""What the everyday suite leaves to the exhaustive one, so that it stays quick."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

ALL = os.environ.get("EXHAUSTIVE_TESTS") == "1"
"""Set by `make exhaustive` and `make faults`."""


def everyday(cases: Sequence[Case], every: int) -> list[Case]:
    """Each `every`th case, the first one among them; all of them where all are wanted."""
    return list(cases if ALL else cases[::every])
