"""The repair engine that needs no model: observe, localize, propose edits, screen, rank; anytime."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from agentforge.config.settings import SearchSettings
from agentforge.core.events import SearchProgress
from agentforge.core.patch import GeneratedTest
from agentforge.core.paths import is_test_path
from agentforge.core.ports import Clock, Environment, Sandbox
from agentforge.core.report import TestReport
from agentforge.core.task import Issue
from agentforge.core.tree import Changes, Tree, TreeFile
from agentforge.search.batch import Observation, Observed, Plan, Verdict, compare, observe, screen
from agentforge.search.hints import Hints
from agentforge.search.localize import SuspiciousLine, localize
from agentforge.search.operators import Facts, edits_of
from agentforge.search.operators.weights import mined
from agentforge.search.pairs import Pairs
from agentforge.search.rank import behaviour_cost, naturalness
from agentforge.search.related import related_tests, test_file
from agentforge.search.source import Edit, Source, fingerprint, hot_source

OBSERVE_SHARE = 0.15
OBSERVE_MIN_S = 20.0
OBSERVE_MOST = 0.4
"""What observing takes of a short time at most, so that some is left to try candidates in."""
ENOUGH_PASSING = 12
"""So many passing tests beside the targets are enough to localize with, and to judge candidates by."""
RELATED_MIN_S = 20.0
"""With less time left, tests of related files are not looked at."""
BATCH_BUDGET_S = 25.0
MAX_BATCH_BUDGET_S = 90.0
STARTUPS_PER_BATCH = 5
"""A batch lasts at least so many times what its own start costs: imports and collection."""
MAX_BATCH = 1500
MAX_SILENT = 3
"""So many batches one after the other without any verdict end the search: the next ones give none either."""
MAX_NEIGHBOURS = 80
NEIGHBOUR_CPU_S = 0.8
CHILD_CPU_S = 0.06
SECOND_CHANCE = 10
PATIENT_CPU_S = 12.0
MAX_RETRIED = 12
GATE_RESERVE_S, GATE_RESERVE_SHARE = 30.0, 0.12
"""What is left of the time for the gate: so many seconds, but at most this share."""
MAX_COMPARED = 24
COMPARE_BUDGET_S = 15.0
LINE_TIERS = (12, 40, 100)
PAIRS_AFTER = 1200
"""So many single edits are tried before pairs take their share, one in `PAIRS_SHARE`, of each batch."""
PAIRS_SHARE = 3
BEST_WEIGHT = 0.5
"""How likely, beside its line's suspicion, the best edits of a line are expected to be."""


@dataclass(frozen=True)
class RankedEdit:
    """A plausible candidate: all targets pass and no observed neighbour breaks. Higher score, better."""

    edit: Edit
    changes: Changes
    score: float
    text: str


@dataclass(frozen=True)
class SearchOutcome:
    """`plausible` best first; `tried` candidates were executed; `reasons` say in words what limited it."""

    plausible: tuple[RankedEdit, ...] = ()
    tried: int = 0
    localization: tuple[SuspiciousLine, ...] = ()
    observations: tuple[Observation, ...] = ()
    reasons: tuple[str, ...] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """What the base showed: the tests' behaviour and the lines to suspect."""

    tree: Tree
    observed: Observed
    targets: tuple[str, ...]
    files: tuple[str, ...]
    lines: tuple[SuspiciousLine, ...]
    sources: Mapping[str, Source]
    reasons: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    """Tests that candidates are known to break: screening runs them first among those that pass."""


