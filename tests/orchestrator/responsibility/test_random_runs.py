"""AuditCoder's invariants over random runs: random graphs, programs and answers through the real workflow.

Containers are not needed for that: whether a function is right can be read off its text, so the sandbox
here reads instead of running. Runs in real containers are in `test_workflow.py`.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import json
import random
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge.config.load import load_settings
from agentforge.core.chat import Completion, ModelRequest
from agentforge.core.events import Event
from agentforge.core.ports import Environment, EnvironmentSpec, Job, JobResult, LineCoverage, TestRequest
from agentforge.core.redact import Redactor
from agentforge.core.report import Cause, Outcome, TestFailure, TestReport
from agentforge.core.responsibility import Locus
from agentforge.core.state import RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.core.tree import Tree, TreeFile
from agentforge.orchestrator.clock import LiveClock
from agentforge.orchestrator.context import RunContext
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.eventlog import EventLog
from agentforge.orchestrator.responsibility.check import Stored, check
from agentforge.orchestrator.responsibility.record import audit_record
from agentforge.orchestrator.wiring import NODES, PREDICATES
from agentforge.orchestrator.workflow import Workflow
from agentforge.orchestrator.workflow_load import load_workflow
from agentforge.repo.workspace import GitWorkspace

FUNCTIONS = ("f0", "f1", "f2", "f3")
BASE = Tree(
    {
        "m.py": TreeFile("\n\n".join(f'def {name}():\n    return "wrong"\n' for name in FUNCTIONS).encode()),
        "test_m.py": TreeFile(b"from m import *\n"),
    }
)
_FUNCTION = re.compile(r'^def (\w+)\(\):\n    (?:return "(\w+)"|raise (\w+))', re.MULTILINE)
_CHECK = re.compile(r"^def (\w+)\(\):\n(?:    from .*\n)*    assert (\w+)\(\) == 'ok'", re.MULTILINE)


def written(name: str, how: str) -> str:
    body = "raise ValueError" if how == "raises" else f'return "{how}"'
    return f"def {name}():\n    {body}\n"


class ReadingSandbox:
    """Tests `test_f0` … pass where the function says "ok"; `test_all` where all do."""

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        return Environment(image="none")

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        program = tree.read("m.py").data.decode()
        states = {name: said or "raises" for name, said, _ in _FUNCTION.findall(program)}
        local = [path for path in request.targets if "local" in path]
        if local:
            pairs = _CHECK.findall(tree.read(local[0]).data.decode())
            return self._report({f"{local[0]}::{test}": [name] for test, name in pairs}, states, program)
        tests = {f"test_m.py::test_{name}": [name] for name in FUNCTIONS}
        return self._report({**tests, "test_m.py::test_all": list(FUNCTIONS)}, states, program)

    def _report(self, tests: dict[str, list[str]], states: dict[str, str], program: str) -> TestReport:
        outcomes = {test: self._outcome(names, states) for test, names in tests.items()}
        failures = {
            test: TestFailure(exception="E", frames=self._frames(tests[test], states, program))
            for test, outcome in outcomes.items()
            if outcome is Outcome.FAILED
        }
        return TestReport(outcomes=outcomes, failures=failures, collected=len(outcomes))

    def _outcome(self, names: list[str], states: dict[str, str]) -> Outcome:
        good = all(states.get(name) == "ok" for name in names)
        return Outcome.PASSED if good else Outcome.FAILED

    def _frames(
        self, names: list[str], states: dict[str, str], program: str
    ) -> tuple[tuple[str, int, str], ...]:
        raising = [name for name in names if states.get(name) == "raises"]
        line = program[: program.index(f"def {raising[0]}")].count("\n") + 2 if raising else 0
        return (("test_m.py", 1, "test"), *((("m.py", line, raising[0]),) if raising else ()))

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        report = await self.run_tests(environment, tree, request)
        program = tree.read("m.py").data.decode()
        lines = {
            name: program[: program.index(f"def {name}(")].count("\n") + 2
            for name in FUNCTIONS
            if f"def {name}(" in program
        }
        covered = {
            test: {"m.py": tuple(line for name, line in lines.items() if test.endswith((name, "all")))}
            for test in report.outcomes
        }
        return report, covered

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        """Nothing is observed, so that no model is told of it."""
        return JobResult(exit_code=0, cause=Cause.OK)


class RandomModel:
    """Answers by chance: right, wrong, raising, crossing into another's code, or no code at all."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.asked: list[str] = []

    async def complete(self, request: ModelRequest, sink: Any = None) -> Completion:
        self.asked.append(request.agent)
        text = self._graph(request) if request.agent == "planner" else self._code()
        return Completion(text=text, model="random", finish_reason="stop")

    def _graph(self, request: ModelRequest) -> str:
        if "replan" in request.messages[0].content:
            return json.dumps({"nodes": [{"id": "S1", "goal": "again", "hints": ["look closer"]}]})
        if self.chance.random() < 0.1:
            return "no graph"
        names = list(FUNCTIONS)
        self.chance.shuffle(names)
        nodes: list[dict[str, Any]] = [{"id": "S0", "parent": "", "leaf": False, "goal": "all"}]
        branch = self.chance.random() < 0.7
        if branch:
            nodes.append({"id": "S1", "parent": "S0", "leaf": False, "goal": "branch"})
        cut = self.chance.randint(1, 4)
        for number, name in enumerate(names[:cut]):
            parent = "S1" if branch and self.chance.random() < 0.6 else "S0"
            checks = [f"{name}() == 'ok'"] if self.chance.random() < 0.7 else []
            nodes.append(
                {
                    "id": f"L{number}",
                    "parent": parent,
                    "leaf": True,
                    "goal": name,
                    "files": ["m.py"],
                    "symbols": [name],
                    "inputs": {"x": "task"},
                    "checks": checks,
                    "contract": {"name": name, "args": []},
                }
            )
        if branch and not any(entry.get("parent") == "S1" for entry in nodes):
            nodes = [entry for entry in nodes if entry["id"] != "S1"]
        return json.dumps({"explanation": "e", "nodes": nodes})

    def _code(self) -> str:
        if self.chance.random() < 0.1:
            return "I cannot."
        count = self.chance.choices([1, 2, 4], [6, 2, 1])[0]
        names = self.chance.sample(FUNCTIONS, count)
        how = [self.chance.choices(["ok", "wrong", "bad", "raises"], [5, 1, 2, 2])[0] for _ in names]
        parts = [written(name, said) for name, said in zip(names, how, strict=True)]
        if self.chance.random() < 0.2:
            parts.append(written(f"helper{self.chance.randint(0, 9)}", "ok"))
        return "m.py\n```python\n" + "\n\n".join(parts) + "```\n"


