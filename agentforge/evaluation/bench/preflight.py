"""What every batch needs of the machine, checked before the first trial."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from agentforge.core.errors import EnvironmentFault
from agentforge.sandbox.engine import connect

LEAST_FREE_MB = 512


async def check_engine() -> None:
    """Raises `EngineUnavailable` where no container engine answers."""
    await asyncio.to_thread(lambda: connect(20).close())


def check_room(folder: Path, least_mb: int = LEAST_FREE_MB) -> None:
    """Raises `EnvironmentFault` where `folder` (which exists) has less than `least_mb` MB free."""
    free = shutil.disk_usage(folder).free // 2**20
    if free < least_mb:
        raise EnvironmentFault(
            f"{folder} has {free} MB free, a batch needs {least_mb}", hint="free some, or give another --out"
        )
