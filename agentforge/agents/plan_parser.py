"""From an answer to a `Plan`: lenient about form, strict about meaning."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import get_args

from agentforge.agents.extract import json_values
from agentforge.core.paths import is_test_path
from agentforge.core.plan import Plan, Step, StepAgent
from agentforge.core.tree import TreeReader

AGENTS: tuple[StepAgent, ...] = get_args(StepAgent)
MAX_STEPS = 20
_CREATES = re.compile(
    r"\b(creat\w*|new (file|module|test)|add (a|an|the) (new )?(file|module|test))\b", re.IGNORECASE
)


class PlanProblem(Exception):
    """What is wrong with a plan, in words a model can act on."""


def parse_plan(text: str, tree: TreeReader, shown: Sequence[str] = ()) -> Plan:
    """The plan in `text`. Raises `PlanProblem`; `shown` are the files it may name instead of unknown ones.

    Read: an object with `steps`, such an object under `plan`, a bare list of steps, a single step;
    `desc`, `task` for `description`; `file` for `files`. A step without `depends_on` depends on the
    step before it (AgentForge, III-D: sequential unless said otherwise).
    """
    explanation, raw = _find_steps(text)
    if not raw:
        raise PlanProblem('"steps" is empty; give at least one step whose agent is "coder"')
    if len(raw) > MAX_STEPS:
        raise PlanProblem(f"there are {len(raw)} steps; give at most {MAX_STEPS}")
    ids = _step_ids(raw)
    steps = [_step(entry, ids, place, tree, shown) for place, entry in enumerate(raw)]
    if all(step.agent != "coder" for step in steps):
        raise PlanProblem('no step has the agent "coder"; one that changes the code is needed')
    return Plan(explanation=explanation, steps=_in_order(steps))


def _find_steps(text: str) -> tuple[str, list[Mapping[str, object]]]:
    values = json_values(text)
    if not values:
        raise PlanProblem(
            'no JSON object was found; answer with one object {"explanation": ..., "steps": [...]}'
        )
    for value in values:
        found = _steps_of(value)
        if found is not None:
            return found
    raise PlanProblem('the JSON has no "steps" list of objects, each with "agent" and "description"')


def _steps_of(value: object) -> tuple[str, list[Mapping[str, object]]] | None:
    if isinstance(value, dict):
        if isinstance(value.get("plan"), dict | list) and "steps" not in value:
            inner = _steps_of(value["plan"])
            return inner and (inner[0] or _text(value, "explanation"), inner[1])
        explanation = _text(value, "explanation", "summary", "reasoning")
        steps = value.get("steps", [value] if _text(value, "description", "desc") else None)
        steps = [steps] if isinstance(steps, dict) else steps
    else:
        explanation, steps = "", value
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return None
    return explanation, steps


def _text(entry: Mapping[str, object], *keys: str) -> str:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _step_ids(raw: Sequence[Mapping[str, object]]) -> list[str]:
    ids = [_identifier(entry.get("id"), place) for place, entry in enumerate(raw, 1)]
    twice = sorted({identifier for identifier in ids if ids.count(identifier) > 1})
    if twice:
        raise PlanProblem(f"step ids must be unique; used more than once: {', '.join(twice)}")
    return ids


def _identifier(value: object, place: int) -> str:
    text = (
        re.sub(r"[^A-Za-z0-9_.-]+", "-", str(value)).strip("-")[:40] if isinstance(value, str | int) else ""
    )
    return text or f"s{place}"


def _step(
    entry: Mapping[str, object], ids: Sequence[str], place: int, tree: TreeReader, shown: Sequence[str]
) -> Step:
    identifier = ids[place]
    agent = _text(entry, "agent", "role").lower() or "coder"
    if agent not in AGENTS:
        raise PlanProblem(f'step {identifier}: unknown agent "{agent}"; use one of {", ".join(AGENTS)}')
    description = _text(entry, "description", "desc", "task", "action")
    if not description:
        raise PlanProblem(f'step {identifier}: "description" is missing')
    # A tester's file is chosen by us; a coder may name new files only on purpose.
    creates = agent == "tester" or bool(entry.get("new")) or bool(_CREATES.search(description))
    names = _names(entry, identifier, "files", "file", "path")
    files = [known_file(name, identifier, creates, tree, shown) for name in names]
    return Step(
        id=identifier,
        agent=agent,
        description=description,
        files=tuple(dict.fromkeys(files)),
        symbols=_names(entry, identifier, "symbols", "symbol", "functions"),
        depends_on=_dependencies(entry, ids, place),
    )


def _names(entry: Mapping[str, object], identifier: str, *keys: str) -> tuple[str, ...]:
    for key in keys:
        value = entry.get(key)
        if value in (None, "", []):
            continue
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
            raise PlanProblem(f'step {identifier}: "{key}" must be a list of strings')
        return tuple(dict.fromkeys(name.strip() for name in values if name.strip()))
    return ()


def known_file(name: str, identifier: str, creates: bool, tree: TreeReader, shown: Sequence[str]) -> str:
    path = name.split("::")[0].removeprefix("./")
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or ".git" in parts or "\\" in path:
        raise PlanProblem(f'step {identifier}: "{name}" is not a path inside the repository')
    if tree.kind(path) in ("file", "directory"):
        return path
    alike = _same_tail(path, tree)
    if len(alike) == 1:
        return alike[0]
    if creates and tree.kind(path) == "missing":
        return path
    near = alike[:3] or _close_matches(path, tree) or shown[:3]
    advice = f"; did you mean {' or '.join(near)}?" if near else ""
    raise PlanProblem(
        f'step {identifier}: the file "{name}" does not exist{advice} (for a new file, set "new": true)'
    )


def _same_tail(path: str, tree: TreeReader) -> list[str]:
    """Files whose path ends in `path`, or the reverse (a leading `a/` or repository name)."""
    tails = {path.split("/", 1)[1]} if "/" in path else set()
    return [known for known in tree.paths() if known.endswith(f"/{path}") or known in tails]


def _close_matches(path: str, tree: TreeReader) -> list[str]:
    suffix = path[path.rfind(".") :] if "." in path else ""
    alike = [known for known in tree.paths() if known.endswith(suffix)]
    return difflib.get_close_matches(path, alike[:3000], n=3, cutoff=0.5)


def _dependencies(entry: Mapping[str, object], ids: Sequence[str], place: int) -> tuple[str, ...]:
    value = entry.get("depends_on", entry.get("dependencies"))
    if value is None:
        return (ids[place - 1],) if place else ()
    values = value if isinstance(value, list) else [value]
    wanted = tuple(dict.fromkeys(_identifier(item, 0) for item in values))
    unknown = [name for name in wanted if name not in ids]
    if unknown:
        raise PlanProblem(f"step {ids[place]}: depends_on names unknown steps: {', '.join(unknown)}")
    return wanted


def _in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Dependencies first, otherwise as given. Raises `PlanProblem` on a cycle."""
    ordered: list[Step] = []
    waiting = list(steps)
    while waiting:
        done = {step.id for step in ordered}
        ready = next((step for step in waiting if done.issuperset(step.depends_on)), None)
        if ready is None:
            raise PlanProblem(f"depends_on has a cycle among: {', '.join(step.id for step in waiting)}")
        ordered.append(ready)
        waiting.remove(ready)
    return tuple(ordered)


def plan_for(explanation: str, files: Sequence[str], tree: TreeReader) -> Plan:
    """The plain plan of one coder step over what retrieval found; tests are left out if there is code.

    Where retrieval found nothing, a tree of at most three code files still says where to look.
    """
    known = [path for path in dict.fromkeys(files) if tree.kind(path) == "file"]
    if not known:
        every = [path for path in tree.paths() if path.endswith(".py") and not is_test_path(path)]
        known = every if len(every) <= 3 else []
    code = [path for path in known if not is_test_path(path)]
    step = Step(id="s1", description="Repair what the issue describes.", files=tuple((code or known)[:3]))
    return Plan(explanation=explanation, steps=(step,), fallback=True)
