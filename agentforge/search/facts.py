"""Facts for people and models: suspicious statements under three coefficients, and values at failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentforge.core.facts import Facts, FailingFrame, FailingTest, SeenCall, Suspect, Value
from agentforge.core.retrieval import Symbol
from agentforge.core.tree import Tree
from agentforge.search.batch import Observation
from agentforge.search.engine import Diagnosis
from agentforge.search.localize import SuspiciousLine, ochiai, spread, tally
from agentforge.search.source import LINE_END, Source

MAX_CODE_CHARS = 160
MAX_MESSAGE_CHARS = 400
MAX_TARGETS = 20
Clean = Callable[[str], str]
"""Takes secrets out of a text."""


def tarantula(failed_here: int, passed_here: int, failed_total: int, passed_total: int) -> float:
    """(f/F) / (f/F + p/P), between 0 and 1 (Jones and Harrold 2005); 0 where nothing failed here."""
    failed = failed_here / failed_total if failed_total else 0.0
    passed = passed_here / passed_total if passed_total else 0.0
    return failed / (failed + passed) if failed else 0.0


def dstar(failed_here: int, passed_here: int, failed_total: int, star: int = 2) -> float | None:
    """f^star / (p + F - f) (Wong, Debroy, Gao and Li 2014); None where that is unbounded."""
    below: int = passed_here + failed_total - failed_here
    if below == 0:
        return None
    above: int = failed_here**star
    return above / below


def facts_of(
    diagnosis: Diagnosis, *, lines: int, clean: Clean, symbols: Sequence[Symbol] = (), asked: bool = False
) -> Facts:
    """The `lines` most suspicious statements and how the targets fail; texts are cleaned of secrets."""
    by_name = {seen.test: seen for seen in diagnosis.observed.observations}
    failing = [by_name[test] for test in diagnosis.targets]
    explained = [seen for seen in failing if seen.seen] or failing[:1]
    return Facts(
        targets=diagnosis.targets[:MAX_TARGETS],
        suspects=tuple(Suspects(diagnosis, failing, symbols, clean).best(lines)),
        failures=tuple(failing_test(seen, diagnosis.tree, clean) for seen in explained),
        reasons=tuple(clean(reason) for reason in diagnosis.reasons),
        asked=asked,
    )


class Suspects:
    """The statements of a diagnosis with the counts that their scores come from."""

    def __init__(
        self, diagnosis: Diagnosis, failing: Sequence[Observation], symbols: Sequence[Symbol], clean: Clean
    ) -> None:
        self.diagnosis, self.clean = diagnosis, clean
        self.groups = {path: spread(source) for path, source in diagnosis.sources.items()}
        passing = [seen for seen in diagnosis.observed.observations if seen.passed]
        self.totals = len(failing), len(passing)
        self.failed = tally(failing, diagnosis.sources)
        self.passed = tally(passing, diagnosis.sources)
        self.ranks = index_ranks(symbols)
        self.spans = spans(failing)

    def best(self, count: int) -> list[Suspect]:
        """One entry a statement, in the order of its most suspicious line."""
        found: dict[tuple[str, int], Suspect] = {}
        for line in self.diagnosis.lines:
            if len(found) >= count:
                break
            own = self.groups[line.path].get(line.line, (line.line,))
            found.setdefault((line.path, own[0]), self.suspect(line, own[0], own[-1]))
        return list(found.values())

    def suspect(self, line: SuspiciousLine, start: int, end: int) -> Suspect:
        source, place = self.diagnosis.sources[line.path], (line.path, line.line)
        failed, passed = self.failed.get(place, 0), self.passed.get(place, 0)
        span = next((s for p, s in self.spans if p == line.path and s and start <= s[0] <= end), None)
        unbounded = dstar(failed, passed, self.totals[0])
        return Suspect(
            path=line.path,
            line=start,
            end_line=end,
            code=self.clean(statement(source, start, end)),
            score=line.score,
            ochiai=round(ochiai(failed, passed, self.totals[0]), 4),
            tarantula=round(tarantula(failed, passed, *self.totals), 4),
            dstar=None if unbounded is None else round(unbounded, 4),
            failing=failed,
            passing=passed,
            index=self.rank(line),
            expression=self.clean(segment(source.data, span)),
            why=tuple(dict.fromkeys(self.clean(why) for why in line.why)),
        )

    def rank(self, line: SuspiciousLine) -> int | None:
        ranks = (n for path, first, last, n in self.ranks if path == line.path and first <= line.line <= last)
        return min(ranks, default=None)


def index_ranks(symbols: Sequence[Symbol]) -> list[tuple[str, int, int, int]]:
    """(path, first line, last line, rank from 1) of what the repository index found for the issue."""
    return [(s.path, s.start_line, s.end_line, number) for number, s in enumerate(symbols, 1)]


def spans(failing: Iterable[Observation]) -> list[tuple[str, Any]]:
    """(path, span) of the expressions that were evaluated when tests failed, innermost first."""
    found = []
    for seen in failing:
        for frame in reversed(seen.seen.get("frames", ())):
            found.append((frame["path"], frame.get("span")))
    return found


def statement(source: Source, start: int, end: int) -> str:
    """The text of lines `start` to `end` on one line, clipped."""
    # By the parser's lines: a form feed or a separator of Unicode ends none.
    lines = LINE_END.split(source.data[source.line_start(start) : source.line_start(end + 1)])
    text = " ".join(line.decode("utf-8").strip() for line in lines).strip()
    return text if len(text) <= MAX_CODE_CHARS else text[: MAX_CODE_CHARS - 3] + "..."


def segment(data: bytes, span: Sequence[int] | None) -> str:
    """The bytes of a span (line, end line, column, end column), on one line; "" where there is none."""
    if not span:
        return ""
    first, last, start, end = span
    lines = data.splitlines()[first - 1 : last]
    if not lines:
        return ""
    # The end first: start and end may stand on the same line.
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    text = " ".join(line.strip().decode("utf-8", "replace") for line in lines)
    return text if len(text) <= MAX_CODE_CHARS else text[: MAX_CODE_CHARS - 3] + "..."


# Failures


def failing_test(seen: Observation, tree: Tree, clean: Clean) -> FailingTest:
    frames = seen.seen.get("frames") or [
        {"path": path, "line": line, "function": name} for path, line, name in seen.frames[-3:]
    ]
    return FailingTest(
        test=clean(seen.test),
        outcome=seen.outcome,
        exception=clean(seen.exception),
        message=clean(seen.message)[:MAX_MESSAGE_CHARS],
        frames=tuple(failing_frame(frame, tree, clean) for frame in frames),
        calls=tuple(seen_call(call, clean) for call in seen.seen.get("calls", ())),
    )


def failing_frame(frame: Mapping[str, Any], tree: Tree, clean: Clean) -> FailingFrame:
    path = str(frame["path"])
    data = tree.read(path).data if tree.kind(path) == "file" else b""
    return FailingFrame(
        path=path,
        line=frame["line"],
        function=frame["function"],
        expression=clean(segment(data, frame.get("span"))),
        values=named(frame.get("values", ()), clean),
    )


def seen_call(call: Mapping[str, Any], clean: Clean) -> SeenCall:
    returned = call.get("returned")
    return SeenCall(
        path=call["path"],
        line=call["line"],
        function=call["function"],
        arguments=named(call.get("arguments", ()), clean),
        values=named(call.get("values", ()), clean),
        returned=None if returned is None else clean(str(returned)),
    )


def named(pairs: Iterable[Sequence[str]], clean: Clean) -> tuple[Value, ...]:
    return tuple(Value(name=str(name), text=clean(str(text))) for name, text in pairs)
