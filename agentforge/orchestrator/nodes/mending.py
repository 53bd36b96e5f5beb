"""Nodes that locate a failure and repair within bounds: locate, mend, fallback, settle
(AuditCoder, 3.3, 3.4 and Algorithm 1, stage 4)."""

from __future__ import annotations

from dataclasses import replace

from agentforge.agents.coder import EditContext
from agentforge.agents.debugger import Debugger, Failing
from agentforge.agents.decomposer import Decomposer
from agentforge.agents.failures import describe_failures
from agentforge.agents.ladder import EditResult
from agentforge.agents.symbols import changes_between
from agentforge.core.base import Frozen
from agentforge.core.events import FallbackClosed, Localized, TransactionClosed
from agentforge.core.paths import file_of_test
from agentforge.core.plan import Step
from agentforge.core.ports import LineCoverage, TestRequest
from agentforge.core.report import TestReport
from agentforge.core.responsibility import (
    Construction,
    Graph,
    Implementation,
    IntegrationException,
    Locus,
    Proposal,
    Rule,
)
from agentforge.core.state import Judged, RunState, Standing
from agentforge.core.tree import Tree
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import matching
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import edit_of, live_model, on_refused, start_rung, texts
from agentforge.orchestrator.nodes.auditing import CheckOptions, assembled, static_evidence, step_of
from agentforge.orchestrator.responsibility.locator import ALL_RULES, Failure, locate
from agentforge.orchestrator.responsibility.ownership import bundles, crossed, ownership_over, register
from agentforge.orchestrator.responsibility.planned import nearest_owner
from agentforge.orchestrator.responsibility.regions import after_rejections
from agentforge.orchestrator.responsibility.spectrum import node_scores
from agentforge.orchestrator.responsibility.transactions import close_fallback, close_transaction
from agentforge.orchestrator.responsibility.units import unit_at
from agentforge.orchestrator.trials import with_generated


class LocateOptions(Frozen):
    """`rules`, in the fixed order; without "coverage" none is taken: the paper's own locator."""

    rules: tuple[Rule, ...] = ALL_RULES


class MendOptions(CheckOptions):
    """`replan`: a branch is replanned before it is regenerated."""

    replan: bool = True


async def find_responsible(state: RunState, context: RunContext) -> Delta:
    """Map the failure of the standing program to a node or branch, or abstain."""
    standing = state.standing
    assert standing is not None
    tree = context.workspace.tree.with_changes(standing.judged.candidate.changes)
    rules = context.options_as(LocateOptions).rules
    failing = failing_tests(standing.judged)
    failure = Failure(
        construction=standing.construction,
        report=standing.judged.report,
        failing=failing,
        unit_at=lambda path, line: _unit(tree, path, line),
        rules=tuple(rule for rule in rules if rule in ("R1", "R2")),
    )
    locus = locate(failure)
    if locus.abstains and "coverage" in rules:
        failure = await _with_coverage(failure, tree, state, context, rules)
        locus = locate(failure)
    elif locus.abstains:
        locus = locate(replace(failure, rules=rules))
    placed = after_rejections(locus, standing.construction, state.history)
    context.emit(Localized(locus=placed))
    return {"locus": placed}


def _unit(tree: Tree, path: str, line: int) -> str | None:
    return unit_at(path, tree.read(path).data, line) if tree.kind(path) == "file" else None


def failing_tests(judged: Judged) -> tuple[str, ...]:
    """Tests that the gate named and that failed; where it named none of them, all that failed."""
    named = [reason.test_id for reason in judged.decision.reasons if reason.test_id]
    failed = judged.report.failed
    wanted = [test for name in named for test in sorted(matching(name, failed))]
    return tuple(dict.fromkeys(wanted)) or tuple(sorted(failed))


async def _with_coverage(
    failure: Failure, tree: Tree, state: RunState, context: RunContext, rules: tuple[Rule, ...]
) -> Failure:
    """The same with who ran what; where coverage cannot be had, nothing is known of it."""
    assert state.environment is not None
    if state.environment.framework == "command" or not failure.failing:
        return replace(failure, rules=rules)
    program = with_generated(tree, state.generated)
    files = tuple(dict.fromkeys(file_of_test(test) for test in failure.failing))
    request = TestRequest(targets=files, timeout_s=context.settings.sandbox.timeout_s, scope="coverage")
    report, lines = await context.sandbox.run_tests_with_coverage(state.environment, program, request)
    return with_spectrum(replace(failure, rules=rules), tree, report, lines)


def with_spectrum(failure: Failure, tree: Tree, report: TestReport, lines: LineCoverage) -> Failure:
    failing = [test for test in failure.failing if test in lines]
    passing = [test for test in report.passed if test in lines]
    if not failing:
        return failure
    spectrum = node_scores(failure.construction, tree, lines, failing, passing)
    return replace(failure, scores=spectrum.scores, reached=spectrum.reached)


