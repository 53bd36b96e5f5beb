"""The coder: a step and the code it owns in, changed files out (AgentForge, III-D eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from agentforge.agents.base import Agent
from agentforge.agents.context import step_places, symbol_places
from agentforge.agents.edit_prompt import EditPrompt
from agentforge.agents.focus import choose_focus
from agentforge.agents.ladder import RAISED_TEMPERATURE, EditResult, OnRefused, Sampling, descend
from agentforge.config.settings import AgentName, EditFormat
from agentforge.core.facts import Facts
from agentforge.core.plan import Step
from agentforge.core.ports import TokenSink
from agentforge.core.retrieval import Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree

CoderResult = EditResult


@dataclass(frozen=True)
class EditContext:
    """What an edit may rest on, besides the tree. `failures` are failing calls on the base, in words."""

    issue: Issue
    retrieved: Retrieved = field(default_factory=Retrieved)
    failures: str = ""
    facts: Facts | None = None
    """What was observed on the base; None where nothing was, or it is not to be told."""


@dataclass(frozen=True)
class Coder(Agent):
    role: ClassVar[AgentName] = "coder"

    async def write(
        self,
        step: Step,
        context: EditContext,
        tree: Tree,
        start: EditFormat = "auto",
        on_refused: OnRefused | None = None,
        *,
        sink: TokenSink | None = None,
        attempt: int = 0,
    ) -> CoderResult:
        """Carry out `step` on `tree`; changes are relative to `tree`.

        Tokens stream into `sink`. At most one call per rung from `start` down; a result with
        `gave_up` after the last. `attempt` > 0 varies the seed and raises the temperature: at zero a
        model gives the same unusable answer again.
        """
        prompt = coder_prompt(step, context, tree)
        temperature = max(RAISED_TEMPERATURE, self.temperature or 0.0) if attempt else None
        target = prompt.focus.path if prompt.focus else (step.files[0] if step.files else None)
        return await descend(
            self,
            tree,
            prompt.compose,
            start=start,
            target=target,
            sampling=Sampling(temperature, attempt),
            sink=sink,
            on_refused=on_refused,
        )


def coder_prompt(step: Step, context: EditContext, tree: Tree) -> EditPrompt:
    """Code first that the step owns, then what retrieval found elsewhere."""
    symbols = context.retrieved.symbols
    elsewhere = symbol_places(item for item in symbols if item.path not in step.files)
    return EditPrompt(
        issue=context.issue.text,
        description=step.description,
        tree=tree,
        places=(*step_places(step, symbols), *elsewhere),
        focus=choose_focus(tree, step, symbols, context.issue.text),
        failures=context.failures,
        facts=context.facts,
    )
