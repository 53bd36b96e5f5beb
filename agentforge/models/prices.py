"""What a token costs, where that is known. Unknown is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import yaml

from agentforge.config.settings import ModelSettings, Price, Settings
from agentforge.models.endpoint import endpoint_url


def prices_for(settings: ModelSettings) -> dict[str, Price]:
    """Price by model name: the built-in ones of the endpoint's vendor, overridden by `model.prices`."""
    host = urlsplit(endpoint_url(settings)).hostname or ""
    return {**_built_in(host), **settings.prices}


def embedding_prices(settings: Settings) -> dict[str, Price]:
    """The price of the embedding model at its own endpoint, where that is known."""
    url, name = settings.memory.embedding_base_url, settings.memory.embedding_model
    if url is None or name in settings.model.prices:
        return {}
    known = _built_in(urlsplit(url).hostname or "")
    return {name: known[name]} if name in known else {}


def cost_usd(
    price: Price | None, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0
) -> float | None:
    """Dollars for one call; `cached_tokens` are part of `prompt_tokens`, at their own price if known."""
    if price is None:
        return None
    cached = min(cached_tokens, prompt_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    millionths = (
        (prompt_tokens - cached) * price.input + cached * cached_price + completion_tokens * price.output
    )
    return millionths / 1_000_000


def _built_in(host: str) -> dict[str, Price]:
    text = resources.files("agentforge.models").joinpath("prices.yaml").read_text(encoding="utf-8")
    vendors: Mapping[str, Any] = yaml.safe_load(text)
    found: dict[str, Price] = {}
    for vendor in vendors.values():
        if host in vendor["hosts"]:
            found |= {name: Price(**row) for name, row in vendor["models"].items()}
    return found
