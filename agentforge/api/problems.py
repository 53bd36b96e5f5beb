"""Errors as application/problem+json (RFC 9457); never a traceback."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from agentforge.api.schemas import Problem
from agentforge.core.errors import AgentForgeError, ExitCode, RecordError, StoreError, UsageError

PROBLEM_TYPE = "application/problem+json"
log = logging.getLogger("agentforge.api")


class ApiError(UsageError):
    """An answer that is an error, on purpose."""

    def __init__(
        self, status: int, detail: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail, hint=hint)
        self.status, self.detail = status, detail
        self.headers = dict(headers or {})


def problem(
    status: int, detail: str, *, hint: str = "", instance: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    body = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=detail, hint=hint, instance=instance
    ).model_dump_json(exclude_defaults=False)
    return Response(body.encode("utf-8", "replace"), status, headers=headers, media_type=PROBLEM_TYPE)


def install(app: FastAPI) -> None:
    """Every way a request can fail ends in one shape."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(AgentForgeError, _own_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _defect)


def status_of(error: AgentForgeError) -> int:
    """The HTTP status that says the same as the error's class."""
    if isinstance(error, RecordError):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, UsageError):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    if isinstance(error, StoreError) or error.exit_code is ExitCode.MODEL:
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.UNPROCESSABLE_ENTITY


async def _api_error(request: Request, error: Any) -> Response:
    return problem(error.status, error.detail, hint=error.hint, headers=error.headers)


async def _own_error(request: Request, error: Any) -> Response:
    return problem(status_of(error), error.what, hint=error.hint)


async def _invalid(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}")


async def _http(request: Request, error: Any) -> Response:
    return problem(error.status_code, str(error.detail), headers=error.headers)


async def _defect(request: Request, error: Exception) -> Response:
    number = secrets.token_hex(6)
    log.error("defect %s at %s %s", number, request.method, request.url.path, exc_info=error)
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "a defect in agentforge; nothing more is said here",
        hint=f"the server's log has it under {number}",
        instance=f"urn:agentforge:defect:{number}",
    )
