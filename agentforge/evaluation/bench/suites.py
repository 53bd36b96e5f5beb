"""The suites by name, opened from data alone, here or in another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.errors import UsageError
from agentforge.evaluation.bench.protocol import Bench, SuiteSpec

Opener = Callable[[Mapping[str, Any], Settings], Bench]
SUITES: Mapping[str, str] = {
    "quixbugs": "agentforge.evaluation.bench.quixbugs:open_quixbugs",
    "humaneval": "agentforge.evaluation.bench.problems:open_records",
    "records": "agentforge.evaluation.bench.problems:open_records",
    "thirty": "agentforge.evaluation.bench.problems:open_thirty",
    "swebench": "agentforge.evaluation.swebench.bench:open_swebench",
}
"""Name -> module and function `(options, settings) -> Bench`."""


def open_bench(spec: SuiteSpec, settings: Settings) -> Bench:
    """Raises `UsageError` for an unknown suite, and what the suite says of its options. Blocks."""
    place = SUITES.get(spec.name)
    if place is None:
        raise UsageError(f"no suite {spec.name!r}", hint=f"there are {', '.join(SUITES)}")
    module, _, function = place.partition(":")
    opener: Opener = getattr(import_module(module), function)
    return opener(spec.options, settings)
