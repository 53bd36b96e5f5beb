"""What goes to a language model and what comes back."""

from __future__ import annotations

from typing import Any, Literal

from agentforge.core.base import Frozen


class Message(Frozen):
    role: Literal["system", "user", "assistant"]
    content: str


class ModelRequest(Frozen):
    """One completion to be made. `agent` is the role that asks; `model` None means the agent's default."""

    agent: str
    messages: tuple[Message, ...]
    model: str | None = None
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    json_schema: dict[str, Any] | None = None


class Usage(Frozen):
    """Tokens by the endpoint's own count; None where it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class Completion(Frozen):
    """The answer. `cost_usd` None means the price is unknown, which is not zero."""

    text: str
    model: str
    finish_reason: str = "stop"
    usage: Usage = Usage()
    cost_usd: float | None = None
    latency_s: float = 0.0
    retries: int = 0


class Spend(Frozen):
    """What a run has used so far. `unpriced_calls` had no known price and are not in `cost_usd`."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
