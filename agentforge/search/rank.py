"""Order among plausible candidates: likelier shape, smaller change, more at home in its file."""

from __future__ import annotations

import difflib
import math
import re

from agentforge.search.source import Edit, Source

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|[^\w\s]")
BEHAVIOUR_COST = 1.0
"""For a repair that changes every result that passing tests see; in part for a part."""
TOKEN_COST = 0.08
STRANGE_COST = 0.3
ANTI_PATTERN_COST = 0.7
"""For edits that make a test pass by taking behaviour away (anti-patterns of Tan et al., FSE 2016)."""


def naturalness(edit: Edit, source: Source, suspicion: float) -> float:
    """A log-scale score, greater is better: prior of the operator, suspicion, size, familiar tokens."""
    old = TOKEN.findall(source.data[edit.start : edit.end].decode())
    new = TOKEN.findall(edit.new.decode())
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    changed = sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")
    known = set(TOKEN.findall(source.data.decode()))
    strange = sum(2 if token.isdigit() else 1 for token in new if token not in known)
    prior = math.log(max(edit.weight, 1e-3)) + math.log(max(suspicion, 1e-3))
    cost = TOKEN_COST * changed + STRANGE_COST * strange
    return prior - cost - (ANTI_PATTERN_COST if takes_away(edit) else 0.0)


def behaviour_cost(kept: float | None) -> float:
    """The price of results that change in tests that passed before; `kept` as `compare` gives it."""
    return 0.0 if kept is None else BEHAVIOUR_COST * (1.0 - kept)


def takes_away(edit: Edit) -> bool:
    """Whether the edit only removes a statement or a test, or decides a condition once and for all."""
    if edit.operator in ("delete", "drop-condition"):
        return True
    return edit.operator == "condition" and edit.new in (b"True", b"False")
