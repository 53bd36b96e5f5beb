"""The records of responsibility: who owns which code, on which evidence, and how it was changed.

Sources: AuditCoder, 3 and B.2. A responsibility has its id before any code exists and keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen

Confidence = Literal["high", "medium", "low", "none"]
Rule = Literal["R1", "R2", "R3", "coverage", "R4"]


class Contract(Frozen):
    """F = (name, args, ret, pre, post, inv) (AuditCoder, 3.1). An empty `name` promises no function.

    `args` are positional names in order. Words in `pre`, `post` and `invariants` are no evidence until
    a check makes them so.
    """

    name: str = ""
    args: tuple[str, ...] = ()
    returns: str = ""
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()


class Responsibility(Frozen):
    """One unit of responsibility v = (id, g, τ, X, Y, F, ρ, C, q) (AuditCoder, 3.1).

    `provenance` maps each input to its source: "task", "local" or "ID.output"; `checks` are Python
    expressions that must hold (q); `files` and `symbols` say which code it owns (`symbols` empty: the
    whole files). A node that is no leaf may own code too: what holds its children together.
    """

    id: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,39}$")
    goal: str
    parent: str = ""
    depends_on: tuple[str, ...] = ()
    leaf: bool = True
    category: str = "general"
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    provenance: Mapping[str, str] = {}
    outputs: tuple[str, ...] = ()
    contract: Contract = Contract()
    budget: str = ""
    """Complexity, such as "O(n log n)"; empty where none was set."""
    checks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def owns_code(self) -> bool:
        return self.leaf or bool(self.files)


class Graph(Frozen):
    """G = (V, D, T): nodes, their dependencies (in the nodes), and the order of the leaves.

    `fallback` marks our own graph of one responsibility, made where the model gave none that holds.
    """

    explanation: str
    nodes: tuple[Responsibility, ...]
    order: tuple[str, ...]
    fallback: bool = False

    def node(self, identifier: str) -> Responsibility:
        """Raises `KeyError` for an unknown id."""
        for node in self.nodes:
            if node.id == identifier:
                return node
        raise KeyError(identifier)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(node.id for node in self.nodes)

    @property
    def owners(self) -> tuple[str, ...]:
        """U: ids of the nodes that own code, leaves in their order first, then inner nodes, deepest first."""
        inner = [node.id for node in reversed(self.nodes) if not node.leaf and node.owns_code]
        return (*self.order, *inner)


EvidenceKind = Literal["applies", "syntax", "signature", "check", "resource"]


class Evidence(Frozen):
    """One executed or static check of a node's code. `test_id` names the test that ran it, if one did."""

    node: str
    kind: EvidenceKind
    passed: bool
    text: str
    test_id: str = ""


class IntegrationException(Frozen):
    """An edit that crosses a border: `by` changed `region`, which `owner` is responsible for.

    `region` is a unit ("path::symbol"). It widens every later transaction on either of the two.
    """

    by: str
    owner: str
    region: str
    rationale: str


class Implementation(Frozen):
    """What one node wrote: c (unit -> its bytes), who wrote it, and r, the local evidence."""

    node: str
    executor: str
    code: Mapping[str, bytes] = {}
    evidence: tuple[Evidence, ...] = ()


class Construction(Frozen):
    """(G, S, µ) of one program: the graph, the node records and the ownership map unit -> node id."""

    graph: Graph
    implementations: tuple[Implementation, ...] = ()
    ownership: Mapping[str, str] = {}
    exceptions: tuple[IntegrationException, ...] = ()
    internal_passed: tuple[str, ...] = ()
    """Ids of the nodes' own checks that pass in the assembled program."""
    internal_clean: bool = True
    """Whether the run of those checks came to its own end."""

    def of(self, identifier: str) -> Implementation | None:
        return next((item for item in self.implementations if item.node == identifier), None)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(entry for item in self.implementations for entry in item.evidence)


class Locus(Frozen):
    """z = (v, a, m, κ, e), or abstention (rule "R4", no node) (AuditCoder, 3.3)."""

    node: str = ""
    executor: str = ""
    kind: Literal["node", "branch", "none"] = "none"
    rule: Rule = "R4"
    confidence: Confidence = "none"
    evidence: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    """R: ids that may change, integration exceptions included."""
    frozen: tuple[str, ...] = ()
    """F = V without R."""

    @property
    def abstains(self) -> bool:
        return self.rule == "R4"


class AcceptanceRank(Frozen):
    """Rank = (F_x, E_x, I_x, C^E, C^I), compared lexicographically (AuditCoder, D).

    Full pass; external and internal tests that pass; clean ends of external and internal executions.
    """

    full: bool
    external: int
    internal: int
    external_clean: int
    internal_clean: int

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        return (int(self.full), self.external, self.internal, self.external_clean, self.internal_clean)


class Snapshot(Frozen):
    """ξ: SHA-256 of what a rollback must give back: code, node snippets and test results."""

    code: str
    snippets: str
    results: str


class Proposal(Frozen):
    """What a repair of round `round` proposes: the construction after it; `refused` says why nothing is.

    `bounded` False: a global fallback, outside the guarantee of frozen code.
    """

    round: int
    bounded: bool = True
    construction: Construction | None = None
    refused: str = ""


class CodeDelta(Frozen):
    """Δc of one unit: SHA-256 before and after, "" where it did not exist."""

    unit: str
    node: str
    before: str
    after: str


class Transaction(Frozen):
    """h = (z, R, F, ΔG, Δc, {r}, r_g', d, σ) (AuditCoder, 3.4). Numbers count from 1.

    `frozen_code` maps every frozen node that owns code to the SHA-256 of its bundle (before, after).
    `lost` are tests that passed before and do not now; with one of them nothing is accepted.
    """

    number: int = Field(ge=1)
    round: int
    standing: str
    """The candidate that stood when it began."""
    locus: Locus
    graph_delta: tuple[tuple[Responsibility, Responsibility], ...] = ()
    code_delta: tuple[CodeDelta, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    candidate: str = ""
    initial_rank: AcceptanceRank
    candidate_rank: AcceptanceRank | None = None
    lost: tuple[str, ...] = ()
    accepted: bool
    reason: str
    rollback: Literal["NotApplicable", "Restored"]
    initial: Snapshot
    final: Snapshot
    frozen_code: Mapping[str, tuple[str, str]] = {}
    exceptions: tuple[IntegrationException, ...] = ()
    passed_before: int = 0
    """Tests that passed on the standing program and that both programs ran."""
    changed_lines: int = 0
    """Lines in which the program that stands afterwards differs from the one before, of its `lines`."""
    lines: int = 0


class Fallback(Frozen):
    """A repair of the whole program after an abstention; outside the guarantee of frozen code."""

    round: int
    candidate: str = ""
    accepted: bool
    reason: str
    changed: tuple[str, ...] = ()
    """Units that it changed, with their owners, as "unit (id)"."""
