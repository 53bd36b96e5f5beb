"""Results of experiments, where the server is told of a folder that holds some."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from agentforge.api.problems import ApiError
from agentforge.api.routes.runs import PROBLEMS
from agentforge.api.schemas import Evaluation, LogFile
from agentforge.api.services import Services, Serving

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"], responses=PROBLEMS)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$")
MAX_BYTES = 20 * 1024 * 1024


@router.get("")
async def list_evaluations(services: Serving) -> list[Evaluation]:
    """Every result file and every folder of results, by name."""
    return await asyncio.to_thread(lambda: [_listed(path) for path in _results(services)])


@router.get("/{evaluation_id}")
async def get_evaluation(evaluation_id: str, services: Serving) -> dict[str, Any]:
    """The result as it was written; of a folder of trials, their comparison."""
    found = {path.name: path for path in await asyncio.to_thread(_results, services)}
    if evaluation_id not in found:
        raise ApiError(404, f"no result {evaluation_id[:80]!r}", hint="GET /v1/evaluations lists them")
    return await asyncio.to_thread(_document, found[evaluation_id])


def _results(services: Services) -> list[Path]:
    folder = services.settings.server.results_dir
    if folder is None or not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if _NAME.match(path.name) and not path.is_symlink() and (path.is_dir() or path.suffix == ".json")
    )


def _listed(path: Path) -> Evaluation:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    kept = [file for file in files if file.is_file() and not file.is_symlink()]
    return Evaluation(id=path.name, files=[LogFile(name=f.name, size=f.stat().st_size) for f in kept])


def _document(path: Path) -> dict[str, Any]:
    if path.is_dir():
        from agentforge.evaluation.contrast import compare
        from agentforge.evaluation.trials import read_rows

        rows = read_rows(path)
        return {**compare(rows), "trials": [row.model_dump(mode="json") for row in rows]}
    if path.stat().st_size > MAX_BYTES:
        raise ApiError(422, f"{path.name} is too large to be shown")
    try:
        found = json.loads(path.read_text("utf-8"), parse_constant=lambda constant: None)
    except (OSError, ValueError, RecursionError):
        raise ApiError(422, f"{path.name} is not JSON") from None
    return found if isinstance(found, dict) else {"trials": found}
