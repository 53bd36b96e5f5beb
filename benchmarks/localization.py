"""How well the index finds the files and symbols of a fault, with no language model and no network.

    python benchmarks/localization.py --dataset FILE --mirrors DIR [--repos owner/name …] [--limit N]

`--dataset` is a SWE-bench file (JSON lines or a JSON list), `--mirrors` a folder of bare repositories
named owner+name. Of each instance the index sees the exported tree of the base commit and, as every user's
clone has them, the messages and file names of earlier commits. Acc@k: all files (symbols) that the
reference patch changes are among the first k. The last line of output is one JSON object; the whole
result goes to `--out`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from mirrors import Instance, Mirror, find_mirror, read_instances
from ranking_model import Query, accuracy, settled_rank, worst_rank

from agentforge import __version__
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.facts import FactsCache
from agentforge.memory.factstore import DiskFacts
from agentforge.memory.history import SIGNALS as HISTORY
from agentforge.memory.history import read_commits
from agentforge.memory.ranking import (
    IndexSearch,
    Ranking,
    RankWeights,
    shipped_weights,
    symbol_features,
    weighted,
)
from agentforge.memory.repo_index import RepositoryIndex
from agentforge.memory.second import SIGNALS as SECOND
from agentforge.memory.store import VectorStore

HERE = Path(__file__).parent
FILES_AT, SYMBOLS_AT = (1, 3, 5, 10), (5, 10)
SYMBOL_POOL = 300
COMMITS = 3000
GROUPS = {
    "text of files": ("file ",),
    "text of symbols": ("best symbol", "three symbols"),
    "fields (names, docstrings, comments, strings)": ("names t", "docstrings ", "comments ", "strings "),
    "words of the path": ("path ", "file name in "),
    "names, dotted names, class names": ("names defined", "dotted ", "class names"),
    "paths and tracebacks": ("paths in", "traceback"),
    "error messages": ("message",),
    "import graph": ("imported by the", "imports the"),
    "second pass": SECOND,
    "tests": ("imported by tests", "tests of"),
    "history": (*HISTORY, "changed with the likeliest"),
    "kind of file": ("lies aside", "package head", "lines", "at the top"),
}
"""Ablations: signals whose names begin so are left out together."""


@dataclass
class Measured:
    """Everything kept of one instance."""

    instance: Instance
    files: Query
    names: list[str]
    symbols: Query | None = None
    symbol_names: list[str] = field(default_factory=list)
    file_of_symbol: list[int] = field(default_factory=list)
    index_s: float = 0.0
    query_s: float = 0.0
    best: str = ""


class Bench:
    """Measures instances of one repository after the other, on one index that moves from base to base."""

    def __init__(self, mirrors: Path, cache: Path, *, commits: int) -> None:
        self.mirrors, self.cache, self.commits = mirrors, cache, commits
        self.missing: list[str] = []

    def run(self, instances: Sequence[Instance]) -> list[Measured]:
        measured: list[Measured] = []
        by_repository: dict[str, list[Instance]] = {}
        for instance in instances:
            by_repository.setdefault(instance.repository, []).append(instance)
        for repository, group in by_repository.items():
            mirror = find_mirror(self.mirrors, repository)
            if mirror is None:
                self.missing += [instance.id for instance in group]
                print(f"{repository}: no mirror, {len(group)} instances count as misses", flush=True)
                continue
            index = RepositoryIndex(
                VectorStore(self.cache / "unused", HashedEmbedder()), FactsCache(DiskFacts(self.cache))
            )
            for instance in group:
                one = self._measure(instance, mirror, index)
                measured.append(one)
                rank = _rank(one, shipped_weights())
                print(
                    f"{instance.id}: rank {rank if rank < 10**6 else 'none'}, "
                    f"index {one.index_s:.2f} s, query {1000 * one.query_s:.0f} ms",
                    flush=True,
                )
        return measured

    def _measure(self, instance: Instance, mirror: Mirror, index: RepositoryIndex) -> Measured:
        tree = mirror.tree(instance.base)
        index.learn_history(read_commits(mirror.git, instance.base, self.commits))
        started = time.perf_counter()
        search = index.open(tree)
        search.around  # noqa: B018  built lazily, belongs to the index
        index_s = time.perf_counter() - started
        started = time.perf_counter()
        index.search(instance.issue, tree, 5)
        query_s = time.perf_counter() - started
        ranking = search.rank(instance.issue)
        one = _files_of(search, ranking, instance)
        _add_symbols(one, search, ranking)
        one.index_s, one.query_s = index_s, query_s
        return one


def _files_of(search: IndexSearch, ranking: Ranking, instance: Instance) -> Measured:
    names = [*ranking.features, "test"]
    matrix = np.stack([*ranking.features.values(), search.around.tests.astype(float)], 1)
    number = search.around.number
    gold = {number[path] for path in instance.gold_files if path in number}
    keep = sorted(set(np.flatnonzero(search.index.alive & ~search.around.tests).tolist()) | gold)
    place = {file: row for row, file in enumerate(keep)}
    query = Query(
        instance.repository,
        matrix[keep],
        tuple(sorted(place[file] for file in gold)),
        len(instance.gold_files),
    )
    one = Measured(instance, query, names)
    one.file_of_symbol = keep
    return one


def _gold_symbols(search: IndexSearch, instance: Instance) -> set[int]:
    """Functions, methods and classes whose own lines the patch touches; else the module's code."""
    found: set[int] = set()
    for path, lines in instance.gold_lines.items():
        file = search.around.number.get(path)
        if file is None:
            continue
        first = int(search.index.first_symbol[file])
        symbols = list(enumerate(search.index.files[file].facts.symbols, first))
        touched = {n: one for n, one in symbols if any(one.start_line <= x <= one.own_end for x in lines)}
        named = {n for n, one in touched.items() if one.kind not in ("module", "window")}
        found |= named or set(touched)
    return found


