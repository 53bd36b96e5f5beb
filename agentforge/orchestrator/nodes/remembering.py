"""Nodes that use memory: retrieve before the repair, store after it. None of them can fail a run."""

from __future__ import annotations

from agentforge.agents.distiller import Distiller
from agentforge.core.errors import LimitReached, ModelError
from agentforge.core.events import ContextRetrieved, EpisodeStored, InsightLearned
from agentforge.core.plan import Plan
from agentforge.core.ports import Retriever
from agentforge.core.retrieval import Episode, Retrieved
from agentforge.core.state import Judged, RunState
from agentforge.memory.editkinds import failure_kinds
from agentforge.memory.episodes import episode_id
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.result import held_back

MIN_SIMILAR = 2
"""Earlier episodes beside the new one before a model is asked what they share."""


async def retrieve(state: RunState, context: RunContext) -> Delta:
    """Top-k symbols, episodes and insights (AgentForge, III-C; k = 5)."""
    if context.retriever is None:
        return {"retrieved": Retrieved()}
    found = await context.retriever.retrieve(
        state.task.issue, context.workspace.tree, context.settings.memory.k
    )
    context.emit(
        ContextRetrieved(
            symbols=tuple((item.path, item.name, item.start_line, item.end_line) for item in found.symbols),
            episodes=tuple(item.id for item in found.episodes),
            insights=tuple(item.id for item in found.insights),
            warnings=len(found.warnings),
        )
    )
    return {"retrieved": found}


async def store_episode(state: RunState, context: RunContext) -> Delta:
    """Remember a verified fix, and only that (AF-15); tell the insights that were given how it went."""
    if context.retriever is None or not context.settings.memory.learn:
        return {"episode": ""}
    verified = state.verified and not held_back(state.critic, context.settings.critic)
    if state.retrieved.insights and _was_told(state.plan):
        await context.retriever.outcome(state.retrieved.insights, verified=verified)
    if not verified or state.best is None:
        return {"episode": ""}
    episode = _episode(state, state.best, context)
    kept = await context.retriever.store(episode)
    if kept:
        context.emit(EpisodeStored(episode=kept))
        await _distil(state, episode.model_copy(update={"id": kept}), context.retriever, context)
    return {"episode": kept}


def _was_told(plan: Plan | None) -> bool:
    """Only the planner sees insights, and our fallback plan follows none."""
    return plan is not None and not plan.fallback


def _episode(state: RunState, best: Judged, context: RunContext) -> Episode:
    planned = state.plan if state.plan is not None and not state.plan.fallback else None
    spent = context.spent()
    episode = Episode(
        id="",
        repository=context.repository,
        issue=state.task.issue.text,
        patch=best.candidate.patch.text,
        summary=planned.explanation if planned else "",
        plan="\n".join(f"{step.id}: {step.description}" for step in planned.steps) if planned else "",
        tests=best.decision.fail_to_pass,
        failures=_failures(best),
        attempts=tuple(attempt.refused for attempt in state.attempts if attempt.refused is not None),
        base=state.base_commit,
        workflow=context.workflow,
        model=context.settings.model.name if context.model is not None else "",
        cost_usd=None if spent.unpriced_calls else spent.cost_usd,
        created=context.clock.now().isoformat(),
    )
    return episode.model_copy(update={"id": episode_id(episode)})


def _failures(best: Judged) -> tuple[str, ...]:
    """Types of the exceptions with which the repaired tests failed on the base, the commonest first."""
    seen = [best.baseline.failures.get(test) for test in best.decision.fail_to_pass]
    return failure_kinds(f"{failure.exception}: {failure.message[:2000]}" for failure in seen if failure)


async def _distil(state: RunState, new: Episode, retriever: Retriever, context: RunContext) -> None:
    """A model's words for what the new fix shares with earlier ones, where none are known yet.

    Without a model, or with `memory.distil` off, lessons are counted alone.
    """
    known = [one for one in state.retrieved.insights if not one.edit]
    alike = [
        one for one in state.retrieved.episodes if one.id != new.id and set(one.failures) & set(new.failures)
    ]
    if context.model is None or known or len(alike) < MIN_SIMILAR or not context.settings.memory.distil:
        return
    try:
        lesson = await Distiller.create(context.model, context.settings).distil([new, *alike])
    except (ModelError, LimitReached) as error:
        context.notice(f"no lesson was distilled: {error.what}")
        return
    episodes = tuple(one.id for one in (new, *alike))
    kept = await retriever.learn(lesson, episodes) if lesson else ""
    if kept:
        context.emit(InsightLearned(insight=kept, lesson=lesson, episodes=episodes))


NODES: tuple[Node[RunContext], ...] = (
    node("retrieve", retrieve, "task", "retrieved", once=True),
    node(
        "store",
        store_episode,
        "task best plan critic verified base_commit attempts retrieved",
        "episode",
    ),
)
