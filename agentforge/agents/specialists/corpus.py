"""Retrieval over the notes: our BM25, one corpus, one slice per specialist (MARS, 3).

The paper ranks by dense vectors; notes are so short and so full of terms of the trade that words do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING

from agentforge.agents.specialists.pool import Note, Pool, Specialist
from agentforge.memory.tokens import code_tokens

if TYPE_CHECKING:
    from agentforge.memory.postings import Bm25

BEST_NOTES = 8
"""How many of the corpus' best notes coverage is measured on."""


@dataclass(frozen=True)
class Match:
    """How well a specialist matches a task, without asking anyone (see `core.relay.Seat`)."""

    overlap: int
    coverage: float
    quality: float


@dataclass(frozen=True)
class Corpus:
    """The notes of a pool, searchable."""

    pool: Pool

    def search(self, specialist: Specialist, text: str, k: int = 3) -> tuple[Note, ...]:
        """The `k` best notes of the specialist's slice; those without any common word are left out."""
        own = self.pool.slice_of(specialist)
        ranked = [note for note, _ in self._ranked(text) if note.id in own]
        return tuple(ranked[:k])

    def best(self, text: str, k: int = 3) -> tuple[Note, ...]:
        """The `k` best notes of the whole pool."""
        return tuple(note for note, _ in self._ranked(text)[:k])

    def match(self, specialist: Specialist, text: str) -> Match:
        """Tag overlap, share of the corpus' best notes, and relative quality of the best own one."""
        ranked = self._ranked(text)
        own = self.pool.slice_of(specialist)
        best = ranked[:BEST_NOTES]
        quality = next((score for note, score in ranked if note.id in own), 0.0)
        return Match(
            overlap=_overlap(specialist.tags, text),
            coverage=round(sum(note.id in own for note, _ in best) / len(best), 6) if best else 0.0,
            quality=round(quality / ranked[0][1], 6) if ranked else 0.0,
        )

    def _ranked(self, text: str) -> list[tuple[Note, float]]:
        """All notes with a positive score, best first, ties by id."""
        if not self.pool.notes:
            return []
        known = self._vocabulary
        counts = Counter(known[token] for token in code_tokens(text) if token in known)
        scores = self._bm25.scores({token: 1 + log(count) for token, count in counts.items()})
        found = [
            (note, float(score)) for note, score in zip(self.pool.notes, scores, strict=True) if score > 0
        ]
        return sorted(found, key=lambda item: (-round(item[1], 9), item[0].id))

    @cached_property
    def _documents(self) -> list[list[str]]:
        # Title and tags twice: they say what the note is about, its text what it is made of.
        return [
            code_tokens(f"{note.title} {note.title} {' '.join(note.tags * 2)} {note.text}")
            for note in self.pool.notes
        ]

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        words = dict.fromkeys(token for document in self._documents for token in document)
        return {token: number for number, token in enumerate(words)}

    @cached_property
    def _bm25(self) -> Bm25:
        from agentforge.memory.postings import Bm25

        known = self._vocabulary
        return Bm25.of([Counter(known[token] for token in document) for document in self._documents])


def _overlap(tags: Iterable[str], text: str) -> int:
    """How many tags the text's words cover."""
    words = frozenset(code_tokens(text))
    return sum(bool(tokens := code_tokens(tag)) and words.issuperset(tokens) for tag in tags)
