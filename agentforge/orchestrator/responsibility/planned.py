"""Responsibilities of a run whose workflow keeps no graph: the steps of its plan, or the task itself."""

from __future__ import annotations

from collections.abc import Iterable

from agentforge.core.plan import Plan, Step
from agentforge.core.responsibility import (
    Construction,
    Evidence,
    Graph,
    Implementation,
    IntegrationException,
    Responsibility,
)
from agentforge.core.tree import Tree
from agentforge.orchestrator.responsibility.ownership import bundles, declared_owner
from agentforge.orchestrator.responsibility.units import path_of

ROOT = "S0"


def graph_of_plan(plan: Plan | None) -> Graph:
    """One root for the issue and one leaf a step; without a plan the root is all there is."""
    if plan is None:
        goal = "Repair what the issue describes."
        return Graph(
            explanation="", nodes=(Responsibility(id=ROOT, goal=goal),), order=(ROOT,), fallback=True
        )
    ids = _ids(plan.steps)
    root = Responsibility(id=_free(ids.values()), goal=plan.explanation or "Resolve the issue.", leaf=False)
    leaves = tuple(_leaf(step, ids, root.id) for step in plan.steps)
    return Graph(
        explanation=plan.explanation,
        nodes=(root, *leaves),
        order=tuple(leaf.id for leaf in leaves),
        fallback=plan.fallback,
    )


def _ids(steps: Iterable[Step]) -> dict[str, str]:
    """Step id -> node id; an id that begins with no letter gets one."""
    return {step.id: step.id if step.id[0].isalpha() else f"S{step.id}"[:40] for step in steps}


def _free(taken: Iterable[str]) -> str:
    used = set(taken)
    return next(name for name in (ROOT, "task", "root", "issue-root") if name not in used)


def _leaf(step: Step, ids: dict[str, str], root: str) -> Responsibility:
    writes = step.agent == "coder"
    return Responsibility(
        id=ids[step.id],
        goal=step.description,
        parent=root,
        depends_on=tuple(ids[name] for name in step.depends_on if name in ids),
        category=step.agent,
        files=step.files if writes else (),
        symbols=step.symbols if writes else (),
        provenance={"issue": "task"},
    )


def construction_of_patch(
    graph: Graph, executor: str, units: Iterable[str], tree: Tree, evidence: Iterable[Evidence] = ()
) -> Construction:
    """Who is responsible for the changed `units` of a finished patch.

    A unit that no step claims goes to the only step that writes, else it is an integration exception of
    the nearest one.
    """
    writers = [node for node in graph.nodes if node.leaf and node.category in ("coder", "general")]
    ownership: dict[str, str] = {}
    exceptions: list[IntegrationException] = []
    for unit in units:
        owner = declared_owner(graph, unit)
        if owner is None:
            near = _nearest(writers, unit)
            owner = near.id
            if len(writers) > 1:
                why = f"no step claims {unit}; {owner} is the nearest one"
                exceptions.append(IntegrationException(by=executor, owner=owner, region=unit, rationale=why))
        ownership[unit] = owner
    code = bundles(graph, ownership, tree)
    seen = tuple(evidence)
    made = tuple(
        Implementation(
            node=name,
            executor=executor,
            code={unit: data for unit, data in code.get(name, {}).items() if unit in ownership},
            evidence=tuple(entry for entry in seen if entry.node == name),
        )
        for name in sorted({*ownership.values()})
    )
    return Construction(graph=graph, implementations=made, ownership=ownership, exceptions=tuple(exceptions))


def nearest_owner(graph: Graph, unit: str) -> str:
    """The responsibility that stands nearest to a unit that nobody claims."""
    return _nearest([graph.node(name) for name in graph.owners], unit).id


def _nearest(writers: list[Responsibility], unit: str) -> Responsibility:
    """The step that owns other code of the same file, else one in the same folder, else the first."""
    path = path_of(unit)
    folder = path.rpartition("/")[0]
    in_file = [node for node in writers if path in node.files]
    beside = [node for node in writers if any(name.rpartition("/")[0] == folder for name in node.files)]
    return (in_file or beside or writers)[0]
