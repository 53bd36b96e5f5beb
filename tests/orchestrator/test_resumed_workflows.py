"""Runs of the other papers' workflows, killed inside a node: same end as undisturbed, no call paid twice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import Settings
from agentforge.orchestrator.replay import replay_run
from tests.orchestrator import test_mars as mars
from tests.orchestrator.conftest import ISSUE, Fix
from tests.orchestrator.test_golden_traces import Answers
from tests.orchestrator.test_mars import bank
from tests.orchestrator.test_resume import command, events_of, finish, kill_when, own, paid
from tests.support.model_server import Body, Reply, ScriptedModel
from tests.support.sampling import everyday

__all__ = ["bank"]

pytestmark = pytest.mark.docker
TAX = (
    "shop/money.py\n```python\ndef with_tax(cents, percent):\n"
    '    """The amount with tax."""\n    return cents + cents * percent // 100\n```\n'
)


def leaf(number: int, name: str, goal: str) -> dict[str, Any]:
    owned = {"files": ["shop/money.py"], "symbols": [name], "contract": {"name": name, "args": []}}
    return {"id": f"S{number}", "parent": "S0", "leaf": True, "goal": goal, "category": "math", **owned}


GRAPH = {
    "explanation": "one function each",
    "nodes": [
        {"id": "S0", "parent": "", "leaf": False, "goal": "amounts"},
        leaf(1, "split", "hand out the remainder"),
        leaf(2, "with_tax", "say what it does"),
    ],
}


class Responsible(Answers):
    """As its base, but by what is asked: a graph, a wrong leaf and a right one, and a repair."""

    def _planner(self) -> str:
        return json.dumps(GRAPH)

    def _coder(self) -> str:
        return TAX if "say what it does" in self.prompt else mars.HALF

    def _debugger(self) -> str:
        return mars.RIGHT


def answering(kind: type[Answers]) -> Callable[[Body], Reply]:
    answers = kind("repository")

    def reply(body: Body) -> Reply:
        return Reply(answers(body), first_delay_s=0.25)

    return reply


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workflow", "kind", "call", "within"),
    everyday(
        [
            ("auditcoder", Responsible, 3, "implement"),
            ("execugraph", Answers, 3, "review"),
            ("relay", Answers, 4, "team"),
        ],
        3,
    ),
)
async def test_killed_inside_a_node(
    workflow: str,
    kind: type[Answers],
    call: int,
    within: str,
    bank: Path,
    tmp_path: Path,
    configure: Callable[..., Settings],
    fix: Fix,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle of its calls: some are answered, one is on its way."""
    flags = {"workflow": workflow, "model__edit_format": "symbol", "memory__enabled": False}
    with ScriptedModel(answering(kind)) as server:
        settings = configure(model__base_url=server.base_url, **flags)
        whole = await fix(bank, settings, target_tests=mars.TARGETS)
    assert whole.result.outcome == "verified", whole.result.summary
    replayed = await replay_run(whole.result.run_id, settings, lambda event: None)
    assert replayed.replay_matches, replayed.difference

    data = tmp_path / "killed"
    monkeypatch.setenv("AGENTFORGE_MEMORY__ENABLED", "false")
    monkeypatch.setenv("AGENTFORGE_MODEL__EDIT_FORMAT", "symbol")
    with ScriptedModel(answering(kind)) as server:
        process = _fix(server, bank, data, workflow)
        assert kill_when(process, lambda: _under_way(data, call))
        open_nodes = [event["node"] for event in events_of(data) if event["type"] == "node_started"]
        assert open_nodes[-1] == within
        finish(server, data)
    assert set(paid(data).values()) == {1}
    assert next((data / "runs").glob("*/patch.diff")).read_bytes() == whole.result.patch.diff
    undisturbed = [json.loads(line) for line in (whole.result.run_dir / "events.jsonl").open()]
    assert own(events_of(data)) == own(undisturbed)
    resumed = await replay_run("last", settings.model_copy(update={"data_home": data}), lambda event: None)
    assert resumed.replay_matches, resumed.difference


def _fix(server: ScriptedModel, bank: Path, data: Path, workflow: str) -> subprocess.Popen[bytes]:
    targets = [word for test in mars.TARGETS for word in ("--test-id", test)]
    arguments = ["--repo", str(bank), "--issue", ISSUE, "--workflow", workflow, "--no-stream", *targets]
    return command(server, data, "fix", *arguments)


def _under_way(data: Path, call: int) -> bool:
    return any(e["type"] == "model_call_started" and e["call"] == call for e in events_of(data))
