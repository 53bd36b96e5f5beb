"""Seeded bugs: the operators in reverse make labelled mutants of correct code, to measure the engine by.

A mutant counts only when some operator can take it back in one edit, so that its label is the operator that
the repair needs and its place is known to the line.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentforge.config.settings import SearchSettings
from agentforge.core.events import SearchProgress
from agentforge.core.ports import Clock, Environment, Sandbox
from agentforge.core.task import Issue
from agentforge.core.tree import Tree, TreeFile
from agentforge.search.batch import Observed, Plan, screen
from agentforge.search.engine import SearchEngine
from agentforge.search.operators import edits_of
from agentforge.search.source import Edit, Source

NEAR_LINES = 2
"""How far around a seeded edit the one that takes it back is looked for."""
JUDGE_CPU_S = 5.0


@dataclass(frozen=True)
class Mutant:
    """`seed` makes the bug in the correct file; `operator` takes it back, at `line` of the wrong file."""

    seed: Edit
    operator: str
    line: int


@dataclass(frozen=True)
class Result:
    """`rank`: place (from 1) of the seeded line among the suspicious ones, None where it is not there.

    `plausible`: an edit was found that makes the tests pass; `restored`: the one ranked first gives the
    original code.
    """

    mutant: Mutant
    rank: int | None
    plausible: bool
    restored: bool
    tried: int


def mutants(source: Source, lines: Iterable[int], *, each: int, most: int, salt: str = "") -> list[Mutant]:
    """At most `each` mutants for every operator that takes one back, chosen by a hash of `salt`.

    `most` bounds how many seeds are looked at.
    """
    seeds = {(edit.start, edit.end, edit.new): edit for edit in edits_of(source, dict.fromkeys(lines, 1.0))}
    order = sorted(seeds.values(), key=lambda edit: _lot(edit, salt))
    found: list[Mutant] = []
    taken: Counter[str] = Counter()
    for seed in order[:most]:
        back = taken_back(source, seed)
        if back is not None and taken[back.operator] < each:
            taken[back.operator] += 1
            found.append(Mutant(seed, back.operator, back.line))
    return found


def _lot(edit: Edit, salt: str) -> bytes:
    return hashlib.sha256(f"{salt}:{edit.path}:{edit.start}:{edit.end}:".encode() + edit.new).digest()


def taken_back(source: Source, seed: Edit) -> Edit | None:
    """The likeliest edit that gives the original code again, formatting aside; None where there is none."""
    data = seed.apply(source.data)
    try:
        wrong = Source(source.path, data)
    except (SyntaxError, ValueError):
        return None
    near = dict.fromkeys(range(seed.line - NEAR_LINES, seed.line + NEAR_LINES + 1), 1.0)
    wanted = _bare(source.data)
    if _bare(data) == wanted:
        return None
    backs = [edit for edit in edits_of(wrong, near) if _bare(edit.apply(data)) == wanted]
    return max(backs, key=lambda edit: edit.weight, default=None)


def _bare(data: bytes) -> bytes:
    return b"".join(data.split())


async def killed(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    sources: Mapping[str, Source],
    wanted: Sequence[Mutant],
    observed: Observed,
    budget_s: float,
) -> list[tuple[Mutant, str]]:
    """The mutants that a test notices, each with the first test that fails; one job for all of them.

    `observed` is how the tests do on the correct code.
    """
    tests = tuple(seen.test for seen in observed.observations if seen.passed)
    files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
    plan = Plan(
        files, tests, (), JUDGE_CPU_S, cold=observed.imported, grace_count=len(wanted), grace_s=budget_s
    )
    seeds = [mutant.seed for mutant in wanted]
    by_seed = {id(mutant.seed): mutant for mutant in wanted}
    verdicts = await screen(sandbox, environment, tree, sources, seeds, plan, budget_s)
    return [(by_seed[id(v.edit)], v.test) for v in verdicts if v.verdict == "failed" and v.test]


async def repaired(
    sandbox: Sandbox,
    environment: Environment,
    tree: Tree,
    mutant: Mutant,
    test: str,
    settings: SearchSettings,
    clock: Clock,
) -> Result:
    """Let the engine repair the mutant of `tree`, given the one test that fails."""
    path = mutant.seed.path
    right = tree.read(path)
    wrong = tree.with_changes({path: TreeFile(mutant.seed.apply(right.data), right.mode)})
    engine = SearchEngine(sandbox, settings, _silent, clock)
    outcome = await engine.repair(environment, wrong, Issue(text=""), [test])
    places = [(line.path, line.line) for line in outcome.localization]
    first = outcome.plausible[0].changes.get(path) if outcome.plausible else None
    return Result(
        mutant=mutant,
        rank=places.index((path, mutant.line)) + 1 if (path, mutant.line) in places else None,
        plausible=bool(outcome.plausible),
        restored=first is not None and _bare(first.data) == _bare(right.data),
        tried=outcome.tried,
    )


def _silent(progress: SearchProgress) -> None:
    """Nobody watches."""


def table(results: Sequence[Result]) -> dict[str, dict[str, int]]:
    """Per operator, and for "all" of them: bugs, lines among the first 1, 3 and 5, repaired, restored."""
    operators = sorted({result.mutant.operator for result in results})
    rows = {name: [r for r in results if r.mutant.operator == name] for name in operators}
    return {name: dict(_row(own)) for name, own in {**rows, "all": list(results)}.items()}


def _row(results: Sequence[Result]) -> Iterator[tuple[str, int]]:
    yield "bugs", len(results)
    for top in (1, 3, 5):
        yield f"top{top}", sum(r.rank is not None and r.rank <= top for r in results)
    yield "repaired", sum(r.plausible for r in results)
    yield "restored", sum(r.restored for r in results)
