"""Vectors from an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import numpy as np

from agentforge.config.settings import MemorySettings
from agentforge.core.chat import Usage
from agentforge.core.errors import ConfigError, StoreError
from agentforge.core.redact import Redactor
from agentforge.memory.context import estimated_tokens
from agentforge.memory.embed import Embedder, HashedEmbedder

if TYPE_CHECKING:
    from openai.types import CreateEmbeddingResponse

MAX_TEXT_CHARS = 24_000
"""Some 8,000 tokens of code, the longest input of text-embedding-3-small."""
_BATCH = 128
_TIMEOUT_S = 60.0
_RETRIES = 2


class Claim(Protocol):
    """What one request may cost; ends once."""

    def settle(self, usage: Usage) -> object: ...

    def release(self) -> None: ...


class Meter(Protocol):
    """Counts what embeddings cost. `reserve` raises `LimitReached` where a limit of the run forbids more."""

    def reserve(self, model: str, tokens: int) -> Claim: ...


class _NoClaim:
    def settle(self, usage: Usage) -> None: ...

    def release(self) -> None: ...


class _Unmetered:
    def reserve(self, model: str, tokens: int) -> Claim:
        return _NoClaim()


def open_embedder(settings: MemorySettings, meter: Meter | None = None) -> Embedder:
    """The endpoint where one is configured, the offline default otherwise. Raises `ConfigError`."""
    if settings.embedding_base_url is None:
        return HashedEmbedder()
    key = settings.embedding_api_key
    return EndpointEmbedder(
        settings.embedding_base_url,
        settings.embedding_model,
        settings.embedding_dimension,
        key.get_secret_value() if key is not None else "",
        meter=meter,
    )


class EndpointEmbedder:
    """`POST {base_url}/embeddings`. Texts leave this machine, with secrets taken out.

    Raises `StoreError` where the endpoint does not answer, refuses, or answers with other vectors than
    `dimension` numbers a text: a store must never hold a mix.
    """

    offline = False

    def __init__(
        self,
        base_url: str,
        model: str,
        dimension: int,
        api_key: str = "",
        *,
        timeout_s: float = _TIMEOUT_S,
        meter: Meter | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"memory.embedding_base_url is not an http(s) URL: {Redactor().text(base_url)!r}"
            )
        self.name = f"endpoint:{model}"
        self.dimension = dimension
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._redactor = Redactor([api_key])
        self._meter: Meter = meter or _Unmetered()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            vectors += self._request([self._clean(text) for text in texts[start : start + _BATCH]])
        return vectors

    def _clean(self, text: str) -> str:
        shown = text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
        return self._redactor.text(shown).strip() or "(empty)"  # the endpoint refuses empty inputs

    def _request(self, texts: list[str]) -> list[list[float]]:
        claim = self._meter.reserve(self._model, sum(map(estimated_tokens, texts)))
        try:
            answer = self._answer(texts)
            claim.settle(Usage(prompt_tokens=_reported(answer), completion_tokens=0))
        finally:
            claim.release()  # of what was not billed; does nothing after `settle`
        return self._checked(answer.data or [], len(texts))

    def _answer(self, texts: list[str]) -> CreateEmbeddingResponse:
        from openai import OpenAI, OpenAIError

        try:
            with OpenAI(
                base_url=self._base_url,
                api_key=self._api_key or "none",
                timeout=self._timeout_s,
                max_retries=_RETRIES,
            ) as client:
                return client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        except OpenAIError as error:
            raise StoreError(
                f"the embedding endpoint {self._base_url} failed: {self._redactor.text(str(error))}",
                hint="check memory.embedding_base_url, memory.embedding_model and the key",
            ) from None

    def _checked(self, items: Sequence[Any], wanted: int) -> list[list[float]]:
        by_place = {item.index: item.embedding for item in items}
        if sorted(by_place) != list(range(wanted)):
            raise StoreError(f"the embedding endpoint answered {len(items)} vectors for {wanted} texts")
        matrix = [np.asarray(by_place[place], np.float64) for place in range(wanted)]
        for vector in matrix:
            if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
                raise StoreError(
                    f"{self._model} gives vectors of {vector.size} numbers, not {self.dimension}",
                    hint="set memory.embedding_dimension to what the model gives",
                )
        return [(vector / (np.linalg.norm(vector) or 1.0)).tolist() for vector in matrix]


def _reported(answer: CreateEmbeddingResponse) -> int | None:
    """Tokens by the endpoint's own count; None where it says nothing sensible."""
    used = getattr(answer.usage, "prompt_tokens", None)
    return used if isinstance(used, int) and used >= 0 else None
