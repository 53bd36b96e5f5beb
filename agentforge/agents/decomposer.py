"""The planner's other task: responsibilities before code, and the replanning of one branch
(AuditCoder, 3.1 and L)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.context import clip, code_views, symbol_places
from agentforge.agents.extract import json_values
from agentforge.agents.graph_parser import CATEGORIES, parse_graph, strings, usable_checks
from agentforge.agents.plan_parser import PlanProblem
from agentforge.agents.planner import CUT, MAX_REASKS, example_of, fallback_plan
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.errors import ModelError
from agentforge.core.responsibility import Graph, Responsibility
from agentforge.core.retrieval import Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.models.errors import EmptyAnswerError

OnProblem = Callable[[str], None]
Judge = Callable[[Graph], tuple[str, ...]]
"""What is wrong with a graph, in words; the rules belong to the orchestrator."""


@dataclass(frozen=True)
class Decomposer(Agent):
    role: ClassVar[AgentName] = "planner"

    async def decompose(
        self,
        issue: Issue,
        retrieved: Retrieved,
        tree: Tree,
        judge: Judge,
        *,
        limits: tuple[int, int] = (3, 5),
        on_problem: OnProblem | None = None,
    ) -> Graph:
        """A graph that `judge` finds nothing wrong with, always: broken answers are asked for again with
        what is wrong, at most twice; then one responsibility for all. Errors of the endpoint pass through.
        """
        problem = ""
        for attempt in range(MAX_REASKS + 1):
            try:
                compose = _composer(issue, retrieved, tree, problem, limits)
                completion = await self.ask(compose, attempt=attempt)
                if was_cut(completion):
                    raise PlanProblem(CUT)
                graph = parse_graph(completion.text, tree, [symbol.path for symbol in retrieved.symbols])
                problems = judge(graph)
                if not problems:
                    return graph
                raise PlanProblem("; ".join(problems[:5]))
            except (PlanProblem, EmptyAnswerError) as error:
                problem = "the answer was empty" if isinstance(error, ModelError) else str(error)
                if on_problem:
                    on_problem(problem)
        return single_graph(retrieved, tree, f"The model gave no usable graph: {problem}.")

    async def replan(
        self, issue: Issue, branch: tuple[Responsibility, ...], code: str, failures: str, why: str
    ) -> tuple[Responsibility, ...]:
        """The nodes of a branch with new goals, hints, budgets and checks; boundaries stay as they are.

        An answer that cannot be used leaves the branch as it is. Errors of the endpoint pass through.
        """
        completion = await self.ask(
            lambda budget: render(
                "replan",
                issue=clip(issue.text, int(budget * 0.25)),
                branch=clip(_as_json(branch), int(budget * 0.25)),
                code=clip(code, int(budget * 0.25)),
                failures=clip(failures, int(budget * 0.15)),
                why=clip(why, 200),
                example=branch[0].id,
            )
        )
        return tuple(_replanned(node, completion.text) for node in branch)


def single_graph(retrieved: Retrieved, tree: Tree, why: str) -> Graph:
    """One responsibility that is root and leaf, over the files that retrieval found."""
    step = fallback_plan(retrieved, tree, why).steps[0]
    node = Responsibility(id="S0", goal=step.description, files=step.files, provenance={"issue": "task"})
    return Graph(explanation=why, nodes=(node,), order=("S0",), fallback=True)


def _composer(
    issue: Issue, retrieved: Retrieved, tree: Tree, problem: str, limits: tuple[int, int]
) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 1000)
        return render(
            "decompose",
            issue=clip(issue.text, int(room * 0.35)),
            views=code_views(tree, symbol_places(retrieved.symbols), int(room * 0.5), small=600),
            problem=problem,
            example=example_of(retrieved),
            categories=CATEGORIES,
            depth=limits[0],
            width=limits[1],
        )

    return compose


_CHANGEABLE = ("goal", "hints", "budget", "checks")


def _as_json(branch: tuple[Responsibility, ...]) -> str:
    fields = {"id", "parent", "depends_on", "files", "symbols", "contract", "provenance", *_CHANGEABLE}
    return json.dumps([node.model_dump(mode="json", include=fields) for node in branch], indent=1)


def _replanned(node: Responsibility, text: str) -> Responsibility:
    entry = next((item for item in _entries(text) if item.get("id") == node.id), {})
    update: dict[str, object] = {}
    if isinstance(entry.get("goal"), str) and str(entry["goal"]).strip():
        update["goal"] = str(entry["goal"]).strip()
    if isinstance(entry.get("budget"), str):
        update["budget"] = entry["budget"]
    if hints := strings(entry.get("hints")):
        update["hints"] = hints
    if checks := usable_checks(strings(entry.get("checks"))):
        update["checks"] = checks
    return node.model_copy(update=update)


def _entries(text: str) -> list[Mapping[str, object]]:
    for value in json_values(text):
        rows = value.get("nodes", [value]) if isinstance(value, dict) else value
        if isinstance(rows, list):
            return [row for row in rows if isinstance(row, dict)]
    return []