SETTINGS: dict[str, Any] = {"model.base_url": "http://127.0.0.1:1/v1", "model.edit_format": "symbol"}


@functools.cache
def loaded(name: str) -> Workflow:
    return load_workflow(name, NODES, PREDICATES)


@functools.cache
def workspace() -> GitWorkspace:
    """Of `BASE`, for all runs: a workspace does not change."""
    scratch = Path(tempfile.mkdtemp(prefix="workspace-of-random-runs-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return GitWorkspace(BASE, scratch)


async def run_with(
    model: Any, workflow_name: str, retries: int, issue: str = "f"
) -> tuple[list[RunState], list[Event]]:
    """One run of a workflow on `BASE`; all its states and events."""
    workflow = loaded(workflow_name)
    config = load_settings(None, {**SETTINGS, "retries": retries}, {}).settings
    events: list[Event] = []
    states: list[RunState] = []
    log = EventLog(LiveClock(), Redactor(), lambda line, last: None, events.append)
    targets = tuple(f"test_m.py::test_{name}" for name in (*FUNCTIONS, "all"))
    task = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text=issue), target_tests=targets)
    rounds = workflow.file.rounds
    budget = retries if rounds is None else rounds
    state = RunState(task=task, base_commit="0" * 40, budget=budget, retries=retries)
    context = RunContext(
        settings=config,
        sandbox=ReadingSandbox(),
        workspace=workspace(),
        retriever=None,
        clock=LiveClock(),
        on_event=log.emit,
        model=model,
        workflow=workflow_name,
    )
    states.append(await execute(workflow, state, NODES, PREDICATES, context, states.append))
    return states, events


@given(
    seed=st.integers(0, 10**9),
    workflow=st.sampled_from(
        [
            "auditcoder",
            "auditcoder",
            "auditcoder-no-fallback",
            "auditcoder-no-replan",
            "auditcoder-no-local-checks",
            "auditcoder-paper-locator",
            "auditcoder-one-unit",
        ]
    ),
    retries=st.integers(0, 4),
)
@settings(max_examples=220, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_invariant_holds_on_random_runs(seed: int, workflow: str, retries: int) -> None:
    model = RandomModel(random.Random(seed))
    states, events = asyncio.run(run_with(model, workflow, retries))
    final = states[-1]
    audit = json.loads(json.dumps(audit_record(final, events, BASE)))
    patch = final.best.candidate.patch.diff if final.best else None
    findings = check(Stored(audit, tuple(events), patch, BASE))
    assert [finding for finding in findings if not finding.holds] == []
    _only_grows(states)
    _best_is_never_lost(states)
    _frozen_code_is_the_same(final)
    kinds = [event.type for event in events]
    repairs = kinds.count("transaction_closed") + kinds.count("fallback_closed")
    assert repairs <= retries, "budget B: at most B repairs after the first program"
    assert kinds.count("fallback_closed") <= (0 if workflow.endswith("no-fallback") else 1)
    assert kinds.count("responsibilities_committed") == 1
    assert final.round <= retries
    assert len(model.asked) <= 3 + (retries + 1) * 3 * (len(FUNCTIONS) + 2)


def _only_grows(states: list[RunState]) -> None:
    for before, after in itertools.pairwise(states):
        assert after.history[: len(before.history)] == before.history
        assert after.fallbacks[: len(before.fallbacks)] == before.fallbacks
        if before.responsibilities is not None:
            assert after.responsibilities == before.responsibilities


def _best_is_never_lost(states: list[RunState]) -> None:
    ranks = [state.best.decision.rank for state in states if state.best]
    assert ranks == sorted(ranks)


def _frozen_code_is_the_same(final: RunState) -> None:
    for entry in final.history:
        locus: Locus = entry.locus
        assert not set(locus.region) & set(locus.frozen)
        assert all(before == after for before, after in entry.frozen_code.values()) or not entry.accepted
        changed = {delta.node for delta in entry.code_delta if delta.before}
        assert not entry.accepted or changed <= set(locus.region)
