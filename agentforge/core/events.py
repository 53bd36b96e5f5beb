"""Events: what happened in a run, in order. Durable ones go to disk; tokens are transient."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from agentforge.core.base import Frozen
from agentforge.core.chat import Spend, Usage
from agentforge.core.facts import Facts
from agentforge.core.gate import GateDecision
from agentforge.core.patch import GeneratedTest
from agentforge.core.plan import Plan
from agentforge.core.relay import Seat, Team, Turn
from agentforge.core.report import TestReport
from agentforge.core.responsibility import Evidence, Fallback, Graph, Locus, Transaction

EVENT_VERSION = 1


class EventBase(Frozen):
    """`seq` counts from 1 over all events of a run; `time` is UTC. Both are stamped by the engine."""

    v: int = EVENT_VERSION
    seq: int = 0
    time: datetime | None = None


class RunStarted(EventBase):
    type: Literal["run_started"] = "run_started"
    run_id: str
    workflow: str
    workflow_hash: str
    repository: str
    base: str
    issue_title: str
    models: dict[str, str] = {}


class RunResumed(EventBase):
    """The run goes on in another process, right after the event numbered `after`.

    Numbers between `after` and this event's own belong to an ending that does not hold any more.
    """

    type: Literal["run_resumed"] = "run_resumed"
    after: int


class NodeStarted(EventBase):
    type: Literal["node_started"] = "node_started"
    node: str
    round: int = 0


class NodeFinished(EventBase):
    type: Literal["node_finished"] = "node_finished"
    node: str
    round: int = 0
    writes: tuple[str, ...] = ()


class StageStarted(EventBase):
    """A stage of a cascade: from here on nodes belong to its workflow."""

    type: Literal["stage_started"] = "stage_started"
    stage: str
    workflow: str


class StageFinished(EventBase):
    """`spend` is the stage's own; `reason` says which limit ended it, "" for none."""

    type: Literal["stage_finished"] = "stage_finished"
    stage: str
    workflow: str
    solved: bool
    reason: str = ""
    spend: Spend


class ModelCallStarted(EventBase):
    """`step` is that of a plan with several, "" (and then not written) elsewhere."""

    type: Literal["model_call_started"] = "model_call_started"
    call: int
    agent: str
    model: str
    step: str = Field(default="", exclude_if=lambda step: not step)


class Token(EventBase):
    """Transient: replayable while the run lives, never on disk."""

    type: Literal["token"] = "token"
    call: int
    agent: str
    text: str


class StreamReset(EventBase):
    """A completion started over; the tokens of `call` so far are void."""

    type: Literal["stream_reset"] = "stream_reset"
    call: int
    agent: str
    reason: str


class ModelCallFinished(EventBase):
    type: Literal["model_call_finished"] = "model_call_finished"
    call: int
    agent: str
    model: str
    finish_reason: str
    usage: Usage
    cost_usd: float | None
    spend: Spend


class ContextRetrieved(EventBase):
    type: Literal["context_retrieved"] = "context_retrieved"
    symbols: tuple[tuple[str, str, int, int], ...] = ()
    episodes: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()
    warnings: int = 0
    """Failed attempts of similar issues."""


class PlanMade(EventBase):
    type: Literal["plan_made"] = "plan_made"
    plan: Plan


class ResponsibilitiesCommitted(EventBase):
    """The graph, before any code exists (AuditCoder, 3.1)."""

    type: Literal["responsibilities_committed"] = "responsibilities_committed"
    graph: Graph


class NodeVerified(EventBase):
    """What one responsibility's code gave in its own checks."""

    type: Literal["node_verified"] = "node_verified"
    responsibility: str
    units: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Localized(EventBase):
    """Where the locator puts a failure, or that it abstains."""

    type: Literal["localized"] = "localized"
    locus: Locus


class TransactionClosed(EventBase):
    type: Literal["transaction_closed"] = "transaction_closed"
    transaction: Transaction


class FallbackClosed(EventBase):
    type: Literal["fallback_closed"] = "fallback_closed"
    fallback: Fallback


class PatchProposed(EventBase):
    type: Literal["patch_proposed"] = "patch_proposed"
    candidate: str
    origin: str
    round: int
    edit_format: str
    diff: str
    """For people; the exact bytes of a result are in patch.diff."""
    files: tuple[str, ...]
    added: int = 0
    removed: int = 0


