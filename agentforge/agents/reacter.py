"""The ReAct baseline's agent: thought and one tool call an answer (AgentForge, IV-B; at most 10 steps)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.base import Frozen
from agentforge.core.chat import Message
from agentforge.core.state import ReactStep
from agentforge.core.task import Issue

Tool = Literal["read_file", "write_code", "run_tests", "finish"]
SHOWN_PATHS = 200


class Action(Frozen):
    """`tool` None: the answer named none; `answer` is the whole text, in which `write_code` has its code."""

    tool: Tool | None
    path: str = ""
    thought: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Reacter(Agent):
    role: ClassVar[AgentName] = "reacter"

    async def act(self, issue: Issue, paths: Sequence[str], steps: Sequence[ReactStep], left: int) -> Action:
        """The next action after `steps`; `left` are the steps there still are. Errors of the model pass."""
        completion = await self.ask(_composer(issue, paths, steps, left), attempt=len(steps))
        return parse_action(completion.text)


def parse_action(text: str) -> Action:
    """The first JSON object that names a tool."""
    for value in json_values(text):
        if isinstance(value, dict) and value.get("tool") in get_args(Tool):
            path, thought = str(value.get("path") or ""), str(value.get("thought") or "")
            return Action(tool=value["tool"], path=path, thought=thought[:500], answer=text)
    return Action(tool=None, answer=text)


def _composer(issue: Issue, paths: Sequence[str], steps: Sequence[ReactStep], left: int) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(200, budget - 600)
        share = max(60, int(room * 0.6) // max(1, len(steps)))
        return render(
            "react",
            issue=clip(issue.text, int(room * 0.25)),
            paths=clip("\n".join(paths[:SHOWN_PATHS]), int(room * 0.15)),
            steps=[step.model_copy(update={"observation": clip(step.observation, share)}) for step in steps],
            left=left,
        )

    return compose
