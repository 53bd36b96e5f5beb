"""Test cases of a model as JSON, `[{call, expected, description}]`, read strictly (ExecuGraph, 3.3)."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import ClassVar

from agentforge.agents.base import Agent, Compose
from agentforge.agents.context import clip
from agentforge.agents.extract import blocks_in
from agentforge.agents.prompts import render
from agentforge.config.settings import AgentName
from agentforge.core.chat import Message
from agentforge.core.problem import Example
from agentforge.core.task import Issue
from agentforge.models.errors import EmptyAnswerError

MAX_CASES = 8


class CasesProblem(ValueError):
    """The answer is no list of cases."""


@dataclass(frozen=True)
class CaseWriter(Agent):
    role: ClassVar[AgentName] = "tester"

    async def write(self, issue: Issue, entry: str) -> tuple[tuple[Example, ...], tuple[str, ...]]:
        """(cases, problems): none after two unusable answers. Errors of the endpoint pass through."""
        problems: list[str] = []
        for attempt in range(2):
            try:
                completion = await self.ask(
                    _composer(issue, entry, problems[-1] if problems else ""), attempt=attempt
                )
                return parse_cases(completion.text, entry), tuple(problems)
            except EmptyAnswerError:
                problems.append("it was empty")
            except CasesProblem as error:
                problems.append(str(error))
        return (), tuple(problems)


def parse_cases(text: str, entry: str) -> tuple[Example, ...]:
    """Every item must hold a call of `entry` and a literal. Raises `CasesProblem` naming the first that
    does not; nothing is mended or guessed."""
    value = _json_list(text)
    return tuple(_case(item, number, entry) for number, item in enumerate(value[:MAX_CASES], 1))


def _json_list(text: str) -> list[object]:
    for source in (text, *(body for _, body in blocks_in(text))):
        try:
            value = json.loads(source)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and value:
            return value
    raise CasesProblem("it is no JSON list of cases")


def _case(item: object, number: int, entry: str) -> Example:
    if not isinstance(item, dict) or not isinstance(item.get("call"), str) or "expected" not in item:
        raise CasesProblem(f'case {number} needs "call" (text) and "expected"')
    call, expected = item["call"].strip(), item["expected"]
    try:
        tree = ast.parse(call, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CasesProblem(f"case {number}: the call is no Python expression") from None
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if entry not in named:
        raise CasesProblem(f"case {number} does not call {entry}")
    text, loose = _literal(expected, number)
    description = str(item.get("description", ""))[:200]
    return Example(call=call, expected=text, loose=loose, description=description)


def _literal(expected: object, number: int) -> tuple[str, bool]:
    """(Python text, loose). A JSON value that is no text stands for itself, and knows no tuples."""
    if not isinstance(expected, str):
        return repr(expected), True
    try:
        ast.literal_eval(expected)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise CasesProblem(f"case {number}: expected is no Python literal") from None
    return expected, False


def _composer(issue: Issue, entry: str, problem: str) -> Compose:
    def compose(budget: int) -> tuple[Message, ...]:
        return render("cases", issue=clip(issue.text, int(budget * 0.7)), entry=entry, problem=problem)

    return compose
