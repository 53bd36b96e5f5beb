"""The node that forms the team: everyone assesses the task, the selected are probed for a start (MARS, 3)."""

from __future__ import annotations

from agentforge.agents.specialists.agent import Specialist
from agentforge.agents.specialists.answers import task_text
from agentforge.agents.specialists.pool import Pool
from agentforge.core.events import TeamFormed
from agentforge.core.relay import MAX_TEAM, Contract, Seat, Team
from agentforge.core.state import RunState
from agentforge.orchestrator import relay
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.relaywork import RelayOptions, corpus_of, model_of, pool_of


class TeamOptions(RelayOptions):
    """`size`: at most so many specialists. `ask`: how many of the best matches assess the task, 0 for all.

    `probe`: whether the selected are asked who starts; without it the best of them does.
    """

    size: int = MAX_TEAM
    ask: int = 0
    probe: bool = True


async def form_team(state: RunState, context: RunContext) -> Delta:
    """Assess, rank, select, probe. Confidence counts here and in no later decision."""
    options = context.options_as(TeamOptions)
    pool = pool_of(options, state.task)
    issue = task_text(state.task.issue)
    agent = Specialist.create(model_of(context), context.settings)
    matched = relay.ranked(_matched(pool, issue, options))
    asked = (
        matched[: options.ask] if options.ask else tuple(sorted(matched, key=lambda seat: seat.specialist))
    )
    seats = [await _assessed(seat, agent, pool, issue, options) for seat in asked]
    chosen, volunteered = relay.choose_team(seats, options.size)
    if not volunteered:
        context.notice(
            f"no specialist called the task its own; {chosen[0].specialist} matches it best", warning=True
        )
    contracts: list[Contract] = []
    if options.probe:
        contracts = [await agent.probe(pool[seat.specialist], issue) for seat in chosen]
    team = Team(
        pool=pool.name,
        pool_hash=pool.hash,
        seats=chosen,
        contract=relay.choose_starter(chosen, contracts),
        asked=len(asked),
        volunteered=volunteered,
    )
    context.emit(TeamFormed(team=team, assessed=tuple(seats)))
    return {"team": team}


def _matched(pool: Pool, issue: str, options: TeamOptions) -> list[Seat]:
    """Every specialist with what it is ranked by before anyone is asked; without retrieval by tags alone."""
    corpus = corpus_of(pool)
    seats = []
    for profile in pool.specialists:
        match = corpus.match(profile, issue)
        coverage, quality = (match.coverage, match.quality) if options.retrieval else (0.0, 0.0)
        seats.append(Seat(specialist=profile.name, overlap=match.overlap, coverage=coverage, quality=quality))
    return seats


async def _assessed(seat: Seat, agent: Specialist, pool: Pool, issue: str, options: TeamOptions) -> Seat:
    profile = pool[seat.specialist]
    notes = corpus_of(pool).search(profile, issue, options.notes) if options.retrieval else ()
    answer = await agent.assess(profile, issue, notes)
    return seat.model_copy(
        update={
            "eligible": answer.eligible,
            "confidence": answer.confidence,
            "reasoning": answer.reasoning or answer.problem,
        }
    )


NODES: tuple[Node[RunContext], ...] = (
    node("team", form_team, "task", "team", asks_model=True, options=TeamOptions),
)
