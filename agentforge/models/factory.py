"""From settings to a model that is limited, recorded or replayed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

from agentforge.config.settings import AgentName, Settings
from agentforge.core.base import Frozen
from agentforge.core.chat import Message, ModelRequest
from agentforge.core.errors import ConfigError, ModelError
from agentforge.core.redact import Redactor
from agentforge.models.client import OpenAIModel
from agentforge.models.endpoint import endpoint_url
from agentforge.models.errors import EmptyAnswerError, UnknownModelError
from agentforge.models.ledger import Ledger
from agentforge.models.prices import embedding_prices, prices_for
from agentforge.models.record import CallListener, CallRecord, MeteredModel, RecordingModel
from agentforge.models.replay import ReplayModel
from agentforge.models.resume import ResumedModel


class EndpointReport(Frozen):
    """What a check of the endpoint found. `listed` None: the endpoint does not list its models."""

    base_url: str
    model: str
    models: tuple[str, ...] = ()
    listed: bool | None = None
    latency_s: float = 0.0


def build_ledger(settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> Ledger:
    """The ledger of one run: limits and prices of `settings`; its time starts now.

    Raises `UsageError` at once where a cost limit is set and the price of a configured model is unknown.
    """
    prices = {**prices_for(settings.model), **embedding_prices(settings)}
    ledger = Ledger(settings.limits, prices, monotonic)
    for model in sorted({settings.model.name, *(model_for(settings, agent) for agent in settings.agents)}):
        ledger.check_price(model)
    return ledger


def build_model(
    settings: Settings,
    ledger: Ledger,
    *,
    record: Path | None = None,
    listener: CallListener | None = None,
    replay: Path | None = None,
    reopened: Mapping[int, CallRecord | None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> MeteredModel:
    """The model of one run: live, or answering from the calls.jsonl at `replay`; recorded where asked.

    `listener` needs `record`: it is the recorder that counts calls. With `reopened` the run is resumed:
    what `record` answers is not asked again, but for the calls in `reopened`.
    """
    redactor = build_redactor(settings)
    model: MeteredModel
    if replay is not None:
        model = ReplayModel(replay, ledger, redactor=redactor)
    else:
        agents = {str(name): overrides for name, overrides in settings.agents.items()}
        model = OpenAIModel(settings.model, ledger, agents=agents, redactor=redactor, sleep=sleep)
    if record is None:
        return model
    recording = RecordingModel(model, record, ledger, listener, redactor=redactor, reopened=reopened)
    if reopened is None:
        return recording
    return ResumedModel(record, recording, ledger, listener, reopened=reopened, redactor=redactor)


def build_redactor(settings: Settings) -> Redactor:
    """Knows the configured secrets by value, others by shape."""
    secrets = (settings.model.api_key, settings.github_token, settings.memory.embedding_api_key)
    return Redactor([secret.get_secret_value() for secret in secrets if secret is not None])


def model_for(settings: Settings, agent: str) -> str:
    """The name of the model that `agent` uses."""
    overrides = settings.agents.get(cast(AgentName, agent))
    return overrides.model if overrides is not None and overrides.model else settings.model.name


async def check_endpoint(settings: Settings) -> EndpointReport:
    """One cheap request: the list of models or, where there is none, an answer of one token.

    Raises `EndpointError` where the endpoint cannot be used, `ConfigError` for a bad URL.
    """
    redactor = build_redactor(settings)
    model = OpenAIModel(settings.model, Ledger(), redactor=redactor)
    started = time.monotonic()
    models: tuple[str, ...] = ()
    try:
        models = await model.list_models()
    except UnknownModelError:
        await _one_token(model)
    return EndpointReport(
        base_url=redactor.text(endpoint_url(settings.model)),
        model=settings.model.name,
        models=models,
        listed=settings.model.name in models if models else None,
        latency_s=round(time.monotonic() - started, 3),
    )


async def model_card(settings: Settings, timeout_s: float = 15.0) -> dict[str, Any] | None:
    """What the endpoint says of the configured model, of the only one where it has no other.

    None where it does not list its models or cannot be asked: a card describes, it decides nothing.
    """
    model = OpenAIModel(settings.model, Ledger(), redactor=build_redactor(settings))
    try:
        async with asyncio.timeout(timeout_s):
            cards = await model.model_cards()
    except (ModelError, ConfigError, TimeoutError):
        return None
    own = [card for card in cards if card.get("id") == settings.model.name] or list(cards)
    return own[0] if len(own) == 1 else None


async def _one_token(model: OpenAIModel) -> None:
    hello = (Message(role="user", content="Say ok."),)
    try:
        await model.complete(ModelRequest(agent="doctor", messages=hello, max_tokens=1))
    except EmptyAnswerError:
        return
