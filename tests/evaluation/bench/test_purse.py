"""One ledger over the batch: what is reserved counts, and a trial waits rather than overspends."""

from __future__ import annotations

import asyncio

import pytest

from agentforge.core.errors import LimitReached
from agentforge.evaluation.bench.purse import Claim, Purse


async def test_without_a_limit_each_trial_has_its_own_or_none() -> None:
    assert await Purse(None, 0.5, slots=2).claim() == Claim(0.5)
    assert await Purse(None, None, slots=2).claim() == Claim(None)


async def test_workers_together_never_reserve_more_than_the_batch_has() -> None:
    purse = Purse(1.0, None, slots=3)
    claims = [await purse.claim() for _ in range(3)]
    assert sum(claim.usd or 0 for claim in claims) == pytest.approx(1.0)
    fourth = asyncio.ensure_future(purse.claim())
    await asyncio.sleep(0.01)
    assert not fourth.done(), "everything is reserved"
    await purse.settle(claims[0], 0.1)
    assert (await fourth).usd == pytest.approx(1 / 3 - 0.1)
    assert purse.spent + purse.held <= 1.0 + 1e-9


async def test_a_trial_waits_for_its_whole_allowance_and_takes_a_rest_only_when_nothing_runs() -> None:
    purse = Purse(1.0, 0.6, slots=2)
    first = await purse.claim()
    assert first == Claim(0.6)
    second = asyncio.ensure_future(purse.claim())
    await asyncio.sleep(0.01)
    assert not second.done(), "0.4 are left, 0.6 are wanted"
    await purse.settle(first, 0.3)
    assert await second == Claim(0.6)
    await purse.settle(await second, 0.6)
    rest = await purse.claim()
    assert rest.usd == pytest.approx(0.1)
    assert rest.tight


async def test_what_earlier_processes_spent_counts() -> None:
    with pytest.raises(LimitReached, match=r"\$2 is reached: \$2\.5000 spent"):
        await Purse(2.0, None, slots=1, spent=2.5).claim()
