"""The explainer: a short account of a patch for people, from the evidence alone if need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.context import clip
from agentforge.agents.critic import gate_evidence
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.errors import LimitReached, ModelError
from agentforge.core.gate import GateDecision, Verdict
from agentforge.core.patch import Patch
from agentforge.core.plan import Plan
from agentforge.core.ports import TokenSink
from agentforge.core.task import Issue

_VERDICTS = {
    Verdict.VERIFIED: "Verified: the tests that show the bug pass now, and nothing that passed before fails.",
    Verdict.UNVERIFIED: "Unverified: nothing broke, but no test proves that the bug is gone.",
    Verdict.REFUSED: "Not accepted by the gate.",
}


def explain(plan: Plan | None, patch: Patch, decision: GateDecision) -> str:
    """Plain text from plan, diff statistics and flipped tests; the same input gives the same text."""
    files = ", ".join(patch.files)
    parts = [_VERDICTS[decision.verdict]]
    if plan is not None and not plan.fallback and plan.explanation:
        parts.append(plan.explanation)
    parts.append(f"The patch changes {files} (+{patch.added} -{patch.removed} lines).")
    if decision.fail_to_pass:
        parts.append("Failed before, pass now:\n" + _listed(decision.fail_to_pass))
    if decision.pass_to_pass:
        parts.append(
            f"{len(decision.pass_to_pass)} tests passed before and still pass ({decision.scope} tests ran)."
        )
    if decision.reasons:
        reasons = [
            f"{reason.test_id} {reason.text}".strip() or reason.kind.value for reason in decision.reasons
        ]
        parts.append("The gate's reasons:\n" + _listed(reasons))
    return "\n\n".join(parts)


def _listed(items: tuple[str, ...] | list[str], most: int = 10) -> str:
    more = [f"- and {len(items) - most} more"] if len(items) > most else []
    return "\n".join([*(f"- {item}" for item in items[:most]), *more])


@dataclass(frozen=True)
class Explainer(Agent):
    role: ClassVar[AgentName] = "explainer"

    async def write(
        self,
        issue: Issue,
        plan: Plan | None,
        patch: Patch,
        decision: GateDecision,
        *,
        history: tuple[str, ...] = (),
        sink: TokenSink | None = None,
    ) -> str:
        """The model's account above the deterministic one; that one alone where the model fails.

        `history` says why earlier candidates were refused.
        """
        facts = explain(plan, patch, decision)
        try:
            answer = await self.ask(_composer(issue, patch, decision, history), sink=sink)
        except (ModelError, LimitReached):
            return facts
        told = answer.text.strip()
        return facts if was_cut(answer) or not told else f"{clip(told, 600)}\n\n{facts}"


def _composer(issue: Issue, patch: Patch, decision: GateDecision, history: tuple[str, ...]) -> Compose:
    evidence = "\n".join([gate_evidence(decision), *(f"Refused before: {reason}" for reason in history[:5])])

    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 300)
        return render(
            "explainer",
            issue=clip(issue.text, int(room * 0.3)),
            diff=clip(patch.text, int(room * 0.5)),
            evidence=clip(evidence, int(room * 0.15)),
        )

    return compose
