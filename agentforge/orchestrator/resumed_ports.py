"""Sandbox and memory of a resumed run: what the record answers, and then the live ones."""

from __future__ import annotations

from collections.abc import Sequence

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
from agentforge.core.retrieval import Episode, Insight, Retrieved
from agentforge.core.task import Issue
from agentforge.core.tree import Tree
from agentforge.orchestrator.record import UnrecordedError


class ResumedSandbox:
    """`past` first; what it does not hold is executed by `live`, which records it."""

    def __init__(self, past: Sandbox, live: Sandbox) -> None:
        self._past, self._live = past, live

    async def prepare(self, tree: Tree, spec: EnvironmentSpec) -> Environment:
        try:
            return await self._past.prepare(tree, spec)
        except UnrecordedError:
            return await self._live.prepare(tree, spec)

    async def run_tests(self, environment: Environment, tree: Tree, request: TestRequest) -> TestReport:
        try:
            return await self._past.run_tests(environment, tree, request)
        except UnrecordedError:
            return await self._live.run_tests(environment, tree, request)

    async def run_tests_with_coverage(
        self, environment: Environment, tree: Tree, request: TestRequest
    ) -> tuple[TestReport, LineCoverage]:
        try:
            return await self._past.run_tests_with_coverage(environment, tree, request)
        except UnrecordedError:
            return await self._live.run_tests_with_coverage(environment, tree, request)

    async def run_job(self, environment: Environment, tree: Tree, job: Job) -> JobResult:
        try:
            return await self._past.run_job(environment, tree, job)
        except UnrecordedError:
            return await self._live.run_job(environment, tree, job)


class ResumedRetriever:
    """`past` first; what it does not hold is asked of `live`, which records it."""

    def __init__(self, past: Retriever, live: Retriever) -> None:
        self._past, self._live = past, live

    async def retrieve(self, issue: Issue, tree: Tree, k: int = 5) -> Retrieved:
        try:
            return await self._past.retrieve(issue, tree, k)
        except UnrecordedError:
            return await self._live.retrieve(issue, tree, k)

    async def store(self, episode: Episode) -> str:
        try:
            return await self._past.store(episode)
        except UnrecordedError:
            return await self._live.store(episode)

    async def outcome(self, used: Sequence[Insight], *, verified: bool) -> None:
        try:
            await self._past.outcome(used, verified=verified)
        except UnrecordedError:
            await self._live.outcome(used, verified=verified)

    async def learn(self, lesson: str, episodes: Sequence[str]) -> str:
        try:
            return await self._past.learn(lesson, episodes)
        except UnrecordedError:
            return await self._live.learn(lesson, episodes)
