"""What the import graph adds: code beside what the text points at, and code that such tests exercise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentforge.memory.lexical import LexicalIndex
from agentforge.memory.postings import Scores

_SEEDS = 20
_TESTS = 15
_FOLDER_SHARE = 0.7


def neighbour_signals(
    index: LexicalIndex, base: Scores, tests: NDArray[np.bool_], source: NDArray[np.bool_]
) -> dict[str, Scores]:
    """Spread the text score `base` of the best source files and of the best tests along imports."""
    size = len(index.files)
    seeds = _best(index, np.where(source, base, 0.0), _SEEDS)
    imported, importing = np.zeros(size), np.zeros(size)
    for number in seeds:
        for other in index.imported_by(number):
            imported[other] += base[number] / _crowd(index, other)
        importers = index.importers_of(number)
        importing[importers] += base[number] / (1 + np.log1p(len(importers)))
    tested, namesakes = _by_tests(index, np.where(tests & index.alive, base, 0.0))
    return {
        "imported by the best": np.where(source, imported, 0.0),
        "imports the best": np.where(source, importing, 0.0),
        "imported by tests": np.where(source, tested, 0.0),
        "tests of that name": np.where(source, namesakes, 0.0),
    }


def _best(index: LexicalIndex, scores: Scores, count: int) -> list[int]:
    """Ties by path, so that the order does not depend on how the index came to be."""
    positive = np.flatnonzero(scores > 0).tolist()
    return sorted(positive, key=lambda number: (-scores[number], index.files[number].path))[:count]


def _crowd(index: LexicalIndex, file: int) -> float:
    """What everything imports, an import says little of."""
    return 1 + float(np.log1p(index.importer_count(file)))


def _by_tests(index: LexicalIndex, base: Scores) -> tuple[Scores, Scores]:
    """(source that the likeliest tests import, source they are named after)."""
    tested = np.zeros(len(index.files))
    named: dict[str, float] = {}
    for number in _best(index, base, _TESTS):
        for other in index.imported_by(number):
            tested[other] += base[number] / _crowd(index, other)
        folder, name = _subject(index.files[number].path)
        named[name] = max(named.get(name, 0.0), float(base[number]))
        named[folder] = max(named.get(folder, 0.0), _FOLDER_SHARE * float(base[number]))
    namesakes = np.zeros(len(index.files))
    by_name, by_folder = index.namesakes
    for name, strength in named.items():
        for files, share in ((by_name.get(name, []), 1.0), (by_folder.get(name, []), _FOLDER_SHARE)):
            namesakes[files] = np.maximum(namesakes[files], share * strength)
    return tested, namesakes


def _subject(path: str) -> tuple[str, str]:
    """(folder, name) that a test file's name speaks of."""
    folders, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return folders.rpartition("/")[2], stem.removeprefix("test_").removesuffix("_test")
