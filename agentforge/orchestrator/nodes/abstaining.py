"""The node that ends a cascade without a patch: it says what was learned, and claims nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from agentforge.core.events import Abstained
from agentforge.core.gate import Verdict
from agentforge.core.state import RunState
from agentforge.orchestrator import relay
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node

MAX_LINES = 40
MAX_TRIED = 12


async def abstain(state: RunState, context: RunContext) -> Delta:
    """What the stages found out, each line from the record; nothing is asked of a model."""
    if state.verified:
        return {"learned": ()}
    learned = tuple(dict.fromkeys(_lessons(state)))[:MAX_LINES]
    context.emit(Abstained(learned=learned))
    return {"learned": learned}


def _lessons(state: RunState) -> Iterator[str]:
    yield from _evidence(state)
    yield from _nearest(state)
    yield from (f"Search: {reason}" for reason in state.search_reasons[-2:])
    yield from _tried(state)
    if state.locus is not None and state.locus.node:
        yield f"Last located: {state.locus.node} ({state.locus.rule}, {state.locus.confidence} confidence)"
    for turn in state.turns:
        if turn.handoff is not None and turn.handoff.risks:
            yield f"{turn.specialist} warned: {turn.handoff.risks}"
    open_ones = [name for name, done in relay.subtasks(state.turns).items() if not done]
    if open_ones:
        yield f"Subtasks left open: {'; '.join(open_ones[:8])}"


def _evidence(state: RunState) -> Iterator[str]:
    """Which tests show the bug, or that none does."""
    if state.targets:
        yield f"The bug is shown by: {', '.join(state.targets[:6])}"
    else:
        yield "No test shows the bug; an example with its expected result would."


def _nearest(state: RunState) -> Iterator[str]:
    best = state.best
    if best is None:
        yield "No candidate could be executed."
        return
    passing = relay.passing_targets(best.report, state.targets)
    yield (
        f"Nearest candidate {best.candidate.id} passes {len(passing)} target tests and changes "
        + ", ".join(best.candidate.patch.files)
    )
    if best.decision.verdict is Verdict.REFUSED:
        yield from (
            f"It was refused: {reason.text} {reason.test_id}".rstrip() for reason in best.decision.reasons[:5]
        )


def _tried(state: RunState) -> Iterator[str]:
    """Where candidates were changed without success."""
    places = dict.fromkeys(place for attempt in state.attempts for place in attempt.places)
    if places:
        shown = ", ".join(list(places)[:MAX_TRIED])
        yield f"{len(state.attempts)} candidates were executed; they changed {shown}"


NODES: tuple[Node[RunContext], ...] = (
    node(
        "abstain",
        abstain,
        "verified targets best search_reasons attempts locus turns",
        "learned",
    ),
)
