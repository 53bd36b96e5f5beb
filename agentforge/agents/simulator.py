"""Plans are simulated on the examples before any code is written (MARS, appendix C, algorithm 6: CodeSIM)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.task import Issue
from agentforge.models.errors import EmptyAnswerError


@dataclass(frozen=True)
class Simulator(Agent):
    role: ClassVar[AgentName] = "planner"

    async def criticise(self, issue: Issue, plan: str, *, attempt: int = 0) -> str | None:
        """What a simulation finds wrong with `plan`, "" where it holds, None where the answer is unusable."""
        try:
            completion = await self.ask(_composer(issue, plan), attempt=attempt)
        except EmptyAnswerError:
            return None
        return parse_simulation(completion.text)


def parse_simulation(text: str) -> str | None:
    """The critique of the first object with a verdict; a call for revision without one says so in words."""
    for value in json_values(text):
        if not isinstance(value, dict):
            continue
        verdict = str(value.get("verdict", "")).lower()
        if verdict == "holds":
            return ""
        if verdict == "revise":
            said = value.get("critique")
            critique = " ".join(said.split())[:600] if isinstance(said, str) else ""
            return critique or "the simulation does not reach the expected results"
    return None


def _composer(issue: Issue, plan: str) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 400)
        return render("simulate", issue=clip(issue.text, int(room * 0.5)), plan=clip(plan, int(room * 0.4)))

    return compose
