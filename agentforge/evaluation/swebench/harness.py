"""The official SWE-bench harness, unmodified, as a process of its own.

Its containers run as root, with network and without limits: whoever grades trusts the images and the
code under test as the benchmark does. It works in a folder of its own, under a run id that carries the
patches, since by itself it would take an old verdict for a new patch. What a killed process left
running is ended and removed by that run id, and nothing else is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

from agentforge.core.errors import EnvironmentFault, RecordError
from agentforge.evaluation.swebench.outcomes import Judged, judged_by_logs, judged_by_report
from agentforge.evaluation.swebench.predictions import PREDICTIONS, Prediction, write_predictions
from agentforge.orchestrator.store import recorded_in, write_atomically
from agentforge.sandbox import labels
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.engine import connect, engine_errors

MODULE = "swebench.harness.run_evaluation"
FOLDER = "harness"
ABOUT = "about.json"
_PROCESS = "process.json"
_DATASET = "dataset.jsonl"
_LOG = "harness.log"
_SALT = ".salt"
_POLL_S = 0.5
_ENDING_S = 20.0
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
Settle = Callable[[str, Judged], None]


def harness_version() -> str:
    """`swebench 5.0.2`. Raises `EnvironmentFault` where it is not installed or too old."""
    how = "install the extra `swebench` (pip install -e '.[swebench]')"
    if util.find_spec("swebench") is None:
        raise EnvironmentFault("the official SWE-bench harness is not installed", hint=how)
    version = metadata.version("swebench")
    if int(version.partition(".")[0]) < 5:
        raise EnvironmentFault(f"the harness is swebench {version}, 5.0 or newer is needed", hint=how)
    return f"swebench {version}"


@dataclass(frozen=True)
class Order:
    """What is to be graded. `rows` are whole rows by instance id, with images that are to be used."""

    predictions: tuple[Prediction, ...]
    rows: Mapping[str, Mapping[str, Any]]
    dataset_hash: str
    workers: int
    timeout_s: int

    @property
    def images(self) -> dict[str, str]:
        """Image by instance id, as the rows name them."""
        return {name: str(row.get("image")) for name, row in self.rows.items()}

    @property
    def identity(self) -> dict[str, Any]:
        """What a verdict depends on beside the patch."""
        return {"harness": harness_version(), "dataset": self.dataset_hash, "timeout_s": self.timeout_s}

    def run_id(self, salt: str) -> str:
        """`salt` keeps two folders apart that grade the same patches at the same time."""
        patches = sorted(
            (each.instance_id, each.model_name_or_path, each.digest) for each in self.predictions
        )
        text = json.dumps([salt, self.identity, patches], sort_keys=True)
        return "agentforge-" + hashlib.sha256(text.encode()).hexdigest()[:16]


async def grade(order: Order, folder: Path, settle: Settle) -> None:
    """Call `settle` once for each prediction as its verdict is known.

    Verdicts that a killed process left in `folder` are taken from there. Raises `EnvironmentFault`, and
    `RecordError` where another process grades in `folder`.
    """
    salt = await asyncio.to_thread(_salt, folder)
    with _alone_in(folder):
        await _grade(order, folder, settle, salt)


async def _grade(order: Order, folder: Path, settle: Settle, salt: str) -> None:
    pending = {each.instance_id: each for each in order.predictions}
    await asyncio.to_thread(remove_leftovers, folder)
    images = await asyncio.to_thread(image_ids, order.images)
    for prediction in order.predictions:
        image = images[prediction.instance_id]
        found = await asyncio.to_thread(_earlier_verdict, order, folder, prediction, image)
        if found is not None:
            settle(prediction.instance_id, found)
            del pending[prediction.instance_id]
    if pending:
        rest = Order(tuple(pending.values()), order.rows, order.dataset_hash, order.workers, order.timeout_s)
        await _Run(rest, folder / rest.run_id(salt), settle, images).carry_out()


def image_ids(names: Mapping[str, str]) -> dict[str, str]:
    """What the engine has under these names, "" where it has none: a name may be given to another image."""
    client = connect()
    try:
        known = {name: get_image(client, name) for name in set(names.values())}
    finally:
        client.close()
    return {
        instance: str(image.id) if (image := known[name]) is not None else ""
        for instance, name in names.items()
    }


def _salt(folder: Path) -> str:
    place = folder / _SALT
    with recorded_in(place):
        folder.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            write_atomically(place, secrets.token_hex(8).encode())
        return place.read_text("ascii")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """What another process has running there must not be taken for leftovers."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise RecordError(f"{folder}: another process grades there", hint="wait for its end") from None
    try:
        yield
    finally:
        lock.release()


def remove_leftovers(folder: Path) -> list[str]:
    """End harness processes that outlived ours, and remove the containers of our run ids; their names."""
    if not folder.is_dir():
        return []
    ours = [place for place in sorted(folder.iterdir()) if (place / ABOUT).exists()]
    for place in ours:
        _end_orphan(place / _PROCESS)
    return remove_containers([place.name for place in ours]) if ours else []


def remove_containers(run_ids: Sequence[str]) -> list[str]:
    """Containers that the harness made under these run ids: it names them by instance and run id."""
    from docker.errors import NotFound

    client = connect()
    removed = []
    try:
        with engine_errors("looking for containers of the harness"):
            found = client.containers.list(all=True, filters={"name": "sweb.eval."}, ignore_removed=True)
        for container in found:
            name = str(container.name)
            if any(name.endswith(f".{each}") or f".{each}." in name for each in run_ids):
                with engine_errors(f"removing {name}"), contextlib.suppress(NotFound):
                    container.remove(force=True, v=True)
                    removed.append(name)
    finally:
        client.close()
    return removed


