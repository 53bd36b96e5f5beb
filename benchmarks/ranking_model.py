"""Learn the weights of a linear ranker: softmax over the candidates of each query, plain numpy.

A query's loss is the cross-entropy between the softmax of its candidates' scores and its gold ones, that
is listwise learning to rank (ListNet, Cao et al. 2007). Weights of signals that are reasons *for* a file
may not become negative, and all are held near weights that were reasoned out beforehand: a hundred queries
from a dozen repositories are too few to learn from freely, as held-out repositories show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentforge.memory.second import settled

Matrix = NDArray[np.float64]
STEPS = 200
RATE = 0.05
L2 = 3.0
CANDIDATES = 200


@dataclass(frozen=True)
class Query:
    """Candidates of one instance: `features` (candidates, signals), the rows and the number of gold ones."""

    group: str
    features: Matrix
    gold: tuple[int, ...]
    wanted: int


def learn(
    queries: Sequence[Query],
    prior: Matrix,
    signed: NDArray[np.bool_],
    *,
    l2: float = L2,
    steps: int = STEPS,
) -> Matrix:
    """Weights, shape (signals,), near `prior`; only `signed` ones may be negative.

    Deterministic: Adam on the full batch, over the `CANDIDATES` best by `prior` and the gold of each query.
    """
    used = [_shortened(query, prior) for query in queries if query.gold]
    spread = np.sqrt(np.mean([query.features.var(0) for query in used], axis=0)) + 1e-3
    rows = [(query.features / spread, list(query.gold)) for query in used]
    start = prior * spread
    weights, first, second = start.copy(), np.zeros(len(spread)), np.zeros(len(spread))
    for step in range(1, steps + 1):
        gradient = 2 * l2 * (weights - start)
        for features, gold in rows:
            scores = features @ weights
            share = np.exp(scores - scores.max())
            share /= share.sum()
            gradient = gradient + (share @ features - features[gold].mean(0)) / len(rows)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        rate = RATE if step <= 0.6 * steps else 0.15 * RATE
        weights = weights - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        weights = np.where(signed, weights, np.maximum(weights, 0.0))
    return np.asarray(weights / spread)


def _shortened(query: Query, prior: Matrix) -> Query:
    best = set(np.argsort(-(query.features @ prior), kind="stable")[:CANDIDATES].tolist())
    rows = sorted(best | set(query.gold))
    place = {row: number for number, row in enumerate(rows)}
    gold = tuple(place[row] for row in query.gold)
    return Query(query.group, query.features[rows], gold, query.wanted)


def worst_rank(query: Query, weights: Matrix) -> int:
    """Rank of the last gold candidate, from 1 and after its ties; beyond all where one cannot be reached."""
    if len(query.gold) < query.wanted or not query.gold:
        return 10**6
    scores = query.features @ weights
    return max(int((scores >= scores[row]).sum()) for row in query.gold)


def settled_rank(query: Query, first: Matrix, second: Matrix) -> int:
    """As `worst_rank`, for scores of two passes."""
    if len(query.gold) < query.wanted or not query.gold:
        return 10**6
    scores = settled(query.features @ first, query.features @ second)
    return max(int((scores >= scores[row]).sum()) for row in query.gold)


def held_out_ranks(
    queries: Sequence[Query], prior: Matrix, signed: NDArray[np.bool_], *, l2: float = L2
) -> list[int]:
    """Worst rank of each query with weights learned on all *other* groups."""
    learned = {
        group: learn([query for query in queries if query.group != group], prior, signed, l2=l2)
        for group in sorted({query.group for query in queries})
    }
    return [worst_rank(query, learned[query.group]) for query in queries]


def accuracy(ranks: Sequence[int], at: Sequence[int]) -> dict[str, float]:
    """Share of queries, in per cent, whose gold all lie within the first k."""
    return {f"acc@{k}": round(100 * float(np.mean([rank <= k for rank in ranks])), 1) for k in at}
