"""A batch on a real Ray cluster of two nodes, one of which is killed in the middle of its trial."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentforge.config.settings import Settings
from agentforge.core.errors import EnvironmentFault
from agentforge.core.events import Event
from agentforge.evaluation.bench.batch import Key, read_trials
from agentforge.evaluation.bench.protocol import SuiteSpec, TrialSpec
from agentforge.evaluation.bench.ray_executor import ENGINE_SLOT, RayExecutor
from agentforge.evaluation.bench.runner import BatchRequest, run_batch
from agentforge.evaluation.bench.selection import Selection
from agentforge.evaluation.suites.thirty_problems import ThirtyProblems
from agentforge.evaluation.trials import TrialRow
from tests.support.model_server import Reply, ScriptedModel

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("ray")]

SUITE = ThirtyProblems()
TASKS = tuple(problem.id for problem in SUITE.problems()[:3])
LIMIT_USD = 0.5


class Silent:
    def opened(self, folder: Path, planned: Sequence[Key], rows: Sequence[TrialRow], workers: int) -> None:
        """Not of interest."""

    def phase(self, text: str) -> None:
        """Not of interest."""

    def started(self, worker: int, spec: TrialSpec) -> None:
        """Not of interest."""

    def event(self, worker: int, event: Event) -> None:
        """Not of interest."""

    def finished(self, worker: int | None, row: TrialRow) -> None:
        """Not of interest."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that only keeps the books, and two nodes with one engine slot each."""
    ray_cluster = pytest.importorskip("ray.cluster_utils", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-node-1234567890")
    made = ray_cluster.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    made.shutdown()


class Model:
    """Answers with the reference solution; the first two questions wait until both nodes are at work."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.both = threading.Event()
        self.killed = threading.Event()

    def __call__(self, body: dict[str, Any]) -> Reply:
        text = str(body["messages"])
        task = next(p for p in SUITE.problems() if p.id in TASKS and p.entry_point + "(" in text)
        self.asked.append(task.id)
        if len(self.asked) == 2:
            self.both.set()
        if len(self.asked) <= 2:
            self.killed.wait(60)
        return Reply(f"```python\n{SUITE.reference(task.id)}\n```")


async def test_a_killed_node_loses_no_instance_and_doubles_none(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1, resources={ENGINE_SLOT: 1}) for _ in range(2)]
    model = Model()
    with ScriptedModel(model, api_key="sk-of-the-node-1234567890") as server:
        settings = Settings.model_validate(
            {
                "workflow": "oneshot",
                "model": {
                    "base_url": server.base_url,
                    "api_key": "sk-that-must-stay-here-987654",
                    "name": "scripted",
                    "prices": {"scripted": {"input": 1, "output": 1}},
                },
                "limits": {"max_cost_usd": LIMIT_USD},
                "memory": {"enabled": False},
            }
        )
        request = BatchRequest(
            SuiteSpec(name="thirty"),
            settings,
            tmp_path / "out",
            selection=Selection(instances=TASKS),
            workers=2,
            skip_self_check=True,
        )
        reaper = threading.Thread(target=kill_one, args=(cluster, nodes[1], model))
        reaper.start()
        async with RayExecutor(2, cluster.address) as executor:
            end = await run_batch(request, Silent(), lambda bench, wanted: executor)
        reaper.join()
    rows = read_trials(tmp_path / "out")
    final = [row for row in rows if row.status == "final"]
    assert sorted(row.problem for row in final) == sorted(TASKS)
    assert all(row.passed for row in final), [row.model_extra for row in final]
    assert end.summary["outcomes"] == {"passed": 3}
    [lost] = [row for row in rows if row.status != "final"]
    assert (lost.cost_usd, (lost.model_extra or {})["fault"]) == (LIMIT_USD, "node_lost")
    for row in final:
        assert (tmp_path / "out" / "runs" / row.run_id / "events.jsonl").exists()  # type: ignore[attr-defined]


def kill_one(cluster: Any, node: Any, model: Model) -> None:
    if model.both.wait(90):
        cluster.remove_node(node, allow_graceful=False)
    model.killed.set()


async def test_a_cluster_without_engine_slots_is_refused(cluster: Any) -> None:
    with pytest.raises(EnvironmentFault, match="engine slot"):
        async with RayExecutor(1, cluster.address):
            raise AssertionError("nothing can run there")
    assert "RAY_ADDRESS" not in os.environ
