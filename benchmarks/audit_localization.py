"""How often the locator names the responsibility that is really at fault (AuditCoder could not measure it).

    python benchmarks/audit_localization.py [--only NAME…] [--out FILE]

Programs with known responsibilities (`audit_programs.py`) get one seeded fault each: every mutation of every
function that makes a test fail. The right answer is the function's owner; for faults in code that nobody
owns, in two responsibilities that do not depend on each other, or in the tests themselves it is abstention.
Each failing program is executed once, with coverage, in the sandbox; then every variant of the locator is
asked. "kinds" says what the checks of the nodes are: none, or those written with the graph.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import copy
import json
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agentforge import __version__
from agentforge.config.settings import SandboxSettings
from agentforge.core.ports import Environment, EnvironmentSpec, LineCoverage, TestRequest
from agentforge.core.report import Cause, TestReport
from agentforge.core.responsibility import (
    Construction,
    Contract,
    Evidence,
    Graph,
    Implementation,
    Locus,
    Responsibility,
    Rule,
)
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.nodes.auditing import static_evidence
from agentforge.orchestrator.nodes.mending import with_spectrum
from agentforge.orchestrator.responsibility.checks import CheckFile, check_file, evidence_of
from agentforge.orchestrator.responsibility.graph import graph_problems
from agentforge.orchestrator.responsibility.locator import Failure, locate
from agentforge.orchestrator.responsibility.ownership import bundles, ownership_over
from agentforge.orchestrator.responsibility.units import unit_at
from agentforge.sandbox.docker_sandbox import DockerSandbox
from benchmarks.audit_programs import PROGRAMS, Program

RESULTS = Path(__file__).parent / "results" / "audit_localization.json"
PAPER: tuple[Rule, ...] = ("R1", "R2", "R3")
VARIANTS: dict[str, tuple[bool, tuple[Rule, ...]]] = {
    "paper rules, no checks": (False, PAPER),
    "paper rules, checks": (True, PAPER),
    "with coverage, no checks": (False, (*PAPER, "coverage")),
    "with coverage, checks": (True, (*PAPER, "coverage")),
    "coverage alone": (False, ("coverage",)),
}
SEED = 7
BATCH = 12
"""Mutants that are executed in one container."""


class Mutant(NamedTuple):
    """`truth` is the responsible node, "" where abstention is right; `kind` says what was done."""

    program: Program
    source: str
    tests: str
    truth: str
    kind: str
    among: tuple[str, ...] = ()
    """The nodes at fault, where there are several."""


# --- faults -----------------------------------------------------------------------------------------------


def mutations(function: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every small change of one function: comparisons, arithmetic, constants, statements, a raise, a loop."""
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.Compare | ast.BinOp | ast.Constant | ast.If):
            changed = copy.deepcopy(function)
            target = list(ast.walk(changed))[number]
            kind = _change(target)
            if kind:
                yield kind, changed
    for number, statement in enumerate(function.body):
        if isinstance(statement, ast.AugAssign | ast.Assign | ast.Expr | ast.For | ast.If | ast.While):
            changed = copy.deepcopy(function)
            changed.body[number] = ast.Pass()
            yield "statement left out", changed
    broken = copy.deepcopy(function)
    broken.body.insert(0, ast.parse("raise ValueError('fault')").body[0])
    yield "raises", broken
    endless = copy.deepcopy(function)
    endless.body.insert(0, ast.parse("while True:\n    pass").body[0])
    yield "does not end", endless


_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}  # fmt: skip


def _change(node: ast.AST) -> str:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        node.ops[0] = _COMPARE[type(node.ops[0])]()
        return "comparison"
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        node.op = _ARITHMETIC[type(node.op)]()
        return "arithmetic"
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        return "constant"
    if isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "negated condition"
    return ""


def mutants(program: Program, chance: random.Random) -> Iterator[Mutant]:
    module = ast.parse(program.source)
    singles: dict[str, list[ast.FunctionDef]] = {}
    for function in module.body:
        assert isinstance(function, ast.FunctionDef)
        for kind, changed in mutations(function):
            if kind not in ("raises", "does not end"):
                singles.setdefault(function.name, []).append(changed)
            owned = function.name != program.nobody
            truth = node_of(program, function.name) if owned else ""
            yield Mutant(
                program,
                _with(module, [changed]),
                program.tests,
                truth,
                kind if owned else f"nobody's: {kind}",
            )
    yield from _doubles(program, module, singles, chance)
    for tests in _wrong_tests(program, chance):
        yield Mutant(program, program.source, tests, "", "the tests are wrong")


def _doubles(
    program: Program, module: ast.Module, singles: dict[str, list[ast.FunctionDef]], chance: random.Random
) -> Iterator[Mutant]:
    """Faults in two leaves at once of which neither needs the other."""
    for one in program.leaves:
        for other in program.leaves:
            if one.name < other.name and one.name not in other.needs and other.name not in one.needs:
                pair = [chance.choice(singles[one.name]), chance.choice(singles[other.name])]
                both = (node_of(program, one.name), node_of(program, other.name))
                yield Mutant(program, _with(module, pair), program.tests, "", "two faults", both)


