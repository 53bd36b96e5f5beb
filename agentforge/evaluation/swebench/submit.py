"""Handing predictions over to the hosted evaluation, through its own client `sb-cli`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from agentforge.core.errors import EnvironmentFault, UsageError
from agentforge.evaluation.swebench.dataset import HUB_NAMES

CLIENT = "sb-cli"
_SUBSETS = {"lite": "swe-bench_lite", "verified": "swe-bench_verified"}
_TIMEOUT_S = 24 * 3600


def subset_of(dataset: str) -> str:
    """The client's name of a dataset. Raises `UsageError` where the hosted evaluation has none."""
    short = {hub: name for name, hub in HUB_NAMES.items()}.get(dataset, dataset.lower())
    if short not in _SUBSETS:
        raise UsageError(
            f"the hosted evaluation does not know {dataset}",
            hint="--submit goes with --dataset lite or verified",
        )
    return _SUBSETS[short]


def submit(dataset: str, split: str, predictions: Path, run_id: str) -> None:
    """Runs the client, which talks to the user itself. Raises `UsageError`, `EnvironmentFault`. Blocks."""
    command = [CLIENT, "submit", subset_of(dataset), split]
    command += ["--predictions_path", str(predictions), "--run_id", run_id]
    client = shutil.which(CLIENT)
    if client is None:
        raise EnvironmentFault(
            f"{CLIENT} is not installed; the predictions are in {predictions}",
            hint=f"install it, set SWEBENCH_API_KEY, and run: {' '.join(command)}",
        )
    done = subprocess.run([client, *command[1:]], timeout=_TIMEOUT_S, check=False)  # noqa: S603
    if done.returncode:
        raise EnvironmentFault(
            f"{CLIENT} ended with {done.returncode}; the predictions are in {predictions}",
            hint="its own output says why",
        )
