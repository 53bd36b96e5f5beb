"""What comes home from a node: no cluster and no engine needed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentforge.config.settings import ModelSettings, Settings
from agentforge.core.errors import RecordError
from agentforge.core.events import Event
from agentforge.evaluation.bench import ray_executor
from agentforge.evaluation.bench.protocol import BenchTask, SuiteSpec, TrialOutcome, TrialSpec
from agentforge.evaluation.bench.ray_executor import RayExecutor, _bring_home, _packed


def spec_in(folder: Path, limit: float | None = 0.5) -> TrialSpec:
    model = ModelSettings(base_url="http://127.0.0.1:9/v1", name="m")
    settings = Settings.model_validate({"model": model, "limits": {"max_cost_usd": limit}})
    suite, task = SuiteSpec(name="thirty"), BenchTask(id="t")
    return TrialSpec(suite=suite, task=task, trial=0, seed=0, run_id="r1", folder=folder, settings=settings)


def archive_of(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, size, "/etc/passwd"
        archive.addfile(member, io.BytesIO(b"0" * size))
    return buffer.getvalue()


def unheard(event: Event) -> None:
    """Not of interest."""


def test_a_node_writes_into_the_record_of_its_own_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "node/r1"
    (record / "reports").mkdir(parents=True)
    (record / "events.jsonl").write_text("{}\n")
    spec = spec_in(tmp_path / "home")
    (tmp_path / "home/runs").mkdir(parents=True)
    _bring_home(_packed(record), spec)
    assert (tmp_path / "home/runs/r1/events.jsonl").read_text() == "{}\n"
    monkeypatch.setattr(ray_executor, "MAX_RECORD_MB", 1)
    hostile = [archive_of(name) for name in ("r0/run.json", "../trials.jsonl", "r1/../r0/run.json", "/r1")]
    hostile += [archive_of("r1/link", tarfile.SYMTYPE), archive_of("r1/link", tarfile.LNKTYPE)]
    hostile += [archive_of("r1/bomb", size=2**20 + 1)]
    for each in hostile:
        with pytest.raises(RecordError):
            _bring_home(each, spec)
    assert sorted(path.name for path in (tmp_path / "home/runs").iterdir()) == ["r1"]
    for name in ("../../trials.jsonl", "/etc/x", ".hidden", "a\n"):
        with pytest.raises(ValidationError):
            TrialOutcome(artifacts={name: b""})


async def test_a_record_that_cannot_be_kept_is_no_end_of_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")

    async def remote(self: RayExecutor, spec: TrialSpec) -> tuple[TrialOutcome, bytes]:
        return TrialOutcome(passed=True, cost_usd=0.2, calls=3), b"no archive"

    monkeypatch.setattr(RayExecutor, "_remote", remote)
    outcome = await RayExecutor(1).run(spec_in(tmp_path), unheard)
    assert (outcome.status, outcome.passed, outcome.cost_usd, outcome.calls) == ("infra", False, 0.2, 3)


@pytest.mark.parametrize("limit", [0.5, None])
@pytest.mark.parametrize("kind", ["WorkerCrashedError", "RayTaskError", "ValidationError"])
async def test_a_trial_that_broke_down_on_its_node_is_charged_its_whole_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float | None, kind: str
) -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

    async def remote(self: RayExecutor, spec: TrialSpec) -> tuple[TrialOutcome, bytes]:
        if kind == "ValidationError":
            return TrialOutcome.model_validate({"artifacts": {"../../trials.jsonl": b""}}), b""
        error = getattr(ray.exceptions, kind)
        raise error("f", "trace", ValueError("x")) if kind == "RayTaskError" else error

    monkeypatch.setattr(RayExecutor, "_remote", remote)
    outcome = await RayExecutor(1).run(spec_in(tmp_path, limit), unheard)
    fault = "node_lost" if kind == "WorkerCrashedError" else kind
    assert (outcome.status, outcome.cost_usd, outcome.extra["fault"]) == ("infra", limit, fault)
