"""The node that carries out the plan: steps in turn, and at once where they are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from agentforge.agents.coder import Coder, EditContext
from agentforge.agents.ladder import EditResult
from agentforge.agents.planner import fallback_plan
from agentforge.agents.symbols import changes_between
from agentforge.core.base import Frozen
from agentforge.core.errors import AgentForgeError, LimitReached, ModelError
from agentforge.core.plan import Plan, Step
from agentforge.core.problem import Problem
from agentforge.core.state import RunState
from agentforge.core.tree import Tree
from agentforge.orchestrator.batches import batches, overlap
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.eventlog import for_step
from agentforge.orchestrator.lockstep import in_lockstep
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import (
    edit_of,
    live_model,
    on_refused,
    seen_failing,
    start_rung,
    texts,
    told_facts,
)

MAX_CODER_STEPS = 8


async def write_code(state: RunState, context: RunContext) -> Delta:
    """The coder carries out the plan: one step on what the last one left, independent ones at once.

    A step that yields nothing does not sink the others: the gate judges what there is.
    """
    base = context.workspace.tree
    plan = _plan(state, context)
    steps = _coder_steps(plan, state, context)
    work = _Work(state, base, named=len(steps) > 1)
    for group in batches(plan, steps, context.settings.parallel_steps):
        if len(group) == 1:
            work.take(await work.write(group[0], context))
        else:
            await work.at_once(group, context)
    changes = changes_between(base, work.tree) if work.last is not None else None
    return {"draft": edit_of("coder", state.round, work.last, changes or None, work.refusals)}


@dataclass
class _Work:
    """The code as the steps so far left it. `named`: calls say for which step they are."""

    state: RunState
    tree: Tree
    named: bool
    last: EditResult | None = None
    refusals: list[str] = field(default_factory=list)

    async def write(self, step: Step, context: RunContext) -> EditResult:
        state = self.state
        coder = Coder.create(live_model(context), context.settings)
        with for_step(step.id if self.named else ""):
            return await coder.write(
                step,
                EditContext(
                    issue=state.task.issue,
                    retrieved=state.retrieved,
                    failures=seen_failing(state),
                    # A plan was made with them before its eyes.
                    facts=told_facts(state) if state.plan is None or state.plan.fallback else None,
                ),
                self.tree,
                start_rung(context, "coder"),
                on_refused(context, "coder", state.round),
                attempt=state.round,
            )

    def take(self, result: EditResult) -> None:
        self.refusals += texts(result)
        if result.changes is not None:
            self.tree, self.last = self.tree.with_changes(result.changes), result

    async def at_once(self, steps: Sequence[Step], context: RunContext) -> None:
        """All on the same tree; joined in the order of the plan, whichever is ready first.

        A step is coded again, on what the others left, where it changed a file that they changed, too,
        and where a limit refused it while theirs were reserved. What failed costs nobody else's work;
        the first failure is raised where nobody brought anything.
        """
        outcomes = await in_lockstep(context, [partial(self.write, step) for step in steps])
        before = self.last
        failed: list[AgentForgeError] = []
        again: list[Step] = []
        touched: set[str] = set()
        for step, outcome in zip(steps, outcomes, strict=True):
            if isinstance(outcome, AgentForgeError):
                if _held_back(outcome):
                    again.append(step)
                else:
                    failed.append(_of_one_step(step, outcome, context))
            elif _clash(outcome, touched):
                context.notice(f"step {step.id} is coded again: it changed what another step changed, too")
                again.append(step)
            else:
                touched |= set(outcome.changes or ())
                self.take(outcome)
        for step in again:
            try:
                self.take(await self.write(step, context))
            except ModelError as error:
                failed.append(_of_one_step(step, error, context))
        if failed and self.last is before:
            raise failed[0]


def _held_back(error: AgentForgeError) -> bool:
    """A limit that may hold no longer when the others are done; one that does is raised then."""
    return isinstance(error, LimitReached) and error.limit != "context_exhausted"


def _of_one_step(step: Step, error: AgentForgeError, context: RunContext) -> AgentForgeError:
    """Say that a step failed. Raises what is no answer of a model's: a defect, or a damaged record."""
    if not isinstance(error, ModelError | LimitReached):
        raise error
    context.notice(f"step {step.id} was not coded: {error.what}", hint=error.hint, warning=True)
    return error


def _clash(result: EditResult, touched: set[str]) -> bool:
    return any(overlap(path, other) for path in result.changes or () for other in touched)


class CodeOptions(Frozen):
    """`steps`: "each" of the plan in turn, all "merged" in one call (the plan is then a chain of thought), or
    a "framework" first and its details after that, without a plan (AuditCoder, C)."""

    steps: Literal["each", "merged", "framework"] = "each"


def _plan(state: RunState, context: RunContext) -> Plan:
    """The planner's, or our plain one."""
    plan: Plan | None = state.plan
    if state.task.problem is not None and (plan is None or plan.fallback):
        return Plan(explanation="", steps=(problem_step(state.task.problem),))
    if plan is None:
        return fallback_plan(state.retrieved, context.workspace.tree, "No plan is made in this workflow.")
    return plan


def _coder_steps(plan: Plan, state: RunState, context: RunContext) -> tuple[Step, ...]:
    if state.task.problem is not None and (state.plan is None or state.plan.fallback):
        return plan.steps
    steps = (plan.coder_steps() or plan.steps[:1])[:MAX_CODER_STEPS]
    how = context.options_as(CodeOptions).steps
    if how == "each":
        return steps
    merged = _merged(plan.explanation if not plan.fallback else "", steps)
    return (merged,) if how == "merged" else _framework(merged)


def _merged(thought: str, steps: tuple[Step, ...]) -> Step:
    """All steps as one."""
    told = [f"{number}. {step.description}" for number, step in enumerate(steps, 1)]
    return Step(
        id="all",
        description="\n".join([thought, *told] if thought else told),
        files=tuple(dict.fromkeys(path for step in steps for path in step.files)),
        symbols=tuple(dict.fromkeys(name for step in steps for name in step.symbols)),
    )


def _framework(step: Step) -> tuple[Step, Step]:
    skeleton = (
        "Write the framework only: every function or class that is needed, with signature and docstring; "
        "leave new bodies at `raise NotImplementedError`."
    )
    details = "The framework stands. Now fill in every body that is missing or wrong; keep the signatures."
    return (
        step.model_copy(update={"id": "framework", "description": f"{step.description}\n{skeleton}"}),
        step.model_copy(update={"id": "details", "description": f"{step.description}\n{details}"}),
    )


def problem_step(problem: Problem, advice: str = "") -> Step:
    """The one step that a problem needs: write its program. `advice` is a plan in words."""
    what = f"the {problem.kind} {problem.entry_point}" if problem.entry_point else "the program"
    text = f"Write {what} in full; {problem.program_path} holds only a stub.\n{advice}".strip()
    symbols = (problem.entry_point,) if problem.kind == "function" else ()
    return Step(id="solve", description=text, files=(problem.program_path,), symbols=symbols)


NODES: tuple[Node[RunContext], ...] = (
    node(
        "code",
        write_code,
        "task plan retrieved facts round baseline targets",
        "draft",
        asks_model=True,
        options=CodeOptions,
    ),
)
