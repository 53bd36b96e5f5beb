"""Plans that say the same, found by their words (PairCoder's clustering, here without an embedding model)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, sqrt

from agentforge.memory.tokens import code_tokens

_SAME = 1 - 1e-9
_MAX_TURNS = 10

Weights = Mapping[str, float]


def clusters(texts: Sequence[str], k: int) -> tuple[tuple[int, ...], ...]:
    """Indices of `texts` in at most `k` groups, the most central one first; the largest group first.

    k-medoids under the cosine of TF-IDF, begun with the farthest ones; no chance is involved. Texts of
    the same words never make two groups.
    """
    if not texts:
        return ()
    vectors = _weighted(texts)
    alike = [[_cosine(one, other) for other in vectors] for one in vectors]
    medoids = _farthest(alike, max(1, k))
    for _ in range(_MAX_TURNS):
        groups = _assigned(alike, medoids)
        moved = [max(group, key=lambda one: (_closeness(alike, one, group), -one)) for group in groups]
        if moved == medoids:
            break
        medoids = moved
    found = [(medoid, *(one for one in group if one != medoid)) for medoid, group in _pairs(alike, medoids)]
    return tuple(sorted(found, key=lambda group: (-len(group), min(group))))


def _weighted(texts: Sequence[str]) -> list[Weights]:
    counts = [Counter(code_tokens(text)) for text in texts]
    known_in = Counter(token for count in counts for token in count)
    return [
        {token: (1 + log(many)) * log(1 + len(texts) / known_in[token]) for token, many in count.items()}
        for count in counts
    ]


def _cosine(one: Weights, other: Weights) -> float:
    if one == other:
        return 1.0
    product = sum(weight * other[token] for token, weight in one.items() if token in other)
    sizes = sqrt(sum(w * w for w in one.values())) * sqrt(sum(w * w for w in other.values()))
    return product / sizes if sizes else 0.0


def _farthest(alike: Sequence[Sequence[float]], k: int) -> list[int]:
    """The most central text, then each time the one that is least like those chosen."""
    everyone = range(len(alike))
    chosen = [max(everyone, key=lambda one: (_closeness(alike, one, everyone), -one))]
    while len(chosen) < k:
        nearest = {one: max(alike[one][other] for other in chosen) for one in everyone}
        far = min(everyone, key=lambda one: (nearest[one], one))
        if nearest[far] >= _SAME:
            break
        chosen.append(far)
    return chosen


def _assigned(alike: Sequence[Sequence[float]], medoids: Sequence[int]) -> list[list[int]]:
    """The members of each medoid's group, itself among them."""
    groups: dict[int, list[int]] = {medoid: [] for medoid in medoids}
    for one in range(len(alike)):
        home = one if one in groups else max(medoids, key=lambda medoid: (alike[one][medoid], -medoid))
        groups[home].append(one)
    return list(groups.values())


def _pairs(alike: Sequence[Sequence[float]], medoids: Sequence[int]) -> list[tuple[int, list[int]]]:
    return list(zip(medoids, _assigned(alike, medoids), strict=True))


def _closeness(alike: Sequence[Sequence[float]], one: int, group: Sequence[int]) -> float:
    return round(sum(alike[one][other] for other in group), 9)
