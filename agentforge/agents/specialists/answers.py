"""Reading the structured answers of specialists: strict where it decides, tolerant where it does not.

A field of the wrong type never counts as true: a missing or odd `can_solve` is "no", a missing `stop`
is "go on" (MARS, appendix A; the validity rules of F.6 and F.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentforge.agents.extract import blocks_in, json_values
from agentforge.core.relay import CheckAction, Contract, DraftAction, SelfCheck
from agentforge.core.task import Issue

MAX_FIELD = 600
"""Characters of one field that go into the next prompt."""
MAX_ITEMS = 12


@dataclass(frozen=True)
class Assessment:
    """A specialist's word on whether a task is its own. `problem` says why an answer did not count."""

    can_solve: bool = False
    relevant: bool = False
    confidence: float = 0.0
    reasoning: str = ""
    problem: str = ""

    @property
    def eligible(self) -> bool:
        return self.can_solve and self.relevant


@dataclass(frozen=True)
class Draft:
    """The first call of a turn: `code` as it stands in the answer, "" where nothing is to change."""

    action: DraftAction
    code: str = ""
    stop: bool = False
    confidence: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Checked:
    """The second call of a turn, with the code of a repair."""

    check: SelfCheck
    code: str = ""


def parse_assessment(text: str) -> Assessment:
    answer = _object(text, "can_solve")
    if answer is None:
        return Assessment(problem="the answer holds no JSON object with can_solve")
    return Assessment(
        can_solve=answer.get("can_solve") is True,
        relevant=answer.get("is_relevant_to_specialty") is True,
        confidence=_unit(answer.get("confidence")),
        reasoning=_text(answer.get("reasoning")),
    )


def parse_probe(text: str, specialist: str) -> Contract:
    """The contract that the specialist offers; one that cannot start where the answer is unusable."""
    answer = _object(text, "can_start")
    if answer is None:
        return Contract(specialist=specialist, reasoning="the probe's answer could not be read")
    return Contract(
        specialist=specialist,
        can_start=answer.get("can_start") is True,
        start_confidence=_unit(answer.get("start_confidence")),
        owned_subproblem=_text(answer.get("owned_subproblem")),
        first_action=_text(answer.get("what_would_you_do_first")),
        reasoning=_text(answer.get("starter_reasoning")),
        out_of_scope=_texts(answer.get("out_of_scope")),
    )


def parse_draft(text: str) -> Draft:
    """A draft; one without code is no change, whatever it calls itself."""
    answer = _object(text, "action")
    if answer is None:
        code = _code_after(text, None)
        if not code:
            return Draft("unusable", problem="the answer holds neither a JSON object nor code")
        return Draft("write_code", code, problem="code without a JSON object")
    code = _code_after(text, answer)
    stop, confidence = answer.get("stop") is True, _unit(answer.get("confidence"))
    if answer.get("action") == "no_change":
        problem = "code beside no_change was left out" if code else ""
        return Draft("no_change", "", stop, confidence, problem)
    if not code:
        return Draft("unusable", "", stop, confidence, "write_code without code")
    return Draft("write_code", code, stop, confidence)


def parse_check(text: str, specialist: str, available: Sequence[str]) -> Checked:
    """The self-check, with the validity rules applied (MARS, F.7).

    Go on: the next agent must be one of `available`, else it is left to the relay's fallback. Stop, or
    nobody available: no next agent. Code counts for `repair_code` only.
    """
    answer = _object(text, "self_check_action")
    if answer is None:
        problem = "the answer holds no JSON object with self_check_action"
        return Checked(SelfCheck(specialist=specialist, action="unusable", problems=(problem,)))
    code = _code_after(text, answer)
    action, code, problems = _check_action(answer.get("self_check_action"), code)
    stop = answer.get("stop") is True
    wanted = answer.get("next_agent")
    following = wanted if isinstance(wanted, str) and wanted in available and not stop else None
    if not stop and available and following is None:
        problems = (*problems, f"next_agent is not one of {', '.join(available)}")
    check = SelfCheck(
        specialist=specialist,
        action=action,
        stop=stop,
        next_agent=following,
        summary=_text(answer.get("self_check_summary")),
        interpretation=_text(answer.get("test_report_interpretation")),
        completed_scope=_text(answer.get("completed_scope")),
        remaining_scope=_text(answer.get("remaining_scope")),
        resolved=_texts(answer.get("resolved_subtasks")),
        unresolved=_texts(answer.get("unresolved_subtasks")),
        instruction=_text(answer.get("handoff_instruction")),
        risks=_text(answer.get("known_risks")),
        problems=problems,
    )
    return Checked(check, code)


def _check_action(said: object, code: str) -> tuple[CheckAction, str, tuple[str, ...]]:
    if said == "repair_code":
        if code:
            return "repair_code", code, ()
        return "keep_code", "", ("repair_code without code keeps the draft",)
    dropped = (f"code beside {said} was left out",) if code else ()
    if said == "no_change":
        return "no_change", "", dropped
    if said == "keep_code":
        return "keep_code", "", dropped
    return "keep_code", "", (*dropped, f"unknown self_check_action {_text(said)[:40]!r} keeps the draft")


def _object(text: str, key: str) -> Mapping[str, Any] | None:
    """The first JSON object of the answer that has `key`; code, which comes after it, may hold others."""
    return next((value for value in json_values(text) if isinstance(value, dict) and key in value), None)


_JSON_INFO = frozenset({"json", "json5", "jsonc"})


def _code_after(text: str, answer: Mapping[str, Any] | None) -> str:
    """The code of an answer: `new_code`, else what stands outside the JSON object, as an edit.

    Small models cannot escape a program into a JSON string; a fenced block behind the object is the
    same answer.
    """
    inside = answer.get("new_code") if answer is not None else None
    if isinstance(inside, str) and inside.strip():
        return inside
    blocks = [(info, body) for info, body in blocks_in(text) if not _is_json(info, body)]
    if not any(body.strip() for _, body in blocks):
        return ""
    return _without_object(text)


def _is_json(info: str, body: str) -> bool:
    return info in _JSON_INFO or body.lstrip().startswith("{")


_JSON_FENCE = re.compile(r"^(`{3,})(?:json5?|jsonc)?[ \t]*\n\s*\{.*?^\1[ \t]*$\n?", re.DOTALL | re.MULTILINE)


def _without_object(text: str) -> str:
    """The answer without its JSON object; the patch engine reads the rest."""
    text = _JSON_FENCE.sub("", text, count=1)
    lead = text.lstrip()
    if lead.startswith("{"):
        fence = lead.find("```")
        return lead[fence_line(lead, fence) :] if fence >= 0 else lead
    return text


def fence_line(text: str, fence: int) -> int:
    """Where the block around the fence at `fence` begins: a path on the line before belongs to it."""
    before = text[:fence].rstrip("\n").rfind("\n") + 1
    line = text[before:fence].strip()
    return before if line and not line.endswith(("}", ",", "{")) and " " not in line else fence


def _text(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.split())[:MAX_FIELD]
    return "" if value is None or isinstance(value, dict | list) else str(value)[:MAX_FIELD]


def _texts(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(item for item in (_text(entry) for entry in listed) if item)[:MAX_ITEMS]


def _unit(value: object) -> float:
    """A confidence between 0 and 1; anything else is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= 1 else 0.0


def task_text(issue: Issue) -> str:
    """What specialists match a task by."""
    return issue.text if issue.title in issue.text else f"{issue.title}\n{issue.text}"
