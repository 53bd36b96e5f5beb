"""The audit metrics by the paper's formulas (AuditCoder, D). Every rate is None over an empty denominator."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from agentforge.core.responsibility import Construction, Graph, Implementation, Transaction
from agentforge.orchestrator.responsibility.acceptance import expected_decision
from agentforge.orchestrator.responsibility.graph import structural_problems
from agentforge.repo.patch.outline import analysis_text, parse_module


class Ratio(NamedTuple):
    """`hits` of `total`."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None


def pooled(ratios: Iterable[Ratio]) -> Ratio:
    """Micro average: all observations in one denominator."""
    known = list(ratios)
    return Ratio(sum(item.hits for item in known), sum(item.total for item in known))


def macro(ratios: Iterable[Ratio]) -> float | None:
    """Mean over those that have a denominator."""
    values = [Fraction(item.hits, item.total) for item in ratios if item.total]
    return float(sum(values) / len(values)) if values else None


def dctc(construction: Construction) -> Ratio:
    """Decision-code trace coverage of one task: leaves whose code, contract, provenance and validation are
    all nonempty, of all leaves. A rejection counts as a validation."""
    leaves = [node for node in construction.graph.nodes if node.leaf]
    return Ratio(sum(_traced(construction, node.id) for node in leaves), len(leaves))


def _traced(construction: Construction, identifier: str) -> bool:
    node, made = construction.graph.node(identifier), construction.of(identifier)
    contract = any((node.contract.name, node.contract.args, node.contract.returns))
    code = made is not None and any(data.strip() for data in made.code.values())
    return code and contract and bool(node.provenance) and made is not None and bool(made.evidence)


def graph_valid(graph: Graph) -> bool:
    """GraphValid; its mean over tasks is GIR."""
    return not structural_problems(graph)


def cscr(construction: Construction) -> Ratio:
    """Contract-signature consistency: owners of code whose one declared function has the declared
    positional parameters, of all owners of code."""
    owners = construction.graph.owners
    return Ratio(sum(_signature_holds(construction, name) for name in owners), len(owners))


def _signature_holds(construction: Construction, identifier: str) -> bool:
    made = construction.of(identifier)
    return made is not None and signature_matches(construction, made)


def signature_matches(construction: Construction, made: Implementation) -> bool:
    """SigMatch(v): nonempty name, parseable code, exactly one such function, names and order as declared
    after an optional leading self."""
    contract = construction.graph.node(made.node).contract
    if not contract.name:
        return False
    name = contract.name.rpartition(".")[2]
    found: list[tuple[str, ...]] = []
    for data in made.code.values():
        tree = parse_module(_dedented(analysis_text(data)))
        if not isinstance(tree, ast.Module):
            return False
        found += [_positional(node) for node in _functions(tree) if node.name == name]
    return len(found) == 1 and found[0] == tuple(_plain(argument) for argument in contract.args)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def _positional(node: Function) -> tuple[str, ...]:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def _plain(argument: str) -> str:
    """The name in "days: list[int] = ()"."""
    return argument.partition(":")[0].partition("=")[0].strip()


def _dedented(text: str) -> str:
    """A method as a module: lines of strings inside may stand further left, so only the first counts."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    lines = text.split("\n") if indent else ()
    return "\n".join(line.removeprefix(indent) for line in lines) if indent else text


class RepairCase(NamedTuple):
    """One task that entered repair: its transactions, whether a node or branch was recorded for it, and
    whether it passes at the end of its localized repair."""

    localized: bool
    passes: bool
    transactions: tuple[Transaction, ...] = ()


def loc_cov(cases: Sequence[RepairCase]) -> Ratio:
    """Recorded localization coverage: |F_loc| / |F_repair|."""
    return Ratio(sum(case.localized for case in cases), len(cases))


def lrs(cases: Sequence[RepairCase]) -> Ratio:
    """Localized repair success over F_loc; global fallbacks are in neither."""
    located = [case for case in cases if case.localized]
    return Ratio(sum(case.passes for case in located), len(located))


def rrs(transaction: Transaction) -> Ratio:
    """Repair region size: |R| / |V|."""
    region, frozen = transaction.locus.region, transaction.locus.frozen
    return Ratio(len(region), len(region) + len(frozen))


def ccr(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Ratio:
    """Changed-code ratio: changed lines from y to y' over the lines of y'. Files by path.

    A line that was replaced counts once; added and removed lines count each.
    """
    changed = sum(_changed(before.get(path, b""), after.get(path, b"")) for path in {*before, *after})
    return Ratio(changed, sum(len(_lines(data)) for data in after.values()))


def _changed(one: bytes, other: bytes) -> int:
    matcher = difflib.SequenceMatcher(None, _lines(one), _lines(other), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines()


def regression(passed_before: Iterable[str], passed_after: Iterable[str]) -> Ratio:
    """Tests that passed before the localized repair and fail after it, of those that passed before."""
    before = frozenset(passed_before)
    return Ratio(len(before - frozenset(passed_after)), len(before))


def sidc(transactions: Iterable[Transaction], *, inclusion: bool = True) -> Ratio:
    """Strict-improvement decision compliance over transactions that recorded both ranks.

    The paper's order alone with `inclusion` False; with it nothing that passed may be lost.
    """
    recorded = [entry for entry in transactions if entry.candidate_rank is not None]
    hits = sum(entry.accepted == _expected(entry, inclusion) for entry in recorded)
    return Ratio(hits, len(recorded))


def _expected(entry: Transaction, inclusion: bool) -> bool:
    assert entry.candidate_rank is not None
    return expected_decision(entry.initial_rank, entry.candidate_rank, entry.lost if inclusion else ())


def rir(transactions: Iterable[Transaction]) -> Ratio:
    """Rollback integrity: rollbacks after which code, snippets and results all equal the initial ones."""
    rolled = [entry for entry in transactions if entry.rollback == "Restored"]
    return Ratio(sum(entry.initial == entry.final for entry in rolled), len(rolled))
