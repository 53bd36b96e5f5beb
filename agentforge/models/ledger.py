"""One ledger over all agents and workers: money is reserved before a call and settled after it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from agentforge.config.settings import Price
from agentforge.core.base import Frozen
from agentforge.core.chat import Message, Spend, Usage
from agentforge.core.errors import LimitReached, UsageError
from agentforge.core.task import Limits
from agentforge.models.prices import cost_usd

CHARS_PER_TOKEN = 3.5
BYTES_PER_TOKEN = 2
MESSAGE_TOKENS = 8
EMBEDDING = "memory"
"""The agent under which embeddings are billed: they cost tokens and money and are no model calls."""
TEMPLATE_TOKENS = 32
"""Chat templates add a system message of their own where there is none."""


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, rather too many than too few: ASCII 3.5 characters a token, the rest 2 bytes.

    English and code have about 4 characters a token; an estimate is replaced by the endpoint's count.
    """
    if text.isascii():
        return math.ceil(len(text) / CHARS_PER_TOKEN)
    ascii_length = sum(character < "\x80" for character in text)
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - ascii_length
    return math.ceil(ascii_length / CHARS_PER_TOKEN + other_bytes / BYTES_PER_TOKEN)


def estimate_prompt_tokens(messages: Iterable[Message]) -> int:
    """As `estimate_tokens`, with what a chat template puts around each message."""
    return TEMPLATE_TOKENS + sum(MESSAGE_TOKENS + estimate_tokens(message.content) for message in messages)


class Charge(Frozen):
    """What one attempt was billed. `estimated`: the endpoint did not report (all of) it."""

    agent: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False


@dataclass
class CallAccount:
    """What one call needed: charges of all attempts, retries, and what the endpoint would not take."""

    charges: list[Charge] = field(default_factory=list)
    retries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def cost_usd(self) -> float | None:
        """Dollars of all attempts; None as soon as one has no known price."""
        return total_cost(self.charges)


def total_cost(charges: Iterable[Charge]) -> float | None:
    costs = [charge.cost_usd for charge in charges]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if costs and len(known) == len(costs) else None


class Reservation:
    """A claim on the limits. Ends exactly once, by `settle` or `release`; later endings change nothing."""

    def __init__(
        self, ledger: Ledger, agent: str, model: str, prompt_tokens: int, output_tokens: int
    ) -> None:
        self.agent = agent
        self.model = model
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.cost_usd = ledger.price(prompt_tokens, output_tokens, 0, model)
        self._ledger = ledger

    def settle(self, usage: Usage, *, streamed_tokens: int = 0, model: str | None = None) -> Charge:
        """Bill the attempt: by `usage` where reported, else prompt estimate and `streamed_tokens`.

        `model` is the name the endpoint answered with; its price comes before that of the name asked for.
        """
        prompt = self.prompt_tokens if usage.prompt_tokens is None else usage.prompt_tokens
        completion = streamed_tokens if usage.completion_tokens is None else usage.completion_tokens
        cached = usage.cached_tokens or 0
        charge = Charge(
            agent=self.agent,
            model=model or self.model,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            cost_usd=self._ledger.price(prompt, completion, cached, model or self.model, self.model),
            estimated=usage.prompt_tokens is None or usage.completion_tokens is None,
        )
        self._ledger.close(self, charge)
        return charge

    def release(self) -> None:
        """Nothing was billed."""
        self._ledger.close(self, None)


