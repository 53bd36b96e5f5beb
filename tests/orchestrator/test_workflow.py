"""Workflow files are checked when loaded; the engine keeps nodes to their contracts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import pytest

from agentforge.core.base import Frozen
from agentforge.core.chat import Spend
from agentforge.core.errors import ConfigError, LimitReached
from agentforge.core.events import EventBase, NodeStarted
from agentforge.core.state import RunState
from agentforge.core.task import Issue, RepairTask, RepositoryRef
from agentforge.orchestrator import nodes as node_modules
from agentforge.orchestrator import predicates, wiring
from agentforge.orchestrator.engine import execute
from agentforge.orchestrator.node import Node, Share, UndeclaredAccessError
from agentforge.orchestrator.result import ending_of_error
from agentforge.orchestrator.wiring import PREDICATES
from agentforge.orchestrator.workflow_load import load_workflow, shipped_workflows


async def _idle(state: Any, context: Any) -> Mapping[str, Any]:
    return {}


NODES: Mapping[str, Node[Any]] = {
    name: Node(name, _idle, frozenset({"task"}), frozenset({writes}))
    for name, writes in {"one": "explanation", "two": "episode", "three": "episode"}.items()
}
TASK = RepairTask(repository=RepositoryRef(source="x"), issue=Issue(text="x"))


def write(tmp_path: Path, edges: str, start: str = "one") -> Path:
    path = tmp_path / "w.yaml"
    path.write_text(f"name: w\nstart: {start}\nedges:\n{edges}")
    return path


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ("  - {from: one, to: nowhere}\n", "unknown node 'nowhere'"),
        ("  - {from: one, to: end, when: lucky}\n  - {from: one, to: end}\n", "unknown predicate 'lucky'"),
        ("  - {from: one, to: end}\n  - {from: two, to: end}\n", "cannot be reached"),
        ("  - {from: one, to: two}\n  - {from: two, to: one}\n", "'end' cannot be reached"),
        ("  - {from: one, to: end, when: verified}\n", "needs a last edge"),
        (
            "  - {from: one, to: two}\n  - {from: two, to: one, when: verified}\n  - {from: two, to: end}\n",
            "no edge marked `loop: true`",
        ),
        ("  - {from: one, to: two}\n  - {from: two, to: three}\n  - {from: three, to: end}\n", "both write"),
        ("  - {from: one, to: end, sometimes: true}\n", "sometimes"),
    ],
)
def test_a_broken_workflow_is_named_at_load(tmp_path: Path, edges: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_workflow("w", NODES, PREDICATES, write(tmp_path, edges))
    assert says in str(caught.value)


def test_yaml_that_does_not_parse_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("name: w\nedges: [")
    with pytest.raises(ConfigError, match=r"w\.yaml:2: is not valid YAML"):
        load_workflow("w", NODES, PREDICATES, path)


def test_an_unknown_name_is_answered_with_its_likes() -> None:
    with pytest.raises(ConfigError, match="did you mean agentforge"):
        load_workflow("agentfrge", NODES, PREDICATES)


def test_a_file_that_is_not_text_is_a_configuration_error(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_workflow(str(path), NODES, PREDICATES)


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ("  - {from: baseline, to: end}\n", "'baseline' needs 'environment'"),
        (
            "  - {from: retrieve, to: environment, when: verified}\n  - {from: retrieve, to: search}\n"
            "  - {from: environment, to: search}\n  - {from: search, to: end}\n",
            "'search' needs 'environment'",
        ),
        (
            "  - {from: environment, to: execute}\n  - {from: execute, to: end}\n",
            "'execute' needs 'candidate'",
        ),
        ("  - {from: environment, to: critic}\n  - {from: critic, to: end}\n", "'critic' asks a model"),
    ],
)
def test_a_workflow_that_could_not_work_is_named_at_load(tmp_path: Path, edges: str, says: str) -> None:
    start = edges.split("from: ")[1].split(",")[0]
    path = write(tmp_path, edges, start)
    path.write_text("needs_model: false\n" + path.read_text())
    with pytest.raises(ConfigError, match=says):
        load_workflow("w", wiring.NODES, PREDICATES, path)


def test_no_two_modules_have_a_node_or_predicate_of_the_same_name() -> None:
    found = pkgutil.iter_modules(node_modules.__path__, f"{node_modules.__name__}.")
    modules = [importlib.import_module(entry.name) for entry in found]
    rows = sum(len(module.NODES) for module in modules if hasattr(module, "NODES"))
    tests = sum(len(module.PREDICATES) for module in modules if hasattr(module, "PREDICATES"))
    assert rows == len(wiring.NODES)
    assert tests + len(predicates.PREDICATES) == len(PREDICATES)


@pytest.mark.parametrize("name", shipped_workflows())
def test_the_shipped_workflows_hold(name: str) -> None:
    load_workflow(name, wiring.NODES, PREDICATES)


class Surroundings:
    def __init__(self, remaining: float | None = None) -> None:
        self.events: list[EventBase] = []
        self.remaining = remaining
        self.seen: list[tuple[str, Frozen]] = []

    def emit(self, event: EventBase) -> None:
        self.events.append(event)

    def remaining_s(self) -> float | None:
        return self.remaining

    def for_node(self, name: str, options: Frozen) -> Self:
        self.seen.append((name, options))
        return self

    def has_model(self) -> bool:
        return True

    def spend(self) -> Spend:
        return Spend()

    def stage(self, share: Share) -> AbstractContextManager[None]:
        return nullcontext()


def node(
    name: str, writes: set[str], delta: Mapping[str, Any], reads: set[str] | None = None
) -> Node[Surroundings]:
    async def run(state: Any, context: Surroundings) -> Mapping[str, Any]:
        for field in reads or ():
            getattr(state, field)
        return delta

    return Node(name, run, frozenset({"task"}), frozenset(writes))


async def run_nodes(
    path: Path, nodes: list[Node[Surroundings]], budget: int = 2, remaining: float | None = None
) -> Any:
    table = {entry.name: entry for entry in nodes}
    workflow = load_workflow("w", table, PREDICATES, path)
    surroundings = Surroundings(remaining)
    state = RunState(task=TASK, base_commit="0" * 40, budget=budget)
    final = await execute(workflow, state, table, PREDICATES, surroundings, lambda _: None)
    return final, [event.node for event in surroundings.events if isinstance(event, NodeStarted)]


LOOP = "  - {from: one, to: one, loop: true}\n  - {from: one, to: end}\n"


@pytest.mark.parametrize("budget", [0, 1, 3])
async def test_eg01_af12_budget_b_means_b_regenerations_and_b_plus_one_generations(
    tmp_path: Path, budget: int
) -> None:
    final, visited = await run_nodes(write(tmp_path, LOOP), [node("one", {"explanation"}, {})], budget)
    assert visited == ["one"] * (budget + 1)
    assert final.round == budget


async def test_a_node_cannot_write_what_it_did_not_declare(tmp_path: Path) -> None:
    path = write(tmp_path, "  - {from: one, to: end}\n")
    with pytest.raises(UndeclaredAccessError, match="episode"):
        await run_nodes(path, [node("one", {"explanation"}, {"episode": "e"})])


async def test_a_node_cannot_read_what_it_did_not_declare(tmp_path: Path) -> None:
    path = write(tmp_path, "  - {from: one, to: end}\n")
    with pytest.raises(UndeclaredAccessError, match="plan"):
        await run_nodes(path, [node("one", {"explanation"}, {}, reads={"plan"})])


async def test_the_deadline_is_checked_before_each_node(tmp_path: Path) -> None:
    path = write(tmp_path, "  - {from: one, to: end}\n")
    with pytest.raises(LimitReached, match="time limit"):
        await run_nodes(path, [node("one", {"explanation"}, {})], remaining=0.0)


def test_a_broken_contract_is_a_defect_of_ours_not_a_repair_that_failed() -> None:
    ending = ending_of_error(UndeclaredAccessError("node 'x' reads 'y' without declaring it"))
    assert (ending.outcome, ending.exit_code) == ("defect", 70)