class SearchEngine:
    """One repair by search. `emit` hears of progress; `clock` measures the deadline; paths that are
    `protected` (tests, and what decides how they run) are never edited.

    Cancelled in mid-search, the engine still holds what it has found: see `outcome`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        settings: SearchSettings,
        emit: Callable[[SearchProgress], None],
        clock: Clock,
        protected: Callable[[str], bool] = is_test_path,
    ) -> None:
        self.sandbox, self.settings, self.emit, self.clock = sandbox, settings, emit, clock
        self.protected = protected
        self.diagnosis: Diagnosis | None = None
        self.verdicts: list[Verdict] = []
        self.reasons: list[str] = []
        self._retried: set[int] = set()
        self._kept: dict[Edit, float] = {}
        self._refused: set[tuple[str, bytes]] = set()
        self._guards: tuple[str, ...] = ()

    async def repair(
        self,
        environment: Environment,
        tree: Tree,
        issue: Issue,
        targets: Sequence[str],
        generated: Sequence[GeneratedTest] = (),
        baseline: TestReport | None = None,
        deadline: float | None = None,
        *,
        refused: Sequence[Changes] = (),
        guards: Sequence[str] = (),
    ) -> SearchOutcome:
        """Search until a plausible candidate, near `deadline` (of `clock.monotonic`), or the candidates' end.

        A part of the time is left for the gate that comes after. `refused`: edits that it turned down
        before; `guards`: tests that these broke, which are watched from now on.
        """
        self._refused = {(path, file.data) for changes in refused for path, file in changes.items() if file}
        self._guards = tuple(guards)
        start = self.clock.monotonic()
        end = deadline if deadline is not None else start + self.settings.time_limit_s
        diagnosis = await self.diagnose(environment, tree, issue, targets, generated, baseline, end)
        self.reasons.extend(diagnosis.reasons)
        if diagnosis.lines:
            until = end - min(GATE_RESERVE_S, GATE_RESERVE_SHARE * max(0.0, end - start))
            await self._search(environment, diagnosis, until)
            await self._compare(environment, diagnosis, until)
        return self.outcome()

    async def diagnose(
        self,
        environment: Environment,
        tree: Tree,
        issue: Issue,
        targets: Sequence[str],
        generated: Sequence[GeneratedTest] = (),
        baseline: TestReport | None = None,
        deadline: float | None = None,
        explain: int = 0,
    ) -> Diagnosis:
        """Observe the tests on the base and localize; what `agentforge localize` prints.

        For at most `explain` targets the values are gathered with which they fail.
        """
        whole = tree.with_changes({test.path: TreeFile(test.code) for test in generated})
        wanted = tuple(dict.fromkeys([*targets, *(t for g in generated for t in g.test_ids)]))
        if not wanted:
            return self._nothing(whole, "no failing test to aim at")
        files = related_tests(whole, wanted)
        observed = await self._observe(environment, whole, wanted, files, deadline, explain)
        return self._localize(whole, issue, observed, wanted, files, baseline)

    async def _observe(
        self,
        environment: Environment,
        tree: Tree,
        wanted: tuple[str, ...],
        files: tuple[str, ...],
        deadline: float | None,
        explain: int,
    ) -> Observed:
        """The targets' own files; the related ones too where those hold too few passing tests."""
        own = tuple(dict.fromkeys(test_file(test) for test in (*wanted, *self._guards)))
        rest = tuple(path for path in files if path not in own)
        self.emit(SearchProgress(stage="observe", text=f"{len(own)} test files"))
        seen = await observe(
            self.sandbox,
            environment,
            tree,
            files=own,
            targets=wanted,
            budget_s=self._observe_budget(deadline),
            explain=explain,
            guards=self._guards,
        )
        passing = sum(o.passed for o in seen.observations)
        if not rest or not seen.observations or passing >= ENOUGH_PASSING:
            return seen
        if self._left(deadline) < RELATED_MIN_S:  # what is left goes to candidates; the gate runs all tests
            return seen
        self.emit(SearchProgress(stage="observe", text=f"{len(rest)} related test files"))
        budget = self._observe_budget(deadline) / 2
        more = await observe(self.sandbox, environment, tree, files=rest, targets=(), budget_s=budget)
        return seen.joined(more)

    def _nothing(self, tree: Tree, reason: str) -> Diagnosis:
        self.diagnosis = Diagnosis(tree, Observed((), (), frozenset()), (), (), (), {}, (reason,))
        return self.diagnosis

    def _left(self, deadline: float | None) -> float:
        return self.settings.time_limit_s if deadline is None else deadline - self.clock.monotonic()

    def _observe_budget(self, deadline: float | None) -> float:
        left = self._left(deadline)
        return max(1.0, min(OBSERVE_MOST * left, max(OBSERVE_MIN_S, left * OBSERVE_SHARE)))

    def _localize(
        self,
        tree: Tree,
        issue: Issue,
        observed: Observed,
        wanted: tuple[str, ...],
        files: tuple[str, ...],
        baseline: TestReport | None,
    ) -> Diagnosis:
        targets = tuple(o.test for o in observed.observations if matches(o.test, wanted) and o.failed)
        reasons = []
        if not observed.observations:
            reasons.append(f"no test could be observed: {observed.output[-400:]}")
        elif not targets:
            reasons.append("the target tests do not fail when run alone")
        paths = {p for o in observed.observations if o.test in targets for p in o.lines}
        sources = load(tree, [p for p in sorted(paths) if not self.protected(p)], reasons)
        text = f"{issue.title}\n{issue.text}"
        lines = localize(observed.observations, targets, sources, text) if targets else []
        if targets and not lines:
            reasons.append("the failing tests run no line of the repository's own code")
        found = tuple(lines)
        self.diagnosis = Diagnosis(
            tree, observed, targets, files, found, sources, tuple(reasons), self._guards
        )
        top = ", ".join(f"{line.path}:{line.line}" for line in found[:3])
        self.emit(SearchProgress(stage="localize", text=top or "; ".join(reasons)))
        return self.diagnosis

    async def _search(self, environment: Environment, diagnosis: Diagnosis, end: float) -> None:
        plan = make_plan(diagnosis)
        stream, pairs = candidates(diagnosis, self.settings.max_lines), Pairs(diagnosis.sources)
        size, silent = self.settings.batch_size, 0
        while (room := self.settings.max_candidates - len(self.verdicts)) > 0:
            if end - self.clock.monotonic() - diagnosis.observed.startup_s <= 1:
                self.reasons.append("the time limit was reached")
                return
            count = min(size, room)
            late = len(self.verdicts) + count >= PAIRS_AFTER
            singles = count - count // PAIRS_SHARE if late else count
            batch = await asyncio.to_thread(take, stream, singles)
            if late or not batch:
                batch += await asyncio.to_thread(pairs.take, self.verdicts, count - len(batch))
            if not batch:
                self.reasons.append("every candidate was tried")
                await self._retry_slow(environment, diagnosis, plan, end, least=0)
                return
            before = len(self.verdicts)
            await self._screen_all(environment, diagnosis, batch, plan, end)
            silent = silent + 1 if len(self.verdicts) == before else 0
            if silent == MAX_SILENT:
                self.reasons.append("batches of candidates gave no verdict")
                return
            if not self._plausible():
                await self._retry_slow(environment, diagnosis, plan, end, least=1)
            if self._plausible():
                return
            size = min(size * 3, MAX_BATCH)
        self.reasons.append(f"the limit of {self.settings.max_candidates} candidates was reached")

    async def _retry_slow(
        self, environment: Environment, diagnosis: Diagnosis, plan: Plan, end: float, least: int
    ) -> None:
        """Candidates that ran out of time after `least` passed targets get one longer chance."""
        slow = [v for v in self.verdicts if v.verdict == "timeout" and v.passed >= least]
        again = [v.edit for v in slow if id(v.edit) not in self._retried][:MAX_RETRIED]
        if not again or end - self.clock.monotonic() < 1:
            return
        self._retried.update(map(id, again))
        gone = set(map(id, again))
        self.verdicts = [v for v in self.verdicts if id(v.edit) not in gone]
        patient = replace(plan, cpu_s=max(PATIENT_CPU_S if least else 0, plan.cpu_s * SECOND_CHANCE))
        await self._screen_all(environment, diagnosis, again, patient, end)

    async def _screen_all(
        self, environment: Environment, diagnosis: Diagnosis, batch: list[Edit], plan: Plan, end: float
    ) -> None:
        """Screen `batch`, going on with the rest where a job ran out of its budget."""
        while batch:
            startup = diagnosis.observed.startup_s
            whole = max(BATCH_BUDGET_S, min(MAX_BATCH_BUDGET_S, STARTUPS_PER_BATCH * startup))
            budget = min(whole, end - self.clock.monotonic() - startup)
            if budget <= 0.5:
                return
            verdicts = await screen(
                self.sandbox, environment, diagnosis.tree, diagnosis.sources, batch, plan, budget
            )
            again = [v.edit for v in verdicts if v.verdict == "not_loaded"]
            plan = replace(plan, cold=plan.cold | places(diagnosis.sources, again))
            done = {id(v.edit) for v in verdicts} - set(map(id, again))
            self.verdicts.extend(v for v in verdicts if id(v.edit) in done)
            self._report()
            batch = [edit for edit in batch if id(edit) not in done]
            if self._plausible():
                return
            if not verdicts:
                return

    async def _compare(self, environment: Environment, diagnosis: Diagnosis, end: float) -> None:
        """How much of what passing tests observe each of several plausible edits keeps."""
        best = [ranked.edit for ranked in self.outcome().plausible[:MAX_COMPARED]]
        budget = min(COMPARE_BUDGET_S, end - self.clock.monotonic())
        if len(best) < 2 or budget < COMPARE_BUDGET_S:
            return
        self.emit(SearchProgress(stage="rank", tried=len(self.verdicts), plausible=len(best)))
        plan = make_plan(diagnosis)
        kept = await compare(self.sandbox, environment, diagnosis.tree, diagnosis.sources, best, plan, budget)
        self._kept = {best[number]: share for number, share in kept.items()}

    def _report(self) -> None:
        found = self._plausible()
        self.emit(SearchProgress(stage="screen", tried=len(self.verdicts), plausible=len(found)))

    def _plausible(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.verdict == "plausible" and not self._was_refused(v.edit)]

    def _was_refused(self, edit: Edit) -> bool:
        if not self._refused or self.diagnosis is None:
            return False
        return (edit.path, edit.apply(self.diagnosis.sources[edit.path].data)) in self._refused

    def outcome(self) -> SearchOutcome:
        """The best so far, at any time."""
        diagnosis = self.diagnosis
        if diagnosis is None:
            return SearchOutcome(reasons=tuple(self.reasons))
        scores = {(line.path, line.line): line.score for line in diagnosis.lines}
        hints = make_hints(diagnosis)
        ranked = [self._ranked(diagnosis, v.edit, scores, hints) for v in self._plausible()]
        counts: dict[str, int] = {}
        for verdict in self.verdicts:
            counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
        return SearchOutcome(
            plausible=tuple(sorted(ranked, key=lambda r: (-r.score, r.edit.path, r.edit.start, r.edit.new))),
            tried=len(self.verdicts),
            localization=diagnosis.lines,
            observations=diagnosis.observed.observations,
            reasons=tuple(self.reasons),
            verdicts=counts,
        )

    def _ranked(
        self, diagnosis: Diagnosis, edit: Edit, scores: Mapping[tuple[str, int], float], hints: Hints
    ) -> RankedEdit:
        source = diagnosis.sources[edit.path]
        mode = diagnosis.tree.read(edit.path).mode
        changes = {edit.path: TreeFile(edit.apply(source.data), mode)}
        suspicion = scores.get((edit.path, edit.line), 0.1) * hints.factor(edit)
        score = naturalness(edit, source, suspicion) - behaviour_cost(self._kept.get(edit))
        old, new = source.data[edit.start : edit.end].decode().strip(), edit.new.decode().strip()
        return RankedEdit(
            edit, changes, score, f"{edit.path}:{edit.line} {edit.operator}: {old!r} -> {new!r}"
        )


