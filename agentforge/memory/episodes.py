"""Episodic memory: verified fixes of the past, found again by similar issues (AgentForge, III-C)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from pydantic import ValidationError

from agentforge.core.errors import StoreError, UsageError
from agentforge.core.redact import Redactor
from agentforge.core.retrieval import Episode, FailedAttempt
from agentforge.memory.facts import Vocabulary
from agentforge.memory.lexical import query_weights
from agentforge.memory.postings import Bm25
from agentforge.memory.store import Row, VectorStore, collection_name
from agentforge.memory.tokens import code_tokens

MAX_TEXT_CHARS = 200_000
MAX_ATTEMPT_CHARS = 20_000
MAX_ATTEMPTS = 10
_COLLECTION = collection_name("episodes")
_HUNK_HEADER = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MIN_COSINE = 0.25
_MIN_LEXICAL = 0.05
_COSINE_WEIGHT = 0.5


@dataclass(frozen=True)
class MemoryStats:
    """What is stored: episodes, and how many of them by repository."""

    episodes: int
    repositories: dict[str, int]
    oldest: str = ""
    newest: str = ""


def episode_id(episode: Episode) -> str:
    """16 hex digits that name the content: repository, issue without its spacing, changed lines."""
    issue = " ".join(episode.issue.lower().split())
    patch = "\n".join(
        _HUNK_HEADER.sub("@@", line).rstrip()
        for line in episode.patch.splitlines()
        if not line.startswith("index ")
    )
    parts = "\0".join((episode.repository, issue, patch.strip()))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class EpisodeStore:
    """Episodes in a `VectorStore`. Blocking; raises `StoreError`. Only verified fixes may be passed in."""

    def __init__(self, store: VectorStore, redactor: Redactor | None = None) -> None:
        self._store = store
        self._redactor = redactor or Redactor()

    def store(self, episode: Episode) -> Episode:
        """Keep an episode and return it as stored, with its id; the same fix is kept once."""
        episode = self._without_secrets(_clipped(episode))
        created = episode.created or datetime.now(UTC).isoformat(timespec="seconds")
        episode = episode.model_copy(update={"id": episode_id(episode), "created": created, "score": 0.0})
        twin = next((one for one in self.list(episode.repository) if one.id == episode.id), None)
        episode = _merged(episode, twin) if twin is not None else episode
        self._write(episode)
        return episode

    def _write(self, episode: Episode) -> None:
        metadata = {
            "repository": episode.repository,
            "created": episode.created,
            "episode": episode.model_dump_json(exclude={"score"}),
        }
        self._store.upsert(_COLLECTION, [Row(episode.id, f"{episode.issue}\n{episode.summary}", metadata)])

    def retract(self, prefix: str, reason: str) -> Episode:
        """Believe a fix no longer, e.g. after a regression: it stays, with the reason, but is not found."""
        episode = self.show(prefix).model_copy(
            update={"retracted": self._redactor.text(reason) or "retracted"}
        )
        self._write(episode)
        return episode

    def _without_secrets(self, episode: Episode) -> Episode:
        clean = self._redactor.text
        names = ("repository", "issue", "patch", "summary", "plan", "retracted")
        texts: dict[str, object] = {name: clean(getattr(episode, name)) for name in names}
        texts["attempts"] = tuple(
            FailedAttempt(
                patch=clean(one.patch), reason=clean(one.reason), tests=tuple(map(clean, one.tests))
            )
            for one in episode.attempts[:MAX_ATTEMPTS]
        )
        return episode.model_copy(update=texts)

    def list(self, repository: str | None = None) -> tuple[Episode, ...]:
        """All episodes, retracted ones too, or those of one repository, newest first."""
        where = {"repository": repository} if repository is not None else None
        episodes = [episode for row in self._store.get(_COLLECTION, where) if (episode := _episode(row))]
        return tuple(sorted(episodes, key=lambda episode: (episode.created, episode.id), reverse=True))

    def show(self, prefix: str) -> Episode:
        """The one episode whose id starts with `prefix`; `UsageError` where there is none or several."""
        found = [episode for episode in self.list() if prefix and episode.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError(f"no episode has the id {prefix!r}", hint="agentforge memory list shows them")
        ids = ", ".join(episode.id for episode in found[:5])
        raise UsageError(f"{len(found)} episodes have an id that starts with {prefix!r}: {ids}")

    def search(self, text: str, k: int = 5) -> tuple[Episode, ...]:
        """The `k` most similar episodes, best first: cosine and BM25 in equal parts, `score` in 0..1.

        An episode that shares no word and little shape with `text` is not returned at all, nor is one
        that was retracted.
        """
        if k <= 0 or not text.strip():
            return ()
        text = text[:MAX_TEXT_CHARS]
        rows = self._store.get(_COLLECTION)
        nearest = self._store.query(_COLLECTION, text, max(50, 4 * k)) if rows else []
        cosine = {row.id: max(0.0, row.similarity) for row in nearest}
        lexical = _lexical(text, rows)
        scored = [
            (_COSINE_WEIGHT * cosine.get(row.id, 0.0) + (1 - _COSINE_WEIGHT) * share, row)
            for row, share in zip(rows, lexical, strict=True)
            if share >= _MIN_LEXICAL or cosine.get(row.id, 0.0) >= _MIN_COSINE
        ]
        scored.sort(key=lambda pair: (-pair[0], pair[1].id))
        found = [(score, one) for score, row in scored if (one := _episode(row)) and not one.retracted]
        return tuple(episode.model_copy(update={"score": round(score, 4)}) for score, episode in found[:k])

    def stats(self) -> MemoryStats:
        """Counts by repository."""
        episodes = self.list()
        repositories: dict[str, int] = {}
        for episode in episodes:
            repositories[episode.repository] = repositories.get(episode.repository, 0) + 1
        created = sorted(episode.created for episode in episodes)
        return MemoryStats(len(episodes), repositories, *created[:1], *created[-1:])

    def forget(
        self, prefix: str | None = None, *, repository: str | None = None, before: datetime | None = None
    ) -> int:
        """Delete one episode by id, or those that meet both filters; how many went. No criterion, none."""
        doomed: tuple[Episode, ...] = ()
        if prefix is not None:
            doomed = (self.show(prefix),)
        elif repository is not None or before is not None:
            doomed = tuple(one for one in self.list(repository) if before is None or _created(one) < before)
        self._store.delete(_COLLECTION, [episode.id for episode in doomed])
        return len(doomed)


def warnings_of(episodes: Iterable[Episode], k: int) -> tuple[FailedAttempt, ...]:
    """What was tried and refuted on the way to `episodes`, the likest first, at most `k`."""
    return tuple(attempt for episode in episodes for attempt in episode.attempts)[: max(0, k)]


def _merged(episode: Episode, twin: Episode) -> Episode:
    """The same fix seen again: what is known of both."""
    attempts = tuple(dict.fromkeys(twin.attempts + episode.attempts))[:MAX_ATTEMPTS]
    known = {
        "attempts": attempts,
        "tests": tuple(dict.fromkeys(twin.tests + episode.tests)),
        "failures": tuple(dict.fromkeys(twin.failures + episode.failures)),
        "summary": episode.summary or twin.summary,
        "plan": episode.plan or twin.plan,
        "created": min(twin.created, episode.created),
        "retracted": episode.retracted,
    }
    return episode.model_copy(update=known)


def _clipped(episode: Episode) -> Episode:
    cut: dict[str, object] = {
        name: str(getattr(episode, name))[:MAX_TEXT_CHARS] for name in ("issue", "summary", "plan")
    }
    cut["attempts"] = tuple(
        one.model_copy(update={"patch": one.patch[:MAX_ATTEMPT_CHARS], "reason": one.reason[:1000]})
        for one in episode.attempts
    )
    if len(episode.patch) > MAX_TEXT_CHARS:
        raise StoreError(f"a patch of {len(episode.patch)} characters is too large to remember")
    return episode.model_copy(update=cut)


def _episode(row: Row) -> Episode | None:
    """The stored episode; None where a row was not written by us, so that it harms no other."""
    try:
        return Episode.model_validate_json(str(row.metadata.get("episode")))
    except ValidationError:
        return None


def _created(episode: Episode) -> datetime:
    try:
        created = datetime.fromisoformat(episode.created)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return created if created.tzinfo else created.replace(tzinfo=UTC)


def _lexical(text: str, rows: Sequence[Row]) -> list[float]:
    """BM25 of each row for `text`, scaled so that an identical text would score 1."""
    vocabulary = Vocabulary()
    documents = [vocabulary.count(code_tokens(row.text)) for row in rows]
    documents.append(vocabulary.count(code_tokens(text)))
    weights = query_weights(vocabulary, [(text, 1.0)])
    scores = Bm25.of(documents).scores(weights)
    top = float(scores[-1])
    return [float(score) for score in np.minimum(scores[:-1] / top, 1.0)] if top > 0 else [0.0] * len(rows)
