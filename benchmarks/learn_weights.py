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
from ranking_model import L2, Query, accuracy, held_out_ranks, learn

OUT = Path(__file__).parent.parent / "agentforge" / "memory" / "weights.json"
_SIGNED = ("lies aside", "package head", "lines", "at the top", "often changed", "recently changed")
_SIGNED_SYMBOLS = ("is module", "is class", "lines")
_FIXED = ("test",)
"""Left out of learning: no reference patch of the benchmark touches a test, which is no reason."""


def signed(names: Sequence[str]) -> NDArray[np.bool_]:
    """Which weights may become negative: those of signals that are no reason for a file."""
    return np.array([name in _SIGNED + _SIGNED_SYMBOLS + _FIXED for name in names])


def learn_files(measured: Sequence[Measured]) -> dict[str, float]:
    """Weights of the file signals, by name."""
    names = measured[0].names
    weights = learn([one.files for one in measured], signed(names))
    return {name: _short(weight) for name, weight in zip(names, weights, strict=True) if name not in _FIXED}


def learn_symbols(measured: Sequence[Measured], files: dict[str, float]) -> dict[str, float]:
    """Weights of the symbol signals, the file's score being one of them."""
    vector = np.array([files.get(name, 0.0) for name in measured[0].names])
    names = measured[0].symbol_names
    weights = learn([symbol_query(one, vector) for one in measured], signed(names))
    return {name: _short(weight) for name, weight in zip(names, weights, strict=True)}


def _short(weight: float) -> float:
    return round(float(weight), 3) if abs(weight) >= 0.005 else 0.0


def report(measured: Sequence[Measured]) -> dict[str, Any]:
    """Accuracies with repositories held out, for files and for symbols."""
    queries = [one.files for one in measured]
    mask = signed(measured[0].names)
    files = accuracy(held_out_ranks(queries, mask), FILES_AT)
    held: list[Query] = []
    for group in sorted({query.group for query in queries}):
        weights = learn([query for query in queries if query.group != group], mask)
        held += [symbol_query(one, weights) for one in measured if one.files.group == group]
    symbols = accuracy(held_out_ranks(held, signed(measured[0].symbol_names)), SYMBOLS_AT)
    return {"files": files, "symbols": symbols, "n": len(measured)}


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
