"""Nodes of the relay of specialists: draft, apply, check, hand over, merge, fix (MARS, 3 and appendix C).

Who works is decided in `nodes/teaming.py` and `orchestrator/relay.py`; the engine counts the steps.
"""

from __future__ import annotations

from typing import Literal

from agentforge.agents.failures import describe_failures
from agentforge.agents.specialists.agent import Fixer, Manager, Specialist
from agentforge.agents.specialists.boilerplate import boilerplate_failure, boilerplate_only
from agentforge.core.base import Frozen
from agentforge.core.events import RelayTurn
from agentforge.core.gate import Verdict
from agentforge.core.patch import Candidate
from agentforge.core.relay import RepairOutcome, SelfCheck, Turn
from agentforge.core.state import Edit, Judged, RunState
from agentforge.core.tree import Changes, Tree
from agentforge.orchestrator import relay
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.node import Delta, Node, node
from agentforge.orchestrator.nodes.agentic import seen_failing
from agentforge.orchestrator.nodes.evidence import make_candidate
from agentforge.orchestrator.nodes.relaywork import (
    RelayOptions,
    edit_of,
    edited,
    model_of,
    pool_of,
    program_of,
    refused,
    shared_tree,
    team_of,
    work_of,
)


class ApplyOptions(Frozen):
    """Which edit becomes the candidate: the turn's draft, its repair, or the shared code as it stands."""

    edit: Literal["draft", "repair", "shared"] = "draft"


class HandOverOptions(Frozen):
    revisit: bool = False
    """Whether the team may go round again when each had its turn."""
    self_check: bool = True
    """Whether the turn had a second call, whose packet is handed over."""


async def draft(state: RunState, context: RunContext) -> Delta:
    """Call 1 of a turn: the active specialist writes code, or changes nothing."""
    options = context.options_as(RelayOptions)
    name = relay.active(team_of(state), state.turns)
    profile = pool_of(options, state.task)[name]
    tree = shared_tree(state, context)
    work = work_of(state, context, options, profile, tree)
    answer = await Specialist.create(model_of(context), context.settings).draft(
        profile, work, attempt=state.round
    )
    if answer.action != "write_code":
        edit = edit_of(name, state.round, None, answer.action, (answer.problem,))
    else:
        edit = await edited(name, answer, work, tree, state, context)
    return {"draft": edit, "draft_stop": answer.stop}


async def apply_relay(state: RunState, context: RunContext) -> Delta:
    """The chosen edit as a candidate of its own name; None where there is nothing to execute."""
    which = context.options_as(ApplyOptions).edit
    if which == "shared":
        return {"candidate": state.relay_code}
    edit: Edit | None = state.draft if which == "draft" else state.repair
    if edit is None or edit.round != state.round or edit.changes is None:
        return {"candidate": None}
    suffix = "" if which == "draft" else "r"
    return {"candidate": await make_candidate(edit, f"t{state.round + 1}{suffix}", state, context)}


async def check(state: RunState, context: RunContext) -> Delta:
    """Call 2 of a turn: the same specialist sees its draft's report; keeps, repairs, hands over."""
    options = context.options_as(RelayOptions)
    name = relay.active(team_of(state), state.turns)
    profile = pool_of(options, state.task)[name]
    drafted = _judged(state)
    tree = context.workspace.tree.with_changes(
        state.candidate.changes if state.candidate is not None else _shared_changes(state)
    )
    work = work_of(state, context, options, profile, tree)
    answer = await Specialist.create(model_of(context), context.settings).check(
        profile,
        work,
        _report_on(state, drafted),
        relay.unused(team_of(state), state.turns, name),
        attempt=state.round,
    )
    repair = None
    if answer.check.action == "repair_code":
        repair = await edited(f"{name}/repair", answer, work, tree, state, context)
    return {"self_check": answer.check, "drafted": drafted, "repair": repair}


def _judged(state: RunState) -> Judged | None:
    """The turn's candidate with what was measured on it; the shared code where the turn made none."""
    if state.candidate is None:
        return state.relay_judged
    if state.decision is None or state.report is None or state.compared is None:
        return None
    return Judged(
        candidate=state.candidate, baseline=state.compared, report=state.report, decision=state.decision
    )


def _shared_changes(state: RunState) -> Changes:
    return dict(state.relay_code.changes) if state.relay_code is not None else {}


