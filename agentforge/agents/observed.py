"""The search engine's facts in words, for prompts: suspicious lines, then how the tests fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentforge.core.facts import Facts, FailingFrame, FailingTest, SeenCall, Suspect, Value
from agentforge.models.ledger import estimate_tokens

MAX_FACT_TOKENS = 700
"""What facts may take of any prompt, however large its window is."""


def describe_facts(facts: Facts | None, tokens: int) -> str:
    """Whole lines of `facts` within about `tokens`, the most telling first; "" where there are none.

    Half of the room at most goes to the suspicious lines.
    """
    if facts is None or not (facts.suspects or facts.failures):
        return ""
    tokens = min(tokens, MAX_FACT_TOKENS)
    parts = []
    if facts.suspects:
        parts = _fitting(_suspects(facts), tokens // 2)
    used = sum(estimate_tokens(line) for line in parts)
    for failure in facts.failures:
        more = _fitting(failure_lines(failure), tokens - used)
        used += sum(estimate_tokens(line) for line in more)
        parts += more
    return "\n".join(parts)


def _fitting(lines: Iterable[str], tokens: int) -> list[str]:
    """The first of `lines` that fit; a headline alone is no use."""
    kept: list[str] = []
    for line in lines:
        tokens -= estimate_tokens(line)
        if tokens < 0:
            break
        kept.append(line)
    return kept if len(kept) > 1 else []


def _suspects(facts: Facts) -> Iterator[str]:
    yield "Suspicious lines, most suspicious first (failing / passing tests that run them):"
    for suspect in facts.suspects:
        yield f"  {suspect.path}:{suspect.line}  {_code(suspect)}  ({suspect.failing} / {suspect.passing})"


def _code(suspect: Suspect) -> str:
    if suspect.expression and suspect.expression != suspect.code:
        return f"{suspect.code}  <- fails at: {suspect.expression}"
    return suspect.code


def failure_lines(failure: FailingTest) -> Iterator[str]:
    """How one test fails: the exception, its last calls, then its frames, innermost first."""
    what = failure.exception or failure.outcome
    message = failure.message.split("\n", 1)[0]
    yield f"{failure.test} ends with {what}{f': {message}' if message else ''}"
    for call in failure.calls:
        yield f"  {_call(call)}"
    for frame in reversed(failure.frames):
        yield f"  at {frame.path}:{frame.line} in {frame.function}{_at(frame)}"


def _call(call: SeenCall) -> str:
    end = "did not return" if call.returned is None else f"returned {call.returned}"
    inside = f"; at its end {_values(call.values)}" if call.values else ""
    return f"{call.function}({_values(call.arguments)}) {end}{inside}"


def _at(frame: FailingFrame) -> str:
    expression = f", evaluating {frame.expression}" if frame.expression else ""
    return f"{expression}: {_values(frame.values)}" if frame.values else expression


def _values(values: Iterable[Value]) -> str:
    return ", ".join(f"{value.name}={value.text}" for value in values)
