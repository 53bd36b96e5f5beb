"""Nodes that build a program by responsibilities: decompose, implement, adopt (AuditCoder, 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Iterable

from agentforge.agents.coder import Coder, EditContext
from agentforge.agents.decomposer import Decomposer, single_graph
from agentforge.agents.graph_parser import CATEGORIES
from agentforge.agents.ladder import EditResult
from agentforge.agents.symbols import changes_between
from agentforge.core.base import Frozen
from agentforge.core.errors import RefusalReason
from agentforge.core.events import NodeVerified, ResponsibilitiesCommitted
from agentforge.core.plan import Step
from agentforge.core.ports import TestRequest
from agentforge.core.report import Cause
from agentforge.core.responsibility import (
    Construction,
    Evidence,
    Implementation,
    IntegrationException,
    Responsibility,
)
from agentforge.core.state import RunState, Standing
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import (
    edit_of,
    live_model,
    on_refused,
    seen_failing,
    start_rung,
    texts,
)
from agentforge.orchestrator.responsibility.checks import check_file, evidence_of
from agentforge.orchestrator.responsibility.graph import MAX_CHILDREN, MAX_DEPTH, graph_problems
from agentforge.orchestrator.responsibility.metrics import signature_matches
from agentforge.orchestrator.responsibility.ownership import bundles, ownership_over, register
from agentforge.orchestrator.responsibility.skeleton import with_stubs, without_idle_stubs
from agentforge.orchestrator.trials import run

HINTS = dict(
    zip(
        CATEGORIES,
        (
            "",
            "Name the state and the transition first; cover the base cases and every order of evaluation.",
            "Say why the local choice is safe; sort by the key that the argument needs.",
            "Keep one invariant on the half-open range; check both ends and the empty range.",
            "Mark a vertex when it is put into the queue, not when it is taken out.",
            "Mind depth: iterate where the graph can be deep; keep visited, open and done apart.",
            "Compress paths and join by size; compare roots, never members.",
            "Prefer exact integer arithmetic; look at zero, negative values and overflow of assumptions.",
            "Read the whole input once; keep separators, empty fields and trailing blanks in mind.",
            "Sort by an explicit key; decide how ties are ordered; keep the input unchanged unless asked.",
            "State what the window holds when the loop begins; move each pointer forward only.",
        ),
        strict=True,
    )
)
"""What a specialist of each category is told (AuditCoder, 3.2: Route)."""


class CheckOptions(Frozen):
    """`local_checks`: the nodes' own checks are executed."""

    local_checks: bool = True


class BuildOptions(CheckOptions):
    """`specialists`: nodes are told what their category knows."""

    specialists: bool = True


class GraphOptions(Frozen):
    """`single`: no model is asked, one responsibility for all."""

    single: bool = False


async def decompose(state: RunState, context: RunContext) -> Delta:
    """Commit the graph, before any code exists."""
    tree = context.workspace.tree
    if context.options_as(GraphOptions).single:
        graph = single_graph(state.retrieved, tree, "One responsibility is wanted.")
    else:
        graph = await Decomposer.create(live_model(context), context.settings).decompose(
            state.task.issue,
            state.retrieved,
            tree,
            graph_problems,
            limits=(MAX_DEPTH, MAX_CHILDREN),
            on_problem=lambda text: context.notice(f"the graph was not usable: {text}", warning=True),
        )
    context.emit(ResponsibilitiesCommitted(graph=graph))
    return {"responsibilities": graph}


