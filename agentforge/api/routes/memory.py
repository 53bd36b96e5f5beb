"""Episodes, insights and the repository index."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from agentforge.api.problems import ApiError
from agentforge.api.routes.runs import PROBLEMS
from agentforge.api.schemas import FoundFile, FoundSymbol, IndexHits, MemoryStatistics
from agentforge.api.services import Services, Serving
from agentforge.api.sources import check_repository

router = APIRouter(prefix="/v1", tags=["memory"], responses=PROBLEMS)
Text = Annotated[str, Query(max_length=20_000)]
Count = Annotated[int, Query(ge=1, le=100)]


@router.get("/memory/episodes")
async def list_episodes(
    services: Serving, q: Text = "", kind: Literal["episode", "insight"] = "episode", limit: Count = 50
) -> dict[str, list[dict[str, Any]]]:
    """Verified fixes of the past, or lessons from them; those like `q` first where it is given."""
    found = await asyncio.to_thread(_remembered, services, q.strip(), kind, limit)
    return {"items": found}


def _remembered(services: Services, q: str, kind: str, limit: int) -> list[dict[str, Any]]:
    from agentforge.memory.open import open_episodes, open_insights

    settings = services.settings
    opened = open_episodes if kind == "episode" else open_insights
    store = opened(settings.data_home, settings.memory)
    found = store.search(q, limit) if q else store.list()[:limit]
    return [one.model_dump(mode="json") for one in found]


@router.get("/memory/episodes/{episode_id}")
async def get_episode(episode_id: str, services: Serving) -> dict[str, Any]:
    from agentforge.memory.open import open_episodes

    store = open_episodes(services.settings.data_home, services.settings.memory)
    return (await asyncio.to_thread(store.show, episode_id)).model_dump(mode="json")


@router.delete("/memory/episodes/{episode_id}", status_code=204)
async def forget_episode(episode_id: str, services: Serving) -> Response:
    """Forget one episode, named by its whole id."""
    from agentforge.memory.open import open_episodes

    store = open_episodes(services.settings.data_home, services.settings.memory)
    episode = await asyncio.to_thread(store.show, episode_id)
    if episode.id != episode_id:
        raise ApiError(404, f"no episode {episode_id[:80]!r}", hint="give the whole id")
    await asyncio.to_thread(store.forget, episode_id)
    return Response(status_code=204)


@router.get("/memory/stats")
async def memory_stats(services: Serving) -> MemoryStatistics:
    return await asyncio.to_thread(_stats, services)


def _stats(services: Services) -> MemoryStatistics:
    from agentforge.memory.open import open_episodes, open_insights

    settings = services.settings
    known = open_episodes(settings.data_home, settings.memory).stats()
    insights = open_insights(settings.data_home, settings.memory).list()
    return MemoryStatistics(
        episodes=known.episodes,
        insights=len(insights),
        repositories=known.repositories,
        oldest=str(known.oldest or ""),
        newest=str(known.newest or ""),
    )


@router.get("/index/search")
async def search_index(
    services: Serving,
    repository: Annotated[str, Query(min_length=1, max_length=2000)],
    q: Annotated[str, Query(min_length=1, max_length=20_000)],
    k: Count = 5,
) -> IndexHits:
    """Files and symbols of a folder below the server's roots that the text points at, with reasons."""
    source = await asyncio.to_thread(check_repository, repository, services.settings.server)
    if "://" in source:
        raise ApiError(422, "only a folder of the server can be searched", hint="give an absolute path")
    async with services.searching:
        return await asyncio.to_thread(_hits, services, Path(source), q, k)


def _hits(services: Services, folder: Path, q: str, k: int) -> IndexHits:
    from agentforge.core.task import Issue

    files, symbols = services.indexes.search(folder, Issue(text=q, title=q.split("\n", 1)[0][:200]), k)
    return IndexHits(
        files=[FoundFile(**asdict(file)) for file in files],
        symbols=[
            FoundSymbol(
                name=symbol.name,
                path=symbol.path,
                start_line=symbol.start_line,
                end_line=symbol.end_line,
                score=symbol.score,
                why=list(symbol.why),
            )
            for symbol in symbols
        ],
    )
