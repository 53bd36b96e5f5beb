"""Episodes on a real Chroma server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge.config.settings import MemorySettings
from agentforge.core.errors import StoreError
from agentforge.core.retrieval import Episode
from agentforge.memory.open import open_episodes


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    program = Path(sys.executable).with_name("chroma")
    server = subprocess.Popen(
        [program, "run", "--path", folder, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait(20)


def test_episodes_live_on_the_server_and_the_folder_stays_empty(url: str, tmp_path: Path) -> None:
    settings = MemorySettings(chroma_url=url)
    here = open_episodes(tmp_path / "here", settings)
    stored = here.store(Episode(id="", repository="o/n", issue="parse_url drops the port", patch="x"))
    there = open_episodes(tmp_path / "there", settings)
    assert [one.id for one in there.search("the port of parse_url")] == [stored.id]
    assert there.forget(stored.id) == 1
    assert here.stats().episodes == 0
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [("http://user:secret@127.0.0.1:9", "is the Chroma server up"), ("ftp://x", "not an http")],
)
def test_a_server_that_is_not_there_is_explained(tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        open_episodes(tmp_path, MemorySettings(chroma_url=address), timeout_s=20).list()
    assert "secret" not in str(caught.value)