async def implement(state: RunState, context: RunContext) -> Delta:
    """Generate, register and verify each node in order; what is assembled is the draft."""
    graph = state.responsibilities
    assert graph is not None
    base = context.workspace.tree
    options = context.options_as(BuildOptions)
    tree, last = with_stubs(graph, base), None
    construction = Construction(graph=graph, ownership=ownership_over(graph, {}, tree))
    refusals: list[str] = []
    for name in graph.owners:
        result = await _generate(graph.node(name), tree, state, context, options)
        refusals += texts(result)
        before = tree
        if result.changes is not None:
            tree, last = tree.with_changes(result.changes), result
        construction = await _registered(construction, name, result, before, tree, state, context)
    tree = without_idle_stubs(tree, base, changes_between(base, tree))
    if options.local_checks:
        construction = await assembled(construction, graph.ids, tree, state, context)
    changes = changes_between(base, tree) if last is not None else None
    return {
        "construction": construction,
        "draft": edit_of("coder", state.round, last, changes or None, refusals),
    }


async def _generate(
    target: Responsibility, tree: Tree, state: RunState, context: RunContext, options: BuildOptions
) -> EditResult:
    coder = Coder.create(live_model(context), context.settings)
    return await coder.write(
        step_of(target, "coder", specialists=options.specialists),
        EditContext(issue=state.task.issue, retrieved=state.retrieved, failures=seen_failing(state)),
        tree,
        start_rung(context, "coder"),
        on_refused(context, "coder", state.round),
        attempt=state.round,
    )


def step_of(target: Responsibility, agent: str, *, specialists: bool = True, more: str = "") -> Step:
    """What an editing agent is told of its responsibility."""
    contract = target.contract
    lines = [f"Your responsibility {target.id}: {target.goal}"]
    if contract.name:
        returns = f" -> {contract.returns}" if contract.returns else ""
        lines.append(f"Interface: {contract.name}({', '.join(contract.args)}){returns}")
    clauses = [("before", contract.pre), ("after", contract.post), ("always", contract.invariants)]
    lines += [f"Holds {when}: {'; '.join(texts)}" for when, texts in clauses if texts]
    sources = "; ".join(f"{name} from {source}" for name, source in target.provenance.items())
    lines += [f"Inputs: {sources}"] if sources else []
    lines += [f"Complexity at most {target.budget}"] if target.budget else []
    lines += [f"Must be true: {check}" for check in target.checks]
    lines += [f"Hint: {hint}" for hint in target.hints]
    lines += [HINTS[target.category]] if specialists and HINTS.get(target.category) else []
    own = ", ".join(target.symbols)
    lines += [f"Write or change only {own}; all other code belongs to somebody else."] if own else []
    lines += [more] if more else []
    return Step(
        id=target.id,
        agent="debugger" if agent == "debugger" else "coder",
        description="\n".join(lines),
        files=target.files,
        symbols=target.symbols,
    )


async def _registered(
    construction: Construction,
    name: str,
    result: EditResult,
    before: Tree,
    after: Tree,
    state: RunState,
    context: RunContext,
) -> Construction:
    """The construction after one node was generated, with what its code itself shows."""
    registration = register(
        construction.graph, construction.ownership, name, before, after, result.changes or ()
    )
    code = bundles(construction.graph, registration.ownership, after).get(name, {})
    made = Implementation(node=name, executor=_executor(construction.graph.node(name)), code=code)
    made = made.model_copy(
        update={"evidence": (*_applied(name, result), *static_evidence(construction, made))}
    )
    return construction.model_copy(
        update={
            "implementations": (*construction.implementations, made),
            "ownership": registration.ownership,
            "exceptions": _merged(construction.exceptions, registration.exceptions),
        }
    )


def _executor(target: Responsibility) -> str:
    return "coder" if target.category == "general" else f"coder ({target.category})"


def _merged(
    known: Iterable[IntegrationException], new: Iterable[IntegrationException]
) -> tuple[IntegrationException, ...]:
    return tuple(dict.fromkeys((*known, *new)))


def _applied(name: str, result: EditResult) -> tuple[Evidence, ...]:
    if result.changes is not None:
        return (Evidence(node=name, kind="applies", passed=True, text="the edit applies"),)
    reasons = {refusal.reason for refusal in result.refusals}
    if reasons == {RefusalReason.ALREADY_APPLIED}:
        return (Evidence(node=name, kind="applies", passed=True, text="its code stands as it was"),)
    last = result.refusals[-1].text if result.refusals else "no answer"
    return (Evidence(node=name, kind="applies", passed=False, text=f"no answer could be applied: {last}"),)


