"""Two edits at once, and one edit at every place like it: for fixes that no single edit makes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from agentforge.search.batch import Verdict
from agentforge.search.source import Edit, Region, Source, fingerprint

ASSERTIONS = ("AssertionError", "Failed")
NEAR_LINES = 12
MAX_LEADS = 120
"""Edits that changed how the targets fail: one half of a pair."""
MAX_PARTNERS = 60
MAX_REPEATED = 400
MAX_OCCURRENCES = 8
PAIR_SHARE = 0.4


def combined(source: Source, left: Edit, right: Edit) -> Edit | None:
    """Both edits as one, over the bytes from the first to the last; None where they touch."""
    first, second = sorted((left, right), key=lambda edit: (edit.start, edit.end))
    if first.path != second.path or first.end > second.start or first.start == second.start:
        return None
    new = first.new + source.data[first.end : second.start] + second.new
    weight = PAIR_SHARE * min(1.0, first.weight) * min(1.0, second.weight)
    return Edit(first.path, first.start, second.end, new, "pair", weight, min(left.line, right.line))


def repeated(source: Source, edit: Edit) -> Edit | None:
    """The same replacement at every place of the region that has the same text; None if there is one."""
    region = source.region_at(edit.start, edit.end)
    old = source.data[edit.start : edit.end]
    if region is None or not old.strip() or b"\n" in old or b"\n" in edit.new:
        return None
    spans = occurrences(source.data, old, region)
    if not 2 <= len(spans) <= MAX_OCCURRENCES or (edit.start, edit.end) not in spans:
        return None
    start, end = spans[0][0], spans[-1][1]
    pieces, at = [], start
    for begin, stop in spans:
        pieces += [source.data[at:begin], edit.new]
        at = stop
    return Edit(edit.path, start, end, b"".join(pieces), "repeated", PAIR_SHARE * edit.weight, edit.line)


def occurrences(data: bytes, old: bytes, region: Region) -> list[tuple[int, int]]:
    """Byte spans of `old` in the region, as whole words where it begins or ends as one."""
    head = rb"(?<![\w.])" if re.match(rb"\w", old) else b""
    tail = rb"(?!\w)" if re.search(rb"\w$", old) else b""
    pattern = re.compile(head + re.escape(old) + tail)
    return [match.span() for match in pattern.finditer(data, region.start, region.end)]


def leads(verdicts: Sequence[Verdict]) -> list[Edit]:
    """Edits after which the targets fail in another way than usual, or pass while a neighbour breaks.

    What is usual is how most candidates fail, which is how the base fails. An assertion that fails
    otherwise is nearer to a repair than an error that was not there before.
    """
    failed = [v for v in verdicts if v.verdict == "failed"]
    usual = Counter((v.test, v.why) for v in failed).most_common(1)
    common = usual[0][0] if usual else ("", "")
    least = min((v.passed for v in failed), default=0)

    def distance(verdict: Verdict) -> int:
        if verdict.verdict == "broke":
            return 0
        return 1 if verdict.passed > least else 2 if verdict.why.startswith(ASSERTIONS) else 3

    changed = [
        v for v in verdicts if v.verdict == "broke" or (v.verdict == "failed" and (v.test, v.why) != common)
    ]
    return [v.edit for v in sorted(changed, key=distance)][:MAX_LEADS]


class Pairs:
    """Pairs not offered before, from what the verdicts so far tell."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self.seen: set[str] = set()
        self.offered: set[Edit] = set()

    def take(self, verdicts: Sequence[Verdict], count: int) -> list[Edit]:
        """At most `count` more, repeated edits and pairs in turn."""
        singles = [v.edit for v in verdicts if v.edit.operator not in ("pair", "repeated")]
        streams = [self._repeated(singles[:MAX_REPEATED]), self._pairs(leads(verdicts), singles)]
        found: list[Edit] = []
        while streams and len(found) < count:
            for stream in list(streams):
                edit = next(stream, None)
                if edit is None:
                    streams.remove(stream)
                else:
                    found.append(edit)
        return found[:count]

    def _repeated(self, singles: Sequence[Edit]) -> Iterator[Edit]:
        for edit in singles:
            yield from self._fresh(repeated(self.sources[edit.path], edit))

    def _pairs(self, first: Sequence[Edit], singles: Sequence[Edit]) -> Iterator[Edit]:
        """Leads with leads, then leads with the likeliest edits near them; by rank sum, no end of one."""
        partners = [*first, *singles]
        near = [self._near(lead, partners) for lead in first]
        for diagonal in range(len(first) + MAX_PARTNERS):
            for number in range(min(diagonal + 1, len(first))):
                if diagonal - number < len(near[number]):
                    lead, other = first[number], near[number][diagonal - number]
                    yield from self._fresh(combined(self.sources[lead.path], lead, other))

    def _near(self, lead: Edit, partners: Sequence[Edit]) -> list[Edit]:
        close = [p for p in partners if p.path == lead.path and abs(p.line - lead.line) <= NEAR_LINES]
        return [p for p in dict.fromkeys(close) if p is not lead][:MAX_PARTNERS]

    def _fresh(self, edit: Edit | None) -> Iterator[Edit]:
        if edit is None or edit in self.offered:
            return
        self.offered.add(edit)
        key = fingerprint(self.sources[edit.path], edit)
        if key is not None and key not in self.seen:
            self.seen.add(key)
            yield edit
