"""One ledger over a batch: what is reserved for running trials counts as spent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agentforge.core.errors import LimitReached


@dataclass(frozen=True)
class Claim:
    """US dollars that one trial may spend; None: no limit. `tight`: less than the user's own limit for one
    instance, so that a trial that ends on it says nothing of the candidate."""

    usd: float | None
    tight: bool = False


class Purse:
    """`limit` and `per_trial` in US dollars (None: none), `spent` by earlier processes of the batch.

    Without a limit for one instance the trials that may run at once share what is left evenly; with one,
    a trial waits until it can have that much, and takes what is left only when nothing else runs.
    """

    def __init__(
        self, limit: float | None, per_trial: float | None, *, slots: int, spent: float = 0.0
    ) -> None:
        self.limit, self.per_trial, self.spent = limit, per_trial, spent
        self._slots = slots
        self._held: list[Claim] = []
        self._changed = asyncio.Condition()

    @property
    def held(self) -> float:
        return sum(claim.usd or 0.0 for claim in self._held)

    async def claim(self) -> Claim:
        """Money for one trial, as soon as there is some. Raises `LimitReached` where none will come."""
        async with self._changed:
            while (found := self._available()) is None:
                await self._changed.wait()
            self._held.append(found)
            return found

    async def settle(self, claim: Claim, cost: float) -> None:
        """The trial is over and has cost that much; what it left is free again."""
        async with self._changed:
            self._held.remove(claim)
            self.spent += cost
            self._changed.notify_all()

    def _available(self) -> Claim | None:
        """None: wait for a running trial to give something back."""
        if self.limit is None:
            return Claim(self.per_trial)
        free = self.limit - self.spent - self.held
        if free <= 0:
            if self._held:
                return None
            raise LimitReached(
                "cost",
                f"the batch's cost limit of ${self.limit:g} is reached: ${self.spent:.4f} spent",
                hint="raise --max-cost and go on with --resume",
            )
        if self.per_trial is None:
            return Claim(free / max(1, self._slots - len(self._held)), tight=True)
        if free < self.per_trial:
            return None if self._held else Claim(free, tight=True)
        return Claim(self.per_trial)
