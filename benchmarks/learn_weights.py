"""Learn the weights that ship with the index, and say what they are worth on repositories never seen.

    python benchmarks/learn_weights.py --dataset FILE --mirrors DIR [--out agentforge/memory/weights.json]

One pass over the development instances collects the signals; then the weights of files, and with them the
weights of symbols, are learned. The printed accuracies come from weights learned with the repository of
each instance held out; the file that is written was learned on all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from localization import COMMITS, FILES_AT, SYMBOLS_AT, Bench, Measured, symbol_query
from mirrors import read_instances
from numpy.typing import NDArray
from ranking_model import L2, Query, accuracy, held_out_ranks, learn, settled_rank, worst_rank

from agentforge.memory.second import SIGNALS

OUT = Path(__file__).parent.parent / "agentforge" / "memory" / "weights.json"
_SIGNED = ("lies aside", "package head", "lines", "at the top", "often changed", "recently changed")
_SIGNED_SYMBOLS = ("is module", "is class", "lines")
_FIXED = ("test",)
"""Left out of learning: no reference patch of the benchmark touches a test, which is no reason."""


REASONED = {
    "file text": 1.0,  # an issue and the code it is about share words ...
    "three symbols": 1.0,
    "best symbol": 1.0,  # ... most of all in one place of the file
    "file prose": 0.5,
    "file title": 1.0,  # a title is the issue in ten words
    "best symbol title": 1.0,
    "title covered": 1.0,
    "path text": 0.5,
    "path title": 0.5,
    "file name in text": 0.3,
    "docstrings title": 0.3,  # words for people, as in the issue
    "comments text": 0.3,
    "strings text": 0.3,
    "paths in the issue": 2.0,  # said outright, and nearly always right
    "traceback": 1.0,
    "message": 0.7,
    "dotted names": 0.7,
    "names defined here": 0.5,  # often only a bystander
    "class names": 0.5,
    "imported by the best": 1.0,  # the cause lies below the symptom
    "tests of that name": 1.0,
    "most similar commit": 1.5,  # what changed under such words before
    "recently changed": 0.5,  # code in motion breaks
    "lies aside": -2.0,
}
"""How much each signal should count, set by hand before anything was learned."""
REASONED_SYMBOLS = {
    "file": 1.0,
    "symbol text": 3.0,
    "symbol title": 2.0,
    "best of its file": 1.0,
    "names defined here": 1.5,
    "dotted names": 1.5,
    "traceback": 2.0,
    "vectors": 0.5,
    "is module": -1.0,
}
FLOORS = {"traceback": 1.5, "message": 0.7, "dotted names": 0.5, "vectors": 0.3}
"""What an issue says outright is kept even where a hundred issues hardly ever say it."""
SYMBOLS_L2 = 0.1


SECOND = {**REASONED, "imported by the likeliest": 0.5, "changed with the likeliest": 0.5}
"""The second pass begins with the same and what lies beside the likeliest files."""


def learned(queries: Sequence[Query], names: Sequence[str], *, second: bool) -> NDArray[np.float64]:
    """Weights of one pass, in the order of `names`; the first does not know the signals of the second."""
    known = [second or name not in SIGNALS for name in names]
    columns = np.flatnonzero(known)
    used = [names[column] for column in columns]
    short = [Query(q.group, q.features[:, columns], q.gold, q.wanted) for q in queries]
    weights = np.zeros(len(names))
    prior = prior_of(used, SECOND if second else REASONED)
    weights[columns] = _floored(used, learn(short, prior, signed(used)))
    return weights


def signed(names: Sequence[str]) -> NDArray[np.bool_]:
    """Which weights may become negative: those of signals that are no reason for a file."""
    return np.array([name in _SIGNED + _SIGNED_SYMBOLS + _FIXED for name in names])


def prior_of(names: Sequence[str], reasoned: dict[str, float]) -> NDArray[np.float64]:
    """The reasoned weights in the order of `names`."""
    return np.array([reasoned.get(name, 0.0) for name in names], np.float64)


def learn_files(measured: Sequence[Measured], *, second: bool = False) -> dict[str, float]:
    """Weights of the file signals of one pass, by name."""
    names = measured[0].names
    weights = learned([one.files for one in measured], names, second=second)
    left_out = _FIXED if second else (*_FIXED, *SIGNALS)
    pairs = zip(names, weights, strict=True)
    return {name: _short(name, weight) for name, weight in pairs if name not in left_out}


def learn_symbols(measured: Sequence[Measured], files: dict[str, float]) -> dict[str, float]:
    """Weights of the symbol signals, the file's score being one of them."""
    vector = np.array([files.get(name, 0.0) for name in measured[0].names])
    names = measured[0].symbol_names
    queries = [symbol_query(one, vector) for one in measured]
    weights = learn(queries, prior_of(names, REASONED_SYMBOLS), signed(names), l2=SYMBOLS_L2)
    return {name: _short(name, weight) for name, weight in zip(names, weights, strict=True)}


def _short(name: str, weight: float) -> float:
    weight = max(float(weight), FLOORS.get(name, -np.inf))
    return round(weight, 3) if abs(weight) >= 0.005 else 0.0


def _floored(names: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(weights, [FLOORS.get(name, -np.inf) for name in names])


def report(measured: Sequence[Measured]) -> dict[str, Any]:
    """Accuracies with repositories held out, for files and for symbols; and those of the reasoned weights."""
    queries = [one.files for one in measured]
    names = measured[0].names
    prior = prior_of(names, REASONED)
    held: list[Query] = []
    ranks: list[int] = []
    first_ranks: list[int] = []
    for group in sorted({query.group for query in queries}):
        others = [query for query in queries if query.group != group]
        weights, second = (learned(others, names, second=later) for later in (False, True))
        those = [one for one in measured if one.files.group == group]
        first_ranks += [worst_rank(one.files, weights) for one in those]
        ranks += [settled_rank(one.files, weights, second) for one in those]
        held += [symbol_query(one, weights) for one in those]
    symbol_names = measured[0].symbol_names
    symbol_ranks = held_out_ranks(
        held, prior_of(symbol_names, REASONED_SYMBOLS), signed(symbol_names), l2=SYMBOLS_L2
    )
    return {
        "files": accuracy(ranks, FILES_AT),
        "first pass alone": accuracy(first_ranks, FILES_AT),
        "symbols": accuracy(symbol_ranks, SYMBOLS_AT),
        "reasoned": accuracy([worst_rank(query, prior) for query in queries], FILES_AT),
        "n": len(measured),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "agentforge-bench")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    bench = Bench(arguments.mirrors, arguments.cache, commits=arguments.commits)
    measured = bench.run(read_instances(arguments.dataset))
    held_out = report(measured)
    files = learn_files(measured)
    document = {
        "files": dict(sorted(files.items())),
        "symbols": dict(sorted(learn_symbols(measured, files).items())),
        "second": dict(sorted(learn_files(measured, second=True).items())),
        "seeds": dict(sorted(REASONED.items())),
        "learned": {
            "by": "benchmarks/learn_weights.py",
            "dataset_sha256": hashlib.sha256(arguments.dataset.read_bytes()).hexdigest(),
            "instances": len(measured),
            "repositories": sorted({one.instance.repository for one in measured}),
            "l2": L2,
            "leave_one_repository_out": held_out,
        },
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(held_out))


if __name__ == "__main__":
    main()
