"""Recording and replay of the ports: what sandbox and memory answered, in order, by request.

A request is identified by a hash of everything that decides its answer, so that a replay which
takes another path is noticed at once instead of being given somebody else's answer.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agentforge.core.base import Frozen
from agentforge.core.errors import RecordError
from agentforge.core.ports import (
    Environment,
    EnvironmentSpec,
    Job,
    JobResult,
    LineCoverage,
    Retriever,
    Sandbox,
    TestRequest,
)
from agentforge.core.report import TestReport
from agentforge.core.retrieval import Episode, Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree

_COVERAGE: TypeAdapter[LineCoverage] = TypeAdapter(LineCoverage)
_ENVIRONMENT_SPEC: TypeAdapter[EnvironmentSpec] = TypeAdapter(EnvironmentSpec)
_TEST_REQUEST: TypeAdapter[TestRequest] = TypeAdapter(TestRequest)


class RetrievalRecord(Frozen):
    """What memory gave, and what it warned of."""

    retrieved: Retrieved
    warnings: tuple[str, ...] = ()


class Tape:
    """Answers of the ports under `reports/`, one file each, written as they come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def keep(self, kind: str, key: str, answer: Any) -> None:
        self._count += 1
        entry = {"kind": kind, "key": key, "answer": answer}
        path = self._folder / f"{self._count:04d}-{kind}.json"
        path.write_text(json.dumps(entry, ensure_ascii=True), "utf-8")


class TapePlayer:
    """Gives back what `Tape` kept: first in, first out among equal requests."""

    def __init__(self, folder: Path) -> None:
        self._answers: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        for path in sorted(folder.glob("[0-9]*-*.json")):
            try:
                entry = json.loads(path.read_text("utf-8"))
                self._answers[entry["kind"], entry["key"]].append(entry["answer"])
            except (OSError, ValueError, KeyError) as error:
                raise RecordError(f"{path.name} of the record cannot be read: {error}") from None

    def play(self, kind: str, key: str) -> Any:
        queue = self._answers.get((kind, key))
        if not queue:
            raise RecordError(
                f"the replay asks for a {kind} that the run never made",
                hint="the record was made by another version; see `versions` in run.json",
            )
        return queue.popleft()


class RecordingSandbox:
    """A live sandbox whose every answer is kept."""

    def __init__(self, inner: Sandbox, tape: Tape) -> None:
        self._inner, self._tape = inner, tape

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        environment = await self._inner.prepare(tree, spec)
        self._tape.keep("environment", _environment_key(tree, spec), environment.model_dump(mode="json"))
        return environment

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        report = await self._inner.run_tests(environment, tree, request)
        self._tape.keep("tests", _tests_key(environment, tree, request), report.model_dump(mode="json"))
        return report

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        report, lines = await self._inner.run_tests_with_coverage(environment, tree, request)
        dumped = _COVERAGE.dump_python(lines, mode="json")
        answer = {"report": report.model_dump(mode="json"), "lines": dumped}
        self._tape.keep("coverage", _tests_key(environment, tree, request), answer)
        return report, lines

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        result = await self._inner.run_job(environment, tree, job)
        self._tape.keep("job", _job_key(environment, tree, job), result.model_dump(mode="json"))
        return result


class ReplaySandbox:
    """The sandbox of a recorded run: executes nothing."""

    def __init__(self, player: TapePlayer) -> None:
        self._player = player

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        return Environment.model_validate(self._player.play("environment", _environment_key(tree, spec)))

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        return TestReport.model_validate(self._player.play("tests", _tests_key(environment, tree, request)))

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        answer = self._player.play("coverage", _tests_key(environment, tree, request))
        return TestReport.model_validate(answer["report"]), _COVERAGE.validate_python(answer["lines"])

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        # Bytes were written as base64 text, which only the JSON reader turns back.
        answer = self._player.play("job", _job_key(environment, tree, job))
        return JobResult.model_validate_json(json.dumps(answer))


class RecordingRetriever:
    """Live memory whose answers and warnings are kept."""

    def __init__(self, inner: Retriever, tape: Tape, drain_warnings: Callable[[], tuple[str, ...]]) -> None:
        self._inner, self._tape, self._drain = inner, tape, drain_warnings

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        retrieved = await self._inner.retrieve(issue, tree, k)
        entry = RetrievalRecord(retrieved=retrieved, warnings=self._drain())
        self._tape.keep("retrieval", _key(issue.text, tree.digest, str(k)), entry.model_dump(mode="json"))
        return retrieved

    async def store(self, episode: Episode) -> None:
        await self._inner.store(episode)


class ReplayRetriever:
    """Memory of a recorded run; stores nothing."""

    def __init__(self, player: TapePlayer, warn: Callable[[str], None]) -> None:
        self._player, self._warn = player, warn

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        answer = self._player.play("retrieval", _key(issue.text, tree.digest, str(k)))
        entry = RetrievalRecord.model_validate(answer)
        for text in entry.warnings:
            self._warn(text)
        return entry.retrieved

    async def store(self, episode: Episode) -> None:
        return None


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _environment_key(tree: Tree, spec: EnvironmentSpec) -> str:
    return _key(tree.digest, _ENVIRONMENT_SPEC.dump_json(spec).decode())


def _tests_key(environment: Environment, tree: Tree, request: TestRequest) -> str:
    return _key(environment.image, tree.digest, _TEST_REQUEST.dump_json(request).decode())


def _job_key(environment: Environment, tree: Tree, job: Job) -> str:
    files = [f"{name}:{hashlib.sha256(data).hexdigest()}" for name, data in sorted(job.files.items())]
    return _key(environment.image, tree.digest, "\0".join(job.argv), *files)
