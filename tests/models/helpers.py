"""What the tests of this part share: a sink that shows all, waits that do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentforge.config.settings import ModelSettings, Price
from agentforge.core.chat import Message, ModelRequest
from agentforge.core.task import Limits
from agentforge.models.client import OpenAIModel
from agentforge.models.ledger import Ledger
from tests.support.model_server import ScriptedModel

PRICE = Price(input=2.5, output=10.0, cached_input=1.25)


class Shown:
    """A sink as a reader sees it: `text` is what is on the screen, `log` everything that happened."""

    def __init__(self) -> None:
        self.text = ""
        self.log: list[str] = []

    def token(self, text: str) -> None:
        self.text += text
        self.log.append(text)

    def reset(self, reason: str) -> None:
        self.text = ""
        self.log.append(f"<reset: {reason}>")

    @property
    def resets(self) -> int:
        return sum(entry.startswith("<reset: ") for entry in self.log)


class Waits:
    """Stands for `asyncio.sleep` between attempts; keeps the seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread or task does; at most two seconds."""
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def ask(text: str = "fix it", agent: str = "coder", **overrides: Any) -> ModelRequest:
    return ModelRequest(agent=agent, messages=(Message(role="user", content=text),), **overrides)


def settings_for(server: ScriptedModel, **overrides: Any) -> ModelSettings:
    return ModelSettings(**{"base_url": server.base_url, "name": "scripted", **overrides})


def ledger_with(**limits: Any) -> Ledger:
    return Ledger(Limits(**limits), {"scripted": PRICE})


def client_for(
    server: ScriptedModel, ledger: Ledger | None = None, waits: Waits | None = None, **overrides: Any
) -> OpenAIModel:
    return OpenAIModel(settings_for(server, **overrides), ledger or ledger_with(), sleep=waits or Waits())