def _wrong_tests(program: Program, chance: random.Random) -> Iterator[str]:
    """The test module with one expected string or number changed."""
    tree = ast.parse(program.tests)
    places = [
        number
        for number, node in enumerate(ast.walk(tree))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1
    ]
    for number in chance.sample(places, min(4, len(places))):
        changed = ast.parse(program.tests)
        node = list(ast.walk(changed))[number]
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        node.value += 3
        yield ast.unparse(changed)


def _with(module: ast.Module, changed: list[ast.FunctionDef]) -> str:
    new = {function.name: function for function in changed}
    body = [new.get(getattr(node, "name", ""), node) for node in module.body]
    return ast.unparse(ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))) + "\n"


# --- responsibilities ---------------------------------------------------------------------------------------


def node_of(program: Program, function: str) -> str:
    return "S0" if function == program.orchestrates else f"S1_{function}"


def graph_of(program: Program, module_name: str) -> Graph:
    path = f"{module_name}.py"
    root = Responsibility(
        id="S0", goal="hold the parts together", leaf=False, files=(path,), symbols=(program.orchestrates,)
    )
    branch = Responsibility(id="S1", goal="the parts", parent="S0", leaf=False)
    module = ast.parse(program.source)
    arguments = {
        f.name: tuple(a.arg for a in f.args.args) for f in module.body if isinstance(f, ast.FunctionDef)
    }
    leaves = tuple(
        Responsibility(
            id=node_of(program, leaf.name),
            goal=leaf.goal,
            parent="S1",
            depends_on=tuple(node_of(program, name) for name in leaf.needs),
            files=(path,),
            symbols=(leaf.name,),
            provenance={"input": node_of(program, leaf.needs[0]) + ".out" if leaf.needs else "task"},
            contract=Contract(name=leaf.name, args=arguments[leaf.name]),
            budget=leaf.budget,
            checks=leaf.checks,
        )
        for leaf in program.leaves
    )
    graph = Graph(explanation="", nodes=(root, branch, *leaves), order=tuple(leaf.id for leaf in leaves))
    assert not graph_problems(graph), graph_problems(graph)
    return graph


def construction_of(
    program: Program, module_name: str, tree: Tree, evidence: tuple[Evidence, ...]
) -> Construction:
    graph = graph_of(program, module_name)
    ownership = ownership_over(graph, {}, tree)
    code = bundles(graph, ownership, tree)
    plain = Construction(graph=graph, ownership=ownership)
    made = []
    for name in graph.owners:
        item = Implementation(node=name, executor="seeded", code=code.get(name, {}))
        own = tuple(entry for entry in evidence if entry.node == name)
        made.append(item.model_copy(update={"evidence": (*static_evidence(plain, item), *own)}))
    return plain.model_copy(update={"implementations": tuple(made)})


# --- measuring ----------------------------------------------------------------------------------------------


class Seeded(NamedTuple):
    """A mutant under a module name of its own, so that many are executed in one container."""

    mutant: Mutant
    module: str

    @property
    def files(self) -> dict[str, TreeFile]:
        tests = self.mutant.tests.replace(
            f"from {self.mutant.program.name} import", f"from {self.module} import"
        )
        return {
            f"{self.module}.py": TreeFile(self.mutant.source.encode()),
            f"test_{self.module}.py": TreeFile(tests.encode()),
        }

    @property
    def tree(self) -> Tree:
        return Tree(self.files)


class Bench:
    def __init__(self, sandbox: DockerSandbox) -> None:
        self.sandbox = sandbox
        self.environment: Environment | None = None

    async def ask(self, batch: list[Seeded]) -> list[dict[str, Any]]:
        """What every variant says of each mutant that some test fails for."""
        tree = Tree({path: entry for seeded in batch for path, entry in seeded.files.items()})
        if self.environment is None:
            self.environment = await self.sandbox.prepare(tree, EnvironmentSpec())
        request = TestRequest(timeout_s=280, scope="coverage")
        report, lines = await self.sandbox.run_tests_with_coverage(self.environment, tree, request)
        checked = {seeded.module: self._check_file(seeded) for seeded in batch}
        files = {file.path: TreeFile(file.code) for file in checked.values()}
        request = TestRequest(targets=tuple(files), timeout_s=280, scope="local")
        local = await self.sandbox.run_tests(self.environment, tree.with_changes(files), request)
        rows = []
        for seeded in batch:
            own = _part(report, f"test_{seeded.module}.py")
            file = checked[seeded.module]
            evidence = evidence_of(file, _part(local, file.path))[0]
            if own.failed:
                answers = self._answers(seeded, own, lines, evidence)
                row = {"program": seeded.mutant.program.name, "kind": seeded.mutant.kind}
                row |= {"truth": seeded.mutant.truth, "among": list(seeded.mutant.among)}
                rows.append(row | {"answers": answers})
        print(
            f"{batch[0].module} to {batch[-1].module}: {len(rows)} fail, {report.cause.value}",
            file=sys.stderr,
        )
        return rows

    def _check_file(self, seeded: Seeded) -> CheckFile:
        file = check_file(graph_of(seeded.mutant.program, seeded.module).nodes, seeded.tree)
        assert file is not None
        return file

    def _answers(
        self, seeded: Seeded, report: TestReport, lines: LineCoverage, evidence: tuple[Evidence, ...]
    ) -> dict[str, dict[str, Any]]:
        answers = {}
        tree = seeded.tree
        for variant, (checks, rules) in VARIANTS.items():
            built = construction_of(seeded.mutant.program, seeded.module, tree, evidence if checks else ())
            failing = tuple(sorted(report.failed))
            failure = Failure(built, report, failing, partial(_unit, tree), rules=rules)
            if "coverage" in rules:
                failure = with_spectrum(failure, tree, report, lines)
            answers[variant] = _shown(locate(failure))
        return answers


