"""The edit-format ladder: unified diff, SEARCH/REPLACE, whole symbol.

Weak models cannot count hunk lines or quote context exactly, but they can write a whole function
(1.5B model on six QuixBugs programs: 0, 0 and 4 fixed). So an answer that cannot be applied steps
down one rung, with the precise reason quoted back. Every answer goes through the patch engine; what
leaves is a set of changed files, never the model's text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from agentforge.agents.base import Agent, was_cut
from agentforge.agents.extract import only_closed_block, parse_python
from agentforge.config.settings import EditFormat
from agentforge.core.chat import Completion, Message
from agentforge.core.errors import PatchError, RefusalReason
from agentforge.core.paths import is_test_path
from agentforge.core.ports import TokenSink
from agentforge.core.tree import Changes, Tree
from agentforge.models.errors import EmptyAnswerError
from agentforge.repo.patch import apply_answer

Rung = Literal["diff", "search_replace", "symbol"]
LADDER: tuple[Rung, ...] = ("diff", "search_replace", "symbol")


@dataclass(frozen=True)
class Refusal:
    """An answer that could not be used: on which rung, why (the patch engine's category), and the
    real lines closest to what it quoted."""

    edit_format: Rung
    reason: RefusalReason
    text: str
    path: str = ""
    closest: str = ""


OnRefused = Callable[[Refusal], None]
Compose = Callable[[Rung, tuple[Refusal, ...], int], tuple[Message, ...]]
"""Messages for a rung, the refusals so far, and a budget in tokens."""


@dataclass(frozen=True)
class EditResult:
    """What came of a descent. `changes` is None where every rung failed; `answers` are all texts.

    `test_files` are the touched paths that look like tests: reported, for the gate to judge.
    """

    changes: Changes | None
    edit_format: Rung | None = None
    refusals: tuple[Refusal, ...] = ()
    answers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    test_files: tuple[str, ...] = field(default=())

    @property
    def gave_up(self) -> bool:
        return self.changes is None


RAISED_TEMPERATURE = 0.7


class Sampling(NamedTuple):
    """How the first answer is drawn; `attempt` shifts the seed. None leaves the agent's own."""

    temperature: float | None = None
    attempt: int = 0


FIRST = Sampling()


def rungs_from(start: EditFormat) -> tuple[Rung, ...]:
    """The ladder from `start` downwards; "auto" starts at the top."""
    return LADDER if start == "auto" else LADDER[LADDER.index(start) :]


async def descend(
    agent: Agent,
    tree: Tree,
    compose: Compose,
    *,
    start: EditFormat = "auto",
    target: str | None = None,
    sampling: Sampling = FIRST,
    sink: TokenSink | None = None,
    on_refused: OnRefused | None = None,
) -> EditResult:
    """Ask rung by rung until an answer applies to `tree`.

    `target` is the path for answers that name none. Errors of the model pass through.
    """
    refusals: tuple[Refusal, ...] = ()
    answers: list[str] = []
    rungs = rungs_from(start)
    for step, rung in enumerate(rungs):
        text = ""
        try:
            completion = await _ask(agent, compose, rung, refusals, sink, sampling, step)
            text = completion.text
            answer = _whole_answer(completion, last=rung == LADDER[-1])
            changes, notes = await asyncio.to_thread(apply_checked, answer, tree, target)
        except PatchError as error:
            answers.append(text)
            refusal = Refusal(rung, error.reason, error.what, error.path, error.closest)
            refusals = (*refusals, refusal)
            if on_refused:
                on_refused(refusal)
            continue
        tests = tuple(sorted(path for path in changes if is_test_path(path)))
        return EditResult(changes, rung, refusals, (*answers, text), notes, tests)
    return EditResult(None, None, refusals, tuple(answers))


async def _ask(
    agent: Agent,
    compose: Compose,
    rung: Rung,
    refusals: tuple[Refusal, ...],
    sink: TokenSink | None,
    sampling: Sampling,
    step: int,
) -> Completion:
    try:
        return await agent.ask(
            lambda budget: compose(rung, refusals, budget),
            sink=sink,
            attempt=sampling.attempt + step,
            temperature=sampling.temperature,
        )
    except EmptyAnswerError as error:
        raise PatchError(RefusalReason.MALFORMED, "the answer was empty") from error


def _whole_answer(completion: Completion, *, last: bool) -> str:
    """The text to apply. Raises `PatchError` (truncated) where the output limit cut it.

    On the last rung one closed code block is all that was asked for, so prose that ran into the
    limit behind it is dropped.
    """
    if not completion.text.strip():
        raise PatchError(RefusalReason.MALFORMED, "the answer was empty")
    if not was_cut(completion):
        return completion.text
    block = only_closed_block(completion.text) if last else None
    if block is not None:
        return block
    raise PatchError(
        RefusalReason.TRUNCATED, "the answer was cut off at the output limit; make a smaller edit"
    )


def apply_checked(answer: str, tree: Tree, target: str | None) -> tuple[Changes, tuple[str, ...]]:
    """What `answer` changes in `tree`, with notes; what parsed must still parse. Raises `PatchError`."""
    edit = apply_answer(answer, tree, target=target)
    changes = {path: entry for path, entry in edit.changes.items() if tree.files.get(path) != entry}
    if not changes:
        raise PatchError(RefusalReason.ALREADY_APPLIED, "the answer changes nothing")
    for path, entry in changes.items():
        if entry is not None and entry.mode != "120000" and path.endswith(".py"):
            _check_syntax(path, entry.data, tree)
    return changes, tuple(edit.notes)


def _check_syntax(path: str, data: bytes, tree: Tree) -> None:
    """Refuse an edit after which a file that parsed no longer does (AgentForge, III-A)."""
    if parse_python(data) is not None:
        return
    before = tree.files.get(path)
    if before is not None and parse_python(before.data) is None:
        return
    raise PatchError(
        RefusalReason.MALFORMED, f"after the edit {path} is not valid Python{_where(data)}", path=path
    )


def _where(data: bytes) -> str:
    try:
        compile(data, "edited", "exec", dont_inherit=True, flags=0x400)  # ast.PyCF_ONLY_AST
    except SyntaxError as error:
        return f": line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""