class PatchRefused(EventBase):
    """An answer that could not be applied, with the patch engine's reason category."""

    type: Literal["patch_refused"] = "patch_refused"
    origin: str
    round: int
    edit_format: str
    reason: str
    text: str


class TestsSynthesized(EventBase):
    __test__ = False

    type: Literal["tests_synthesized"] = "tests_synthesized"
    accepted: tuple[GeneratedTest, ...] = ()
    discarded: tuple[tuple[str, str], ...] = ()
    """(test id or file, why it does not count)."""


class TestsStarted(EventBase):
    __test__ = False

    type: Literal["tests_started"] = "tests_started"
    subject: str
    scope: str
    targets: int


class TestsFinished(EventBase):
    """`subject` is "base" or a candidate id."""

    __test__ = False

    type: Literal["tests_finished"] = "tests_finished"
    subject: str
    report: TestReport


class GateDecided(EventBase):
    type: Literal["gate_decided"] = "gate_decided"
    candidate: str
    decision: GateDecision


class DeadlockDetected(EventBase):
    type: Literal["deadlock_detected"] = "deadlock_detected"
    signature: str
    strategy: str


class TeamFormed(EventBase):
    """Who was selected, under which contract, and what everyone who was asked said."""

    type: Literal["team_formed"] = "team_formed"
    team: Team
    assessed: tuple[Seat, ...] = ()


class RelayTurn(EventBase):
    """A settled step of a relay; `candidate` is the code that goes on, "" for none."""

    type: Literal["relay_turn"] = "relay_turn"
    turn: Turn
    candidate: str = ""


class Abstained(EventBase):
    """No stage found a patch; what the run learned, in words."""

    type: Literal["abstained"] = "abstained"
    learned: tuple[str, ...] = ()


class CriticDecided(EventBase):
    type: Literal["critic_decided"] = "critic_decided"
    verdict: Literal["pass", "fail", "unparsed"]
    reasons: tuple[str, ...] = ()
    veto: bool = False


class SearchProgress(EventBase):
    type: Literal["search_progress"] = "search_progress"
    stage: str
    tried: int = 0
    plausible: int = 0
    total: int | None = None
    text: str = ""


class FactsFound(EventBase):
    """What the failing tests show on the base: suspicious lines, values at failure."""

    type: Literal["facts_found"] = "facts_found"
    facts: Facts


class Explored(EventBase):
    """A bounded search for one more edit on top of `candidate`; `found` says which was, "" for none."""

    type: Literal["explored"] = "explored"
    candidate: str
    failing: tuple[str, ...] = ()
    """Target tests that the candidate fails, and tests that it broke."""
    tried: int = 0
    plausible: int = 0
    found: str = ""
    reasons: tuple[str, ...] = ()


class Explained(EventBase):
    type: Literal["explained"] = "explained"
    text: str


class EpisodeStored(EventBase):
    type: Literal["episode_stored"] = "episode_stored"
    episode: str


class InsightLearned(EventBase):
    """A model put into words what `episodes` have in common."""

    type: Literal["insight_learned"] = "insight_learned"
    insight: str
    lesson: str
    episodes: tuple[str, ...]


class Notice(EventBase):
    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"] = "info"
    text: str
    hint: str = ""


class RunFinished(EventBase):
    """`outcome`: verified, unverified, no_patch, localized, limit, model, environment, usage, interrupted,
    defect."""

    type: Literal["run_finished"] = "run_finished"
    outcome: str
    exit_code: int
    summary: str
    spend: Spend
    extra: dict[str, Any] = {}


Event = Annotated[
    RunStarted
    | RunResumed
    | NodeStarted
    | NodeFinished
    | StageStarted
    | StageFinished
    | ModelCallStarted
    | Token
    | StreamReset
    | ModelCallFinished
    | ContextRetrieved
    | PlanMade
    | ResponsibilitiesCommitted
    | NodeVerified
    | Localized
    | TransactionClosed
    | FallbackClosed
    | PatchProposed
    | PatchRefused
    | TestsSynthesized
    | TestsStarted
    | TestsFinished
    | GateDecided
    | DeadlockDetected
    | TeamFormed
    | RelayTurn
    | Abstained
    | CriticDecided
    | SearchProgress
    | FactsFound
    | Explored
    | Explained
    | EpisodeStored
    | InsightLearned
    | Notice
    | RunFinished,
    Field(discriminator="type"),
]

EVENT_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)