async def mend(state: RunState, context: RunContext) -> Delta:
    """Regenerate the located region and nothing else; the frozen complement is compared byte by byte."""
    standing = state.standing
    assert standing is not None
    locus = state.locus
    assert locus is not None
    base = context.workspace.tree
    before = base.with_changes(standing.judged.candidate.changes)
    construction = standing.construction
    options = context.options_as(MendOptions)
    if locus.kind == "branch" and options.replan:
        construction = await _replanned(construction, locus, before, state, context)
    tree, last = before, None
    refusals: list[str] = []
    for name in construction.graph.owners:
        if name not in locus.region:
            continue
        result = await _repair(name, construction, tree, state, context)
        refusals += texts(result)
        if result.changes is None:
            continue
        after = base.with_changes(result.changes)
        border = crossed(construction, locus.frozen, before, after)
        if border:
            refusals.append(f"the answer of {name} changes {', '.join(border[:3])}, which is frozen")
            continue
        construction = _rewritten(construction, name, tree, after)
        tree, last = after, result
    if last is None or tree.digest == before.digest:
        why = refusals[-1] if refusals else "no code lies in the region"
        proposal = Proposal(round=state.round, refused=why)
        return {"proposal": proposal, "repair": edit_of("repair", state.round, None, None, refusals)}
    construction = _refreshed(construction, locus.region, tree)
    if options.local_checks:
        construction = await assembled(construction, locus.region, tree, state, context)
    changes = changes_between(base, tree)
    return {
        "proposal": Proposal(round=state.round, construction=construction),
        "repair": edit_of("repair", state.round, last, changes, refusals),
    }


async def _replanned(
    construction: Construction, locus: Locus, tree: Tree, state: RunState, context: RunContext
) -> Construction:
    """The construction with a new plan for the nodes of the branch; their boundaries are kept."""
    graph: Graph = construction.graph
    branch = tuple(entry for entry in graph.nodes if entry.id in locus.region)
    code = bundles(graph, construction.ownership, tree)
    shown = "\n\n".join(
        data.decode("utf-8", "replace") for entry in branch for data in code.get(entry.id, {}).values()
    )
    standing = state.standing
    assert standing is not None
    report = standing.judged.report
    planned = await Decomposer.create(live_model(context), context.settings).replan(
        state.task.issue,
        branch,
        shown,
        describe_failures(report, failing_tests(standing.judged)),
        "; ".join(locus.evidence),
    )
    new = {entry.id: entry for entry in planned}
    nodes = tuple(new.get(entry.id, entry) for entry in graph.nodes)
    return construction.model_copy(update={"graph": graph.model_copy(update={"nodes": nodes})})


async def _repair(
    name: str, construction: Construction, tree: Tree, state: RunState, context: RunContext
) -> EditResult:
    standing = state.standing
    assert standing is not None
    locus = state.locus
    assert locus is not None
    patch = standing.judged.candidate.patch
    more = f"The program fails. Why this part: {'; '.join(locus.evidence[:3])}."
    rejected = [entry.reason for entry in state.history if not entry.accepted][-2:]
    more += f" Tried in vain: {'; '.join(rejected)}." if rejected else ""
    return await Debugger.create(live_model(context), context.settings).repair(
        step_of(construction.graph.node(name), "debugger", more=more),
        EditContext(issue=state.task.issue, retrieved=state.retrieved),
        Failing(
            tree=tree,
            diff=patch.text,
            report=standing.judged.report,
            wanted=failing_tests(standing.judged),
        ),
        context.workspace.tree,
        start_rung(context, "debugger"),
        on_refused(context, "repair", state.round),
        attempt=state.round,
    )


def _rewritten(construction: Construction, name: str, before: Tree, after: Tree) -> Construction:
    """µ after a node of the region was written anew; new units are its own."""
    touched = changes_between(before, after)
    registration = register(construction.graph, construction.ownership, name, before, after, touched)
    exceptions = tuple(dict.fromkeys((*construction.exceptions, *registration.exceptions)))
    return construction.model_copy(update={"ownership": registration.ownership, "exceptions": exceptions})


def _refreshed(construction: Construction, region: tuple[str, ...], tree: Tree) -> Construction:
    """c' of the region as it stands in `tree`; every other record is handed on as it is."""
    code = bundles(construction.graph, construction.ownership, tree)
    made = tuple(
        _again(construction, item, code.get(item.node, {})) if item.node in region else item
        for item in construction.implementations
    )
    return construction.model_copy(update={"implementations": made})


def _again(construction: Construction, item: Implementation, code: dict[str, bytes]) -> Implementation:
    made = item.model_copy(update={"code": code})
    return made.model_copy(update={"evidence": static_evidence(construction, made)})


