"""Nodes of ExecuGraph (3.2, 3.3): techniques, outline, cases, generate, review, optimise, account."""

from __future__ import annotations

from agentforge.agents import deadlock
from agentforge.agents.cases import CaseWriter
from agentforge.agents.coder import EditContext
from agentforge.agents.debugger import Failing
from agentforge.agents.explainer import Explainer
from agentforge.agents.optimizer import GOAL, Optimizer, Regenerator
from agentforge.agents.reviewer import Reviewer
from agentforge.agents.specialists.corpus import Corpus
from agentforge.agents.specialists.pool import load_pool
from agentforge.agents.strategist import NO_OBJECTION, TEMPERATURE, Objection, Strategist
from agentforge.agents.symbols import changes_between
from agentforge.agents.tester import WrittenTests
from agentforge.core.base import Frozen
from agentforge.core.errors import ModelError
from agentforge.core.events import Explained, PlanMade, TestsSynthesized
from agentforge.core.gate import Verdict
from agentforge.core.patch import Candidate
from agentforge.core.plan import Plan, Step
from agentforge.core.problem import Problem
from agentforge.core.state import Edit, Review, RunState
from agentforge.core.tree import Changes
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.gate import decide_trials
from agentforge.orchestrator.minimise import MAX_TRIALS, smaller
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import (
    edit_of,
    live_model,
    make_plan,
    on_refused,
    seen_failing,
    start_rung,
    texts,
)
from agentforge.orchestrator.nodes.coding import CodeOptions, problem_step, write_code
from agentforge.orchestrator.nodes.targets import admit, synthesize_tests
from agentforge.orchestrator.trials import try_candidate
from agentforge.orchestrator.workflow import Predicate
from agentforge.repo.problem.files import checks_module

CASES = "tests/test_cases.py"


class TechniqueOptions(Frozen):
    """From which pool of notes, and how many, the planner is given."""

    pool: str = "algorithms"
    k: int = 3


async def find_techniques(state: RunState, context: RunContext) -> Delta:
    """Notes on algorithms that fit the statement, for the planner only (ExecuGraph, 3.1)."""
    options = context.options_as(TechniqueOptions)
    notes = Corpus(load_pool(options.pool)).best(state.task.issue.text, options.k)
    return {"techniques": tuple(f"{note.title}: {note.text}" for note in notes)}


async def outline(state: RunState, context: RunContext) -> Delta:
    """The plan of a problem; a repository's repair is planned as by `plan`. At most once per run."""
    return await plan_in_words(state, context)


async def plan_in_words(
    state: RunState, context: RunContext, objection: Objection = NO_OBJECTION, attempt: int = 0
) -> Delta:
    """`outline`'s plan; `objection` is what an earlier one is told, `attempt` shifts the seed."""
    problem: Problem | None = state.task.problem
    if problem is None:
        return await make_plan(state, context, objection.critique)
    own = context.settings.agents.get("planner")
    strategy = await Strategist.create(live_model(context), context.settings).plan(
        state.task.issue,
        state.techniques,
        temperature=None if own is not None and own.temperature is not None else TEMPERATURE,
        on_problem=lambda text: context.notice(f"the plan was not usable: {text}", warning=True),
        objection=objection,
        attempt=attempt,
    )
    step = problem_step(problem, strategy.text)
    plan = Plan(explanation=strategy.text, steps=(step,), fallback=not strategy.text)
    context.emit(PlanMade(plan=plan))
    return {"plan": plan}


async def write_cases(state: RunState, context: RunContext) -> Delta:
    """The evaluator's second source of tests, only where nothing else shows what is wanted; admitted as
    all written tests are. What is left then is that the program loads: poor evidence, and said so."""
    problem: Problem | None = state.task.problem
    if problem is None or state.targets or state.synthesized is not None:
        return await synthesize_tests(state, context)
    made: Delta = {"synthesized": ()}
    if problem.kind != "stdio":
        made = await _cases(problem, state, context)
    if not made["synthesized"]:
        context.notice("test-poor: nothing but that the program loads can be checked", warning=True)
    return made


async def _cases(problem: Problem, state: RunState, context: RunContext) -> Delta:
    writer = CaseWriter.create(live_model(context), context.settings)
    try:
        cases, problems = await writer.write(state.task.issue, problem.entry_point)
    except ModelError as error:
        context.notice(f"no tests were written: {error.what}", hint=error.hint, warning=True)
        return {"synthesized": ()}
    code = checks_module(problem, cases, "case").encode() if cases else None
    accepted, discarded = await admit(state, context, WrittenTests(path=CASES, code=code, problems=problems))
    context.emit(TestsSynthesized(accepted=accepted, discarded=discarded))
    return {"synthesized": accepted}


async def generate(state: RunState, context: RunContext) -> Delta:
    """The generator; after an execution it is shown the candidate, the failing calls and the review."""
    if state.report is None or state.candidate is None or state.decision is None:
        return await write_code(state, context)
    base = context.workspace.tree
    candidate: Candidate = state.candidate
    wanted = tuple(reason.test_id for reason in state.decision.reasons if reason.test_id)
    tries = [deadlock.Attempt(signature=item.signature, places=item.places) for item in state.attempts]
    result = await Regenerator.create(live_model(context), context.settings).repair(
        _regeneration(state, candidate),
        EditContext(issue=state.task.issue, retrieved=state.retrieved, failures=seen_failing(state)),
        Failing(base.with_changes(candidate.changes), candidate.patch.text, state.report, wanted),
        base,
        start_rung(context, "coder"),
        on_refused(context, "coder", state.round),
        decision=_varied(deadlock.next_strategy(tries)),
        attempt=state.round,
    )
    return {"draft": edit_of("coder", state.round, result, result.changes, texts(result))}


