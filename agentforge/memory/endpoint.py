"""Vectors from an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from agentforge.config.settings import MemorySettings
from agentforge.core.errors import ConfigError, StoreError
from agentforge.core.redact import Redactor
from agentforge.memory.embed import Embedder, HashedEmbedder

MAX_TEXT_CHARS = 24_000
"""Some 8,000 tokens of code, the longest input of text-embedding-3-small."""
_BATCH = 128
_TIMEOUT_S = 60.0
_RETRIES = 2


def open_embedder(settings: MemorySettings) -> Embedder:
    """The endpoint where one is configured, the offline default otherwise. Raises `ConfigError`."""
    if settings.embedding_base_url is None:
        return HashedEmbedder()
    key = settings.embedding_api_key
    return EndpointEmbedder(
        settings.embedding_base_url,
        settings.embedding_model,
        settings.embedding_dimension,
        key.get_secret_value() if key is not None else "",
    )


class EndpointEmbedder:
    """`POST {base_url}/embeddings`. Texts leave this machine, with secrets taken out.

    Raises `StoreError` where the endpoint does not answer, refuses, or answers with other vectors than
    `dimension` numbers a text: a store must never hold a mix.
    """

    offline = False

    def __init__(
        self, base_url: str, model: str, dimension: int, api_key: str = "", *, timeout_s: float = _TIMEOUT_S
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

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            vectors += self._request([self._clean(text) for text in texts[start : start + _BATCH]])
        return vectors

    def _clean(self, text: str) -> str:
        shown = text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
        return self._redactor.text(shown).strip() or "(empty)"  # the endpoint refuses empty inputs

    def _request(self, texts: list[str]) -> list[list[float]]:
        from openai import OpenAI, OpenAIError

        try:
            with OpenAI(
                base_url=self._base_url,
                api_key=self._api_key or "none",
                timeout=self._timeout_s,
                max_retries=_RETRIES,
            ) as client:
                answer = client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        except OpenAIError as error:
            raise StoreError(
                f"the embedding endpoint {self._base_url} failed: {self._redactor.text(str(error))}",
                hint="check memory.embedding_base_url, memory.embedding_model and the key",
            ) from None
        return self._checked(answer.data or [], len(texts))

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
