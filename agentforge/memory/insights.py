"""Insights: short general lessons from several episodes, beside the episodes themselves.

Without a model they are counted: which kind of edit fixed which kind of failure. With a model its words
may be added (`add`); both are merged, re-weighted by what happened when they were followed, and can be
retracted. (The pair of memories: ExpeRepair, Mu et al. 2025.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from agentforge.core.errors import UsageError
from agentforge.core.redact import Redactor
from agentforge.core.retrieval import Episode, Insight
from agentforge.memory.editkinds import edit_kinds, failure_kinds
from agentforge.memory.store import Row, VectorStore, collection_name

MIN_SUPPORT = 2
"""One episode is an anecdote."""
MAX_LESSON_CHARS = 500
_COLLECTION = collection_name("insights")
_SAME_COSINE = 0.92
_MIN_COSINE = 0.15
_MAX_FAILURES = 2


def insight_id(failure: str, edit: str, lesson: str = "") -> str:
    """16 hex digits: by what is counted, or by the words of a lesson that was not counted."""
    key = f"{failure}\0{edit}" if failure and edit else f"\0{' '.join(lesson.lower().split())}"
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def trust(support: int, against: int) -> float:
    """Laplace's rule of succession: 0..1, and 0.5 where nothing is known."""
    return round((support + 1) / (support + against + 2), 3)


def counted(episodes: Iterable[Episode]) -> list[Insight]:
    """Lessons that at least `MIN_SUPPORT` believed episodes share, the best supported first."""
    support: dict[tuple[str, str], list[Episode]] = {}
    failed: dict[str, int] = {}
    for episode in episodes:
        if episode.retracted:
            continue
        failures = episode.failures or failure_kinds([episode.issue])
        for failure in failures[:_MAX_FAILURES]:
            failed[failure] = failed.get(failure, 0) + 1
            for edit in edit_kinds(episode.patch):
                support.setdefault((failure, edit), []).append(episode)
    found = [
        _counted(failure, edit, those, failed[failure])
        for (failure, edit), those in support.items()
        if len(those) >= MIN_SUPPORT
    ]
    return sorted(found, key=lambda one: (-len(one.episodes), one.id))


def _counted(failure: str, edit: str, episodes: Sequence[Episode], total: int) -> Insight:
    support = tuple(sorted({episode.id for episode in episodes}))
    return _weighed(
        Insight(
            id=insight_id(failure, edit),
            lesson=f"{failure} was fixed by {edit} in {len(episodes)} of {total} verified repairs",
            failure=failure,
            edit=edit,
            episodes=support,
            opposed=total - len(episodes),
            created=max(episode.created for episode in episodes),
        )
    )