async def fall_back(state: RunState, context: RunContext) -> Delta:
    """One repair of the whole program after an abstention; logged apart, outside the guarantee."""
    standing = state.standing
    assert standing is not None
    judged = standing.judged
    base = context.workspace.tree
    before = base.with_changes(judged.candidate.changes)
    wanted = failing_tests(judged)
    reasons = "; ".join(f"{item.test_id} {item.text}".strip() for item in judged.decision.reasons[:10])
    result = await Debugger.create(live_model(context), context.settings).repair(
        Step(
            id="fallback",
            agent="debugger",
            description=f"The program is not accepted: {reasons}. Correct it so that the issue is resolved.",
            files=judged.candidate.patch.files,
        ),
        EditContext(issue=state.task.issue, retrieved=state.retrieved),
        Failing(tree=before, diff=judged.candidate.patch.text, report=judged.report, wanted=wanted),
        base,
        start_rung(context, "debugger"),
        on_refused(context, "fallback", state.round),
        attempt=state.round,
    )
    edit = edit_of("fallback", state.round, result, result.changes, texts(result))
    if result.changes is None:
        refused = texts(result)[-1] if result.refusals else "no answer could be applied"
        return {"proposal": Proposal(round=state.round, bounded=False, refused=refused), "repair": edit}
    after = base.with_changes(result.changes)
    construction = _taken_over(standing.construction, before, after)
    if context.options_as(CheckOptions).local_checks:
        construction = await assembled(construction, construction.graph.ids, after, state, context)
    return {"proposal": Proposal(round=state.round, bounded=False, construction=construction), "repair": edit}


def _taken_over(construction: Construction, before: Tree, after: Tree) -> Construction:
    """The records after an edit that knew no borders: what it changed is an exception of each owner."""
    graph = construction.graph
    touched = changes_between(before, after)
    registration = register(graph, construction.ownership, "fallback", before, after, touched)
    ownership: dict[str, str] = {}
    exceptions = list(registration.exceptions)
    for unit, owner in registration.ownership.items():
        if owner == "fallback":
            owner = nearest_owner(graph, unit)
            why = f"the global fallback wrote {unit}; {owner} is the nearest responsibility"
            exceptions.append(IntegrationException(by="fallback", owner=owner, region=unit, rationale=why))
        ownership[unit] = owner
    ownership = {**ownership, **ownership_over(graph, ownership, after)}
    merged = tuple(dict.fromkeys((*construction.exceptions, *exceptions)))
    plain = construction.model_copy(update={"ownership": ownership, "exceptions": merged})
    return _refreshed(plain, graph.ids, after)


async def settle(state: RunState, context: RunContext) -> Delta:
    """Accept or roll back, and append what was done to the history (Algorithm 1, lines 33 to 45)."""
    judged = _judged_now(state)
    standing: Standing | None = state.standing
    proposal: Proposal | None = state.proposal
    if standing is None:
        made = Standing(judged=judged, construction=state.construction) if judged else None
        return {"standing": made, "history": state.history, "fallbacks": state.fallbacks}
    if proposal is None or proposal.round != state.round:
        return {"standing": standing, "history": state.history, "fallbacks": state.fallbacks}
    if not proposal.bounded:
        closed = close_fallback(standing, proposal, judged, state.round)
        context.emit(FallbackClosed(fallback=closed.entry))
        fallbacks = (*state.fallbacks, closed.entry)
        return {"standing": closed.standing, "history": state.history, "fallbacks": fallbacks}
    assert state.locus is not None
    done = close_transaction(
        standing, proposal, judged, state.locus, len(state.history) + 1, context.workspace.tree
    )
    context.emit(TransactionClosed(transaction=done.entry))
    return {
        "standing": done.standing,
        "history": (*state.history, done.entry),
        "fallbacks": state.fallbacks,
    }


def _judged_now(state: RunState) -> Judged | None:
    """The candidate of this round with its verdict; None where none was executed."""
    if state.candidate is None or state.report is None or state.decision is None or state.compared is None:
        return None
    return Judged(
        candidate=state.candidate, baseline=state.compared, report=state.report, decision=state.decision
    )


def located(state: RunState) -> bool:
    """The locator named a region."""
    return state.locus is not None and not state.locus.abstains


def stands(state: RunState) -> bool:
    """There is an assembled program that a repair can start from."""
    return state.standing is not None


PREDICATES = (located, stands)

_REPAIR = "task retrieved round standing environment"

NODES: tuple[Node[RunContext], ...] = (
    node(
        "locate",
        find_responsible,
        "standing history environment generated",
        "locus",
        needs="standing",
        options=LocateOptions,
    ),
    node(
        "mend",
        mend,
        f"{_REPAIR} locus history",
        "proposal repair",
        needs="locus",
        asks_model=True,
        options=MendOptions,
    ),
    node(
        "fallback",
        fall_back,
        _REPAIR,
        "proposal repair",
        needs="standing",
        asks_model=True,
        options=CheckOptions,
    ),
    node(
        "settle",
        settle,
        "candidate report compared decision round construction standing proposal locus history fallbacks",
        "standing history fallbacks",
    ),
)
