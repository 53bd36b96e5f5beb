"""What goes in and out over HTTP. Times are ISO 8601 in UTC, money in US dollars, durations in seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Status = Literal["queued", "running", "finished", "cancelled", "interrupted", "failed"]
MAX_ISSUE_CHARS = 256 * 1024

# No control character travels in a one-line field: it may end up in a header, a log line or an argument.
Line = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Document(BaseModel):
    """Base of all bodies: unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class RequestedLimits(Document):
    """What the run may use at most; the server's own limits bound every one of them."""

    time_s: float | None = Field(default=None, gt=0, le=1e9)
    tokens: int | None = Field(default=None, ge=0, le=10**15)
    cost_usd: float | None = Field(default=None, ge=0, le=1e9)
    retries: int | None = Field(default=None, ge=0, le=1000)


class NewRun(Document):
    """A run to be made. `repository`: a folder under the server's roots or an https URL of a listed host."""

    repository: Line
    base: Line | None = None
    issue: str = Field(min_length=1, max_length=MAX_ISSUE_CHARS)
    workflow: Line | None = None
    target_tests: list[Line] = Field(default=[], max_length=1000)
    test_command: Line | None = None
    model: Line | None = None
    limits: RequestedLimits = RequestedLimits()


class SpendSummary(Document):
    """`cost_usd` is None where a call had no known price."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0


class RunSummary(Document):
    """One run. `outcome` is the run's own verdict; `error` says why a run could not be made."""

    id: str
    status: Status
    outcome: str | None = None
    exit_code: int | None = None
    repository: str = ""
    base: str | None = None
    issue_title: str = ""
    workflow: str = ""
    created: str = ""
    started: str | None = None
    finished: str | None = None
    spend: SpendSummary = SpendSummary()
    round: int = 0
    node: str = ""
    summary: str = ""
    error: str = ""


class RunPage(Document):
    """Newest first; `next` is the cursor of the following page, None on the last."""

    items: list[RunSummary]
    next: str | None = None


class Reason(Document):
    """One reason of the gate, in words."""

    kind: str
    test_id: str = ""
    text: str


class TestRow(Document):
    """One test on the base and on the candidate; None where it did not run there."""

    __test__ = False

    test_id: str
    base: str | None = None
    candidate: str | None = None
    target: bool = False
    failure: str = ""


class RunReport(Document):
    """What was judged: the test matrix, the gate's reasons, and the story for people."""

    run_id: str
    outcome: str | None = None
    verdict: str | None = None
    candidate: str | None = None
    scope: str = ""
    reasons: list[Reason] = []
    tests: list[TestRow] = []
    markdown: str = ""


class LogFile(Document):
    """One full log of an execution; `size` in bytes."""

    name: str
    size: int


class CallRecord(Document):
    """One model call as it was recorded."""

    number: int
    record: dict[str, Any]


class WorkflowSummary(Document):
    name: str
    description: str = ""
    needs_model: bool = True
    hash: str = ""


class WorkflowGraph(WorkflowSummary):
    """The graph as the engine walks it, and the same for people (`mermaid`)."""

    graph: dict[str, Any]
    mermaid: str


class ConfigEntry(Document):
    """One setting with its value (secrets masked) and where it came from."""

    key: str
    value: Any
    origin: str


class Ticket(Document):
    """Opens event streams for `expires_in` seconds where no header can be sent."""

    ticket: str
    expires_in: int


class MemoryStatistics(Document):
    episodes: int
    insights: int
    repositories: dict[str, int]
    oldest: str = ""
    newest: str = ""


class FoundFile(Document):
    path: str
    score: float
    why: dict[str, float] = {}


class FoundSymbol(Document):
    name: str
    path: str
    start_line: int
    end_line: int
    score: float
    why: list[str] = []


class IndexHits(Document):
    files: list[FoundFile]
    symbols: list[FoundSymbol]


class Evaluation(Document):
    """A folder of results: its name and its files."""

    id: str
    files: list[LogFile]


class Health(Document):
    status: str
    checks: dict[str, str] = {}


class Problem(BaseModel):
    """An error (RFC 9457). `hint` names the next thing to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    hint: str = ""
    instance: str = ""
