"""Trials on the nodes of a Ray cluster. Rows, the ledger and the decisions stay with the one who asked.

Each node needs this package, a container engine and what the suite reads, at the same paths. The model's key
is never sent: every node takes it from its own environment. Ray trusts its nodes (it exchanges pickles): a
cluster is as safe as the worst of them.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import platform
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr, ValidationError

from agentforge.config.load import load_settings
from agentforge.core.errors import AgentForgeError, EnvironmentFault, RecordError, UsageError
from agentforge.core.events import Event
from agentforge.evaluation.bench.executor import LOST, carry_out, infra
from agentforge.evaluation.bench.protocol import TrialOutcome, TrialSpec
from agentforge.evaluation.bench.suites import open_bench
from agentforge.orchestrator.eventlog import Listener
from agentforge.orchestrator.store import RunStore

if TYPE_CHECKING:
    from ray import ObjectRef

logger = logging.getLogger(__name__)

ENGINE_SLOT = "engine_slot"
"""Resource of a node: how many trials its container engine takes at a time."""
MAX_RECORD_MB = 512
"""Of a run's record, unpacked."""
CPUS = 0.5
"""Processors a trial asks of its node; the sandbox has its own limit."""
HEARD_S = 30.0
"""Seconds a cancelled trial has for removing its containers."""


class RayExecutor:
    """Carries out trials wherever the cluster has an engine slot.

    `address`: a running cluster ("auto" finds the local one); None starts one on this machine with `slots`
    engine slots. Use as an asynchronous context manager. Raises `UsageError` without the package and
    `EnvironmentFault` where no cluster answers or none of its nodes has an engine slot.
    """

    def __init__(self, slots: int, address: str | None = None) -> None:
        self._slots, self._address = slots, address

    @property
    def slots(self) -> int:
        return self._slots

    @property
    def resumes(self) -> bool:
        """A node has no record but its own."""
        return False

    async def __aenter__(self) -> RayExecutor:
        await asyncio.to_thread(self._connect)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(_ray().shutdown)

    def _connect(self) -> None:
        ray = _ray()
        own = {} if self._address else {"num_cpus": self._slots, "resources": {ENGINE_SLOT: self._slots}}
        try:
            ray.init(
                address=self._address,
                include_dashboard=None if self._address else False,
                log_to_driver=False,
                logging_level=logging.WARNING,
                namespace="agentforge",
                **own,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EnvironmentFault(
                f"no Ray cluster answers at {self._address}: {error}",
                hint="start one with `ray start --head`, or leave out --address",
            ) from None
        slots = int(ray.cluster_resources().get(ENGINE_SLOT, 0))
        if not slots:
            ray.shutdown()
            raise EnvironmentFault(
                f"no node of the Ray cluster at {self._address} offers an engine slot",
                hint=f"start the nodes with `ray start --resources '{{\"{ENGINE_SLOT}\": 2}}'`",
            )
        self._slots = min(self._slots, slots) if self._address is None else self._slots

    async def run(self, spec: TrialSpec, listener: Listener) -> TrialOutcome:
        """One trial. What a lost node had paid cannot be known: the whole limit of the trial is charged."""
        try:
            outcome, record = await self._remote(spec)
        except _ray().exceptions.RayError as error:
            if _is_loss(error):
                logger.warning("trial %s was lost with its node: %s", spec.task.id, type(error).__name__)
                return _unaccounted(spec, infra(spec, f"lost with its node: {error}"[:300], LOST))
            outcome = infra(spec, f"Ray: {error}"[:300], type(error).__name__)
            begun = isinstance(error, _ray().exceptions.RayTaskError)
            return _unaccounted(spec, outcome) if begun else outcome
        except ValidationError as error:
            what = f"the node's answer is no outcome of a trial: {error.errors()[0]['msg']}"
            return _unaccounted(spec, infra(spec, what, type(error).__name__))
        try:
            await asyncio.to_thread(_bring_home, record, spec)
        except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, RecordError) as error:
            what = f"the record that came home cannot be kept: {error}"[:300]
            return _spoiled(outcome, infra(spec, what, type(error).__name__))
        return outcome

    async def _remote(self, spec: TrialSpec) -> tuple[TrialOutcome, bytes]:
        ray = _ray()
        work = ray.remote(_on_a_node).options(
            num_cpus=CPUS, resources={ENGINE_SLOT: 1}, max_retries=0, name=f"trial {spec.task.id}"
        )
        reference: ObjectRef[Any] = await asyncio.to_thread(work.remote, _without_secrets(spec))
        try:
            answer, record = await asyncio.wrap_future(reference.future())
        except asyncio.CancelledError:
            await asyncio.to_thread(_stop, reference)
            raise
        return TrialOutcome.model_validate(answer), record


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError(
            "the executor ray needs the package of that name",
            hint="install this package with its extra `ray`",
        ) from None
    return ray