def _report_on(state: RunState, drafted: Judged | None) -> str:
    """What the specialist is told about its draft: failing calls, or why there was nothing to run."""
    lines = []
    if state.candidate is None and state.draft is not None:
        why = "; ".join(state.draft.refusals) or "it changed nothing"
        lines.append(f"The draft brought no new code to run: {why}")
    if drafted is None:
        return "\n".join([*lines, "Nothing was executed yet.", seen_failing(state)]).strip()
    good = relay.passing_targets(drafted.report, state.targets)
    lines.append(f"{len(good)} target tests pass; the gate: {drafted.decision.verdict.value}.")
    wanted = [reason.test_id for reason in drafted.decision.reasons if reason.test_id]
    return "\n".join([*lines, describe_failures(drafted.report, wanted)]).strip()


async def hand_over(state: RunState, context: RunContext) -> Delta:
    """The local gate, the best so far, the streak, and who is next: the turn as it goes into the record."""
    options = context.options_as(HandOverOptions)
    name = relay.active(team_of(state), state.turns)
    said = state.self_check if options.self_check and _of_this_turn(state, name) else None
    kept, outcome, lost = _local_gate(state, options)
    after, restored = relay.shared_after(kept, state.best, state.targets)
    code = _shared_code(state, after)
    progress = relay.made_progress(state.relay_judged, after, state.targets) if after else code is not None
    accepted = state.best is not None and state.best.decision.verdict is not Verdict.REFUSED
    following = relay.next_step(
        team_of(state),
        state.turns,
        name,
        progress=progress,
        accepted=accepted,
        check=said,
        stop=not options.self_check and state.draft_stop,
        revisit=options.revisit,
    )
    turn = Turn(
        step=state.round + 1,
        specialist=name,
        draft=_draft_action(state),
        check=said.action if said is not None else None,
        repair=outcome,
        lost=lost,
        restored=restored,
        progress=progress,
        passing=tuple(sorted(relay.passing_targets(after.report, state.targets))) if after else (),
        stopped=following.stopped,
        rerouted=following.rerouted,
        handoff=relay.packet(name, following.receiver, said) if following.receiver else None,
        problems=said.problems if said is not None else (),
    )
    context.emit(RelayTurn(turn=turn, candidate=code.id if code is not None else ""))
    return {"turns": (*state.turns, turn), "relay_code": code, "relay_judged": after}


def _of_this_turn(state: RunState, name: str) -> bool:
    check: SelfCheck | None = state.self_check
    return check is not None and check.specialist == name


def _local_gate(
    state: RunState, options: HandOverOptions
) -> tuple[Judged | None, RepairOutcome, tuple[str, ...]]:
    """(the turn's code, what became of its repair, which tests a rejected repair would have lost)."""
    if not options.self_check:
        return (_judged(state) if state.report is not None else None), "none", ()
    if state.repair is None:
        return state.drafted, "none", ()
    repaired = _judged(state) if state.candidate is not None else None
    if repaired is None or (state.drafted is not None and repaired.candidate == state.drafted.candidate):
        return state.drafted, "not_applied", ()
    if relay.repair_accepted(state.drafted, repaired, state.targets):
        return repaired, "accepted", ()
    lost = relay.lost_tests(state.drafted, repaired, state.targets) if state.drafted is not None else ()
    return state.drafted, "rejected", lost


def _shared_code(state: RunState, after: Judged | None) -> Candidate | None:
    """The code that goes on; where nothing is executed inside the relay, the last that could be applied."""
    if after is not None:
        return after.candidate
    candidate: Candidate | None = state.candidate or state.relay_code
    return candidate


def _draft_action(state: RunState) -> Literal["write_code", "no_change", "unusable"]:
    if state.draft is None or state.draft.edit_format in ("no_change", "unusable"):
        return (
            "no_change" if state.draft is not None and state.draft.edit_format == "no_change" else "unusable"
        )
    return "write_code" if state.draft.changes is not None else "unusable"


class EnsembleOptions(RelayOptions):
    """Every selected specialist writes alone; the manager merges (MARS, algorithm 4)."""


