"""The supervisor: restarts servers, and judges cold candidates itself."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from .processes import Write, become_subreaper, fork, in_child, reap
from .server import Server, collect, full

Spec = dict[str, Any]


def serve(spec: Spec) -> None:
    """Fork servers until every candidate has a record; the one a server died on counts as crashed."""
    for _ in range(spec["restarts"] + 1):
        pid = fork()
        if pid == 0:
            code = collect(spec, lambda items, imported: Server(spec, items, imported).serve())
            os._exit(code)
        status = os.waitpid(pid, 0)[1]
        reap()
        if spec["mode"] == "observe" or os.WIFEXITED(status):
            return
        done = verdicts(spec["out"])
        left = [c for c in spec["candidates"] if c["id"] not in done]
        if not left:
            return
        with open(spec["out"], "a") as out:
            out.write(json.dumps({"id": left[0]["id"], "v": "crash"}) + "\n")
        spec["candidates"], spec["slack_s"] = left[1:], 0.0


def verdicts(path: str) -> dict[Any, str]:
    """Candidate id -> verdict, of the complete records so far."""
    if not os.path.exists(path):
        return {}
    found: dict[Any, str] = {}
    with open(path, "rb") as lines:
        for line in lines:
            try:  # a child can write into this file, too
                record = json.loads(line)
                found[record["id"]] = record["v"]
            except (ValueError, KeyError, TypeError):
                continue
    return found


def serve_cold(spec: Spec) -> None:
    """Candidates that need a fresh import: write the file, collect in a child, put the file back."""
    become_subreaper()
    deadline = spec["started"] + spec["budget_s"]
    if "plausible" in verdicts(spec["out"]).values():
        deadline = min(deadline, time.monotonic() + spec["cold_grace_s"])
    for candidate in spec["cold"]:
        if time.monotonic() > deadline or full(spec["out"]):
            return
        path = os.path.join(spec["root"], candidate["path"])
        with open(path, "rb") as source:
            before = source.read()
        after = before[: candidate["start"]] + candidate["new"].encode() + before[candidate["end"] :]
        try:
            put(path, after)
            record = in_child(
                lambda write: cold_child(spec, write),
                spec["cold_cpu_s"],
                spec["cold_wall_s"],
                spec["memory_mb"],
            )
        finally:
            put(path, before)
        with open(spec["out"], "a") as out:
            out.write(json.dumps({**record, "id": candidate["id"]}) + "\n")
        if record["v"] == "plausible":
            deadline = min(deadline, time.monotonic() + spec["cold_grace_s"])


def cold_child(spec: Spec, write: Write) -> None:
    def use(items: list[Any], imported: list[list[Any]]) -> None:
        server = Server(spec, items, imported)
        targets = server.matching(spec["targets"])
        keep = [test for test in server.matching(spec["neighbours"]) if test not in set(targets)]
        server.run(targets, keep, write)
        os._exit(0)

    collect(spec, use)
    write({"v": "broke"})


def put(path: str, data: bytes) -> None:
    with open(path, "wb") as target:
        target.write(data)


def main() -> None:
    """`python -m THIS SPEC`: the answers go to the file the specification names, a JSON value a line."""
    with open(sys.argv[1]) as source:
        spec = json.load(source)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    hide(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    here = os.path.realpath(os.getcwd())
    spec["root"] = here[: -len(spec["workdir"])].rstrip("/") if spec["workdir"] else here
    spec["started"] = time.monotonic()
    # As the sandbox runs tests: the working directory first, a src folder last.
    sources = [os.path.join(folder, "src") for folder in (spec["root"], here)]
    sys.path.extend(path for path in sources if path not in sys.path)
    import pytest  # noqa: F401  (before the fork, so that every child has it)

    if spec["mode"] == "observe" or spec["candidates"]:
        serve(spec)
    if spec["mode"] == "screen":
        serve_cold(spec)


def hide(place: str) -> None:
    """The repository under repair sees the import path it would see without us."""
    sys.path[:] = [entry for entry in sys.path if entry != place]
    os.environ.pop("PYTHONPATH", None)
