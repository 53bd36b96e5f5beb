"""What the server adds between a token and its readers, and whether every reader gets everything.

    python benchmarks/streaming.py [--seconds 20] [--out benchmarks/results/streaming.json]

Twenty scripted runs speak fifty tokens a second each, to 200 readers of server-sent events and 50 of the
WebSocket that leave and come back at random, and to ten that never read. Each token carries the moment it
was made; what lies between that and its arrival is the latency, from two seconds after the start on. The
floor is the same load against a bare sse-starlette generator. Server and readers are separate processes on
one machine. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

RUNS, RATE = 20, 50
SSE_READERS, WS_READERS, DEAF_READERS = 200, 50, 10
DURABLE_EVERY = 50
WARM_UP_S = 2.0
HERE = Path(__file__).parent
_FRAME = re.compile(rb"id: ([^\r\n]+)\r?\nevent: (\w+)\r?\ndata: ([^\r\n]*)\r?\n\r?\n")


# --- the servers -------------------------------------------------------------------------------------


def serve_ours(port: int, home: Path, seconds: float) -> None:
    """Our application; only what carries out a run is scripted. Its record is a real one."""
    import uvicorn

    from agentforge.api.app import create_app
    from agentforge.api.jobs import Job
    from agentforge.api.workers import Ended, Listener
    from agentforge.config.load import load_settings
    from agentforge.core.chat import Spend
    from agentforge.core.events import NodeStarted, RunFinished, Token
    from agentforge.core.redact import Redactor
    from agentforge.orchestrator.clock import LiveClock
    from agentforge.orchestrator.eventlog import EventLog
    from agentforge.orchestrator.store import RunStore

    async def speak(job: Job, listener: Listener) -> Ended:
        writer = RunStore(home).create(LiveClock().now(), run_id=job.id)
        log = EventLog(
            LiveClock(), Redactor(), lambda line, last: writer.append_event(line, last=last), listener
        )
        start, made = time.monotonic(), 0
        while made < seconds * RATE:
            if made % DURABLE_EVERY == 0:
                log.emit(NodeStarted(node=f"node{made // DURABLE_EVERY}"))
            log.emit(Token(call=1, agent="coder", text=f" {time.monotonic_ns()}"))
            made += 1
            await asyncio.sleep(max(0.0, start + made / RATE - time.monotonic()))
        log.emit(RunFinished(outcome="verified", exit_code=0, summary="spoken", spend=Spend()))
        writer.close()
        return Ended("verified", 0)

    keys = {
        "server.port": port, "server.workers": RUNS, "server.repository_roots": (str(home),),
        "server.rate_per_s": 1e6, "server.rate_burst": 1_000_000,
    }  # fmt: skip
    settings = load_settings(None, keys, {"AGENTFORGE_DATA_HOME": str(home)}).settings
    uvicorn.run(create_app(settings, runner=speak), host="127.0.0.1", port=port, log_level="error")


def serve_floor(port: int, seconds: float) -> None:
    """The least that sends such a stream: sse-starlette with a generator of its own for each reader."""
    import uvicorn
    from sse_starlette import EventSourceResponse
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def tokens(request: Request) -> Response:
        async def speak() -> AsyncIterator[dict[str, Any]]:
            start, made = time.monotonic(), int(request.query_params.get("made", "0"))
            first = made
            while made < seconds * RATE:
                yield {
                    "id": str(made),
                    "event": "token",
                    "data": json.dumps({"text": f" {time.monotonic_ns()}"}),
                }
                made += 1
                await asyncio.sleep(max(0.0, start + (made - first) / RATE - time.monotonic()))

        return EventSourceResponse(speak())

    async def ready(request: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/events", tokens), Route("/readyz", ready)])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


@contextmanager
def server_process(kind: str, home: Path, seconds: float) -> Iterator[tuple[int, int]]:
    """(port, process id) of a server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["--serve", kind, "--port", str(port), "--home", str(home), "--seconds", str(seconds)]
    process = subprocess.Popen([sys.executable, __file__, *arguments])
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/readyz")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


# --- the readers -------------------------------------------------------------------------------------


