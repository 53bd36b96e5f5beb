from __future__ import annotations

import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import filelock
import pytest

from agentforge.core.errors import StoreError
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.store import DATABASE, LOCK, Row, VectorStore, collection_name

ROWS = [Row("a", "parse the url", {"repository": "one"}), Row("b", "draw a legend", {"repository": "two"})]


class SmallEmbedder:
    name = "small"
    dimension = 3

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]


def test_rows_are_written_replaced_found_and_deleted(store: VectorStore) -> None:
    name = collection_name("things")
    assert (store.query(name, "url", 5), store.count(name), store.get(name)) == ([], 0, [])
    assert not store.folder.exists()
    store.upsert(name, ROWS)
    store.upsert(name, [Row("b", "draw a figure legend", {"repository": "two"})])
    assert store.count(name) == 2
    found = store.query(name, "url parsing", 5)
    assert [row.id for row in found] == ["a", "b"]
    assert 0.5 < found[0].similarity <= 1.0
    assert [row.text for row in store.get(name, {"repository": "two"})] == ["draw a figure legend"]
    assert list(store.vectors(name, ["a", "zz"])) == ["a"]
    store.delete(name, ["a", "unknown"])
    assert [row.id for row in store.get(name)] == ["b"]
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("key", ["", "a", "ünï", "x" * 5000, "\ud800", "../.."])
def test_any_key_makes_a_legal_collection_name(key: str) -> None:
    assert collection_name("symbols", key).replace("-", "").isalnum()
    assert len(collection_name("symbols", key)) < 64


def test_a_store_of_another_embedder_is_explained_and_kept(store: VectorStore) -> None:
    store.upsert("things", ROWS)
    other = VectorStore(store.folder, SmallEmbedder())
    for attempt in (lambda: other.query("things", "x", 1), lambda: other.upsert("things", ROWS)):
        with pytest.raises(
            StoreError, match=r"embedder hashed-tokens-1 \(384 dimensions\), not small \(3\)"
        ) as caught:
            attempt()
        assert caught.value.hint
    assert store.count("things") == 2


def test_a_store_of_another_schema_is_explained(store: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.upsert("things", ROWS)
    monkeypatch.setattr("agentforge.memory.store.SCHEMA", 2)
    with pytest.raises(StoreError, match="has schema 1, this version reads 2"):
        store.count("things")


def damaged(whole: bytes) -> dict[str, bytes]:
    return {
        "garbage": b"not a database" * 1000,
        "cut": whole[: len(whole) // 2],
        "head only": whole[:4096],
        "empty": b"",
        "hole": whole[:4096] + b"\xff" * 8192 + whole[12288:],
    }


def test_complaint24_damaged_databases_are_named_and_left_as_they_are(
    store: VectorStore, tmp_path: Path
) -> None:
    store.upsert("things", [Row(str(n), f"word{n} " * 50, {"n": n}) for n in range(200)])
    for name, content in damaged((store.folder / DATABASE).read_bytes()).items():
        folder = tmp_path / name
        shutil.copytree(store.folder, folder)
        (folder / DATABASE).write_bytes(content)
        broken = VectorStore(folder, HashedEmbedder())
        for attempt in (lambda s=broken: s.count("things"), lambda s=broken: s.upsert("things", ROWS)):
            with pytest.raises(StoreError, match="cannot be used") as caught:
                attempt()
            assert "nothing was deleted" in caught.value.hint
        assert (folder / DATABASE).read_bytes() == content
    assert store.count("things") == 200


def test_a_locked_store_is_told_within_its_timeout(store: VectorStore) -> None:
    store.upsert("things", ROWS)
    impatient = VectorStore(store.folder, HashedEmbedder(), timeout_s=0.2)
    with filelock.FileLock(store.folder / LOCK), pytest.raises(StoreError, match="locked for"):
        impatient.count("things")
    assert impatient.count("things") == 2


def test_a_database_that_hangs_is_told_within_its_timeout(
    store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    store.upsert("things", ROWS)
    release = threading.Event()
    monkeypatch.setattr(store, "_check_database", release.wait)
    store.timeout_s = 0.2
    with pytest.raises(StoreError, match="did not answer"):
        store.count("things")
    release.set()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        VectorStore(tmp_path / "file" / "memory", HashedEmbedder()).upsert("things", ROWS)


WRITER = """
import socket
import sys

def refuse(*arguments, **options):
    print("the network was asked", arguments, file=sys.stderr)
    raise OSError("no network")

socket.getaddrinfo = socket.socket.connect = socket.socket.connect_ex = refuse
from pathlib import Path
from agentforge.memory.embed import HashedEmbedder
from agentforge.memory.store import Row, VectorStore
store = VectorStore(Path(sys.argv[1]), HashedEmbedder(), timeout_s=60)
for number in range(8):
    store.upsert("things", [Row(f"{sys.argv[2]}-{number}", "parse the url", {"n": number})])
"""


def test_complaint24_two_processes_write_at_once_without_network(store: VectorStore) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder), name], stderr=subprocess.PIPE)
        for name in ("left", "right")
    ]
    store.timeout_s = 60
    store.upsert("things", ROWS)
    for writer in writers:
        assert writer.communicate(timeout=120)[1] == b""
        assert writer.returncode == 0
    assert store.count("things") == 18
    assert len(store.query("things", "parse the url", 50)) == 18
    with sqlite3.connect(store.folder / DATABASE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
