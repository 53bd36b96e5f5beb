"""Recording and replay of the ports: what sandbox and memory answered, in order, by request.

A request is identified by a hash of everything that decides its answer, so that a replay which
takes another path is noticed at once instead of being given somebody else's answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

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
from agentforge.core.redact import Redactor
from agentforge.core.report import TestReport
from agentforge.core.retrieval import Episode, Insight, Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.models.ledger import Charge
from agentforge.orchestrator.eventlog import redact
from agentforge.orchestrator.store import recorded_in, understood, write_atomically

Aside = tuple[tuple[str, ...], tuple[Charge, ...]]
"""What memory warned of, and what its embeddings were billed, since the last time."""

_KEPT = re.compile(r"^([0-9]{4,12})-[a-z]+\.json$")
_COVERAGE: TypeAdapter[LineCoverage] = TypeAdapter(LineCoverage)
_ENVIRONMENT_SPEC: TypeAdapter[EnvironmentSpec] = TypeAdapter(EnvironmentSpec)
_TEST_REQUEST: TypeAdapter[TestRequest] = TypeAdapter(TestRequest)


class RetrievalRecord(Frozen):
    """What memory gave, what it warned of, and what its embeddings were billed."""

    retrieved: Retrieved
    warnings: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()


class StoreRecord(Frozen):
    """What memory said when it was given something: its id, "" where it was not kept."""

    kept: str = ""
    warnings: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()


class UnrecordedError(RecordError):
    """A request that the record does not answer."""


class Tape:
    """Answers of the ports under `reports/`, one file each, without secrets, written as they come."""

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._folder, self.redactor = folder, redactor
        # A resumed run goes on where its record ends.
        self._count = max((number for number, _ in _kept(folder)), default=0)

    def keep(self, kind: str, key: str, answer: Any) -> None:
        self._count += 1
        entry = {"kind": kind, "key": key, "answer": redact(answer, self.redactor)}
        path = self._folder / f"{self._count:04d}-{kind}.json"
        with recorded_in(path):
            write_atomically(path, json.dumps(entry, ensure_ascii=True).encode())

    def key(self, *parts: Any) -> str:
        """A hash of `parts` (JSON values) without their secrets: a record and its replay agree on it."""
        return request_key(self.redactor, *parts)


def _kept(folder: Path) -> list[tuple[int, Path]]:
    """What a tape left in `folder`, in order: by number, for the ten thousandth has five digits."""
    found = ((_KEPT.match(path.name), path) for path in folder.glob("*.json"))
    return sorted((int(named[1]), path) for named, path in found if named is not None)


class TapePlayer:
    """Gives back what `Tape` kept: first in, first out among equal requests."""

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        self._redactor = redactor
        self._answers: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        for _, path in _kept(folder):
            with recorded_in(path), understood(f"{path.name} of the record"):
                entry = json.loads(path.read_text("utf-8"))
                self._answers[str(entry["kind"]), str(entry["key"])].append(entry["answer"])

    def key(self, *parts: Any) -> str:
        """As `Tape.key`."""
        return request_key(self._redactor, *parts)

    def play(self, kind: str, key: str) -> Any:
        queue = self._answers.get((kind, key))
        if not queue:
            raise UnrecordedError(
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
        self._tape.keep(
            "environment", _environment_key(self._tape, tree, spec), environment.model_dump(mode="json")
        )
        return environment

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        report = await self._inner.run_tests(environment, tree, request)
        self._tape.keep(
            "tests", _tests_key(self._tape, environment, tree, request), report.model_dump(mode="json")
        )
        return report

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        report, lines = await self._inner.run_tests_with_coverage(environment, tree, request)
        dumped = _COVERAGE.dump_python(lines, mode="json")
        answer = {"report": report.model_dump(mode="json"), "lines": dumped}
        self._tape.keep("coverage", _tests_key(self._tape, environment, tree, request), answer)
        return report, lines

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        result = await self._inner.run_job(environment, tree, job)
        # In JSON the files are base64, in which no secret could be seen.
        files = {name: self._tape.redactor.bytes(data) for name, data in result.files.items()}
        answer = result.model_copy(update={"files": files}).model_dump(mode="json")
        self._tape.keep("job", _job_key(self._tape, environment, tree, job), answer)
        return result


class ReplaySandbox:
    """The sandbox of a recorded run: executes nothing."""

    def __init__(self, player: TapePlayer) -> None:
        self._player = player

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        answer = self._player.play("environment", _environment_key(self._player, tree, spec))
        with understood("a recorded environment"):
            return Environment.model_validate(answer)

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        answer = self._player.play("tests", _tests_key(self._player, environment, tree, request))
        with understood("a recorded test report"):
            return TestReport.model_validate(answer)

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        answer = self._player.play("coverage", _tests_key(self._player, environment, tree, request))
        with understood("a recorded test report with coverage"):
            return TestReport.model_validate(answer["report"]), _COVERAGE.validate_python(answer["lines"])

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        # Bytes were written as base64 text, which only the JSON reader turns back.
        answer = self._player.play("job", _job_key(self._player, environment, tree, job))
        with understood("a recorded result of a command"):
            return JobResult.model_validate_json(json.dumps(answer))


class RecordingRetriever:
    """Live memory whose answers, warnings and charges are kept."""

    def __init__(self, inner: Retriever, tape: Tape, drain: Callable[[], Aside]) -> None:
        self._inner, self._tape, self._drain = inner, tape, drain

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        retrieved = await self._inner.retrieve(issue, tree, k)
        warnings, charges = self._drain()
        entry = RetrievalRecord(retrieved=retrieved, warnings=warnings, charges=charges)
        self._tape.keep(
            "retrieval", self._tape.key(issue.text, tree.digest, k), entry.model_dump(mode="json")
        )
        return retrieved

    async def store(self, episode: Episode) -> str:
        return self._kept("episode", await self._inner.store(episode), episode.id)

    async def outcome(self, used: Sequence[Insight], *, verified: bool) -> None:
        await self._inner.outcome(used, verified=verified)
        self._kept("outcome", "", *_outcome_key(used, verified))

    async def learn(self, lesson: str, episodes: Sequence[str]) -> str:
        return self._kept("insight", await self._inner.learn(lesson, episodes), lesson, *episodes)

    def _kept(self, kind: str, kept: str, *key: Any) -> str:
        warnings, charges = self._drain()
        entry = StoreRecord(kept=kept, warnings=warnings, charges=charges)
        self._tape.keep(kind, self._tape.key(*key), entry.model_dump(mode="json"))
        return kept


class ReplayRetriever:
    """Memory of a recorded run; stores nothing. `charge` enters what its embeddings were billed."""

    def __init__(
        self, player: TapePlayer, warn: Callable[[str], None], charge: Callable[[Sequence[Charge]], None]
    ) -> None:
        self._player, self._warn, self._charge = player, warn, charge

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        answer = self._player.play("retrieval", self._player.key(issue.text, tree.digest, k))
        with understood("what memory gave"):
            entry = RetrievalRecord.model_validate(answer)
        self._tell(entry)
        return entry.retrieved

    async def store(self, episode: Episode) -> str:
        return self._kept("episode", episode.id)

    async def outcome(self, used: Sequence[Insight], *, verified: bool) -> None:
        self._kept("outcome", *_outcome_key(used, verified))

    async def learn(self, lesson: str, episodes: Sequence[str]) -> str:
        return self._kept("insight", lesson, *episodes)

    def _kept(self, kind: str, *key: Any) -> str:
        answer = self._player.play(kind, self._player.key(*key))
        with understood("what memory kept"):
            entry = StoreRecord.model_validate(answer)
        self._tell(entry)
        return entry.kept

    def _tell(self, entry: RetrievalRecord | StoreRecord) -> None:
        self._charge(entry.charges)
        for text in entry.warnings:
            self._warn(text)


def _outcome_key(used: Sequence[Insight], verified: bool) -> tuple[Any, ...]:
    return (verified, *(insight.id for insight in used))


def request_key(redactor: Redactor, *parts: Any) -> str:
    clean = json.dumps(redact(list(parts), redactor), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(clean.encode()).hexdigest()[:32]


class _Keys(Protocol):
    def key(self, *parts: Any) -> str: ...


def _environment_key(keys: _Keys, tree: Tree, spec: EnvironmentSpec) -> str:
    return keys.key(tree.digest, _ENVIRONMENT_SPEC.dump_python(spec, mode="json"))


def _tests_key(keys: _Keys, environment: Environment, tree: Tree, request: TestRequest) -> str:
    return keys.key(environment.image, tree.digest, _TEST_REQUEST.dump_python(request, mode="json"))


def _job_key(keys: _Keys, environment: Environment, tree: Tree, job: Job) -> str:
    files = {name: hashlib.sha256(data).hexdigest() for name, data in job.files.items()}
    return keys.key(environment.image, tree.digest, list(job.argv), files)
