"""`agentforge serve`: the same engine over HTTP, with every token as it is produced, and a page to watch."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from agentforge.cli.failures import tell
from agentforge.cli.output import ConfigOption, resolve_settings
from agentforge.core.errors import EnvironmentFault, UsageError

app = typer.Typer(help="The API and the web client.", rich_markup_mode=None)


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address; anything but loopback needs a token.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Runs at the same time.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Names and hashes of tokens.")
    ] = None,
    add_token: Annotated[
        str | None, typer.Option("--add-token", metavar="NAME", help="Make a token, show it once, and end.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="DIR", help="Repositories below it may be repaired. May be repeated."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve the API under /v1 and the web client under /.

    Examples: agentforge serve --root ~/code
              agentforge serve --token-file tokens --add-token alice
              agentforge serve --host 0.0.0.0 --token-file tokens --root /srv/repositories
    """
    overrides: dict[str, object] = {
        f"server.{name}": value
        for name, value in {
            "host": host,
            "port": port,
            "workers": workers,
            "token_file": token_file,
            "repository_roots": tuple(root) if root else None,
        }.items()
        if value is not None
    }
    resolved = resolve_settings(config, overrides)
    if add_token is not None:
        _add_token(resolved.settings.server.token_file, add_token)
        return
    _serve(resolved)


def _add_token(path: Path | None, name: str) -> None:
    from agentforge.api.tokens import add_token

    if path is None:
        raise UsageError("--add-token needs --token-file FILE")
    print(add_token(path, name))
    tell(f"this token of {name} is shown only now; {path} holds its hash", label="note")


def _serve(resolved: Any) -> None:
    import socket

    import uvicorn

    from agentforge.api.app import create_app
    from agentforge.api.connections import uvicorn_config
    from agentforge.api.jobs import JobQueue
    from agentforge.api.services import QUEUE, only_server
    from agentforge.config.load import explain_settings

    settings = resolved.settings
    alone = only_server(settings.data_home)
    JobQueue(settings.data_home / QUEUE).close()  # says in one line what would end the server at its start
    server = settings.server
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((server.host, server.port))
    except OSError as error:
        listener.close()
        raise EnvironmentFault(
            f"cannot listen on {server.host}:{server.port}: {error.strerror}", hint="--port takes another"
        ) from None
    bound = listener.getsockname()[1]
    settings = settings.model_copy(update={"server": server.model_copy(update={"port": bound})})
    app = create_app(settings, list(explain_settings(resolved)))
    name = f"[{server.host}]" if ":" in server.host else server.host
    tell(f"serving http://{name}:{bound}/ (Ctrl-C ends it; runs go on with the next start)", label="serve")
    if not server.repository_roots:
        tell("no local repository may be repaired", "--root DIR allows those below it", label="note")
    running = uvicorn.Server(uvicorn_config(app, server))
    # The server ends in good order on SIGINT and SIGTERM, and then repeats the signal: that is no failure.
    with alone, listener, contextlib.suppress(KeyboardInterrupt):
        running.run(sockets=[listener])
        if not running.started:
            raise EnvironmentFault("the server did not start", hint="the lines above say why")