def _add_symbols(one: Measured, search: IndexSearch, ranking: Ranking) -> None:
    """Candidates among symbols: the best by text, by any evidence, those of the best files, the gold ones."""
    index = search.index
    gold = _gold_symbols(search, one.instance)
    pool = set(np.argsort(-ranking.signals.symbols["symbol text"])[:SYMBOL_POOL].tolist())
    for name in ("names defined here", "dotted names", "traceback"):
        pool |= set(np.flatnonzero(ranking.signals.symbols[name]).tolist())
    for file in np.argsort(-ranking.logits)[:20]:
        pool |= set(range(int(index.first_symbol[file]), int(index.first_symbol[file + 1])))
    owner = index.file_of_symbol
    usable = index.alive & ~search.around.tests
    own = np.array(sorted(n for n in pool | gold if usable[owner[n]] or n in gold), np.int64)
    features = symbol_features(index, ranking, own)
    features["vectors"] = _cosines(search, ranking, own, features)
    place = {int(number): row for row, number in enumerate(own)}
    one.symbol_names = list(features)
    one.symbols = Query(
        one.instance.repository,
        np.stack(list(features.values()), 1),
        tuple(sorted(place[number] for number in gold)),
        len(gold) if gold else 1,
    )
    row_of_file = {file: row for row, file in enumerate(one.file_of_symbol)}
    one.file_of_symbol = [row_of_file.get(int(index.file_of_symbol[number]), -1) for number in own]


def _cosines(search: IndexSearch, ranking: Ranking, own: Any, features: dict[str, Any]) -> Any:
    embedder = HashedEmbedder()
    logits = weighted(features, search.weights.symbols, len(own))
    chosen = np.argsort(-logits, kind="stable")[:60]
    cosine = np.zeros(len(own))
    if len(chosen):
        texts = [search.chunk(int(own[place])).text for place in chosen]
        vectors = np.asarray(embedder.embed([ranking.evidence.text, *texts]))
        cosine[chosen] = np.maximum(vectors[1:] @ vectors[0], 0.0)
    return cosine / (cosine.max(initial=0.0) or 1.0)


def _vector(names: Sequence[str], weights: Any) -> list[float]:
    return [-3.0 if name == "test" else weights.get(name, 0.0) for name in names]


def symbol_query(one: Measured, file_weights: Any) -> Query:
    """The symbols of an instance with the file's score under other weights of files."""
    assert one.symbols is not None
    logits = one.files.features @ np.array(file_weights)
    logits = np.append(logits - logits.max(initial=0.0), -10.0)
    features = one.symbols.features.copy()
    features[:, one.symbol_names.index("file")] = logits[one.file_of_symbol]
    return Query(one.symbols.group, features, one.symbols.gold, one.symbols.wanted)