def _varied(decision: deadlock.Decision) -> deadlock.Decision:
    """The budget alone ends the loop (eq. 2): where the detector would stop, the temperature is raised."""
    if decision.strategy is not deadlock.Strategy.STOP:
        return decision
    return decision.model_copy(update={"strategy": deadlock.Strategy.HIGHER_TEMPERATURE})


def _regeneration(state: RunState, candidate: Candidate) -> Step:
    problem: Problem | None = state.task.problem
    plan = state.plan.explanation if state.plan is not None and not state.plan.fallback else ""
    words = ["The attempt so far fails its tests. Correct it.", plan, _advice(state.review)]
    text = "\n".join(word for word in words if word)
    symbols = (problem.entry_point,) if problem is not None and problem.kind == "function" else ()
    return Step(id="again", description=text, files=candidate.patch.files, symbols=symbols)


def _advice(review: Review | None) -> str:
    if review is None or not review.potential_failures or review.severity in ("none", "unparsed"):
        return ""
    return f"A reviewer expects failures here: {'; '.join(review.potential_failures)}"


async def review(state: RunState, context: RunContext) -> Delta:
    """The reviewer's opinion. No predicate reads it; a regeneration is told of it."""
    assert state.candidate is not None
    reviewer = Reviewer.create(live_model(context), context.settings)
    opinion = await reviewer.review(state.task.issue, state.candidate.patch)
    listed = "; ".join(opinion.potential_failures[:3])
    context.notice(f"review (advice only), severity {opinion.severity}{': ' if listed else ''}{listed}")
    return {"review": opinion}


async def optimise(state: RunState, context: RunContext) -> Delta:
    """A variant of what passed: the optimizer's for a problem, the smallest sufficient patch for a repair."""
    assert state.best is not None
    base, best = context.workspace.tree, state.best.candidate
    if state.task.problem is None:
        changes = await _minimised(state, context)
        return {"optimised": Edit(round=state.round, origin="optimizer", changes=changes)}
    tree = base.with_changes(best.changes)
    optimizer = Optimizer.create(live_model(context), context.settings)
    step = problem_step(state.task.problem).model_copy(update={"description": GOAL})
    try:
        result = await optimizer.write(
            step,
            EditContext(issue=state.task.issue),
            tree,
            start_rung(context, "optimizer"),
            on_refused(context, "optimizer", state.round),
        )
    except ModelError as error:
        context.notice(f"nothing was optimised: {error.what}", hint=error.hint, warning=True)
        return {"optimised": Edit(round=state.round, origin="optimizer")}
    changes = changes_between(base, tree.with_changes(result.changes)) if result.changes is not None else None
    return {"optimised": edit_of("optimizer", state.round, result, changes or None, texts(result))}


async def _minimised(state: RunState, context: RunContext) -> Changes | None:
    assert state.best is not None
    base, kept = context.workspace.tree, dict(state.best.candidate.changes)
    tried, found = 0, True
    while found and tried < MAX_TRIALS:
        found = False
        for changes in smaller(base, kept):
            if not changes or tried >= MAX_TRIALS:
                continue
            tried += 1
            if await _still_verified(changes, state, context):
                kept, found = changes, True
                break
    return None if kept == dict(state.best.candidate.changes) else kept


async def _still_verified(changes: Changes, state: RunState, context: RunContext) -> bool:
    assert state.environment is not None
    patch = await context.workspace.make_patch(changes)
    candidate = Candidate(
        id="smaller", patch=patch, changes=dict(changes), origin="optimizer", round=state.round
    )
    trials = await try_candidate(
        context, state.environment, candidate, state.generated, state.targets, state.baseline
    )
    seen = () if state.baseline is None else (state.baseline,)
    return decide_trials(trials, state.targets, patch, seen).verdict is Verdict.VERIFIED


async def account(state: RunState, context: RunContext) -> Delta:
    """The explainer, always last: intuition, cost, and the failures on the way."""
    if state.best is None:
        text = "No program could be made that can be run."
    else:
        refused = [item.refused.reason for item in state.attempts if item.refused is not None]
        explainer = Explainer.create(live_model(context), context.settings)
        best = state.best
        text = await explainer.write(
            state.task.issue, state.plan, best.candidate.patch, best.decision, history=tuple(refused)
        )
    context.emit(Explained(text=text))
    return {"explanation": text}


def improvable(state: RunState) -> bool:
    """D(s) and not optimized: the first line of eq. 2."""
    accepted = state.decision is not None and state.decision.verdict is Verdict.VERIFIED
    return accepted and state.optimised is None


def has_improvement(state: RunState) -> bool:
    return state.optimised is not None and state.optimised.changes is not None


PREDICATES: tuple[Predicate, ...] = (improvable, has_improvement)

_TESTED = "environment baseline targets generated"

NODES: tuple[Node[RunContext], ...] = (
    node("techniques", find_techniques, "task", "techniques", options=TechniqueOptions, once=True),
    node("outline", outline, "task retrieved facts techniques", "plan", asks_model=True, once=True),
    node(
        "cases",
        write_cases,
        "task plan retrieved targets synthesized environment",
        "synthesized",
        needs="environment",
        asks_model=True,
    ),
    node(
        "generate",
        generate,
        "task plan retrieved facts round baseline targets report candidate decision attempts review",
        "draft",
        asks_model=True,
        options=CodeOptions,
    ),
    node("review", review, "task candidate", "review", needs="candidate", asks_model=True),
    node("optimise", optimise, f"task round best {_TESTED}", "optimised", asks_model=True),
    node("account", account, "task plan best attempts", "explanation", asks_model=True),
)