class Ledger:
    """Limits and spend of one run; safe for concurrent tasks and threads.

    Every attempt is reserved by its estimate (prompt estimate + largest output) and refused where spend and
    reservations in flight would pass a limit. The spend can pass a limit only by what the endpoint reports
    above the reservations in flight. The time limit counts from construction. `monotonic` gives seconds.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        prices: Mapping[str, Price] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self._prices = dict(prices or {})
        self._monotonic = monotonic
        self._started = monotonic()
        self._lock = threading.Lock()
        self._open: set[Reservation] = set()
        self._charges: list[Charge] = []

    def reserve(self, model: str, prompt_tokens: int, output_tokens: int, agent: str = "") -> Reservation:
        """Claim an attempt. Raises `LimitReached`, or `UsageError` for a cost limit without a price."""
        claim = Reservation(self, agent, model, prompt_tokens, output_tokens)
        self.check_price(model)
        with self._lock:
            self._check_time()
            if agent != EMBEDDING:
                self._check_calls()
            self._check_tokens(claim)
            self._check_cost(claim)
            self._open.add(claim)
        return claim

    def check_price(self, model: str) -> None:
        """Raise `UsageError` where a cost limit cannot be kept because the price of `model` is unknown."""
        if self.limits.max_cost_usd is not None and model not in self._prices:
            raise UsageError(
                f"a cost limit is set, but the price of model {model!r} is not known",
                hint="set model.prices (US dollars per million tokens), or limit tokens instead",
            )

    def price(
        self, prompt_tokens: int, completion_tokens: int, cached_tokens: int, *models: str
    ) -> float | None:
        """Dollars by the first of `models` with a known price; None where none has one."""
        found = next((self._prices[model] for model in models if model in self._prices), None)
        return cost_usd(found, prompt_tokens, completion_tokens, cached_tokens)

    def close(self, claim: Reservation, charge: Charge | None) -> None:
        """End `claim`; only the first ending counts."""
        with self._lock:
            if claim in self._open:
                self._open.remove(claim)
                if charge is not None:
                    self._charges.append(charge)

    def restore(self, charges: Iterable[Charge]) -> None:
        """Enter charges of a record (resume, replay), whatever the limits say."""
        with self._lock:
            self._charges.extend(charges)

    def narrow(self, share: float) -> Limits:
        """From now on only `share` (0 to 1) of what is left of tokens, money and calls; the limits so far."""
        before, spent = self.limits, self.spend
        used = spent.prompt_tokens + spent.completion_tokens
        self.limits = before.model_copy(
            update={
                "max_tokens": _part(before.max_tokens, used, share, int),
                "max_cost_usd": _part(before.max_cost_usd, spent.cost_usd, share, float),
                "max_calls": _part(before.max_calls, spent.calls, share, round),
            }
        )
        return before

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every billed attempt, in the order of settling."""
        with self._lock:
            return tuple(self._charges)

    @property
    def spend(self) -> Spend:
        """What has been used so far, by the endpoints' own counts where they gave any."""
        return spend_of(self.charges)

    def spend_by_agent(self) -> dict[str, Spend]:
        """`spend`, split by the agent that asked."""
        charges = self.charges
        agents = sorted({charge.agent for charge in charges})
        return {agent: spend_of([charge for charge in charges if charge.agent == agent]) for agent in agents}

    def remaining_s(self) -> float | None:
        """Seconds until the time limit, at least 0; None without one."""
        if self.limits.time_limit_s is None:
            return None
        return max(0.0, self._started + self.limits.time_limit_s - self._monotonic())

    def time_is_up(self) -> LimitReached:
        """The error that says so."""
        limit = self.limits.time_limit_s
        return LimitReached("time", f"the time limit of {limit:g} s is reached", hint="raise --time-limit")

    def _check_time(self) -> None:
        if self.remaining_s() == 0:
            raise self.time_is_up()

    def _check_calls(self) -> None:
        limit = self.limits.max_calls
        agents = [one.agent for one in self._charges] + [one.agent for one in self._open]
        made = sum(agent != EMBEDDING for agent in agents)
        if limit is not None and made + 1 > limit:
            raise LimitReached(
                "calls", f"the limit of {limit} model calls is reached", hint="raise --max-calls"
            )

    def _check_tokens(self, claim: Reservation) -> None:
        limit = self.limits.max_tokens
        if limit is None:
            return
        used = sum(charge.prompt_tokens + charge.completion_tokens for charge in self._charges)
        held = sum(other.prompt_tokens + other.output_tokens for other in self._open)
        wanted = claim.prompt_tokens + claim.output_tokens
        if used + held + wanted > limit:
            what = (
                f"the limit of {limit} tokens is reached: {used} used, {held} reserved, "
                f"the next call may need {wanted}"
            )
            raise LimitReached("tokens", what, hint="raise --max-tokens or lower model.max_output_tokens")

    def _check_cost(self, claim: Reservation) -> None:
        limit = self.limits.max_cost_usd
        if limit is None:
            return
        used = [charge.cost_usd or 0.0 for charge in self._charges]
        held = [other.cost_usd or 0.0 for other in self._open]
        if math.fsum([*used, *held, claim.cost_usd or 0.0]) > limit:
            what = (
                f"the cost limit of ${limit:g} is reached: ${math.fsum(used):.4f} used, "
                f"${math.fsum(held):.4f} reserved, the next call may cost ${claim.cost_usd or 0.0:.4f}"
            )
            raise LimitReached("cost", what, hint="raise --max-cost or lower model.max_output_tokens")


Number = TypeVar("Number", int, float)


def _part(
    limit: Number | None, used: Number, share: float, whole: Callable[[float], Number]
) -> Number | None:
    """The limit that leaves `share` of what is left."""
    return None if limit is None else used + whole(max(0.0, (limit - used) * share))


def spend_of(charges: Iterable[Charge]) -> Spend:
    """The sum of `charges`, whatever their order."""
    rows = tuple(charges)
    return Spend(
        calls=sum(row.agent != EMBEDDING for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cost_usd=math.fsum(row.cost_usd for row in rows if row.cost_usd is not None),
        unpriced_calls=sum(row.cost_usd is None for row in rows),
    )
