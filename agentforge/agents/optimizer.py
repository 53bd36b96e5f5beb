"""The optimizer: a program that passes in, a better variant out, to be validated again (ExecuGraph, 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.coder import Coder
from agentforge.agents.debugger import Debugger
from agentforge.config.settings import AgentName

GOAL = (
    "The code passes its tests. Improve its running time or memory where that is possible without changing "
    "what it returns; else make it simpler. Keep its name and arguments."
)


@dataclass(frozen=True)
class Optimizer(Coder):
    role: ClassVar[AgentName] = "optimizer"


@dataclass(frozen=True)
class Regenerator(Debugger):
    """The generator once more, with the candidate and what its execution said (ExecuGraph, Algorithm 1)."""

    role: ClassVar[AgentName] = "coder"
