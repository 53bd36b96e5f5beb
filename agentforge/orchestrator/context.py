"""What a node may use besides the state: the ports, the settings, and where to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.events import EventBase, Notice
from agentforge.core.ports import Clock, Model, Retriever, Sandbox, TestRequest, Workspace
from agentforge.core.report import TestReport


@dataclass
class RunContext:
    """The ports of one run. `model` is None where the workflow needs none."""

    settings: Settings
    sandbox: Sandbox
    workspace: Workspace
    retriever: Retriever | None
    clock: Clock
    on_event: Callable[[EventBase], None]
    model: Model | None = None
    deadline: float | None = None
    repository: str = ""
    workflow: str = ""
    spent: Callable[[], Spend] = Spend
    """What the run has used so far."""
    base_reports: dict[tuple[str, TestRequest], TestReport] = field(default_factory=dict)
    """Reports on the base, by tree digest and request: the base is executed once per question."""

    def emit(self, event: EventBase) -> None:
        self.on_event(event)

    def notice(self, text: str, *, hint: str = "", warning: bool = False) -> None:
        self.emit(Notice(level="warning" if warning else "info", text=text, hint=hint))

    def start_deadline(self) -> None:
        """Count the time limit of the run from now; asks the clock once, and only where there is one."""
        limit = self.settings.limits.time_limit_s
        self.deadline = None if limit is None else self.clock.monotonic() + limit

    def remaining_s(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.clock.monotonic()