def evaluate(measured: list[Measured], missing: int, weights: RankWeights) -> dict[str, Any]:
    """Accuracies with the shipped weights, ablations, and times."""
    names = measured[0].names
    vector = np.array(_vector(names, weights.files))
    second = np.array(_vector(names, weights.second))
    ranks = [_rank(one, weights) for one in measured] + [10**6] * missing
    symbols = np.array(_vector(measured[0].symbol_names, weights.symbols))
    symbol_ranks = [worst_rank(symbol_query(one, vector), symbols) for one in measured] + [10**6] * missing
    ablations = {}
    for label, prefixes in GROUPS.items():
        kept = np.array([not name.startswith(prefixes) for name in names])
        left = [settled_rank(one.files, vector * kept, second * kept) for one in measured]
        ablations[f"without {label}"] = accuracy(left, FILES_AT)
    ablations["first pass alone"] = accuracy([worst_rank(one.files, vector) for one in measured], FILES_AT)
    for single in ("file text", "three symbols", "names defined here", "similar commits"):
        alone = np.array([1.0 if name == single else 0.0 for name in names])
        ablations[f"only {single}"] = accuracy([worst_rank(one.files, alone) for one in measured], FILES_AT)
    return {
        **accuracy(ranks, FILES_AT),
        "n": len(ranks),
        "symbols": accuracy(symbol_ranks, SYMBOLS_AT),
        "ablations": ablations,
        "index_s": _spread([one.index_s for one in measured]),
        "query_ms": _spread([1000 * one.query_s for one in measured]),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 3),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 3),
        "max": round(ordered[-1], 3),
    }


def leave_one_out(measured: list[Measured]) -> dict[str, Any]:
    """Accuracy with weights learned anew on the *other* repositories of this dataset."""
    from learn_weights import report

    return report(measured)


def manifest(arguments: argparse.Namespace, instances: Sequence[Instance]) -> dict[str, Any]:
    weights = Path(sys.modules[IndexSearch.__module__].__file__ or "").with_name("weights.json")
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True)
    return {
        "agentforge": __version__,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "dataset": arguments.dataset.name,
        "dataset_sha256": hashlib.sha256(arguments.dataset.read_bytes()).hexdigest(),
        "weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "instances": len(instances),
        "commits_read": arguments.commits,
        "seed": None,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def main() -> None:
    arguments = _arguments()
    instances = read_instances(arguments.dataset, arguments.repos, arguments.limit)
    if not instances:
        raise SystemExit("no instance of the dataset is asked for")
    bench = Bench(arguments.mirrors, arguments.cache, commits=arguments.commits)
    measured = bench.run(instances)
    if not measured:
        raise SystemExit(f"no mirror of any repository lies in {arguments.mirrors}")
    result = evaluate(measured, len(bench.missing), shipped_weights())
    repositories = sorted({one.instance.repository for one in measured})
    result["by_repository"] = {
        name: evaluate_files([one for one in measured if one.instance.repository == name])
        for name in repositories
    }
    if len(repositories) > 2:
        result["leave_one_repository_out"] = leave_one_out(measured)
    result["manifest"] = manifest(arguments, instances)
    result["missing"] = bench.missing
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    line = {key: result[key] for key in ("acc@1", "acc@3", "acc@5", "acc@10", "n", "symbols", "query_ms")}
    print(json.dumps({**line, "leave_one_repository_out": result.get("leave_one_repository_out")}))


def evaluate_files(measured: list[Measured]) -> dict[str, Any]:
    weights = shipped_weights()
    return {**accuracy([_rank(one, weights) for one in measured], FILES_AT), "n": len(measured)}


def _rank(one: Measured, weights: RankWeights) -> int:
    """Rank of the last gold file after both passes."""
    passes = (np.array(_vector(one.names, part)) for part in (weights.files, weights.second))
    return settled_rank(one.files, *passes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--repos", nargs="*", default=[], metavar="OWNER/NAME")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--commits", type=int, default=COMMITS, help="earlier commits the ranking may read")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "agentforge-bench")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "localization.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
