"""The node that codes a plan, over real HTTP and a real record, without containers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from agentforge.config.load import load_settings
from agentforge.core.errors import AgentForgeError
from agentforge.core.events import Event
from agentforge.core.plan import Plan, Step
from agentforge.core.redact import Redactor
from agentforge.core.state import Edit, RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree, TreeFile
from agentforge.models.factory import build_ledger, build_model
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.eventlog import EventLog, ModelEvents
from agentforge.orchestrator.nodes.coding import CodeOptions, write_code
from agentforge.repo.workspace import GitWorkspace
from tests.support.model_server import Body, Reply, ScriptedModel

NAMES = ("one", "two", "three")
FILES = {f"{name}.py": f"def {name}():\n    return 'wrong'\n" for name in NAMES}
TREE = Tree({path: TreeFile(text.encode()) for path, text in FILES.items()})


def step(name: str, *after: str, files: tuple[str, ...] | None = None) -> Step:
    owned = (f"{name}.py",) if files is None else files
    return Step(id=name, description=f"Mend {name}.", files=owned, symbols=(name,), depends_on=after)


PLAN = Plan(explanation="each on its own", steps=tuple(step(name) for name in NAMES))


def mended(name: str, body: str = "'right'") -> str:
    return f"{name}.py\n```python\ndef {name}():\n    return {body}\n```\n"


def asked_for(body: Body) -> str:
    """Which step an edit prompt is about."""
    said = body["messages"][-1]["content"]
    return next(name for name in NAMES if f"Mend {name}." in said)


class TickingClock:
    """A second a reading."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=next(self._ticks))

    def monotonic(self) -> float:
        return float(next(self._ticks))


@dataclass
class Coded:
    """What the node made, said and asked; `error` where it raised."""

    edit: Edit | None
    error: AgentForgeError | None
    events: list[Event]
    lines: list[bytes]
    spend: Any

    def of_type(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    @property
    def texts(self) -> dict[str, str]:
        assert self.edit is not None
        changes = self.edit.changes or {}
        return {path: entry.data.decode() for path, entry in changes.items() if entry is not None}


async def coded(
    server: ScriptedModel | None, folder: Path, plan: Plan = PLAN, *, replay: bool = False, **flags: Any
) -> Coded:
    """Carry out `plan` on `TREE`; the record is in `folder`, from which a replay answers."""
    url = server.base_url if server is not None else "http://127.0.0.1:1/v1"
    defaults = {"model.base_url": url, "model.edit_format": "symbol", "model.max_retries": 1}
    settings = load_settings(
        None, {**defaults, **{k.replace("__", "."): v for k, v in flags.items()}}, {}
    ).settings
    events: list[Event] = []
    lines: list[bytes] = []
    log = EventLog(TickingClock(), Redactor(), lambda line, last: lines.append(line), events.append)
    ledger = build_ledger(settings)
    calls = folder / "calls.jsonl"
    model = build_model(
        settings,
        ledger,
        record=folder / "again.jsonl" if replay else calls,
        listener=ModelEvents(log.emit),
        replay=calls if replay else None,
    )
    context = RunContext(
        settings=settings,
        sandbox=cast(Any, None),
        workspace=GitWorkspace(TREE, folder),
        retriever=None,
        clock=TickingClock(),
        on_event=log.emit,
        model=model,
        ledger=ledger,
        options=CodeOptions(),
    )
    task = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text="all are wrong"))
    state = RunState(task=task, base_commit="0" * 40, plan=plan)
    try:
        delta = await write_code(state, context)
    except AgentForgeError as error:
        return Coded(None, error, events, lines, ledger.spend)
    return Coded(delta["draft"], None, events, lines, ledger.spend)


def paced(delays: dict[str, float], **answers: Any) -> Any:
    """Each step's answer after its delay in seconds; `answers` by step instead of the right one."""

    def reply(body: Body) -> Reply:
        name = asked_for(body)
        said = answers.get(name, mended(name))
        if isinstance(said, list):
            said = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(said, Reply):
            return said
        return Reply(said, first_delay_s=delays.get(name, 0.0))

    return reply
