"""From a request to what the engine is given: the task, and settings bounded by the server's limits."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TypeVar

from agentforge.api.problems import ApiError
from agentforge.api.schemas import NewRun
from agentforge.config.settings import Settings
from agentforge.core.errors import UsageError
from agentforge.core.task import Issue, Limits, RepairTask, RepositoryRef
from agentforge.orchestrator.workflow_load import shipped_workflows

Number = TypeVar("Number", int, float)
_TITLE_CHARS = 120


def build_task(request: NewRun, settings: Settings, addresses: Sequence[str] = ()) -> RepairTask:
    """The task of `request`, whose repository is checked already; its host is asked at `addresses` alone.

    Raises `UsageError`, `ApiError`.
    """
    if request.test_command is not None:
        try:
            shlex.split(request.test_command)
        except ValueError as error:
            raise UsageError(f"test_command: {error}", hint="check the quotes") from None
    return RepairTask(
        repository=RepositoryRef(
            source=request.repository, revision=request.base, addresses=tuple(addresses)
        ),
        issue=build_issue(request.issue),
        target_tests=tuple(request.target_tests),
        test_command=request.test_command,
        tests_scope=settings.tests_scope,
    )


def build_issue(text: str) -> Issue:
    """Always the text itself: a visitor cannot name a file or an address to be read."""
    clean = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8").strip("\n")
    if not clean.strip() or "\0" in clean:
        raise ApiError(422, "the issue is empty or not text", hint="say what goes wrong")
    first = next(line.strip() for line in clean.splitlines() if line.strip())
    return Issue(text=clean, title=(first.lstrip("#").strip() or first)[:_TITLE_CHARS], source="text")


def check_workflow(name: str | None) -> None:
    """Only shipped workflows by name: a path would be a file of the server."""
    shipped = shipped_workflows()
    if name not in (None, "auto", *shipped):
        raise ApiError(422, f"unknown workflow {name!r}", hint=f"one of: {', '.join(shipped)}")


def bounded_settings(request: NewRun, settings: Settings) -> Settings:
    """The server's settings with what the visitor may choose; no limit is above the server's own."""
    asked, own, most = request.limits, settings.limits, settings.server.limits
    limits = Limits(
        max_cost_usd=least(asked.cost_usd, own.max_cost_usd, most.max_cost_usd),
        max_tokens=least(asked.tokens, own.max_tokens, most.max_tokens),
        max_calls=least(own.max_calls, most.max_calls),
        time_limit_s=least(asked.time_s, own.time_limit_s, most.time_limit_s),
    )
    retries = settings.retries if asked.retries is None else asked.retries
    changes: dict[str, object] = {
        "limits": limits,
        "retries": min(retries, settings.server.max_retries),
        "workflow": request.workflow or settings.workflow,
    }
    if request.model is not None:
        changes["model"] = settings.model.model_copy(update={"name": request.model})
    return settings.model_copy(update=changes)


def least(*values: Number | None) -> Number | None:
    """The smallest limit that is set, None where none is."""
    return min((value for value in values if value is not None), default=None)
