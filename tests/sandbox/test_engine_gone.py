"""The engine disappears in mid-run, and many verifications at once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import EngineUnavailable
from agentforge.core.ports import Environment, TestRequest
from agentforge.core.report import Cause
from agentforge.sandbox import DockerSandbox
from tests.sandbox.conftest import left_behind, make_tree

pytestmark = pytest.mark.docker
ENGINE = "/var/run/docker.sock"


class Cable:
    """A connection to the real engine that can be cut."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def plug_in(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE)
        self._writers += [writer, engine_writer]
        await asyncio.gather(_copy(reader, engine_writer), _copy(engine_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        return


def test_a_vanished_engine_is_named(
    settings: SandboxSettings,
    environment: Environment,
    engine: Any,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = make_tree({"test_a.py": "import time\ndef test_a():\n    time.sleep(30)\n"})

    async def scenario() -> None:
        cable = Cable()
        monkeypatch.setenv("DOCKER_HOST", await cable.plug_in())
        running = asyncio.ensure_future(
            DockerSandbox(settings, run_id).run_tests(environment, tree, TestRequest())
        )
        deadline = time.monotonic() + 20
        while not await asyncio.to_thread(left_behind, engine, run_id):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        cable.cut()
        with pytest.raises(EngineUnavailable, match="no container engine answers"):
            await asyncio.wait_for(running, 60)

    try:
        asyncio.run(scenario())
    finally:
        for container in engine.containers.list(all=True, filters={"label": f"agentforge.run={run_id}"}):
            container.remove(force=True, v=True)
    assert left_behind(engine, run_id) == []


def test_many_at_once_all_get_their_own_verdict(sandbox: DockerSandbox, environment: Environment) -> None:
    async def scenario() -> None:
        trees = [make_tree({"test_a.py": f"def test_a():\n    assert {number} % 2\n"}) for number in range(8)]
        reports = await asyncio.gather(
            *(sandbox.run_tests(environment, tree, TestRequest(timeout_s=60)) for tree in trees)
        )
        assert [report.cause for report in reports] == [Cause.OK] * 8
        assert [report.exit_code for report in reports] == [1, 0] * 4

    asyncio.run(scenario())
