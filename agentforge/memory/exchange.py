"""Take memory out of a store as JSON lines, and into another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from agentforge.core.errors import StoreError, UsageError
from agentforge.core.retrieval import Episode, Insight
from agentforge.memory.episodes import EpisodeStore
from agentforge.memory.insights import InsightStore

FORMAT = 1


@dataclass(frozen=True)
class Imported:
    """What an import did: new episodes, known ones that were merged, insights, lines it could not use."""

    episodes: int = 0
    merged: int = 0
    insights: int = 0
    refused: tuple[str, ...] = ()


def export_lines(episodes: EpisodeStore, insights: InsightStore) -> Iterator[str]:
    """A head line, then one line each; oldest first, so that a later import ends as this store is."""
    yield json.dumps({"kind": "agentforge-memory", "format": FORMAT})
    for episode in reversed(episodes.list()):
        yield _line("episode", episode.model_dump(mode="json", exclude={"score"}))
    for insight in reversed(insights.list(retracted=True)):
        yield _line("insight", insight.model_dump(mode="json", exclude={"score"}))


def _line(kind: str, body: dict[str, object]) -> str:
    return json.dumps({"kind": kind, **body}, ensure_ascii=False)


def import_lines(lines: Iterable[str], episodes: EpisodeStore, insights: InsightStore) -> Imported:
    """Keep what the lines hold; ids are made anew and secrets redacted, as for anything stored.

    Raises `UsageError` where it is no export of ours; a single bad line is reported and skipped.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    _check_head(next(numbered, (0, "")))
    known = {episode.id for episode in episodes.list()}
    added = merged = lessons = 0
    refused: list[str] = []
    for number, line in numbered:
        try:
            item = _parsed(line)
            if isinstance(item, Insight):
                insights.put(item)
                lessons += 1
            else:
                stored = episodes.store(item).id
                added, merged = (added, merged + 1) if stored in known else (added + 1, merged)
                known.add(stored)
        except (ValueError, StoreError) as error:
            refused.append(f"line {number}: {str(error).splitlines()[0]}")
    return Imported(added, merged, lessons, tuple(refused))


def _check_head(first: tuple[int, str]) -> None:
    try:
        head = json.loads(first[1])
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("kind") != "agentforge-memory":
        raise UsageError("this is no export of agentforge memory", hint="agentforge memory export makes one")
    if head.get("format") != FORMAT:
        raise UsageError(f"the export has format {head.get('format')}, this version reads {FORMAT}")


def _parsed(line: str) -> Episode | Insight:
    body = json.loads(line)
    kind = body.pop("kind", None) if isinstance(body, dict) else None
    try:
        if kind == "episode":
            return Episode.model_validate_json(json.dumps({"id": "", **body}))
        if kind == "insight":
            return Insight.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise ValueError(f"not an {kind}: {error.errors()[0]['msg']}") from None
    raise ValueError(f"unknown kind {kind!r}")