def matches(test: str, wanted: Sequence[str]) -> bool:
    """Whether `test` is one of `wanted`, or a parameter set or member of one."""
    return any(test == w or test.startswith((w + "[", w + "::")) for w in wanted)


def load(tree: Tree, paths: Sequence[str], reasons: list[str]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for path in paths:
        if tree.kind(path) != "file":
            continue
        try:
            sources[path] = Source(path, tree.read(path).data)
        except (SyntaxError, ValueError) as error:
            reasons.append(f"{path} is left alone: {error}")
    return sources


def places(sources: Mapping[str, Source], edits: Sequence[Edit]) -> frozenset[tuple[str, int]]:
    """The functions around `edits`, by path and first line; an edit's own line outside functions."""
    found = [(edit, hot_source(sources[edit.path], edit)) for edit in edits]
    return frozenset((edit.path, hot[1] if hot else edit.line) for edit, hot in found)


def make_plan(diagnosis: Diagnosis) -> Plan:
    """Fast failing targets first, then the passing tests that run the most suspicious files."""
    observations = diagnosis.observed.observations
    by_name = {o.test: o for o in observations}
    targets = sorted(diagnosis.targets, key=lambda t: (by_name[t].outcome == "timeout", by_name[t].cpu_s))
    near = {(line.path, line.line) for line in diagnosis.lines[:60]}
    passing = [o for o in observations if o.passed and o.test not in diagnosis.targets]
    guards = set(diagnosis.guards)
    passing.sort(key=lambda o: (o.test not in guards, -overlap(o, near), o.cpu_s))
    neighbours, spent = [], 0.0
    for seen in passing[:MAX_NEIGHBOURS]:
        if seen.test in guards or (overlap(seen, near) and spent + seen.cpu_s <= NEIGHBOUR_CPU_S):
            neighbours.append(seen.test)
            spent += seen.cpu_s
    own = sum(usual_s(by_name[t], passing) for t in targets)
    limit, keep = min(5.0, CHILD_CPU_S + 6 * own), CHILD_CPU_S + 6 * spent
    cold, startup = diagnosis.observed.imported, diagnosis.observed.startup_s
    files = tuple(dict.fromkeys(test_file(test) for test in [*targets, *neighbours]))
    return Plan(files, tuple(targets), tuple(neighbours), limit, keep, cold=cold, startup_s=startup)


def usual_s(seen: Observation, passing: Sequence[Observation]) -> float:
    """Processor seconds of a test; for one that hung, of passing ones, of its own file where there are."""
    if seen.outcome != "timeout":
        return seen.cpu_s
    beside = [o for o in passing if test_file(o.test) == test_file(seen.test)] or passing
    return median(o.cpu_s for o in beside) if beside else 0.0


def overlap(seen: Observation, near: set[tuple[str, int]]) -> int:
    return sum((path, line) in near for path, lines in seen.lines.items() for line in lines)


def candidates(diagnosis: Diagnosis, max_lines: int) -> Iterator[Edit]:
    """Edits in likelihood order, each syntax tree once.

    Lines join tier by tier, a tier as soon as its best edit could be the likeliest of those left, so
    that the search begins before every line has been looked at.
    """
    seen: set[str] = set()
    hints, facts, heap = make_hints(diagnosis), make_facts(diagnosis), list[tuple[float, int, Edit]]()
    start, numbers = 0, itertools.count()
    for tier in (*[t for t in LINE_TIERS if t < max_lines], max_lines):
        chosen = diagnosis.lines[start:tier]
        bound = chosen[0].score * BEST_WEIGHT if chosen else -1.0
        yield from fresh(diagnosis.sources, drain(heap, bound), seen)
        for likely, edit in likelihoods(diagnosis.sources, chosen, hints, facts):
            heapq.heappush(heap, (-likely, next(numbers), edit))
        start = tier
    yield from fresh(diagnosis.sources, drain(heap, -1.0), seen)


def drain(heap: list[tuple[float, int, Edit]], bound: float) -> Iterator[Edit]:
    """The likeliest edits of `heap`, as long as they are likelier than `bound`."""
    while heap and -heap[0][0] > bound:
        yield heapq.heappop(heap)[2]


def fresh(sources: Mapping[str, Source], edits: Iterable[Edit], seen: set[str]) -> Iterator[Edit]:
    """Those that change the syntax tree to one that is not in `seen`, which grows."""
    for edit in edits:
        source = sources[edit.path]
        key = None if unchanged(source, edit) else fingerprint(source, edit)
        if key is not None and key not in seen:
            seen.add(key)
            yield edit


def unchanged(source: Source, edit: Edit) -> bool:
    return source.data[edit.start : edit.end] == edit.new


def make_hints(diagnosis: Diagnosis) -> Hints:
    return Hints(o for o in diagnosis.observed.observations if o.test in diagnosis.targets)


def make_facts(diagnosis: Diagnosis) -> Facts:
    failing = [o for o in diagnosis.observed.observations if o.test in diagnosis.targets]
    return Facts(
        exceptions=tuple(dict.fromkeys(o.exception for o in failing if o.exception)),
        messages=tuple(dict.fromkeys(o.message for o in failing)),
        places=frozenset((path, line) for o in failing for path, line, _ in o.frames),
    )


def likelihoods(
    sources: Mapping[str, Source], lines: Sequence[SuspiciousLine], hints: Hints, facts: Facts
) -> Iterator[tuple[float, Edit]]:
    """All edits at `lines`, with suspicion times weight times the failure's hints."""
    for path in dict.fromkeys(line.path for line in lines):
        scores = {line.line: line.score for line in lines if line.path == path}
        for edit in edits_of(sources[path], scores, facts):
            yield scores.get(edit.line, 0.0) * edit.weight * mined(edit.operator) * hints.factor(edit), edit


def take(stream: Iterator[Edit], count: int) -> list[Edit]:
    return [edit for _, edit in zip(range(count), stream, strict=False)]
