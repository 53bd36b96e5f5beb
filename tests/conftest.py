"""For every test: a clean environment, and no way to a real model."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

import pytest

from agentforge.models import client
from agentforge.models.endpoint import is_loopback


@pytest.fixture(autouse=True)
def no_real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of the machine is seen, and an endpoint off loopback is refused before it is asked."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "AGENTFORGE_")) and name != "AGENTFORGE_QUIXBUGS":
            monkeypatch.delenv(name)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    connection = client.OpenAIModel._connection

    def loopback_only(self: client.OpenAIModel) -> AbstractAsyncContextManager[object]:
        assert is_loopback(self._base_url), f"a test would call a real model at {self._base_url}"
        return connection(self)

    monkeypatch.setattr(client.OpenAIModel, "_connection", loopback_only)
