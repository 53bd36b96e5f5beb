"""Embeddings on the run's ledger."""

from __future__ import annotations

from collections.abc import Sequence

from agentforge.core.errors import LimitReached
from agentforge.models.ledger import EMBEDDING, Charge, Ledger, Reservation

SHARE = 0.1
"""Of each limit: memory helps a repair and must not eat what the repair itself needs."""


class MemoryMeter:
    """The `Meter` of the memory of one run: what its embeddings cost is on the run's `ledger`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told = 0

    def reserve(self, model: str, tokens: int) -> Reservation:
        """Claim one request. Raises `LimitReached`, or `UsageError` for a cost limit without a price."""
        claim = self._ledger.reserve(model, tokens, 0, EMBEDDING)
        limits, used = self._ledger.limits, self._charges()
        spent = sum(charge.prompt_tokens for charge in used) + tokens
        cost = sum(charge.cost_usd or 0.0 for charge in used) + (claim.cost_usd or 0.0)
        for kind, limit, value in (("tokens", limits.max_tokens, spent), ("cost", limits.max_cost_usd, cost)):
            if limit is not None and value > SHARE * limit:
                claim.release()
                raise LimitReached(kind, f"embeddings may use {SHARE:.0%} of the limit of {limit:g} ({kind})")
        return claim

    def drain(self) -> tuple[Charge, ...]:
        """What was billed since the last time."""
        charges = self._charges()
        fresh, self._told = charges[self._told :], len(charges)
        return tuple(fresh)

    def _charges(self) -> Sequence[Charge]:
        return [charge for charge in self._ledger.charges if charge.agent == EMBEDDING]
