"""Money is reserved before and settled after; totals are sums (complaints 17 and 18)."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge.config.settings import ModelSettings, Price
from agentforge.core.chat import Message, Spend, Usage
from agentforge.core.errors import ExitCode, LimitReached, UsageError
from agentforge.core.task import Limits
from agentforge.models.ledger import (
    Charge,
    Ledger,
    Reservation,
    estimate_prompt_tokens,
    estimate_tokens,
    total_cost,
)
from agentforge.models.prices import cost_usd, prices_for
from tests.models.helpers import PRICE, ledger_with

counts = st.integers(min_value=0, max_value=100_000)


@pytest.mark.parametrize(
    ("prompt", "completion", "cached", "dollars"),
    [
        (0, 0, 0, 0.0),
        (1_000_000, 0, 0, 2.5),
        (0, 1_000_000, 0, 10.0),
        (1000, 200, 0, 0.0045),
        (1000, 200, 400, 0.004),
        (1000, 0, 1000, 0.00125),
        (10, 0, 5000, 0.0000125),
    ],
)
def test_complaint_18_cost_arithmetic(prompt: int, completion: int, cached: int, dollars: float) -> None:
    assert cost_usd(PRICE, prompt, completion, cached) == pytest.approx(dollars)


def test_cached_tokens_without_a_price_of_their_own_cost_as_others() -> None:
    assert cost_usd(Price(input=2, output=4), 1000, 0, 500) == pytest.approx(0.002)


def test_af43_built_in_prices_are_the_vendors_and_only_for_its_endpoint() -> None:
    vendor = prices_for(ModelSettings())
    assert (vendor["gpt-4o-2024-08-06"].input, vendor["gpt-4o-2024-08-06"].output) == (2.5, 10)
    assert vendor["gpt-4o-2024-08-06"].cached_input == 1.25
    assert prices_for(ModelSettings(base_url="http://127.0.0.1:8080/v1")) == {}
    assert prices_for(ModelSettings(base_url="https://elsewhere.example/v1")) == {}


def test_configured_prices_come_first() -> None:
    mine = Price(input=1, output=1)
    found = prices_for(ModelSettings(prices={"gpt-4o": mine, "local": mine}))
    assert found["gpt-4o"] == found["local"] == mine
    assert "gpt-4o-mini" in found


def test_complaint_18_an_unknown_price_is_not_zero() -> None:
    ledger = Ledger(Limits(), {})
    charge = ledger.reserve("free?", 10, 10).settle(Usage(prompt_tokens=5, completion_tokens=5))
    assert charge.cost_usd is None
    assert ledger.spend == Spend(calls=1, prompt_tokens=5, completion_tokens=5, unpriced_calls=1)
    assert total_cost([charge, Charge(agent="", model="", cost_usd=1.0)]) is None
    assert total_cost([]) is None


def test_a_cost_limit_without_a_price_is_a_usage_error() -> None:
    ledger = ledger_with(max_cost_usd=1)
    with pytest.raises(UsageError, match=r"'mystery'.*model\.prices") as caught:
        ledger.reserve("mystery", 1, 1)
    assert caught.value.exit_code == ExitCode.USAGE


def test_each_limit_stops_before_it_is_passed() -> None:
    for limits, name in (
        ({"max_calls": 1}, "calls"),
        ({"max_tokens": 399}, "tokens"),
        ({"max_cost_usd": 0.00249}, "cost"),
    ):
        ledger = ledger_with(**limits)
        ledger.reserve("scripted", 100, 100)
        with pytest.raises(LimitReached) as caught:
            ledger.reserve("scripted", 100, 100)
        assert caught.value.limit == name
        assert caught.value.exit_code == ExitCode.LIMIT
        assert caught.value.hint


@pytest.mark.parametrize("limits", [{"max_calls": 0}, {"max_tokens": 0}, {"max_cost_usd": 0}])
def test_a_limit_of_zero_allows_nothing(limits: dict[str, float]) -> None:
    with pytest.raises(LimitReached):
        ledger_with(**limits).reserve("scripted", 1, 1)


def test_the_time_limit_counts_from_the_start() -> None:
    moment = [100.0]
    ledger = Ledger(Limits(time_limit_s=60), {}, lambda: moment[0])
    assert ledger.remaining_s() == 60
    moment[0] = 159.0
    ledger.reserve("m", 1, 1)
    moment[0] = 160.0
    with pytest.raises(LimitReached, match="60 s") as caught:
        ledger.reserve("m", 1, 1)
    assert caught.value.limit == "time"
    assert ledger.remaining_s() == 0
    assert Ledger().remaining_s() is None


def test_a_claim_ends_once() -> None:
    ledger = ledger_with(max_calls=1)
    claim = ledger.reserve("scripted", 10, 10)
    claim.release()
    claim.settle(Usage(prompt_tokens=1, completion_tokens=1))
    claim.settle(Usage(prompt_tokens=1, completion_tokens=1))
    assert ledger.spend.calls == 0
    ledger.reserve("scripted", 10, 10)


def test_settling_frees_what_was_not_used() -> None:
    ledger = ledger_with(max_tokens=1000)
    ledger.reserve("scripted", 400, 500).settle(Usage(prompt_tokens=300, completion_tokens=1))
    ledger.reserve("scripted", 400, 299).release()
    with pytest.raises(LimitReached):
        ledger.reserve("scripted", 400, 300)


def test_the_answering_models_price_comes_before_the_asked_ones() -> None:
    ledger = Ledger(Limits(), {"alias": Price(input=1, output=1), "real": Price(input=2, output=2)})
    usage = Usage(prompt_tokens=500_000, completion_tokens=500_000)
    assert ledger.reserve("alias", 1, 1).settle(usage, model="real").cost_usd == 2
    assert ledger.reserve("alias", 1, 1).settle(usage, model="alias-2024").cost_usd == 1


def test_spend_by_agent_adds_up() -> None:
    ledger = ledger_with()
    for agent, tokens in (("planner", 5), ("coder", 7), ("coder", 11)):
        ledger.reserve("scripted", 1, 1, agent).settle(Usage(prompt_tokens=tokens, completion_tokens=1))
    by_agent = ledger.spend_by_agent()
    assert {agent: spend.prompt_tokens for agent, spend in by_agent.items()} == {"planner": 5, "coder": 18}
    assert by_agent["coder"].calls == 2


def test_estimates_are_high_and_never_nothing_for_something() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("x") == 1
    assert estimate_tokens("x" * 350) == 100
    assert estimate_tokens("日本語") >= 3
    assert estimate_prompt_tokens([Message(role="user", content="")]) > 0


@given(st.lists(st.tuples(counts, counts, counts, st.booleans(), st.booleans()), max_size=30))
def test_complaint_18_the_total_is_the_sum_over_calls(
    calls: list[tuple[int, int, int, bool, bool]],
) -> None:
    ledger = ledger_with()
    charges = [
        ledger.reserve("scripted" if priced else "other", prompt, completion).settle(
            Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)
            if reported
            else Usage(),
            streamed_tokens=completion,
        )
        for prompt, completion, cached, reported, priced in calls
    ]
    spend = ledger.spend
    assert spend.calls == len(calls)
    assert spend.prompt_tokens == sum(charge.prompt_tokens for charge in charges)
    assert spend.completion_tokens == sum(charge.completion_tokens for charge in charges)
    assert spend.unpriced_calls == sum(not priced for *_, priced in calls)
    known = [charge.cost_usd for charge in charges if charge.cost_usd is not None]
    assert spend.cost_usd == math.fsum(known)
    assert [charge.estimated for charge in charges] == [not reported for *_, reported, _ in calls]


steps = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3000),
        st.integers(0, 3000),
        st.sampled_from(["settle", "partial", "unreported", "release"]),
    ),
    max_size=40,
)


def _end(claim: Reservation, how: str, share: float) -> None:
    prompt, output = int(claim.prompt_tokens * share), int(claim.output_tokens * share)
    if how == "release":
        claim.release()
    elif how == "unreported":
        claim.settle(Usage(), streamed_tokens=output)
    elif how == "partial":
        claim.settle(Usage(prompt_tokens=prompt), streamed_tokens=output)
    else:
        claim.settle(Usage(prompt_tokens=prompt, completion_tokens=output))


def _within(ledger: Ledger) -> None:
    spend, limits = ledger.spend, ledger.limits
    assert limits.max_cost_usd is None or spend.cost_usd <= limits.max_cost_usd
    assert limits.max_tokens is None or spend.prompt_tokens + spend.completion_tokens <= limits.max_tokens
    assert limits.max_calls is None or spend.calls <= limits.max_calls


@given(steps, st.floats(0, 0.2), st.integers(0, 20_000), st.integers(0, 12), st.floats(0, 1))
def test_complaint_17_no_limit_is_passed_whatever_the_outcomes_and_their_order(
    plan: list[tuple[int, int, int, str]], dollars: float, tokens: int, calls: int, share: float
) -> None:
    """Calls overlap: a claim is ended up to three steps after it was made."""
    ledger = ledger_with(max_cost_usd=dollars, max_tokens=tokens, max_calls=calls)
    waiting: list[tuple[int, Reservation, str]] = []
    for step, (lag, prompt, output, how) in enumerate(plan):
        for due in [entry for entry in waiting if entry[0] <= step]:
            waiting.remove(due)
            _end(due[1], due[2], share)
        try:
            waiting.append((step + lag, ledger.reserve("scripted", prompt, output), how))
        except LimitReached:
            continue
        _within(ledger)
    for _, claim, how in waiting:
        _end(claim, how, share)
    _within(ledger)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32))
def test_threads_share_one_ledger(seed: int) -> None:
    ledger = ledger_with(max_tokens=5000, max_calls=40)
    start = threading.Barrier(4)

    def work(worker: int) -> int:
        choose, refused = random.Random(seed + worker), 0
        start.wait()
        for _ in range(30):
            try:
                claim = ledger.reserve("scripted", choose.randrange(200), choose.randrange(200))
            except LimitReached:
                refused += 1
                continue
            _end(claim, choose.choice(["settle", "partial", "unreported", "release"]), choose.random())
        return refused

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    _within(ledger)
    assert ledger.spend.calls == len(ledger.charges)


async def test_tasks_share_one_ledger() -> None:
    ledger = ledger_with(max_calls=5)

    async def call() -> bool:
        try:
            claim = ledger.reserve("scripted", 1, 1)
        except LimitReached:
            return False
        await asyncio.sleep(0)
        claim.settle(Usage(prompt_tokens=1, completion_tokens=1))
        return True

    done = await asyncio.gather(*(call() for _ in range(12)))
    assert sum(done) == ledger.spend.calls == 5