def _unit(tree: Tree, path: str, line: int) -> str | None:
    return unit_at(path, tree.read(path).data, line) if tree.kind(path) == "file" else None


def _part(report: TestReport, path: str) -> TestReport:
    """What a report says of one test file. A run that was cut short would say so of all: there is none."""
    assert report.cause is Cause.OK, report.cause_detail
    outcomes = {test: outcome for test, outcome in report.outcomes.items() if test.startswith(f"{path}::")}
    return report.model_copy(update={"outcomes": outcomes, "collected": len(outcomes)})


def _shown(locus: Locus) -> dict[str, Any]:
    return {"node": locus.node, "rule": locus.rule, "kind": locus.kind, "confidence": locus.confidence}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Per variant: coverage, top-1 over what was located and over all, and abstentions, right and wrong."""
    return {variant: _variant(rows, variant) for variant in VARIANTS}


def _variant(rows: list[dict[str, Any]], variant: str) -> dict[str, Any]:
    owned = [row for row in rows if row["truth"]]
    others = [row for row in rows if not row["truth"]]
    located = [row for row in owned if row["answers"][variant]["node"]]
    right = [row for row in located if row["answers"][variant]["node"] == row["truth"]]
    by_rule: dict[str, dict[str, int]] = {}
    for row in located:
        counts = by_rule.setdefault(row["answers"][variant]["rule"], {"located": 0, "right": 0})
        counts["located"] += 1
        counts["right"] += row in right
    abstained = [row for row in others if not row["answers"][variant]["node"]]
    return {
        "owned_faults": len(owned),
        "located": len(located),
        "top1_right": len(right),
        "top1_of_located": _rate(len(right), len(located)),
        "top1_of_all": _rate(len(right), len(owned)),
        "by_rule": by_rule,
        "abstention_right": len(abstained),
        "abstention_due": len(others),
        "abstention_rate_where_due": _rate(len(abstained), len(others)),
        "one_of_two_faults_named": sum(r["answers"][variant]["node"] in r["among"] for r in others),
        "by_confidence": _by_confidence(owned, variant),
        "abstention_by_kind": _by_kind(others, variant),
    }


def _by_confidence(owned: list[dict[str, Any]], variant: str) -> dict[str, str]:
    total = Counter(row["answers"][variant]["confidence"] for row in owned)
    good = Counter(
        row["answers"][variant]["confidence"]
        for row in owned
        if row["answers"][variant]["node"] == row["truth"]
    )
    return {name: f"{good[name]}/{count}" for name, count in sorted(total.items()) if name != "none"}


def _by_kind(others: list[dict[str, Any]], variant: str) -> dict[str, str]:
    total = Counter(row["kind"].split(":")[0] for row in others)
    good = Counter(row["kind"].split(":")[0] for row in others if not row["answers"][variant]["node"])
    return {kind: f"{good[kind]}/{count}" for kind, count in sorted(total.items())}


def _rate(hits: int, total: int) -> float | None:
    return round(hits / total, 4) if total else None


async def measure(names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with DockerSandbox(SandboxSettings(cpus=1.0, test_timeout_s=1.0), "bench-audit") as sandbox:
        bench = Bench(sandbox)
        for program in PROGRAMS:
            if names and program.name not in names:
                continue
            found = mutants(program, random.Random(SEED))  # noqa: S311
            every = [Seeded(mutant, f"{program.name}_m{number}") for number, mutant in enumerate(found)]
            for start in range(0, len(every), BATCH):
                rows += await bench.ask(every[start : start + BATCH])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    started = time.monotonic()
    rows = asyncio.run(measure(options.only))
    document = {
        "version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "seed": SEED,
        "programs": [
            program.name for program in PROGRAMS if not options.only or program.name in options.only
        ],
        "seconds": round(time.monotonic() - started, 1),
        "summary": summary(rows),
        "mutants": rows,
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
