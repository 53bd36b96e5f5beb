"""Composes the prompt of an edit, the same for coder and debugger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentforge.agents.context import CodeView, Place, clip, code_views
from agentforge.agents.ladder import Refusal, Rung
from agentforge.agents.observed import describe_facts
from agentforge.agents.prompts import render
from agentforge.core.chat import Message
from agentforge.core.facts import Facts
from agentforge.core.tree import Tree
from agentforge.models.ledger import estimate_tokens

OVERHEAD_TOKENS = 600
"""What the fixed words of the longest edit prompt take."""
FACTS_SHARE = 0.12
"""What facts may take of the room; it comes off the code's share."""

_NAMES: dict[Rung, str] = {
    "diff": "a unified diff",
    "search_replace": "SEARCH/REPLACE",
    "symbol": "whole code",
}


@dataclass(frozen=True)
class EditPrompt:
    """Everything an edit prompt may say. Empty fields are left out of it.

    `failures` are failing calls in words, `diff` the candidate so far, `failed_places` edit places
    that did not help. `focus` is the one symbol to be rewritten on the last rung.
    """

    issue: str
    description: str
    tree: Tree
    places: tuple[Place, ...]
    focus: CodeView | None = None
    failures: str = ""
    diff: str = ""
    failed_places: tuple[str, ...] = ()
    wide: bool = False
    facts: Facts | None = None

    def compose(self, rung: Rung, refusals: tuple[Refusal, ...], budget: int) -> tuple[Message, ...]:
        """The messages for `rung`, within about `budget` tokens."""
        room = max(120, budget - OVERHEAD_TOKENS)
        if rung == "symbol" and self.focus is not None and _fits(self.focus, room):
            return self._symbol(self.focus, refusals, budget)
        return render(
            "edit",
            rung=rung,
            **self._common(room),
            diff=clip(self.diff, int(room * 0.12)),
            views=self._views(int(room * (0.45 if self.facts is None else 0.45 - FACTS_SHARE))),
            refusals=_quoted(refusals, int(room * 0.12)),
        )

    def _symbol(self, focus: CodeView, refusals: tuple[Refusal, ...], budget: int) -> tuple[Message, ...]:
        room = max(120, budget - OVERHEAD_TOKENS // 2)
        return render(
            "edit_symbol",
            **self._common(room),
            focus=focus,
            code=_with_owner(focus),
            noun=_noun(focus),
            others=self._others(focus, int(room * 0.2)) if self.wide else (),
            refusals=_quoted(refusals[-1:], int(room * 0.1)),
        )

    def _common(self, room: int) -> dict[str, object]:
        return {
            "issue": clip(self.issue, int(room * 0.25)),
            "description": clip(self.description, int(room * 0.05) + 40),
            "failures": clip(self.failures, int(room * 0.15)),
            "facts": describe_facts(self.facts, int(room * FACTS_SHARE)),
            "failed_places": self.failed_places,
        }

    def _views(self, tokens: int) -> tuple[CodeView, ...]:
        places = self.places
        if self.focus is not None:
            places = (Place(self.focus.path, self.focus.name), *places)
        return code_views(self.tree, places, tokens, small=6000 if self.wide else 1500)

    def _others(self, focus: CodeView, tokens: int) -> tuple[CodeView, ...]:
        views = code_views(self.tree, self.places, tokens, small=600)
        return tuple(
            view for view in views if not (view.path == focus.path and view.start <= focus.start <= view.end)
        )


def _with_owner(view: CodeView) -> str:
    """A method under its class line, so that the answer says which class it means."""
    return f"class {view.owner.rsplit('.', 1)[-1]}:\n{view.text}" if _is_method(view) else view.text


def _fits(view: CodeView, room: int) -> bool:
    """Whether a symbol can be shown whole and written whole; a huge one is edited in parts."""
    return estimate_tokens(view.text) <= room // 2


def _noun(view: CodeView) -> str:
    if view.whole or not view.start:
        return "file"
    return "class" if view.text.startswith("class ") else "function"


def _is_method(view: CodeView) -> bool:
    return bool(view.owner) and view.text[:1] in (" ", "\t")


def _quoted(refusals: Sequence[Refusal], tokens: int) -> list[dict[str, str]]:
    each = tokens // max(1, len(refusals))
    return [
        {
            "format": _NAMES[refusal.edit_format],
            "reason": str(refusal.reason),
            "path": refusal.path,
            "text": clip(refusal.text, each // 2 + 40),
            "closest": clip(refusal.closest, each // 2),
        }
        for refusal in refusals
    ]
