"""The second pass: what lies beside the files that the first pass found.

Code that a likely file imports, or that used to change together with it, is often where the fault really
is. Such files complete the list; they do not displace its head (`KEPT`).
"""

from __future__ import annotations

import numpy as np

from agentforge.memory.history import History
from agentforge.memory.postings import Scores
from agentforge.memory.signals import Surroundings

IMPORTED, CHANGED = "imported by the likeliest", "changed with the likeliest"
SIGNALS = (IMPORTED, CHANGED)
KEPT = 3
"""The head of the first pass that stays."""
_IMPORTERS = 15
_CHANGED = 5


def second_signals(around: Surroundings, seeds: Scores, history: History | None) -> dict[str, Scores]:
    """Scores over all files, from `seeds`: the logarithms of how likely each is, of shape (files,)."""
    index, size = around.index, len(around.index.files)
    found = {name: np.zeros(size) for name in SIGNALS}
    source = np.flatnonzero(around.source)
    if not len(source):
        return found
    order = sorted(source.tolist(), key=lambda number: (-seeds[number], index.files[number].path))
    likely = np.exp(seeds - seeds[order[0]])
    for number in order[:_IMPORTERS]:
        for other in index.imported_by(number):
            found[IMPORTED][other] += likely[number] / (1 + float(np.log1p(index.importer_count(other))))
    if history is not None:
        best = {index.files[number].path: float(likely[number]) for number in order[:_CHANGED]}
        found[CHANGED] = history.changed_with(best, around.number, size)
    return {name: np.where(around.source, scores, 0.0) for name, scores in found.items()}


def settled(first: Scores, second: Scores, kept: int = KEPT) -> Scores:
    """`second`, in which the `kept` best of `first` are raised, as little as it takes, to stay the head."""
    if not len(first):
        return second
    head = np.argsort(-first, kind="stable")[:kept]
    final = second.copy()
    rest = np.delete(second, head)
    floor = float(rest.max()) if len(rest) else -np.inf
    for number in head[::-1]:
        floor = final[number] = max(float(second[number]), float(np.nextafter(floor, np.inf)))
    return final