def static_evidence(construction: Construction, made: Implementation) -> tuple[Evidence, ...]:
    """Whether the promised function is there with the promised parameters."""
    contract = construction.graph.node(made.node).contract
    if not contract.name:
        return ()
    holds = signature_matches(construction, made)
    promise = f"{contract.name}({', '.join(contract.args)})"
    text = f"{promise} is defined once, as declared" if holds else f"{promise} is not defined as declared"
    return (Evidence(node=made.node, kind="signature", passed=holds, text=text),)


async def assembled(
    construction: Construction, judged: Iterable[str], tree: Tree, state: RunState, context: RunContext
) -> Construction:
    """The construction with its own checks executed in the assembled `tree`; the nodes in `judged` take
    the outcome into their records, the others keep theirs."""
    wanted = frozenset(judged)
    graph = construction.graph
    environment = state.environment
    file = check_file(graph.nodes, tree, environment.workdir) if environment is not None else None
    if file is None or environment is None or environment.framework == "command":
        for made in construction.implementations:
            _announce(context, made, wanted)
        return construction.model_copy(update={"internal_passed": (), "internal_clean": True})
    with_checks = tree.with_changes({file.path: TreeFile(file.code)})
    request = TestRequest(targets=(file.path,), timeout_s=context.settings.sandbox.timeout_s, scope="local")
    report = await run(context, environment, with_checks, request, "local checks")
    found, passed = evidence_of(file, report)
    implementations = []
    for made in construction.implementations:
        if made.node in wanted:
            own = tuple(entry for entry in found if entry.node == made.node)
            kept = tuple(entry for entry in made.evidence if entry.kind not in ("check", "resource"))
            made = made.model_copy(update={"evidence": (*kept, *own)})
        _announce(context, made, wanted)
        implementations.append(made)
    return construction.model_copy(
        update={
            "implementations": tuple(implementations),
            "internal_passed": tuple(sorted(passed)),
            "internal_clean": report.cause is Cause.OK,
        }
    )


def _announce(context: RunContext, made: Implementation, wanted: frozenset[str]) -> None:
    if made.node in wanted:
        context.emit(
            NodeVerified(responsibility=made.node, units=tuple(sorted(made.code)), evidence=made.evidence)
        )


async def adopt(state: RunState, context: RunContext) -> Delta:
    """The best candidate so far, taken apart by the committed graph: a repair can start from it."""
    graph = state.responsibilities
    assert graph is not None
    if state.best is None:
        return {"standing": None}
    tree = context.workspace.tree.with_changes(state.best.candidate.changes)
    ownership = ownership_over(graph, {}, tree)
    code = bundles(graph, ownership, tree)
    plain = Construction(graph=graph, ownership=ownership)
    made = [
        Implementation(node=name, executor=state.best.candidate.origin, code=code.get(name, {}))
        for name in graph.owners
    ]
    made = [item.model_copy(update={"evidence": static_evidence(plain, item)}) for item in made]
    construction = plain.model_copy(update={"implementations": tuple(made)})
    if context.options_as(CheckOptions).local_checks:
        construction = await assembled(construction, graph.ids, tree, state, context)
    return {"standing": Standing(judged=state.best, construction=construction)}


NODES: tuple[Node[RunContext], ...] = (
    node(
        "decompose",
        decompose,
        "task retrieved",
        "responsibilities",
        asks_model=True,
        options=GraphOptions,
        once=True,
    ),
    node(
        "implement",
        implement,
        "task retrieved round baseline targets responsibilities environment",
        "construction draft",
        needs="responsibilities",
        asks_model=True,
        options=BuildOptions,
    ),
    node(
        "adopt",
        adopt,
        "best responsibilities environment",
        "standing",
        needs="responsibilities",
        options=CheckOptions,
    ),
)
