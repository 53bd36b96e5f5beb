"""What the nodes of a relay share: options, the specialist's view of the work, and its edit."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Literal, Protocol

from agentforge.agents.context import Place, symbol_places
from agentforge.agents.ladder import Rung, apply_checked
from agentforge.agents.specialists.agent import Work
from agentforge.agents.specialists.answers import task_text
from agentforge.agents.specialists.corpus import Corpus
from agentforge.agents.specialists.pool import Note, Pool, Specialist, load_pool
from agentforge.agents.specialists.sanitize import sanitize_program
from agentforge.agents.symbols import changes_between
from agentforge.core.base import Frozen
from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.events import PatchRefused
from agentforge.core.ports import Model
from agentforge.core.relay import Contract, Team
from agentforge.core.state import Edit, RunState
from agentforge.core.task import RepairTask
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator import relay
from agentforge.orchestrator.context import RunContext

MAX_PLACES = 12


class RelayOptions(Frozen):
    """`pool`: `auto` (by task), a shipped one, or a folder. `retrieval`: notes are shown and ranked by."""

    pool: str = "auto"
    retrieval: bool = True
    notes: int = 3
    subtasks: bool = True


class Answer(Protocol):
    """An answer of a specialist that holds code."""

    @property
    def code(self) -> str: ...


def model_of(context: RunContext) -> Model:
    assert context.model is not None, "the workflow was checked to have a model"
    return context.model


def team_of(state: RunState) -> Team:
    assert state.team is not None, "the workflow was checked to form a team first"
    return state.team


def pool_of(options: RelayOptions, task: RepairTask) -> Pool:
    """The pool that the options name; `auto` takes the algorithms for a problem, else the repositories."""
    name = options.pool
    if name == "auto":
        name = "algorithms" if task.problem is not None else "repositories"
    return _pool(name)


@lru_cache(maxsize=8)
def _pool(name: str) -> Pool:
    return load_pool(name)


@lru_cache(maxsize=8)
def corpus_of(pool: Pool) -> Corpus:
    return Corpus(pool)


def program_of(task: RepairTask) -> tuple[str, str]:
    """(path, language) of the one program a problem asks for; ("", "python") for a repository."""
    if task.problem is None:
        return "", "python"
    return task.problem.program_path, task.problem.language


def shared_tree(state: RunState, context: RunContext) -> Tree:
    """The base with the code that the relay has come to."""
    base = context.workspace.tree
    return base if state.relay_code is None else base.with_changes(state.relay_code.changes)


def work_of(
    state: RunState, context: RunContext, options: RelayOptions, profile: Specialist | None, tree: Tree
) -> Work:
    """What `profile` sees of the task in this step; no raw test output of earlier ones (MARS, 4.4)."""
    issue = task_text(state.task.issue)
    program, language = program_of(state.task)
    seats = {seat.specialist: seat for seat in state.team.seats} if state.team is not None else {}
    last = state.turns[-1].handoff if state.turns else None
    notes: tuple[Note, ...] = ()
    if profile is not None and options.retrieval:
        notes = corpus_of(pool_of(options, state.task)).search(profile, issue, options.notes)
    return Work(
        issue=issue,
        tree=tree,
        places=(Place(program),) if program else _places(state, context, tree),
        contract=state.team.contract if state.team is not None else Contract(specialist=""),
        reasoning=seats[profile.name].reasoning if profile is not None and profile.name in seats else "",
        handoff=last,
        subtasks=tuple(relay.subtasks(state.turns).items()) if options.subtasks else (),
        feedback=relay.gate_feedback(state.turns),
        streak=relay.streak(state.turns),
        notes=notes,
        program=program,
        language=language,
        rung=_rung(context),
    )


def _places(state: RunState, context: RunContext, tree: Tree) -> tuple[Place, ...]:
    """What the shared code changed, then what retrieval found."""
    changed = changes_between(context.workspace.tree, tree)
    own = tuple(Place(path) for path in sorted(changed) if path in tree.files)
    return (*own, *symbol_places(state.retrieved.symbols))[:MAX_PLACES]


def _rung(context: RunContext) -> Rung:
    wanted: Literal["auto", "diff", "search_replace", "symbol"] = context.settings.model.edit_format
    return "symbol" if wanted == "auto" else wanted


async def edited(
    origin: str, answer: Answer, work: Work, tree: Tree, state: RunState, context: RunContext
) -> Edit:
    """The code of an answer as changes relative to the base; a refusal is told, and the edit is empty."""
    try:
        after = await asyncio.to_thread(_after, answer.code, work, tree)
    except PatchError as error:
        reason = f"{error.reason.value}: {error.what}"
        edit = edit_of(origin, state.round, None, work.rung, (reason,))
        refused(context, edit, error.reason.value, error.what)
        return edit
    changes = changes_between(context.workspace.tree, after)
    return edit_of(origin, state.round, dict(changes), "file" if work.program else work.rung)


def _after(code: str, work: Work, tree: Tree) -> Tree:
    """`tree` after the edit. Raises `PatchError`."""
    if not work.program:
        target = work.places[0].path if work.places else None
        changes, _ = apply_checked(code, tree, target)
        return tree.with_changes(changes)
    program = sanitize_program(code, work.language)
    if not program:
        raise PatchError(RefusalReason.MALFORMED, "the answer holds no program")
    before = tree.files.get(work.program)
    if before is not None and before.data == program.encode():
        raise PatchError(RefusalReason.ALREADY_APPLIED, "the program is the one there is")
    return tree.with_changes({work.program: TreeFile(program.encode("utf-8", "replace"))})


def edit_of(
    origin: str,
    round_: int,
    changes: dict[str, TreeFile | None] | None,
    edit_format: str,
    refusals: tuple[str, ...] = (),
) -> Edit:
    return Edit(
        round=round_,
        origin=origin,
        edit_format=edit_format,
        changes=changes,
        refusals=tuple(text for text in refusals if text),
    )


def refused(context: RunContext, edit: Edit, reason: str, text: str) -> None:
    context.emit(
        PatchRefused(
            origin=edit.origin,
            round=edit.round,
            edit_format=edit.edit_format,
            reason=reason,
            text=text,
        )
    )
