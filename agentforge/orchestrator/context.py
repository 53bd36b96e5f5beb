"""What a node may use besides the state: the ports, the settings, and where to report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from agentforge.config.settings import Settings
from agentforge.core.base import Frozen
from agentforge.core.chat import Spend
from agentforge.core.events import EventBase, Notice
from agentforge.core.ports import Clock, Retriever, Sandbox, TestRequest, Workspace
from agentforge.core.report import TestReport
from agentforge.models.ledger import Ledger
from agentforge.models.record import AccountingModel
from agentforge.orchestrator.node import NoOptions, Share

OptionsT = TypeVar("OptionsT", bound=Frozen)


@dataclass
class RunContext:
    """The ports of one run. `model` is None where the workflow needs none."""

    settings: Settings
    sandbox: Sandbox
    workspace: Workspace
    retriever: Retriever | None
    clock: Clock
    on_event: Callable[[EventBase], None]
    model: AccountingModel | None = None
    deadline: float | None = None
    repository: str = ""
    workflow: str = ""
    spent: Callable[[], Spend] = Spend
    """What the run has used so far."""
    ledger: Ledger | None = None
    node: str = ""
    """The name under which the running node stands in the graph."""
    options: Frozen = field(default_factory=NoOptions)
    base_reports: dict[tuple[str, TestRequest], TestReport] = field(default_factory=dict)
    """Reports on the base, by tree digest and request: the base is executed once per question."""

    def emit(self, event: EventBase) -> None:
        self.on_event(event)

    def notice(self, text: str, *, hint: str = "", warning: bool = False) -> None:
        self.emit(Notice(level="warning" if warning else "info", text=text, hint=hint))

    def options_as(self, kind: type[OptionsT]) -> OptionsT:
        """The parameters of the running node, which declared `kind`."""
        assert isinstance(self.options, kind), f"node {self.node!r} did not declare {kind.__name__}"
        return self.options

    def for_node(self, name: str, options: Frozen) -> Self:
        return replace(self, node=name, options=options)

    def has_model(self) -> bool:
        return self.model is not None

    def spend(self) -> Spend:
        return self.spent()

    @contextmanager
    def stage(self, share: Share) -> Iterator[None]:
        """Until the end of the block the deadline and the ledger's limits are those of a stage."""
        deadline, remaining = self.deadline, self.remaining_s()
        if deadline is not None and remaining is not None:
            self.deadline = deadline - remaining * (1 - share.time)
        limits = self.ledger.narrow(share.tokens) if self.ledger is not None else None
        try:
            yield
        finally:
            self.deadline = deadline
            if self.ledger is not None and limits is not None:
                self.ledger.limits = limits

    def start_deadline(self) -> None:
        """Count the time limit of the run from now; asks the clock once, and only where there is one."""
        limit = self.settings.limits.time_limit_s
        self.deadline = None if limit is None else self.clock.monotonic() + limit

    def remaining_s(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.clock.monotonic()
