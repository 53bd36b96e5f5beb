"""The critic: evidence in, a parsed verdict out (AgentForge, III-D eq. 10). Advisory to the gate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from agentforge.agents.base import Agent, Compose, was_cut
from agentforge.agents.context import clip
from agentforge.agents.extract import json_values
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.base import Frozen
from agentforge.core.chat import Message
from agentforge.core.errors import LimitReached, ModelError
from agentforge.core.gate import GateDecision
from agentforge.core.patch import Patch
from agentforge.core.ports import TokenSink
from agentforge.core.task import Issue

Opinion = Literal["pass", "fail", "unparsed"]


class Critique(Frozen):
    """What the critic said. `unparsed`: no clear verdict, which counts as no opinion."""

    verdict: Opinion
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Critic(Agent):
    role: ClassVar[AgentName] = "critic"

    async def judge(
        self, issue: Issue, patch: Patch, decision: GateDecision, *, sink: TokenSink | None = None
    ) -> Critique:
        """The critic's opinion; asked once more where the first answer holds no verdict.

        A model that fails here is no reason to lose a verified patch: its error becomes the reason of
        an `unparsed` verdict.
        """
        critique = Critique(verdict="unparsed", reasons=("the critic was not asked",))
        for attempt in range(2):
            try:
                answer = await self.ask(
                    _composer(issue, patch, decision, attempt), sink=sink, attempt=attempt
                )
            except (ModelError, LimitReached) as error:
                return Critique(verdict="unparsed", reasons=(f"the critic could not be asked: {error.what}",))
            critique = parse_critique(answer.text)
            if critique.verdict != "unparsed":
                break
            if was_cut(answer):
                critique = Critique(verdict="unparsed", reasons=("the answer was cut off",))
        return critique


def parse_critique(text: str) -> Critique:
    """A verdict only where the answer is clear: JSON with exactly PASS or FAIL, or a plain first word.

    "FAIL: this does not PASS" is a fail; a text that merely mentions PASS is unparsed.
    """
    stated = [value for value in json_values(text) if isinstance(value, dict) and "verdict" in value]
    if stated:
        opinions = {_opinion(value["verdict"]) for value in stated}
        verdict = opinions.pop() if len(opinions) == 1 else "unparsed"
        reasons = _reasons(stated[-1]) if verdict != "unparsed" else ("the verdict is not PASS or FAIL",)
        return Critique(verdict=verdict, reasons=reasons)
    return _plain(text.strip())


def _opinion(value: object) -> Opinion:
    word = value.strip().upper() if isinstance(value, str) else ""
    return "pass" if word == "PASS" else "fail" if word == "FAIL" else "unparsed"


def _reasons(value: Mapping[str, object]) -> tuple[str, ...]:
    given = value.get("reasons", value.get("reason", []))
    listed = given if isinstance(given, list) else [given]
    return tuple(item.strip() for item in listed if isinstance(item, str) and item.strip())[:10]


_FAIL_FIRST = re.compile(r"^[\W_]*(?:verdict\W+)?FAIL\b[\W_]*")
_PASS_FIRST = re.compile(r"^[\W_]*(?:verdict\W+)?PASS\b(?:[*_`\"'.:,;!\s-]|$)+")


def _plain(text: str) -> Critique:
    failed, passed = _FAIL_FIRST.match(text), _PASS_FIRST.match(text)
    if failed:
        return Critique(verdict="fail", reasons=_rest(text[failed.end() :]))
    if passed and not re.search(r"\b(FAIL\w*|not)\b", text, re.IGNORECASE):
        return Critique(verdict="pass", reasons=_rest(text[passed.end() :]))
    return Critique(verdict="unparsed", reasons=("the answer holds no clear verdict",))


def _rest(text: str) -> tuple[str, ...]:
    return (clip(text.strip(), 150),) if text.strip() else ()


def _composer(issue: Issue, patch: Patch, decision: GateDecision, attempt: int) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        room = max(120, budget - 500)
        return render(
            "critic",
            issue=clip(issue.text, int(room * 0.3)),
            diff=clip(patch.text, int(room * 0.5)),
            evidence=clip(gate_evidence(decision), int(room * 0.15)),
            again=attempt > 0,
        )

    return compose


def gate_evidence(decision: GateDecision) -> str:
    """The gate's decision in words."""
    lines = [
        f"Gate: {decision.verdict.value}; tests that ran: {decision.scope}.",
        f"Failed before, pass now: {', '.join(decision.fail_to_pass[:20]) or 'none'}.",
        f"Passed before, still pass: {len(decision.pass_to_pass)}.",
    ]
    lines += [
        f"- {reason.kind.value} {reason.test_id} {reason.text}".rstrip() for reason in decision.reasons[:20]
    ]
    return "\n".join(lines)
