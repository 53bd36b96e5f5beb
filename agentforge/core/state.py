"""Everything a run knows. Frozen: nodes return deltas, the engine makes the next state."""

from __future__ import annotations

from typing import Literal

from agentforge.core.base import Frozen
from agentforge.core.facts import Facts
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.patch import Candidate, GeneratedTest
from agentforge.core.plan import Plan
from agentforge.core.ports import Environment
from agentforge.core.relay import SelfCheck, Team, Turn
from agentforge.core.report import TestReport
from agentforge.core.responsibility import (
    Construction,
    Fallback,
    Graph,
    Locus,
    Proposal,
    Transaction,
)
from agentforge.core.retrieval import FailedAttempt, Retrieved
from agentforge.core.task import RepairTask
from agentforge.core.tree import TreeFile


class Edit(Frozen):
    """An applied answer: what it changes, relative to the base; `changes` None: nothing could be applied."""

    round: int
    origin: str
    edit_format: str = ""
    changes: dict[str, TreeFile | None] | None = None
    refusals: tuple[str, ...] = ()


class Judged(Frozen):
    """A candidate with the two reports it was judged by and the decision."""

    candidate: Candidate
    baseline: TestReport
    report: TestReport
    decision: GateDecision


class Trial(Frozen):
    """Base and candidate over the same tests, each executed once."""

    base: TestReport
    candidate: TestReport


class Attempt(Frozen):
    """One executed candidate: what the deadlock detector compares, and why it was refused."""

    round: int
    candidate: str
    signature: str
    places: tuple[str, ...] = ()
    refused: FailedAttempt | None = None
    """None where the gate accepted it."""


class ReactStep(Frozen):
    """One step of the ReAct baseline: which tool was called and what it said."""

    tool: str
    path: str = ""
    thought: str = ""
    observation: str = ""


class CriticVerdict(Frozen):
    verdict: str
    reasons: tuple[str, ...] = ()


class Review(Frozen):
    """The logical reviewer's advice (ExecuGraph, 3.3). "unparsed": it did not keep to the schema."""

    invariants: tuple[str, ...] = ()
    potential_failures: tuple[str, ...] = ()
    severity: str = "unparsed"


class Simulation(Frozen):
    """What simulating a plan on the examples said: "" where it holds. `round` is that of the plan."""

    round: int
    critique: str = ""


class Navigation(Frozen):
    """A navigator's plans, one of each cluster, the largest one's first; and where it goes (PairCoder)."""

    plans: tuple[Plan, ...] = ()
    taken: tuple[int, ...] = ()
    """Indices of the plans that were carried out, the present one last."""
    since: int = 0
    """How many candidates had been executed when the present one was taken."""
    action: Literal["", "repair", "turn"] = ""
    """After an execution; "" before the first one of a plan."""
    strategy: str = ""
    """How to repair, for the driver; "" where the navigator gave none."""

    @property
    def left(self) -> tuple[int, ...]:
        return tuple(index for index in range(len(self.plans)) if index not in self.taken)


class Standing(Frozen):
    """The program as last accepted: y, {c, r} and r_g (AuditCoder, 3.4)."""

    judged: Judged
    construction: Construction


