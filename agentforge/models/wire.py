"""The chat-completions protocol: a request as the endpoint takes it, its chunks as one answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentforge.core.chat import ModelRequest, Usage
from agentforge.models.ledger import estimate_tokens

AGENT_HEADER = "X-AgentForge-Agent"

# What we can do without, or say otherwise, when an endpoint does not know it.
DISPENSABLE = ("stream_options", "response_format", "seed", "temperature")
RUNAWAY_CHARS_PER_TOKEN = 32
LONGEST_NAME = 200


@dataclass
class Dialect:
    """What this endpoint will not take; learned from its refusals and kept for the client's life."""

    dropped: set[str] = field(default_factory=set)
    newer_limit: bool = False
    """`max_completion_tokens` in place of `max_tokens`."""

    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        """The arguments of `chat.completions.create` for a request whose defaults are filled in."""
        limit = "max_completion_tokens" if self.newer_limit else "max_tokens"
        wanted: dict[str, Any] = {
            "model": request.model,
            "messages": [message.model_dump() for message in request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": request.temperature,
            "seed": request.seed,
            limit: request.max_tokens,
            "response_format": _response_format(request.json_schema),
            "extra_headers": {AGENT_HEADER: re.sub(r"[^A-Za-z0-9_.-]", "_", request.agent)},
        }
        return {
            name: value for name, value in wanted.items() if value is not None and name not in self.dropped
        }

    def learn(self, arguments: Mapping[str, Any], complaint: str) -> str | None:
        """What to do without after a refusal that names it; None where nothing is to be learned."""
        if "max_tokens" in arguments and "max_completion_tokens" in complaint:
            self.newer_limit = True
            return "max_tokens"
        for name in DISPENSABLE:
            if name in arguments and name in complaint:
                self.dropped.add(name)
                return name
        return None


@dataclass
class Answer:
    """What has come of a streamed answer so far.

    `sent`: the endpoint took the request. `refused`: it certainly did no work for it.
    """

    pieces: list[str] = field(default_factory=list)
    length: int = 0
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    refusal: str = ""
    sent: bool = False
    refused: bool = False
    half: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def streamed_tokens(self) -> int:
        """Estimate of what was produced, where the endpoint does not say."""
        return estimate_tokens(self.text)

    def take(self, chunk: Any) -> str:
        """Add a chunk; returns its text. Fields of the wrong type count as absent."""
        self.model = _name(chunk, "model") or self.model
        self.usage = _usage(getattr(chunk, "usage", None)) or self.usage
        choices = getattr(chunk, "choices", None)
        if not isinstance(choices, list) or not choices:
            return ""
        self.finish_reason = _name(choices[0], "finish_reason") or self.finish_reason
        delta = getattr(choices[0], "delta", None)
        self.refusal += _text(delta, "refusal")
        return self._add(_text(delta, "content"))

    def _add(self, text: str) -> str:
        """Keep `text`, without halves of surrogate pairs; a half at its end waits for the other one."""
        text, self.half = self.half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff" and self.finish_reason is None:
            text, self.half = text[:-1], text[-1]
        piece = _well_formed(text)
        if piece:
            self.pieces.append(piece)
            self.length += len(piece)
        return piece

    def take_whole(self, completion: Any) -> str:
        """Add an unstreamed completion (some endpoints ignore `stream`); returns its text."""
        choices = getattr(completion, "choices", None)
        if isinstance(choices, list) and choices:
            choices[0].delta = getattr(choices[0], "message", None)
        return self.take(completion)

    def runs_away(self, max_tokens: int | None) -> bool:
        """Far more text than was asked for: the endpoint does not keep the limit."""
        return max_tokens is not None and self.length > RUNAWAY_CHARS_PER_TOKEN * (max_tokens + 64)


def _response_format(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def _text(holder: Any, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def _name(holder: Any, name: str) -> str:
    return _well_formed(_text(holder, name))[:LONGEST_NAME]


def _well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced: neither can be written as UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _usage(reported: Any) -> Usage | None:
    if reported is None:
        return None
    details = getattr(reported, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=_count(reported, "prompt_tokens"),
        completion_tokens=_count(reported, "completion_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
    )


def _count(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if type(value) is int and value >= 0 else None