class InsightStore:
    """Insights in a `VectorStore`. Blocking; raises `StoreError`."""

    def __init__(self, store: VectorStore, redactor: Redactor | None = None) -> None:
        self._store = store
        self._redactor = redactor or Redactor()

    def refresh(self, episodes: Sequence[Episode]) -> tuple[Insight, ...]:
        """Count anew over all `episodes`; outcomes and retractions of known insights are kept.

        A counted insight that lost its support goes; one that a model worded stays while any of its
        episodes does.
        """
        known = {one.id: one for one in self.list(retracted=True)}
        fresh = {one.id: _with_outcomes(one, known.get(one.id)) for one in counted(episodes)}
        believed = {episode.id for episode in episodes if not episode.retracted}
        gone = [
            one.id
            for one in known.values()
            if one.id not in fresh and not (believed & set(one.episodes) and not one.edit)
        ]
        self._write(list(fresh.values()))
        self._store.delete(_COLLECTION, gone)
        return self.list()

    def add(self, lesson: str, episodes: Sequence[str]) -> Insight:
        """Keep a lesson in a model's words with the episodes it came from; a twin is merged."""
        lesson = self._redactor.text(" ".join(lesson.split()))[:MAX_LESSON_CHARS]
        if not lesson or not episodes:
            raise UsageError("an insight needs a lesson and the episodes that support it")
        twin = next(
            (one for one, cosine in self._nearest(lesson, 1) if cosine >= _SAME_COSINE and not one.edit), None
        )
        base = twin or Insight(
            id=insight_id("", "", lesson), lesson=lesson, created=datetime.now(UTC).isoformat("T", "seconds")
        )
        support = tuple(sorted({*base.episodes, *episodes}))
        merged = _weighed(base.model_copy(update={"episodes": support}))
        self._write([merged])
        return merged

    def outcome(self, prefix: str, *, helped: bool) -> Insight:
        """Count what happened to a repair that was given this insight."""
        found = self.show(prefix)
        counts = {"helped": found.helped + helped, "misled": found.misled + (not helped)}
        changed = _weighed(found.model_copy(update=counts))
        self._write([changed])
        return changed

    def retract(self, prefix: str, reason: str) -> Insight:
        """No longer hand it out; it stays, with the reason, so that counting does not bring it back."""
        changed = self.show(prefix).model_copy(
            update={"retracted": self._redactor.text(reason) or "retracted"}
        )
        self._write([changed])
        return changed

    def list(self, *, retracted: bool = False) -> tuple[Insight, ...]:
        """All insights, the most trusted first; without those that were retracted unless asked for."""
        found = [one for row in self._store.get(_COLLECTION) if (one := _insight(row))]
        kept = [one for one in found if retracted or not one.retracted]
        return tuple(sorted(kept, key=lambda one: (-one.weight, -len(one.episodes), one.id)))

    def show(self, prefix: str) -> Insight:
        """The one insight whose id starts with `prefix`; `UsageError` where there is none or several."""
        found = [one for one in self.list(retracted=True) if prefix and one.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError(
                f"no insight has the id {prefix!r}", hint="agentforge memory list --kind insight shows them"
            )
        raise UsageError(f"{len(found)} insights have an id that starts with {prefix!r}")

    def search(self, text: str, k: int = 5) -> tuple[Insight, ...]:
        """The `k` insights that fit `text` best: likeness of words, its failures named, and trust."""
        failures = set(failure_kinds([text]))
        scored = []
        for one, cosine in self._nearest(text, 50):
            fit = 1.0 if one.failure in failures else max(0.0, cosine)
            if not one.retracted and (one.failure in failures or (not one.edit and cosine >= _MIN_COSINE)):
                scored.append((fit * one.weight, one))
        scored.sort(key=lambda pair: (-pair[0], pair[1].id))
        return tuple(one.model_copy(update={"score": round(score, 4)}) for score, one in scored[: max(0, k)])

    def forget(self, ids: Sequence[str]) -> int:
        """Delete insights by id; how many there were."""
        known = {one.id for one in self.list(retracted=True)} & set(ids)
        self._store.delete(_COLLECTION, sorted(known))
        return len(known)

    def put(self, insight: Insight) -> None:
        """Keep an insight as it is, e.g. from an export."""
        lesson = self._redactor.text(insight.lesson)[:MAX_LESSON_CHARS]
        self._write([insight.model_copy(update={"lesson": lesson})])

    def _nearest(self, text: str, k: int) -> Sequence[tuple[Insight, float]]:
        rows = self._store.query(_COLLECTION, text[:20_000], k) if text.strip() else []
        return [(one, row.similarity) for row in rows if (one := _insight(row))]

    def _write(self, insights: Sequence[Insight]) -> None:
        rows = [
            Row(one.id, one.lesson, {"insight": one.model_dump_json(exclude={"score"})}) for one in insights
        ]
        if rows:
            self._store.upsert(_COLLECTION, rows)


def _with_outcomes(fresh: Insight, known: Insight | None) -> Insight:
    if known is None:
        return fresh
    kept = {"helped": known.helped, "misled": known.misled, "retracted": known.retracted}
    return _weighed(fresh.model_copy(update=kept))


def _weighed(insight: Insight) -> Insight:
    """Its weight anew, from supporting and opposing episodes and later outcomes."""
    against = insight.opposed + insight.misled
    return insight.model_copy(update={"weight": trust(len(insight.episodes) + insight.helped, against)})


def _insight(row: Row) -> Insight | None:
    try:
        return Insight.model_validate_json(str(row.metadata.get("insight")))
    except ValidationError:
        return None
