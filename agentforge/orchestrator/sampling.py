"""K independent attempts at one task, and which of their patches is handed over (AgentForge, V: Pass@k).

The gate selects; where several patches passed it, the majority decides over what they have in common once
spelling is taken out; then the gate's rank, then the earlier attempt.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentforge.config.settings import Settings
from agentforge.core.chat import Spend
from agentforge.core.events import Notice
from agentforge.core.patch import Patch
from agentforge.core.task import Limits, RepairTask
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.result import RunResult
from agentforge.orchestrator.service import run_fix
from agentforge.orchestrator.store import RunStore, write_atomically

SEED_STEP = 1000
"""Further apart than the seeds of one attempt's own retries, which count up by one."""
_BLANKS = re.compile(r"\s+")
_ORDER = {"verified": 2, "unverified": 1}
GOES_ON = frozenset({"verified", "unverified", "no_patch"})
"""Outcomes after which another attempt makes sense; a limit or a missing engine would only come again."""


@dataclass(frozen=True)
class Samples:
    """All attempts, in order; `chosen` is the number (from 0) of the one whose result counts."""

    runs: tuple[RunResult, ...]
    chosen: int
    votes: int

    @property
    def result(self) -> RunResult:
        """The chosen attempt, with what all of them cost and took."""
        spend = total(run.spend for run in self.runs)
        return replace(
            self.runs[self.chosen], spend=spend, duration_s=sum(run.duration_s for run in self.runs)
        )


async def run_samples(task: RepairTask, settings: Settings, count: int, *, listener: Listener) -> Samples:
    """Make `count` attempts, each a run with its own record, seed and the limits that are left.

    Nothing is remembered meanwhile, so that no attempt knows of another. Raises as `run_fix`.
    """
    runs: list[RunResult] = []
    started = time.monotonic()
    for number in range(count):
        listener(Notice(text=f"attempt {number + 1} of {count}"))
        left = _left(settings.limits, total(run.spend for run in runs), time.monotonic() - started)
        runs.append(await run_fix(task, attempt_settings(settings, number, left), listener=listener))
        if runs[-1].outcome not in GOES_ON:
            break
    samples = choose(runs)
    _note(settings, samples)
    chosen = f"attempt {samples.chosen + 1} (run {samples.result.run_id}) was chosen"
    listener(Notice(text=f"{chosen}: {samples.votes} of {len(runs)} attempts made this change"))
    return samples


def attempt_settings(settings: Settings, number: int, limits: Limits) -> Settings:
    """The settings of one attempt: seeds moved by its number, memory only read."""
    model = settings.model
    agents = {
        name: own if own.seed is None else own.model_copy(update={"seed": own.seed + SEED_STEP * number})
        for name, own in settings.agents.items()
    }
    seed = None if model.seed is None else model.seed + SEED_STEP * number
    return settings.model_copy(
        update={
            "model": model.model_copy(update={"seed": seed}),
            "agents": agents,
            "memory": settings.memory.model_copy(update={"learn": False}),
            "limits": limits,
        }
    )


def choose(runs: Sequence[RunResult]) -> Samples:
    """By the gate, then by majority over normalised patches, then by rank, then the first."""
    best = max(_ORDER.get(run.outcome, 0) for run in runs)
    able = [number for number, run in enumerate(runs) if _ORDER.get(run.outcome, 0) == best]
    keys = {number: normalised(runs[number].patch) for number in able}
    votes = {number: list(keys.values()).count(keys[number]) for number in able}

    def merit(number: int) -> tuple[Any, ...]:
        decision = runs[number].decision
        return votes[number], decision.rank if decision is not None else (), -number

    chosen = max(able, key=merit)
    return Samples(tuple(runs), chosen, votes[chosen])


def normalised(patch: Patch | None) -> tuple[tuple[str, ...], ...]:
    """What a patch changes, file by file, without blanks, empty lines and comments: equal for two patches
    that differ in spelling alone."""
    if patch is None:
        return ()
    files: list[tuple[str, ...]] = []
    lines: list[str] = []
    for line in patch.text.split("\n"):
        if line.startswith("diff --git "):
            files.append(tuple(lines))
            lines = [line]
        elif line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")):
            changed = _BLANKS.sub("", line)
            if len(changed) > 1 and not changed[1:].startswith("#"):
                lines.append(changed)
    return tuple(sorted([*files[1:], tuple(lines)]))


def total(spends: Iterable[Spend]) -> Spend:
    """The sum of what several runs used."""
    spent = Spend()
    for one in spends:
        names = Spend.model_fields
        spent = Spend(**{name: getattr(spent, name) + getattr(one, name) for name in names})
    return spent


def _left(limits: Limits, spent: Spend, seconds: float) -> Limits:
    """What the attempts so far have left of the limits of all of them."""
    used = spent.prompt_tokens + spent.completion_tokens
    cost, tokens, calls, limit = limits.max_cost_usd, limits.max_tokens, limits.max_calls, limits.time_limit_s
    return Limits(
        max_cost_usd=None if cost is None else max(0.0, cost - spent.cost_usd),
        max_tokens=None if tokens is None else max(0, tokens - used),
        max_calls=None if calls is None else max(0, calls - spent.calls),
        time_limit_s=None if limit is None else max(0.001, limit - seconds),
    )


def _note(settings: Settings, samples: Samples) -> None:
    """Beside the chosen run's record: which attempts there were and how the choice fell."""
    attempts = [{"run_id": run.run_id, "outcome": run.outcome} for run in samples.runs]
    note = {"attempts": attempts, "chosen": samples.chosen, "votes": samples.votes}
    directory = RunStore(settings.data_home).runs / samples.result.run_id
    write_atomically(directory / "samples.json", json.dumps(note, indent=2).encode())
