"""What all agents share: who asks, how much fits, and one way to ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from agentforge.config.settings import AgentName, AgentSettings, Settings
from agentforge.core.chat import Completion, Message, ModelRequest
from agentforge.core.errors import LimitReached
from agentforge.core.ports import Model, TokenSink
from agentforge.models.errors import ContextLengthError
from agentforge.models.ledger import estimate_prompt_tokens

MAX_SHRINKS = 3

Compose = Callable[[int], tuple[Message, ...]]
"""Makes the messages for a budget in tokens; what does not fit is left out."""


@dataclass(frozen=True)
class Window:
    """The context window in tokens. Output is reserved, at most half of the window."""

    context_tokens: int = 128_000
    max_output_tokens: int = 4096

    @property
    def output_tokens(self) -> int:
        return max(1, min(self.max_output_tokens, self.context_tokens // 2))

    @property
    def input_tokens(self) -> int:
        return max(1, self.context_tokens - self.output_tokens)


@dataclass(frozen=True)
class Agent:
    """One role: prompt in, artifact out. Stateless between calls.

    `temperature` and `seed` of None leave the model's own defaults; a later attempt (see `ask`) varies
    the seed, so that a retry is not the same request again.
    """

    model: Model
    window: Window = Window()
    temperature: float | None = None
    seed: int | None = None

    role: ClassVar[AgentName]

    @classmethod
    def create(cls, model: Model, settings: Settings) -> Self:
        """The agent as `settings` want it; what its own section leaves out comes from `model`."""
        own = settings.agents.get(cls.role, AgentSettings())
        output = own.max_output_tokens or settings.model.max_output_tokens
        return cls(
            model=model,
            window=Window(settings.model.context_tokens, output),
            temperature=settings.model.temperature if own.temperature is None else own.temperature,
            seed=settings.model.seed if own.seed is None else own.seed,
        )

    async def ask(
        self,
        compose: Compose,
        *,
        sink: TokenSink | None = None,
        attempt: int = 0,
        temperature: float | None = None,
    ) -> Completion:
        """One completion that fits the window.

        A prompt that is too long, by our estimate or by the endpoint's word, is composed anew for a
        smaller budget at most `MAX_SHRINKS` times; then `LimitReached("context_exhausted")`.
        Errors of the model pass through.
        """
        budget, output = self.window.input_tokens, self.window.output_tokens
        for _ in range(MAX_SHRINKS + 1):
            messages = compose(budget)
            size = estimate_prompt_tokens(messages)
            if size <= self.window.input_tokens:
                try:
                    return await self.model.complete(
                        self._request(messages, output, attempt, temperature), sink
                    )
                except ContextLengthError:
                    # The endpoint's window is smaller than configured: output is counted there, too.
                    output = max(1, output // 2)
            budget = min(budget, size) // 2
        raise LimitReached(
            "context_exhausted",
            f"the {self.role}'s prompt does not fit the model's context after {MAX_SHRINKS} reductions",
            hint="use a model with a larger context, or set model.context_tokens to what it really has",
        )

    def _request(
        self, messages: tuple[Message, ...], output: int, attempt: int, temperature: float | None
    ) -> ModelRequest:
        return ModelRequest(
            agent=self.role,
            messages=messages,
            temperature=self.temperature if temperature is None else temperature,
            seed=None if self.seed is None else self.seed + attempt,
            max_tokens=output,
        )


def was_cut(completion: Completion) -> bool:
    """Whether the answer hit the output limit."""
    return completion.finish_reason in ("length", "max_tokens")
