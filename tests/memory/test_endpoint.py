"""The embeddings endpoint, against a scripted HTTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from agentforge.config.settings import MemorySettings
from agentforge.core.errors import ConfigError, StoreError
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.endpoint import EndpointEmbedder, open_embedder
from agentforge.memory.store import Row, VectorStore
from tests.support.embedding_server import KEY
from tests.support.embedding_server import EmbeddingServer as Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def settings(server: Server) -> MemorySettings:
    return MemorySettings(
        embedding_base_url=server.url, embedding_api_key=SecretStr(KEY), embedding_dimension=3
    )


def test_without_an_endpoint_vectors_are_made_offline() -> None:
    assert isinstance(open_embedder(MemorySettings()), HashedEmbedder)


def test_texts_are_sent_in_batches_and_vectors_come_back_in_order(server: Server) -> None:
    embedder = open_embedder(settings(server))
    assert (embedder.name, embedder.dimension, embedder.offline) == (
        "endpoint:text-embedding-3-small",
        3,
        False,
    )
    vectors = embedder.embed(["x" * (n + 1) for n in range(200)])
    assert len(vectors) == 200
    assert [round(vector[0] / vector[1]) for vector in vectors] == list(range(1, 201))
    assert sum(x * x for x in vectors[7]) == pytest.approx(1.0)
    assert [len(one["body"]["input"]) for one in server.requests] == [128, 72]
    assert server.requests[0]["path"] == "/v1/embeddings"
    assert server.requests[0]["key"] == f"Bearer {KEY}"
    assert server.requests[0]["body"]["model"] == "text-embedding-3-small"


def test_secrets_empty_and_enormous_texts_are_made_fit(server: Server) -> None:
    open_embedder(settings(server)).embed([f"key = {KEY}", "", "y" * 100_000, "\ud800"])
    secret, empty, long, odd = server.requests[0]["body"]["input"]
    assert KEY not in secret
    assert empty == "(empty)"
    assert len(long) == 24_000
    assert odd == "?"


def test_faults_of_the_endpoint_are_store_errors_without_the_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentforge.memory.endpoint._RETRIES", 0)
    embedder = open_embedder(settings(server))
    server.dimension = 2
    with pytest.raises(StoreError, match="vectors of 2 numbers, not 3"):
        embedder.embed(["a"])
    server.dimension, server.drop = 3, 1
    with pytest.raises(StoreError, match="answered 1 vectors for 2 texts"):
        embedder.embed(["a", "b"])
    server.status = 401
    with pytest.raises(StoreError, match="failed") as caught:
        embedder.embed(["a"])
    assert KEY not in str(caught.value)
    with pytest.raises(StoreError, match="failed"):
        EndpointEmbedder("http://127.0.0.1:9/v1", "m", 3, timeout_s=2).embed(["a"])
    with pytest.raises(ConfigError, match="not an http"):
        EndpointEmbedder("ftp://x", "m", 3)


def test_a_store_of_one_embedder_refuses_the_other(server: Server, tmp_path: Path) -> None:
    VectorStore(tmp_path, open_embedder(settings(server))).upsert("things", [Row("a", "text", {"n": 1})])
    with pytest.raises(StoreError, match=r"embedder endpoint:text-embedding-3-small \(3 dimensions\)"):
        VectorStore(tmp_path, HashedEmbedder()).upsert("things", [Row("b", "text", {"n": 1})])
