"""Which steps of a plan can be carried out at once (AgentForge, III-D: sequential unless said otherwise)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentforge.core.plan import Plan, Step


def batches(plan: Plan, steps: Sequence[Step], width: int) -> list[tuple[Step, ...]]:
    """`steps` of `plan` in groups of at most `width`, one group after another.

    In a group nobody depends on another, be it through steps that are not among `steps`, and nobody owns
    a file of another. A step that names no file may touch any: it is alone. Nobody overtakes a step
    whose files it shares.
    """
    needs, names = _needs(plan), {step.id for step in steps}
    waiting, done = list(steps), set[str]()
    groups: list[tuple[Step, ...]] = []
    while waiting:
        group: list[Step] = []
        for place, step in enumerate(waiting):
            free = (needs.get(step.id, frozenset()) & names) <= done
            if len(group) < width and free and all(_apart(step, other) for other in waiting[:place]):
                group.append(step)
        group = group or waiting[:1]
        groups.append(tuple(group))
        done |= {step.id for step in group}
        waiting = [step for step in waiting if step not in group]
    return groups


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies below the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _apart(one: Step, other: Step) -> bool:
    owned = bool(one.files and other.files)
    return owned and not any(overlap(mine, its) for mine in one.files for its in other.files)


def _needs(plan: Plan) -> Mapping[str, frozenset[str]]:
    """All that a step depends on, also through others."""
    direct = {step.id: step.depends_on for step in plan.steps}
    found: dict[str, frozenset[str]] = {}
    for name in direct:
        seen: set[str] = set()
        left = list(direct[name])
        while left:
            needed = left.pop()
            if needed not in seen:
                seen.add(needed)
                left += direct.get(needed, ())
        found[name] = frozenset(seen)
    return found