@dataclass
class Reader:
    """What one reader has put together. `latencies` in milliseconds."""

    run: str
    seen: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    returns: int = 0
    last: str = ""
    over: bool = False
    came_ns: int = 0
    """When it asked last: what was made before is replayed, and old by right."""
    warm_ns: int = field(default_factory=lambda: time.monotonic_ns() + int(WARM_UP_S * 1e9))
    """What was made before is not counted: everybody arrives at once, which is another measurement."""

    def take(self, place: str, kind: str, data: str) -> None:
        if kind == "run_status":
            self.over = '"status":"finished"' in data or self.over
            return
        self.seen.append(place)
        self.last = place
        if kind == "token":
            made = int(data.rpartition('"text":" ')[2].partition('"')[0])
            if made > max(self.came_ns, self.warm_ns):
                self.latencies.append((time.monotonic_ns() - made) / 1e6)


async def frames(incoming: asyncio.StreamReader) -> AsyncIterator[tuple[str, str, str]]:
    """(place, type, data) of each event; chunk sizes of the transfer stand between frames, never inside."""
    rest = b""
    while chunk := await incoming.read(1 << 16):
        rest += chunk
        end = 0
        for found in _FRAME.finditer(rest):
            yield found[1].decode(), found[2].decode(), found[3].decode()
            end = found.end()
        rest = rest[end:]


async def read_sse(port: int, path: str, reader: Reader, chance: random.Random) -> None:
    """Follow the stream over a plain socket, leaving and coming back now and then."""
    while not reader.over:
        incoming, outgoing = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n"
        outgoing.write(
            (head + f"Last-Event-ID: {reader.last}\r\n\r\n" if reader.last else head + "\r\n").encode()
        )
        leave_at = time.monotonic() + chance.uniform(2, 12)
        reader.came_ns = time.monotonic_ns()
        try:
            async for place, kind, data in frames(incoming):
                reader.take(place, kind, data)
                if time.monotonic() > leave_at and not reader.over:
                    break
        except ConnectionError:
            pass
        finally:
            outgoing.close()
        if not reader.over:
            reader.returns += 1
            await asyncio.sleep(chance.uniform(0.01, 0.3))


async def read_ws(port: int, reader: Reader, chance: random.Random) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    while not reader.over:
        leave_at = time.monotonic() + chance.uniform(2, 12)
        uri = f"ws://127.0.0.1:{port}/v1/runs/{reader.run}/ws?after={reader.last}"
        reader.came_ns = time.monotonic_ns()
        async with connect(uri, compression=None, max_queue=256) as link:
            try:
                async for message in link:
                    head, _, data = str(message).partition('","data":')
                    place, _, kind = head.removeprefix('{"id":"').partition('","event":"')
                    reader.take(place, kind, data)
                    if time.monotonic() > leave_at and not reader.over:
                        break
            except ConnectionClosed:
                pass
        if not reader.over:
            reader.returns += 1
            await asyncio.sleep(chance.uniform(0.01, 0.3))