class _Run:
    """One call of the harness."""

    def __init__(self, order: Order, folder: Path, settle: Settle, images: Mapping[str, str]) -> None:
        self.order, self.folder, self._settle, self._images = order, folder, settle, images
        self._pending = {each.instance_id: each for each in order.predictions}
        self.run_id = folder.name
        self._model = order.predictions[0].model_name_or_path

    async def carry_out(self) -> None:
        await asyncio.to_thread(self._write)
        try:
            code = await self._process()
            await asyncio.to_thread(remove_containers, [self.run_id])
        finally:
            # It holds the reference patches: nothing needs them once the harness has ended.
            (self.folder / _DATASET).unlink(missing_ok=True)
            (self.folder / _PROCESS).unlink(missing_ok=True)
        self._settle_rest(code)

    def _write(self) -> None:
        with recorded_in(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            images = {name: self._images[name] for name in self._pending}
            about = {**self.order.identity, "run_id": self.run_id, "model": self._model, "images": images}
            write_atomically(self.folder / ABOUT, json.dumps(about, indent=1).encode() + b"\n")
            lines = [json.dumps(self.order.rows[each]) for each in self._pending]
            write_atomically(self.folder / _DATASET, "".join(line + "\n" for line in lines).encode())
        write_predictions(self.folder / PREDICTIONS, self.order.predictions)

    def _command(self) -> list[str]:
        options = {
            "--dataset_name": _DATASET,
            "--predictions_path": PREDICTIONS,
            "--max_workers": str(self.order.workers),
            "--timeout": str(self.order.timeout_s),
            "--run_id": self.run_id,
            "--report_dir": ".",
        }
        flat = [word for option in options.items() for word in option]
        return [sys.executable, "-P", "-m", MODULE, *flat, "--instance_ids", *self._pending]

    async def _process(self) -> int:
        """Run it in a session of its own, so that a signal to ours reaches it through us alone."""
        with recorded_in(self.folder / _LOG), (self.folder / _LOG).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command(),
                cwd=self.folder,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            note = {
                "pid": process.pid,
                "started": labels.process_start(process.pid),
                "host": labels.host_identity(),
            }
            write_atomically(self.folder / _PROCESS, json.dumps(note).encode())
            ended = asyncio.ensure_future(process.wait())
            while not (await asyncio.wait({ended}, timeout=_POLL_S))[0]:
                for name, found in await asyncio.to_thread(self._reported):
                    self._settled(name, found)
            return ended.result()
        except BaseException:
            await asyncio.shield(self._stop(process))
            raise

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        _signal_group(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(_ENDING_S):
                await process.wait()
        except TimeoutError:
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()
        await asyncio.to_thread(remove_containers, [self.run_id])

    def _place(self, instance_id: str) -> Path:
        model = self._pending[instance_id].model_name_or_path
        return self.folder / "logs" / "run_evaluation" / self.run_id / model / instance_id

    def _reported(self) -> list[tuple[str, Judged]]:
        """Verdicts that are there already."""
        waiting = [(name, each.model_patch) for name, each in self._pending.items()]
        found = [(name, judged_by_report(self._place(name), name, patch)) for name, patch in waiting]
        return [(name, judged) for name, judged in found if judged is not None]

    def _settled(self, name: str, judged: Judged) -> None:
        del self._pending[name]
        self._settle(name, judged)

    def _settle_rest(self, code: int) -> None:
        last_words = f"the harness ended with {code}: {_tail(self.folder / _LOG)}"
        for prediction in list(self._pending.values()):
            name = prediction.instance_id
            found = judged_by_logs(self._place(name), name, prediction.model_patch, last_words)
            self._settled(name, found)


def _earlier_verdict(order: Order, folder: Path, prediction: Prediction, image: str) -> Judged | None:
    """A verdict on this very patch, by the same harness on the same data, that an earlier call left.

    One from another image, or from one that was not here before that call, is none.
    """
    for about in sorted(folder.glob(f"*/{ABOUT}")):
        try:
            known = json.loads(about.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if (
            not isinstance(known, dict)
            or {each: known.get(each) for each in order.identity} != order.identity
        ):
            continue
        if not image or (known.get("images") or {}).get(prediction.instance_id) != image:
            continue
        logs = about.parent / "logs" / "run_evaluation" / about.parent.name / prediction.model_name_or_path
        name = prediction.instance_id
        found = judged_by_report(logs / name, name, prediction.model_patch)
        if found is not None:
            return found
    return None


def _end_orphan(place: Path) -> None:
    """End a harness that a killed process of ours left behind; pid, start time and host must agree."""
    try:
        note = json.loads(place.read_text("utf-8"))
        pid, host = int(note["pid"]), note["host"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if host == labels.host_identity() and labels.process_start(pid) == note["started"] != "":
        _signal_group(pid, signal.SIGKILL)
    place.unlink(missing_ok=True)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _environment() -> dict[str, str]:
    """Nothing secret goes in, and nothing is asked of the hub: rows are local by now."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith("DOCKER_")
    }
    return {**kept, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}


def _tail(path: Path) -> str:
    try:
        lines = path.read_bytes()[-2000:].decode("utf-8", "replace").strip().split("\n")
    except OSError:
        return ""
    return lines[-1].strip()[:300]
