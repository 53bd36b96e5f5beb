"""One door to ChromaDB: an embedded folder that two processes may use and nothing here ever destroys.

Every operation takes the file lock, opens the database, works, and closes it again: an open client
keeps its vectors in memory and does not see what another process writes (measured with chromadb 1.5.9;
opening again costs some 15 ms).
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import filelock

from agentforge.core.errors import StoreError
from agentforge.memory.embed import Embedder

SCHEMA = 1
DATABASE = "chroma.sqlite3"
LOCK = "agentforge.lock"
_BATCH = 1000

Value = str | int | float | bool
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One stored text. `similarity` is the cosine to the query, 0 where nothing was compared."""

    id: str
    text: str
    metadata: Mapping[str, Value]
    similarity: float = 0.0


def without_password(url: str) -> str:
    """`url` without what stands before an @ in its host part."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def open_server(url: str) -> Any:
    """A client of the Chroma server at `url`. Raises `StoreError` where it is no http(s) URL."""
    import chromadb
    from chromadb.config import Settings

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError(
            f"memory.chroma_url is not an http(s) URL: {without_password(url)!r}",
            hint="for example http://127.0.0.1:8000",
        )
    secure = parts.scheme == "https"
    return chromadb.HttpClient(
        host=parts.hostname,
        port=parts.port or (443 if secure else 8000),
        ssl=secure,
        settings=Settings(anonymized_telemetry=False),
    )


def collection_name(kind: str, key: str = "") -> str:
    """A name Chroma accepts whatever `key` holds."""
    return f"{kind}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


class VectorStore:
    """Collections of texts with vectors under `folder`.

    All methods block and raise `StoreError` where the store is locked, damaged, of another schema or made
    with another embedder. `timeout_s` bounds the wait for the lock and for each operation. With `url` the
    collections are on that Chroma server, and `folder` is not touched.
    """

    def __init__(
        self, folder: Path, embedder: Embedder, *, timeout_s: float = 10.0, url: str | None = None
    ) -> None:
        self.folder = folder
        self.url = url
        self.place = f"the memory at {without_password(url) if url else folder}"
        self.embedder = embedder
        self.timeout_s = timeout_s
        self._checked = False

    def exists(self) -> bool:
        """Whether anything was ever stored here."""
        return self.url is not None or (self.folder / DATABASE).exists()

    def upsert(self, collection: str, rows: Sequence[Row]) -> dict[str, list[float]]:
        """Write rows, replacing those of the same id; their vectors by id."""
        vectors = self.embedder.embed([row.text for row in rows])

        def write(client: Any) -> None:
            target = self._collection(client, collection, create=True)
            for start in range(0, len(rows), _BATCH):
                part = rows[start : start + _BATCH]
                target.upsert(
                    ids=[row.id for row in part],
                    embeddings=vectors[start : start + _BATCH],
                    documents=[row.text for row in part],
                    metadatas=[dict(row.metadata) for row in part],
                )

        if rows:
            self._run(write)
        return dict(zip((row.id for row in rows), vectors, strict=True))

    def query(
        self, collection: str, text: str, k: int, where: Mapping[str, Value] | None = None
    ) -> list[Row]:
        """The `k` nearest rows by cosine, nearest first."""
        vector = self.embedder.embed([text])[0]

        def read(client: Any) -> list[Row]:
            target = self._collection(client, collection)
            count = target.count() if target is not None else 0
            if target is None or not count:
                return []
            found = target.query(
                query_embeddings=[vector], n_results=min(k, count), where=dict(where) if where else None
            )
            return [
                Row(row_id, document or "", metadata or {}, 1.0 - float(distance))
                for row_id, document, metadata, distance in zip(
                    found["ids"][0],
                    found["documents"][0],
                    found["metadatas"][0],
                    found["distances"][0],
                    strict=True,
                )
            ]

        return self._run(read) if k > 0 and self.exists() else []

    def vectors(self, collection: str, ids: Sequence[str]) -> dict[str, list[float]]:
        """The stored vectors of those ids that exist."""

        def read(client: Any) -> dict[str, list[float]]:
            target = self._collection(client, collection)
            if target is None:
                return {}
            found = target.get(ids=list(ids), include=["embeddings"])
            return {
                row_id: [float(x) for x in vector]
                for row_id, vector in zip(found["ids"], found["embeddings"], strict=True)
            }

        return self._run(read) if ids and self.exists() else {}

    def get(self, collection: str, where: Mapping[str, Value] | None = None) -> list[Row]:
        """All rows, or those whose metadata equal `where`."""

        def read(client: Any) -> list[Row]:
            target = self._collection(client, collection)
            if target is None:
                return []
            found = target.get(where=dict(where) if where else None, include=["documents", "metadatas"])
            return [
                Row(row_id, document or "", metadata or {})
                for row_id, document, metadata in zip(
                    found["ids"], found["documents"], found["metadatas"], strict=True
                )
            ]

        return self._run(read) if self.exists() else []

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""

        def remove(client: Any) -> None:
            target = self._collection(client, collection)
            if target is not None:
                target.delete(ids=list(ids))

        if ids and self.exists():
            self._run(remove)

    def count(self, collection: str) -> int:
        """How many rows there are."""

        def read(client: Any) -> int:
            target = self._collection(client, collection)
            return 0 if target is None else int(target.count())

        return self._run(read) if self.exists() else 0

    def _collection(self, client: Any, name: str, *, create: bool = False) -> Any:
        """The collection, checked against our embedder; None where it does not exist."""
        from chromadb.errors import NotFoundError

        try:
            found = client.get_collection(name, embedding_function=None)
        except NotFoundError:
            if not create:
                return None
            return client.create_collection(
                name,
                embedding_function=None,
                metadata=self._identity(),
                configuration={"hnsw": {"space": "cosine"}},
            )
        self._check_identity(dict(found.metadata or {}))
        return found

    def _identity(self) -> dict[str, Value]:
        return {"schema": SCHEMA, "embedder": self.embedder.name, "dimension": self.embedder.dimension}

    def _check_identity(self, stored: Mapping[str, Any]) -> None:
        ours = self._identity()
        theirs = {key: stored.get(key) for key in ours}
        if theirs["schema"] != ours["schema"]:
            raise StoreError(
                f"{self.place} has schema {theirs['schema']}, this version reads {SCHEMA}",
                hint="use the version of AgentForge that wrote it, or another --data-home",
            )
        if theirs != ours:
            raise StoreError(
                f"{self.place} was made with embedder {theirs['embedder']} "
                f"({theirs['dimension']} dimensions), not {ours['embedder']} ({ours['dimension']})",
                hint="configure the embedder it was made with, or another --data-home",
            )

    def _run(self, operation: Callable[[Any], T]) -> T:
        """Run `operation` under the lock and a timeout, with every failure told as `StoreError`."""
        outcome: list[T] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                import chromadb  # noqa: F401  slow at first: not while others wait for the lock

                with self._opened() as client:
                    outcome.append(operation(client))
            except BaseException as error:  # noqa: BLE001  handed to the waiting thread, nothing is lost
                failure.append(error)

        # A daemon thread, because a database that hangs must not keep the process from ending.
        thread = threading.Thread(target=work, name="agentforge-memory", daemon=True)
        thread.start()
        thread.join(self.timeout_s * 2)
        if thread.is_alive():
            raise StoreError(
                f"{self.place} did not answer within {self.timeout_s * 2:.0f} s",
                hint="another process may hold it; try again, or use --no-memory",
            )
        if failure:
            raise self._explained(failure[0])
        return outcome[0]

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, ImportError):
            return StoreError(f"ChromaDB cannot be loaded: {error}", hint="install agentforge again")
        import httpx  # Chroma's own HTTP client, whose errors come through
        from chromadb.errors import ChromaError

        faults = ChromaError | sqlite3.Error | OSError | ValueError | TypeError | httpx.HTTPError
        if isinstance(error, faults) or (
            type(error).__name__ == "PanicException"  # raised by Chroma's native part, not an Exception
        ):
            way_out = "move the folder away to start an empty memory"
            if self.url:
                way_out = "is the Chroma server up?"
            return StoreError(
                f"{self.place} cannot be used: {error}",
                hint=f"nothing was deleted; {way_out}",
            )
        return error

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """A client of the server, which does its own locking, or of the folder under our lock."""
        if self.url is not None:
            yield open_server(self.url)
            return
        with self._locked(), self._client() as client:
            yield client

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = filelock.FileLock(self.folder / LOCK, timeout=self.timeout_s)
            with lock:
                yield
        except filelock.Timeout:
            raise StoreError(
                f"{self.place} has been locked for {self.timeout_s:.0f} s by another process",
                hint="wait for the other run to end",
            ) from None

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import chromadb
        from chromadb.config import Settings

        self._check_database()
        settings = Settings(anonymized_telemetry=False, allow_reset=False)
        client: Any = chromadb.PersistentClient(path=str(self.folder), settings=settings)
        try:
            yield client
        finally:
            client.close()

    def _check_database(self) -> None:
        """Read the database file before Chroma does: Chroma writes to, or panics on, a damaged one."""
        path = self.folder / DATABASE
        if self._checked or not path.exists():
            return
        if path.stat().st_size == 0:
            raise sqlite3.DatabaseError(f"{DATABASE} is empty")
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            answer = connection.execute("PRAGMA quick_check(1)").fetchone()
        if answer != ("ok",):
            raise sqlite3.DatabaseError(f"{DATABASE} is damaged: {answer[0]}")
        self._checked = True
