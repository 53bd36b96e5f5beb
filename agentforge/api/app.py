"""The application: routes under one guard (design, section 1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from agentforge import __version__
from agentforge.api import problems
from agentforge.api.guard import Guard, is_loopback
from agentforge.api.records import Records
from agentforge.api.routes import about, evaluations, memory, runs, streaming
from agentforge.api.runner import EngineRunner
from agentforge.api.services import ConfigRows, Services
from agentforge.api.tokens import Tickets, Tokens
from agentforge.api.workers import Runner
from agentforge.config.settings import Settings
from agentforge.core.errors import ConfigError

CLIENT = Path(__file__).parent / "web" / "dist"
NOT_BUILT = (
    "The web client is not built in this checkout: `make setup` builds it (it needs Node.js).\n"
    "The API is under /v1, its documentation under /v1/openapi.json.\n"
)
_FOREVER = "public, max-age=31536000, immutable"


def create_app(settings: Settings, config: ConfigRows = (), *, runner: Runner | None = None) -> Guard:
    """The guarded application. `config` is what GET /v1/config shows; `runner` carries out the runs.

    Raises `ConfigError` where an address other than loopback would be served without a token, or where
    tokens are asked for and there is none: that file may be misspelt.
    """
    server = settings.server
    tokens = Tokens.read(server.token_file) if server.token_file else Tokens({})
    if not tokens and server.token_file is not None:
        raise ConfigError(
            f"the token file {server.token_file} holds no token",
            hint="agentforge serve --token-file FILE --add-token NAME makes one",
        )
    if not tokens and not is_loopback(server.host):
        raise ConfigError(
            f"{server.host} can be reached by others, and no token is set",
            hint="agentforge serve --token-file FILE --add-token NAME makes one",
        )
    tickets = Tickets()
    services = Services(
        settings, runner or EngineRunner(settings), config, tokens, tickets, Records(settings.data_home)
    )
    app = FastAPI(
        title="AgentForge",
        version=__version__,
        summary="Repairs that were executed: runs, their streams and their records.",
        lifespan=_lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    problems.install(app)
    for module in (runs, streaming, memory, evaluations, about):
        app.include_router(module.router)
    _serve_client(app)
    if server.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(server.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
        )
    return Guard(app, server, tokens, tickets, server.port or None)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    async with services.running():
        yield


class _Assets(StaticFiles):
    """Files whose names carry a hash of their content: they never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = _FOREVER
        return response


def _serve_client(app: FastAPI) -> None:
    index = CLIENT / "index.html"

    async def page() -> Response:
        if not index.is_file():
            return PlainTextResponse(NOT_BUILT)
        return FileResponse(index, headers={"Cache-Control": "no-cache"})

    app.add_api_route("/", page, methods=["GET"], include_in_schema=False)
    if (CLIENT / "assets").is_dir():
        app.mount("/assets", _Assets(directory=CLIENT / "assets"), name="assets")
