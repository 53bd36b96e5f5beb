"""Vectors from text. The default needs no network and no model and is the same in every process."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log
from typing import Protocol

import numpy as np

from agentforge.memory.tokens import code_tokens

DIMENSION = 384
_GRAM = 4
_GRAM_WEIGHT = 0.25


class Embedder(Protocol):
    """Turns texts into vectors of `dimension` numbers and unit length. `name` tells stores apart.

    `offline`: made here in microseconds, so that nothing is gained by keeping them.
    """

    @property
    def name(self) -> str: ...

    @property
    def offline(self) -> bool: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order. Blocking."""


class HashedEmbedder:
    """Signed feature hashing (Weinberger et al. 2009) of code-aware tokens and their character n-grams.

    Close texts share words or pieces of words; a text without any word is the first unit vector.
    """

    name = "hashed-tokens-1"
    offline = True
    dimension = DIMENSION

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        vector = np.zeros(self.dimension, np.float64)
        for token, count in Counter(code_tokens(text)).items():
            weight = 1 + log(count)
            for bucket, share in _features(token):
                vector[bucket] += weight * share
        length = float(np.linalg.norm(vector))
        if length == 0:
            vector[0] = length = 1.0
        values: list[float] = (vector / length).tolist()
        return values


@lru_cache(maxsize=100_000)
def _features(token: str) -> tuple[tuple[int, float], ...]:
    """(bucket, signed weight) of a token and of its n-grams, which together weigh `_GRAM_WEIGHT` of it."""
    grams = list(_grams(f"<{token}>"))
    features = [_feature(token, 1.0)]
    features += [_feature(f"#{gram}", _GRAM_WEIGHT / len(grams) ** 0.5) for gram in grams]
    return tuple(features)


def _grams(text: str) -> Iterator[str]:
    return (text[start : start + _GRAM] for start in range(max(1, len(text) - _GRAM + 1)))


def _feature(text: str, weight: float) -> tuple[int, float]:
    code = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return (code >> 1) % DIMENSION, weight if code & 1 else -weight