def _is_loss(error: Exception) -> bool:
    kinds = _ray().exceptions
    gone = (kinds.WorkerCrashedError, kinds.NodeDiedError, kinds.ObjectLostError, kinds.OutOfMemoryError)
    return isinstance(error, gone)


def _stop(reference: ObjectRef[Any]) -> None:
    ray = _ray()
    ray.cancel(reference)
    ray.wait([reference], timeout=HEARD_S)


def _unaccounted(spec: TrialSpec, outcome: TrialOutcome) -> TrialOutcome:
    """Nobody can say what it had paid."""
    limit = spec.settings.limits.max_cost_usd if spec.settings.model.configured else 0.0
    return outcome.model_copy(update={"cost_usd": limit})


def _spoiled(outcome: TrialOutcome, trouble: TrialOutcome) -> TrialOutcome:
    """It was paid for all the same."""
    paid = ("cost_usd", "calls", "tokens_in", "tokens_out", "wallclock")
    return trouble.model_copy(update={name: getattr(outcome, name) for name in paid})


def _without_secrets(spec: TrialSpec) -> dict[str, Any]:
    """The trial as plain data without its secrets, and which those are: a node has its own."""
    data = spec.model_dump()
    return {"spec": data, "secrets": _taken_out(data["settings"])}


def _taken_out(settings: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted keys of secrets, each replaced by None."""
    found: list[str] = []
    for key, value in settings.items():
        if isinstance(value, SecretStr):
            settings[key] = None
            found.append(prefix + key)
        elif isinstance(value, dict):
            found += _taken_out(value, f"{prefix}{key}.")
    return found


def _bring_home(record: bytes, spec: TrialSpec) -> None:
    """Unpack the run's record into the batch folder: files of this one run, and no more than a record has.

    Raises `RecordError`, and what `tarfile` and the file system raise.
    """
    left = MAX_RECORD_MB * 2**20
    with tarfile.open(fileobj=io.BytesIO(record), mode="r:gz") as archive:
        for member in archive:
            own = member.name.split("/")[0] == spec.run_id and ".." not in member.name.split("/")
            if not own or not (member.isreg() or member.isdir()):
                raise RecordError(f"{member.name!r} is no part of the record of {spec.run_id}")
            left -= member.size
            if left < 0:
                raise RecordError(f"the record of {spec.run_id} is larger than {MAX_RECORD_MB} MB")
            archive.extract(member, RunStore(spec.folder).runs, filter="data")


def _on_a_node(message: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """In a worker process of some node: the trial, with a data home of its own; its record as an archive."""
    with tempfile.TemporaryDirectory(prefix="agentforge-trial-") as home:
        try:
            spec = _localized(message, Path(home))
            outcome = asyncio.run(_carried_out(spec))
        except AgentForgeError as error:
            spec = TrialSpec.model_validate(message["spec"])
            outcome = infra(spec, f"{platform.node()}: {error}", type(error).__name__)
        return outcome.model_dump(mode="python"), _packed(RunStore(Path(home)).runs / spec.run_id)


async def _carried_out(spec: TrialSpec) -> TrialOutcome:
    bench = await asyncio.to_thread(open_bench, spec.suite, spec.settings)
    return await carry_out(bench, spec, _unheard)


def _unheard(event: Event) -> None:
    """Events stay on the node until the record comes home."""


def _localized(message: dict[str, Any], home: Path) -> TrialSpec:
    """The trial with this node's data home and secrets."""
    own = load_settings(None, {}, os.environ).settings.model_dump()
    data = message["spec"]
    for name in message["secrets"]:
        section, _, key = name.rpartition(".")
        value = own[section][key] if section else own[name]
        if value is None:
            raise EnvironmentFault(
                f"{name} is not set on this node", hint="set it in the environment of every node"
            )
        (data["settings"][section] if section else data["settings"])[key or name] = value
    data["settings"]["data_home"] = home
    return TrialSpec.model_validate({**data, "folder": home, "resumes": False})


def _packed(run: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        if run.is_dir():
            archive.add(run, arcname=run.name)
    return buffer.getvalue()
