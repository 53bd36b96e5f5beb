"""The planner's artifact."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentforge.core.base import Frozen

StepAgent = Literal["coder", "tester", "debugger", "critic"]


class Step(Frozen):
    """One unit of work. The id is given before any code exists and never reused (AuditCoder, 3)."""

    id: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")
    agent: StepAgent = "coder"
    description: str
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


class Plan(Frozen):
    """Explanation and ordered steps (AgentForge, III-D eq. 6). `fallback` marks our own plain plan."""

    explanation: str
    steps: tuple[Step, ...] = Field(min_length=1)
    fallback: bool = False

    def coder_steps(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.agent == "coder")