class RunState(Frozen):
    """The state of one run. `round` to `stage` belong to the engine; other fields are written by nodes."""

    task: RepairTask
    base_commit: str
    budget: int = 3
    """How often the main loop may turn."""
    round: int = 0
    """How often it did, in this stage."""
    retries: int = 3
    """What the settings say; the budget of loops that name no other."""
    rounds: dict[str, int] = {}
    """Turns of the other loops, by name; a loop that did not turn is absent."""
    turn: int = 0
    """Turns of all loops and starts of stages, over the whole run: never repeats, unlike `round`."""
    stage: str = ""
    """The stage of a cascade that runs."""
    environment: Environment | None = None
    baseline: TestReport | None = None
    """Report on the base: the whole suite, or the target tests where only related tests are wanted."""
    reproduced: tuple[GeneratedTest, ...] = ()
    existing: tuple[str, ...] = ()
    """Failing tests of the base that the issue speaks of."""
    retrieved: Retrieved = Retrieved()
    facts: Facts | None = None
    """What was observed of the failing tests on the base; None where that was not done."""
    plan: Plan | None = None
    simulation: Simulation | None = None
    """Of the plan, before any code; None where none was made, or its answer was unusable."""
    navigation: Navigation | None = None
    """Of a pair of navigator and driver; None where there is none."""
    draft: Edit | None = None
    synthesized: tuple[GeneratedTest, ...] | None = None
    """None until the tester has had its say."""
    repair: Edit | None = None
    nearby: Edit | None = None
    """What a search around the best candidate found; None until there was one, or where it found nothing."""
    explored: tuple[str, ...] = ()
    """Candidates that were searched around."""
    found: tuple[Edit, ...] = ()
    """Plausible edits of the search engine, best first; those of a later search come after."""
    watched: tuple[str, ...] = ()
    """Tests, broken by earlier edits, that the last search watched."""
    search_reasons: tuple[str, ...] = ()
    """Why the search ended or found nothing, the last one the deciding one."""
    candidate: Candidate | None = None
    trials: tuple[Trial, ...] = ()
    """What the gate judges: every pair of executions of the candidate."""
    compared: TestReport | None = None
    """All reports on the base of `trials` in one, for people and prompts."""
    report: TestReport | None = None
    """All reports on the candidate of `trials` in one."""
    decision: GateDecision | None = None
    best: Judged | None = None
    attempts: tuple[Attempt, ...] = ()
    stuck: bool = False
    """Every way out of a deadlock was tried."""
    team: Team | None = None
    """The specialists of a relay, best first."""
    draft_stop: bool = False
    """The last draft of a relay called itself the last one."""
    drafted: Judged | None = None
    """A turn's draft as it was judged, before a repair of it."""
    self_check: SelfCheck | None = None
    turns: tuple[Turn, ...] = ()
    relay_code: Candidate | None = None
    """The code that specialists hand on."""
    relay_judged: Judged | None = None
    """The same with its evidence, where the relay executes it."""
    answers: tuple[tuple[str, str], ...] = ()
    """(specialist, answer) of an ensemble."""
    learned: tuple[str, ...] = ()
    """What is left of a run that found no patch."""
    critic: CriticVerdict | None = None
    responsibilities: Graph | None = None
    """Committed before any code exists (AuditCoder, 3.1)."""
    construction: Construction | None = None
    """The nodes as first implemented."""
    locus: Locus | None = None
    proposal: Proposal | None = None
    """What the last repair, bounded or global, proposed."""
    standing: Standing | None = None
    history: tuple[Transaction, ...] = ()
    """Append-only."""
    fallbacks: tuple[Fallback, ...] = ()
    techniques: tuple[str, ...] = ()
    """Notes on algorithms, for the planner of a problem."""
    review: Review | None = None
    """Advice on the last candidate; no predicate reads it."""
    optimised: Edit | None = None
    """What came of optimising; None until that was tried."""
    react: tuple[ReactStep, ...] = ()
    """Steps of the ReAct baseline."""
    explanation: str = ""
    episode: str = ""

    @property
    def generated(self) -> tuple[GeneratedTest, ...]:
        """Tests written for this run that were seen to fail on the base."""
        return self.reproduced + (self.synthesized or ())

    @property
    def targets(self) -> tuple[str, ...]:
        """Ids (or files, classes) of the tests that must go from failing to passing."""
        made = tuple(test for made in self.generated for test in made.test_ids)
        return self.task.target_tests + self.existing + made

    @property
    def broken(self) -> tuple[str, ...]:
        """Tests, none of them a target, that failed with candidates of this run."""
        refused = [attempt.refused for attempt in self.attempts if attempt.refused is not None]
        failed = dict.fromkeys(test for one in refused for test in one.tests)
        wanted = set(self.targets)
        return tuple(test for test in failed if test not in wanted and test.partition("::")[0] not in wanted)

    @property
    def verified(self) -> bool:
        return self.best is not None and self.best.decision.verdict is Verdict.VERIFIED


FRESH_AT_STAGE = (
    "round",
    "rounds",
    "simulation",
    "navigation",
    "draft",
    "repair",
    "nearby",
    "candidate",
    "trials",
    "compared",
    "report",
    "decision",
    "stuck",
    "construction",
    "locus",
    "proposal",
    "standing",
    "review",
    "optimised",
    "draft_stop",
    "drafted",
    "self_check",
    "turns",
    "relay_code",
    "relay_judged",
    "answers",
)
"""What belongs to the rounds of one stage; everything else, `best` above all, is handed on."""