async def ensemble(state: RunState, context: RunContext) -> Delta:
    """One draft of each selected specialist, none of whom sees another's."""
    options = context.options_as(EnsembleOptions)
    pool, tree = pool_of(options, state.task), context.workspace.tree
    agent = Specialist.create(model_of(context), context.settings)
    answers = []
    for name in team_of(state).names:
        work = work_of(state, context, options, pool[name], tree)
        answer = await agent.draft(pool[name], work)
        if answer.action == "write_code":
            answers.append((name, answer.code))
    return {"answers": tuple(answers)}


async def merge(state: RunState, context: RunContext) -> Delta:
    """The manager's one program out of the ensemble's answers."""
    options = context.options_as(EnsembleOptions)
    tree = context.workspace.tree
    if not state.answers:
        return {"draft": edit_of("manager", state.round, None, "unusable", ("no specialist wrote code",))}
    work = work_of(state, context, options, None, tree)
    answer = await Manager.create(model_of(context), context.settings).merge(work, state.answers)
    if answer.action != "write_code":
        return {"draft": edit_of("manager", state.round, None, answer.action, (answer.problem,))}
    return {"draft": await edited("manager", answer, work, tree, state, context)}


async def fix_infrastructure(state: RunState, context: RunContext) -> Delta:
    """One call after the relay, for what surrounds the solution; an edit of its logic is refused."""
    options = context.options_as(RelayOptions)
    tree = shared_tree(state, context)
    work = work_of(state, context, options, None, tree)
    answer = await Fixer.create(model_of(context), context.settings).fix(
        work, _report_on(state, state.relay_judged)
    )
    if answer.action != "write_code":
        return {"repair": None}
    edit = await edited("fixer", answer, work, tree, state, context)
    if edit.changes is not None and not _only_boilerplate(edit, tree, context.workspace.tree, state):
        refused(context, edit, "tests_only", "the infrastructure fixer changed more than boilerplate")
        return {"repair": None}
    return {"repair": edit}


def _only_boilerplate(edit: Edit, tree: Tree, base: Tree, state: RunState) -> bool:
    after = base.with_changes(edit.changes or {})
    language = program_of(state.task)[1]
    for path in edit.changes or {}:
        if path not in tree.files or path not in after.files:
            return False
        old, new = (item.files[path].data.decode("utf-8", "replace") for item in (tree, after))
        if not boilerplate_only(old, new, language):
            return False
    return True


def relay_goes_on(state: RunState) -> bool:
    """The last turn named who is next."""
    return bool(state.turns) and state.turns[-1].handoff is not None


def repair_offered(state: RunState) -> bool:
    return state.repair is not None and state.repair.changes is not None


def boilerplate_broken(state: RunState) -> bool:
    """The shared code is not accepted, and fails at its surroundings: imports, input, widths."""
    judged = state.relay_judged
    refused = judged is not None and judged.decision.verdict is Verdict.REFUSED
    return judged is not None and refused and bool(boilerplate_failure(judged.report))


def has_shared_code(state: RunState) -> bool:
    return state.relay_code is not None


PREDICATES = (relay_goes_on, repair_offered, boilerplate_broken, has_shared_code)

_WORK = "task team turns relay_code retrieved plan round baseline targets environment existing"
_JUDGED = "candidate report compared decision relay_judged drafted"

NODES: tuple[Node[RunContext], ...] = (
    node("draft", draft, _WORK, "draft draft_stop", needs="team", asks_model=True, options=RelayOptions),
    node(
        "relay_apply",
        apply_relay,
        "draft repair relay_code round task existing baseline environment",
        "candidate",
        options=ApplyOptions,
    ),
    node(
        "check",
        check,
        f"{_WORK} {_JUDGED} draft",
        "self_check drafted repair",
        needs="team",
        asks_model=True,
        options=RelayOptions,
    ),
    node(
        "hand_over",
        hand_over,
        f"team turns round targets best self_check repair draft draft_stop relay_code {_JUDGED}",
        "turns relay_code relay_judged",
        needs="team",
        options=HandOverOptions,
    ),
    node("ensemble", ensemble, _WORK, "answers", needs="team", asks_model=True, options=EnsembleOptions),
    node("merge", merge, f"{_WORK} answers", "draft", needs="team", asks_model=True, options=EnsembleOptions),
    node(
        "fix_infrastructure",
        fix_infrastructure,
        f"{_WORK} {_JUDGED} draft",
        "repair",
        asks_model=True,
        options=RelayOptions,
    ),
)