def deaf(port: int, run: str) -> socket.socket:
    """A reader that asks and never reads."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(("127.0.0.1", port))
    link.sendall(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return link


# --- the measurement ---------------------------------------------------------------------------------


async def measure_ours(port: int, pid: int, home: Path, seconds: float) -> dict[str, Any]:
    folder = home / "repository"
    folder.mkdir()
    idle = _process(pid)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
        body = {"repository": str(folder), "issue": "speak"}
        answers = await asyncio.gather(*(http.post("/v1/runs", json=body) for _ in range(RUNS)))
        runs = [answer.json()["id"] for answer in answers]
        silent = [deaf(port, runs[n % RUNS]) for n in range(DEAF_READERS)]
        readers = [Reader(runs[n % RUNS]) for n in range(SSE_READERS + WS_READERS)]
        jobs = [
            read_sse(port, f"/v1/runs/{one.run}/events", one, random.Random(n))  # noqa: S311
            if n < SSE_READERS
            else read_ws(port, one, random.Random(n))  # noqa: S311
            for n, one in enumerate(readers)
        ]
        peak = _Peak(pid)
        watching = asyncio.create_task(peak.watch())
        await asyncio.wait_for(asyncio.gather(*jobs), seconds * 3 + 60)
        watching.cancel()
        whole = {run: await _whole(port, run) for run in runs}
        for link in silent:
            link.close()
        await asyncio.sleep(2)
        metrics = (await http.get("/metrics")).text
    wrong = [_compared(reader.seen, whole[reader.run]) for reader in readers]
    records = [_recorded(home, run) == [p for p in whole[run] if "." not in p] for run in runs]
    return {
        "readers": {"sse": SSE_READERS, "websocket": WS_READERS, "deaf": DEAF_READERS},
        "runs": RUNS,
        "tokens_per_s_and_run": RATE,
        "events_received": sum(len(reader.seen) for reader in readers),
        "returns": sum(reader.returns for reader in readers),
        "lost": sum(one[0] for one in wrong),
        "duplicated": sum(one[1] for one in wrong),
        "reordered": sum(one[2] for one in wrong),
        "durable_equal_the_record": all(records),
        "latency_ms": _latency([x for reader in readers for x in reader.latencies]),
        "memory_mb": {"idle": idle["memory_mb"], "peak": peak.memory_mb, "after": _process(pid)["memory_mb"]},
        "handles": {"idle": idle["handles"], "after": _process(pid)["handles"]},
        "streams_open_after": _metric(metrics, "agentforge_streams_open"),
        "slow_readers_dropped": _metric(metrics, "agentforge_streams_dropped_total"),
    }


async def _whole(port: int, run: str) -> list[str]:
    """The stream as one who was never away reads it, after the end."""
    reader = Reader(run)
    incoming, outgoing = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    outgoing.write(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    async for place, kind, data in frames(incoming):
        reader.take(place, kind, data)
        if reader.over:
            break
    outgoing.close()
    return reader.seen


def _recorded(home: Path, run: str) -> list[str]:
    lines = (home / "runs" / run / "events.jsonl").read_text().splitlines()
    return [str(json.loads(line)["seq"]) for line in lines]


def _compared(seen: list[str], whole: list[str]) -> tuple[int, int, int]:
    """(lost, duplicated, reordered) of one reader against the whole stream."""
    position = {place: number for number, place in enumerate(whole)}
    order = [position.get(place, -1) for place in seen]
    reordered = sum(later < earlier for earlier, later in pairwise(order))
    return len(set(whole) - set(seen)), len(seen) - len(set(seen)), reordered


async def measure_floor(port: int, seconds: float) -> dict[str, Any]:
    readers = [Reader("") for _ in range(SSE_READERS + WS_READERS)]

    async def follow(reader: Reader) -> None:
        incoming, outgoing = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        outgoing.write(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        async for place, kind, data in frames(incoming):
            reader.take(place, kind, data.replace(": ", ":"))
            if len(reader.seen) >= seconds * RATE:
                break
        outgoing.close()

    await asyncio.wait_for(asyncio.gather(*map(follow, readers)), seconds * 5 + 60)
    return {"latency_ms": _latency([x for reader in readers for x in reader.latencies])}


class _Peak:
    """The largest memory of a process while it is watched."""

    def __init__(self, pid: int) -> None:
        self._pid, self.memory_mb = pid, 0.0

    async def watch(self) -> None:
        while True:
            self.memory_mb = max(self.memory_mb, _process(self._pid)["memory_mb"])
            await asyncio.sleep(0.5)


def _process(pid: int) -> dict[str, float]:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {
        "memory_mb": round(pages * 4096 / 1e6, 1),
        "handles": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


def _metric(text: str, name: str) -> float:
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


def _latency(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[int(0.99 * len(ordered))], 2),
        "max": round(ordered[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "streaming.json")
    parser.add_argument("--serve", choices=["ours", "floor"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve == "ours":
        return serve_ours(arguments.port, arguments.home, arguments.seconds)
    if arguments.serve == "floor":
        return serve_floor(arguments.port, arguments.seconds)
    result: dict[str, Any] = {"load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        with server_process("floor", home, arguments.seconds) as (port, _):
            result["floor"] = asyncio.run(measure_floor(port, arguments.seconds))
        with server_process("ours", home, arguments.seconds) as (port, pid):
            result["ours"] = asyncio.run(measure_ours(port, pid, home, arguments.seconds))
    floor, ours = result["floor"]["latency_ms"], result["ours"]["latency_ms"]
    result["added_latency_ms"] = {key: round(ours[key] - floor[key], 2) for key in ("p50", "p99")}
    result["manifest"] = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "seconds": arguments.seconds,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return None


if __name__ == "__main__":
    main()
